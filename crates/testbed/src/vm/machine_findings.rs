//! Caches the option findings of earlier virtual machines, so that a dry run needs no machine. An
//! entry is valid for one kernel, its modules, the programs of this machine and one catalog.

use std::fmt::Write;
use std::path::Path;
use std::time::UNIX_EPOCH;

use flashfit_filesystem::{Conditions, FileSystem};
use flashfit_host::Runner;
use flashfit_option_probe::{Cache, OptionCacheKey, OptionFindings, key_elsewhere};
use flashfit_vm::Kernel;

pub struct VmFindingsCache {
    cache: Cache,
}

/// What findings depend on.
#[derive(Clone, Copy)]
pub struct VmFindingsCase<'a> {
    pub filesystem: &'a FileSystem,
    pub conditions: &'a Conditions,
    pub rotational: Option<bool>,
    pub kernel: &'a Kernel,
    pub modules: &'a [String],
}

impl VmFindingsCache {
    pub fn of_user() -> Self {
        Self { cache: Cache::of_user() }
    }

    /// The key of a case and its cached findings.
    pub fn find(
        &self,
        runner: &dyn Runner,
        case: &VmFindingsCase<'_>,
    ) -> (OptionCacheKey, Option<OptionFindings>) {
        let words = kernel_key(case.kernel, case.modules);
        let key = key_elsewhere(runner, case.filesystem, case.conditions, case.rotational, words);
        let found = self.cache.get(&key);
        (key, found)
    }

    /// Stores findings. Ignores errors: a missing entry is found again.
    pub fn store(&self, key: OptionCacheKey, findings: &OptionFindings) {
        let _ = self.cache.keep(key, findings);
    }
}

/// Identifies a kernel by release and files, because a rebuilt kernel may have the same release.
fn kernel_key(kernel: &Kernel, modules: &[String]) -> String {
    let mut words = format!("{} in a virtual machine", kernel.release);
    for file in [kernel.image.clone(), kernel.modules.join("modules.dep")] {
        let _ = write!(words, ", {}", file_key(&file));
    }
    let _ = write!(words, ", with {}", modules.join(" "));
    words
}

fn file_key(file: &Path) -> String {
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
    fn findings_depend_on_kernel_modules_and_conditions() {
        let folder = tempfile::tempdir().expect("a folder");
        let image = folder.path().join("vmlinuz");
        std::fs::write(&image, "one").expect("a file");
        let cache = VmFindingsCache { cache: Cache::at(&folder.path().join("options.json")) };
        let catalog = FileSystemCatalog::load(None).expect("it is built in");
        let runner = ScriptedRunner::new();
        let filesystem = catalog.filesystem("ext4").expect("it is built in");
        let kernel =
            Kernel { image: image.clone(), modules: folder.path().into(), release: "6.1".into() };
        let conditions = Conditions::default();
        let modules = ["ext4".to_owned()];
        let case = VmFindingsCase {
            filesystem,
            conditions: &conditions,
            rotational: Some(false),
            kernel: &kernel,
            modules: &modules,
        };
        let find = |case: &VmFindingsCase<'_>| cache.find(&runner, case).1;
        let (key, none) = cache.find(&runner, &case);
        assert_eq!(none, None);
        let findings =
            OptionFindings { filesystem: "ext4".into(), not_mounted: None, options: Vec::new() };
        cache.store(key, &findings);
        assert_eq!(find(&case), Some(findings.clone()));
        assert_eq!(find(&VmFindingsCase { rotational: None, ..case }), None);
        assert_eq!(find(&VmFindingsCase { modules: &[], ..case }), None);
        let discards = Conditions { discard: true, ..conditions.clone() };
        assert_eq!(find(&VmFindingsCase { conditions: &discards, ..case }), None);
        std::fs::write(&image, "another").expect("a file");
        assert_eq!(find(&case), None);
    }
}
