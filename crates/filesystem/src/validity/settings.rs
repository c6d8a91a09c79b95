//! Options that set something of the machine or of the medium's queue and nothing of the file
//! system. They are looked for and never set: other people use this machine.

use std::path::{Path, PathBuf};

use super::finding::{Evidence, Place, Verdict};
use crate::filesystem::FsOption;
use crate::recipe::Recipe;

/// The verdict on an option of which mkfs and mount are told nothing; `None` where it sets nothing
/// of the machine either.
pub(super) fn judge(option: &FsOption, recipe: &Recipe) -> Option<(Verdict, Vec<Evidence>)> {
    if let Some(reason) = option.untriable() {
        return Some((Verdict::NotMeasured, vec![Evidence::new(Place::Flashfit, reason)]));
    }
    let sysctl = recipe.sysctl().iter().map(|(key, value)| of_machine(key, &path_of(key), value));
    let sysfs = recipe.sysfs().iter().map(|(attribute, _)| of_queues(attribute));
    let found: Vec<(Verdict, Evidence)> = sysctl.chain(sysfs).collect();
    let verdicts = found.iter().map(|(verdict, _)| *verdict);
    let verdict = if verdicts.clone().any(|verdict| verdict == Verdict::Refused) {
        Verdict::Refused
    } else if verdicts.clone().all(|verdict| verdict == Verdict::Default) {
        Verdict::Default
    } else {
        Verdict::Accepted
    };
    let evidence: Vec<Evidence> = found.into_iter().map(|(_, evidence)| evidence).collect();
    (!evidence.is_empty()).then_some((verdict, evidence))
}

fn path_of(key: &str) -> PathBuf {
    Path::new("/proc/sys").join(key.replace('.', "/"))
}

fn of_machine(name: &str, path: &Path, value: &str) -> (Verdict, Evidence) {
    let (verdict, text) = match std::fs::read_to_string(path) {
        Ok(now) if now.trim() == value => (Verdict::Default, format!("{name} is {value} already")),
        Ok(now) => (Verdict::Accepted, format!("{name} is there ({}); not set here", now.trim())),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            (Verdict::Refused, format!("this kernel has no {name}"))
        }
        Err(error) => (Verdict::Accepted, format!("{name} cannot be read: {error}")),
    };
    (verdict, Evidence::new(Place::Flashfit, text))
}

/// A scratch image's queue is not the medium's, so only whether queues have the attribute is told.
fn of_queues(attribute: &str) -> (Verdict, Evidence) {
    let disks = std::fs::read_dir("/sys/block").into_iter().flatten().flatten();
    let mut disks = disks.map(|disk| disk.path()).peekable();
    let none = disks.peek().is_none();
    let (verdict, text) = if disks.any(|disk| disk.join(attribute).exists()) {
        (Verdict::Accepted, format!("{attribute} is there on this machine; not set here"))
    } else if none {
        (Verdict::NotMeasured, "no disk is seen here".to_owned())
    } else {
        (Verdict::Refused, format!("no disk of this machine has {attribute}"))
    };
    (verdict, Evidence::new(Place::Flashfit, text))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_attribute_that_no_queue_has_is_refused() {
        let (verdict, evidence) = of_queues("queue/no_such_attribute");
        assert!(matches!(verdict, Verdict::Refused | Verdict::NotMeasured), "{evidence:?}");
    }

    #[test]
    fn a_setting_is_looked_for_and_not_set() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("dirty_bytes");
        assert_eq!(of_machine("vm.dirty_bytes", &path, "0").0, Verdict::Refused);
        std::fs::write(&path, "0\n").unwrap();
        assert_eq!(of_machine("vm.dirty_bytes", &path, "0").0, Verdict::Default);
        let (verdict, evidence) = of_machine("vm.dirty_bytes", &path, "8388608");
        assert_eq!(verdict, Verdict::Accepted);
        assert_eq!(evidence.text, "vm.dirty_bytes is there (0); not set here");
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "0\n");
        assert_eq!(path_of("vm.dirty_bytes"), Path::new("/proc/sys/vm/dirty_bytes"));
    }
}
