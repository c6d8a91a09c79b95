//! How the catalog defines a setup, as a campaign records it: with another catalog, the same name
//! can mean other commands or other promises.

use std::collections::BTreeSet;
use std::path::Path;

use flashfit_device::Bytes;
use flashfit_filesystem::Promise;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::setup::CrashSetup;

/// What decides how a setup is made and judged.
#[derive(Debug, Clone, PartialEq, Eq, JsonSchema, Serialize, Deserialize)]
pub struct SetupDefinition {
    /// They make, change, mount, check and repair it.
    pub commands: Vec<String>,
    /// By which it is judged.
    pub promises: BTreeSet<Promise>,
    /// Whether it is repaired before it is mounted after a power cut.
    pub needs_fsck: bool,
    pub device_bytes: u64,
    /// Whether discards reach the device.
    pub discards: bool,
}

impl From<&CrashSetup> for SetupDefinition {
    fn from(setup: &CrashSetup) -> Self {
        let (device, recipe) = (Path::new("DEVICE"), &setup.recipe);
        let made = std::iter::once(recipe.mkfs(device)).chain(recipe.tune(device));
        let used = [recipe.mount(device, Path::new("DIR")), recipe.fsck(device)];
        let programs = made.chain(used).chain(recipe.repair(device));
        Self {
            commands: programs.map(|program| program.command_line()).collect(),
            promises: setup.promises.keeps.clone(),
            needs_fsck: setup.promises.needs_fsck,
            device_bytes: setup.device_bytes,
            discards: setup.discards,
        }
    }
}

impl SetupDefinition {
    /// What the other definition had instead, in words; `None` if both are the same.
    pub fn difference(&self, began: &Self) -> Option<String> {
        if let Some(how) = self.other_commands(began) {
            return Some(how);
        }
        let promises = |definition: &Self| {
            let names = definition.promises.iter().map(|promise| promise.name());
            names.collect::<Vec<_>>().join(", ")
        };
        if self.promises != began.promises {
            return Some(format!("the promises {}, not {}", promises(began), promises(self)));
        }
        if self.device_bytes != began.device_bytes {
            let sizes = [began, self].map(|definition| Bytes(definition.device_bytes));
            return Some(format!("a device of {}, not {}", sizes[0], sizes[1]));
        }
        (self != began).then(|| "other discards".to_owned())
    }

    /// What the other definition ran instead, in words; `None` if a state shows the same with both.
    pub fn other_commands(&self, began: &Self) -> Option<String> {
        let quoted = |command: Option<&String>| match command {
            Some(command) => format!("`{command}`"),
            None => "nothing".to_owned(),
        };
        let most = self.commands.len().max(began.commands.len());
        let mut pairs = (0..most).map(|at| (began.commands.get(at), self.commands.get(at)));
        if let Some((was, now)) = pairs.find(|(was, now)| was != now) {
            return Some(format!("{}, not {}", quoted(was), quoted(now)));
        }
        (self.needs_fsck != began.needs_fsck).then(|| match began.needs_fsck {
            true => "repaired before it is mounted".to_owned(),
            false => "mounted without a repair before".to_owned(),
        })
    }
}

#[cfg(test)]
mod tests {
    use flashfit_filesystem::{Conditions, FileSystemCatalog};

    use super::*;

    #[test]
    fn a_definition_has_commands_and_promises() {
        let catalog = FileSystemCatalog::load(None).unwrap();
        let conditions = Conditions { volatile_cache: true, ..Conditions::default() };
        let define = |text| {
            let setup = CrashSetup::parse(text, &catalog, &conditions).unwrap();
            SetupDefinition::from(&setup)
        };
        let (noatime, nobarrier) = (define("ext4:noatime"), define("ext4:nobarrier"));
        assert!(noatime.commands[0].starts_with("mkfs.ext4 "), "{noatime:?}");
        assert_eq!(noatime.difference(&noatime), None);
        let how = nobarrier.difference(&noatime).unwrap();
        assert!(how.contains("noatime DEVICE DIR`, not `mount -t ext4 -o "), "{how}");
        let mut fewer = noatime.clone();
        fewer.promises = BTreeSet::from([Promise::Consistent]);
        let how = fewer.difference(&noatime).unwrap();
        assert!(how.starts_with("the promises consistent, synced, "), "{how}");
        assert!(how.ends_with(", not consistent"), "{how}");
        assert_eq!(fewer.other_commands(&noatime), None, "a state shows the same");
        let repaired = SetupDefinition { needs_fsck: true, ..noatime.clone() };
        let how = repaired.other_commands(&noatime).unwrap();
        assert_eq!(how, "mounted without a repair before");
    }
}
