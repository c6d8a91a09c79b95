//! What was found of options in earlier virtual machines, kept in the user's cache beside what is
//! known of this machine's own kernel: it holds for one kernel's files, the modules that are
//! brought in, the programs of this machine and one catalog. A dry run then needs no machine.

use std::fmt::Write;
use std::path::Path;
use std::time::UNIX_EPOCH;

use flashfit_filesystem::{Conditions, FileSystem};
use flashfit_host::Runner;
use flashfit_option_probe::{Cache, OptionCacheKey, OptionFindings, key_elsewhere};
use flashfit_vm::Kernel;

/// Findings of earlier machines.
pub struct MachineFindings {
    cache: Cache,
}

/// A file system under conditions in a machine with this kernel and these modules.
#[derive(Clone, Copy)]
pub struct MachineCase<'a> {
    pub filesystem: &'a FileSystem,
    pub conditions: &'a Conditions,
    pub rotational: Option<bool>,
    pub kernel: &'a Kernel,
    pub modules: &'a [String],
}

impl MachineFindings {
    /// Those of the user.
    pub fn of_user() -> Self {
        Self { cache: Cache::of_user() }
    }

    /// The findings kept for a case, and the key to keep others under.
    pub fn find(
        &self,
        runner: &dyn Runner,
        case: &MachineCase<'_>,
    ) -> (OptionCacheKey, Option<OptionFindings>) {
        let words = kernel_words(case.kernel, case.modules);
        let key = key_elsewhere(runner, case.filesystem, case.conditions, case.rotational, words);
        let found = self.cache.get(&key);
        (key, found)
    }

    /// Keeps findings for later machines; where that cannot be, they are found out again.
    pub fn keep(&self, key: OptionCacheKey, findings: &OptionFindings) {
        let _ = self.cache.keep(key, findings);
    }
}

/// A kernel by its release and its files: one of the same release that was built again is another.
fn kernel_words(kernel: &Kernel, modules: &[String]) -> String {
    let mut words = format!("{} in a virtual machine", kernel.release);
    for file in [kernel.image.clone(), kernel.modules.join("modules.dep")] {
        let _ = write!(words, ", {}", file_words(&file));
    }
    let _ = write!(words, ", with {}", modules.join(" "));
    words
}

fn file_words(file: &Path) -> String {
    let facts = std::fs::metadata(file).ok();
    let changed = facts.as_ref().and_then(|facts| facts.modified().ok());
    let seconds = changed.and_then(|at| at.duration_since(UNIX_EPOCH).ok());
    format!(
        "{} of {} bytes, {}",
        file.display(),
        facts.as_ref().map_or(0, std::fs::Metadata::len),
        seconds.map_or(0, |since| since.as_secs())
    )
}

#[cfg(test)]
mod tests {
    use flashfit_filesystem::FileSystemCatalog;
    use flashfit_host::program::ScriptedRunner;

    use super::*;

    #[test]
    fn findings_are_of_one_kernel_file_one_set_of_modules_and_one_geometry() {
        let folder = tempfile::tempdir().expect("a folder");
        let image = folder.path().join("vmlinuz");
        std::fs::write(&image, "one").expect("a file");
        let known = MachineFindings { cache: Cache::at(&folder.path().join("options.json")) };
        let catalogue = FileSystemCatalog::load(None).expect("it is built in");
        let runner = ScriptedRunner::new();
        let filesystem = catalogue.filesystem("ext4").expect("it is built in");
        let kernel =
            Kernel { image: image.clone(), modules: folder.path().into(), release: "6.1".into() };
        let conditions = Conditions::default();
        let modules = ["ext4".to_owned()];
        let case = MachineCase {
            filesystem,
            conditions: &conditions,
            rotational: Some(false),
            kernel: &kernel,
            modules: &modules,
        };
        let find = |case: &MachineCase<'_>| known.find(&runner, case).1;
        let (key, none) = known.find(&runner, &case);
        assert_eq!(none, None);
        let findings =
            OptionFindings { filesystem: "ext4".into(), not_mounted: None, options: Vec::new() };
        known.keep(key, &findings);
        assert_eq!(find(&case), Some(findings.clone()));
        assert_eq!(find(&MachineCase { rotational: None, ..case }), None);
        assert_eq!(find(&MachineCase { modules: &[], ..case }), None);
        let discards = Conditions { discard: true, ..conditions.clone() };
        assert_eq!(find(&MachineCase { conditions: &discards, ..case }), None);
        std::fs::write(&image, "another").expect("a file");
        assert_eq!(find(&case), None);
    }
}
