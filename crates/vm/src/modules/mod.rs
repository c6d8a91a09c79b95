//! A kernel's modules: which there are, what each needs, and the files by which `modprobe` in the
//! guest finds those that were brought in.
//!
//! Two ways to know them: the files that `depmod` left (see `depmod`), or, as in a package that
//! was only unpacked, the modules themselves (see `scan`). Names are as the kernel writes
//! them, with `_` for `-`.

mod depmod;
mod scan;

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::{Path, PathBuf};

/// One module.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Module {
    /// Its file, relative to the folder of the modules.
    pub path: PathBuf,
    /// Modules that must be loaded before.
    pub depends: Vec<String>,
    /// Names (often aliases) of what it wants loaded too, without which it may fail at work.
    pub wants: Vec<String>,
    /// Other names that it answers to: `fs-ext4`, `crypto-crc32c`, patterns of devices.
    pub aliases: Vec<String>,
}

/// Where a module is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum ModulePresence {
    /// In a file of its own.
    Module,
    /// In the kernel itself.
    BuiltIn,
    /// Nowhere.
    Lacking,
}

/// The modules of one kernel.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Modules {
    folder: PathBuf,
    modules: BTreeMap<String, Module>,
    built_in: BTreeSet<String>,
}

/// What modules use without saying so in a way that a machine can read.
const UNSAID: [(&str, &[&str]); 5] = [
    ("fat", &["nls_cp437", "nls_ascii", "nls_iso8859_1", "nls_utf8"]),
    ("libcrc32c", &["crypto-crc32c"]),
    ("nilfs2", &["crc32"]),
    ("sd_mod", &["crc_t10dif"]),
    ("virtio_net", &["net_failover", "failover"]),
];

impl Modules {
    /// Reads what there is in `folder`, which is `/lib/modules/RELEASE` or a copy of it.
    ///
    /// # Errors
    /// When the folder cannot be read.
    pub fn read(folder: &Path) -> io::Result<Self> {
        let mut modules = if folder.join(depmod::DEPENDENCIES).is_file() {
            depmod::read(folder)
        } else {
            scan::read(folder)
        }?;
        modules.folder = folder.to_owned();
        Ok(modules)
    }

    /// Whether it can be told what the modules in `folder` need: `depmod` has been there, or their
    /// files tell it.
    pub(crate) fn are_told(folder: &Path) -> bool {
        folder.join(depmod::DEPENDENCIES).is_file() || !scan::has_compressed(&folder.join("kernel"))
    }

    /// Where the module called `name` is; a name that other modules answer to (`fs-ext4`) is where
    /// they are.
    pub fn presence(&self, name: &str) -> ModulePresence {
        let name = normal(name);
        if !self.named(&name).is_empty() {
            ModulePresence::Module
        } else if self.built_in.contains(&name) {
            ModulePresence::BuiltIn
        } else {
            ModulePresence::Lacking
        }
    }

    /// How many modules there are.
    pub fn len(&self) -> usize {
        self.modules.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.modules.is_empty()
    }

    /// Those called `wanted` and all that these need.
    pub(crate) fn with_needs<S: AsRef<str>>(&self, wanted: &[S]) -> Self {
        let mut chosen = BTreeMap::new();
        let mut rest: Vec<String> = wanted.iter().map(|name| normal(name.as_ref())).collect();
        while let Some(name) = rest.pop() {
            for (name, module) in self.named(&name) {
                if chosen.insert(name.clone(), module.clone()).is_some() {
                    continue;
                }
                rest.extend(module.depends.iter().cloned());
                rest.extend(module.wants.iter().map(|name| normal(name)));
                let unsaid = UNSAID.iter().filter(|(of, _)| of == name);
                rest.extend(unsaid.flat_map(|(_, names)| names.iter().map(|name| normal(name))));
            }
        }
        Self { folder: self.folder.clone(), modules: chosen, built_in: self.built_in.clone() }
    }

    /// The files of the modules, relative to [`Modules::folder`].
    pub(crate) fn files(&self) -> impl Iterator<Item = &Path> {
        self.modules.values().map(|module| module.path.as_path())
    }

    /// The folder in which they are.
    pub(crate) fn folder(&self) -> &Path {
        &self.folder
    }

    /// The file from which it is known what modules need, where `depmod` left one.
    pub(crate) fn index_file(&self) -> Option<PathBuf> {
        Some(self.folder.join(depmod::DEPENDENCIES)).filter(|file| file.is_file())
    }

    /// What `depmod` would write of them: names of files and what is in them.
    pub(crate) fn index(&self) -> Vec<(&'static str, String)> {
        depmod::write(self)
    }

    /// Character devices whose first use loads a module (`loop-control`, `fuse`): the name below
    /// `/dev`, and the major and minor number.
    pub(crate) fn nodes(&self) -> Vec<(String, u32, u32)> {
        let of_module = |module: &Module| {
            let name = module.aliases.iter().find_map(|alias| alias.strip_prefix("devname:"))?;
            let numbers = |alias: &String| {
                let (major, minor) = alias.strip_prefix("char-major-")?.split_once('-')?;
                Some((major.parse().ok()?, minor.parse().ok()?))
            };
            let (major, minor) = module.aliases.iter().find_map(numbers)?;
            Some((name.to_owned(), major, minor))
        };
        self.modules.values().filter_map(of_module).collect()
    }

    /// The module of that name, or all that answer to it.
    fn named(&self, name: &str) -> Vec<(&String, &Module)> {
        let own = self.modules.get_key_value(name);
        let answers = |module: &Module| module.aliases.iter().any(|alias| normal(alias) == name);
        own.into_iter().chain(self.modules.iter().filter(|(_, module)| answers(module))).collect()
    }
}

/// A name as the kernel has it.
fn normal(name: &str) -> String {
    name.trim().replace('-', "_")
}

/// The module's name in a path: `kernel/fs/fat/vfat.ko.xz` is `vfat`.
fn name_of(path: &Path) -> Option<String> {
    let name = path.file_name()?.to_str()?;
    let (name, ending) = name.split_once(".ko")?;
    matches!(ending, "" | ".xz" | ".zst" | ".gz").then(|| normal(name))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn module(depends: &[&str], wants: &[&str], aliases: &[&str]) -> Module {
        let texts = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
        Module {
            path: PathBuf::from("kernel/x.ko"),
            depends: texts(depends),
            wants: texts(wants),
            aliases: texts(aliases),
        }
    }

    fn sample() -> Modules {
        let modules = [
            ("ext4", module(&["jbd2"], &["crypto-crc32c"], &["fs-ext4"])),
            ("jbd2", module(&[], &[], &[])),
            ("crc32c_generic", module(&[], &[], &["crypto-crc32c"])),
            ("crc32c_intel", module(&[], &[], &["crypto-crc32c"])),
            ("vfat", module(&["fat"], &[], &[])),
            ("fat", module(&[], &[], &[])),
            ("nls_ascii", module(&[], &[], &[])),
            ("circle", module(&["circle"], &["circle"], &[])),
        ];
        Modules {
            modules: modules.map(|(name, module)| (name.to_owned(), module)).into(),
            built_in: ["loop".to_owned()].into(),
            ..Modules::default()
        }
    }

    #[test]
    fn a_module_brings_what_it_depends_on_and_wants() {
        let names = |wanted: &[&str]| {
            let chosen = sample().with_needs(wanted);
            chosen.modules.keys().cloned().collect::<Vec<_>>().join(" ")
        };
        assert_eq!(names(&["ext4"]), "crc32c_generic crc32c_intel ext4 jbd2");
        assert_eq!(names(&["fs-ext4"]), "crc32c_generic crc32c_intel ext4 jbd2");
        assert_eq!(names(&["vfat"]), "fat nls_ascii vfat");
        assert_eq!(names(&["circle", "loop", "nothing"]), "circle");
    }

    #[test]
    fn what_is_built_in_is_not_lacking() {
        let presence = |name| sample().presence(name);
        assert_eq!(presence("crc32c-intel"), ModulePresence::Module);
        assert_eq!(presence("fs-ext4"), ModulePresence::Module);
        assert_eq!(presence("loop"), ModulePresence::BuiltIn);
        assert_eq!(presence("f2fs"), ModulePresence::Lacking);
    }

    #[test]
    fn devices_that_load_their_module_are_known() {
        let mut modules = sample();
        assert_eq!(modules.nodes(), []);
        let aliases = ["devname:loop-control", "char-major-10-237", "block-major-7-*"];
        modules.modules.insert("loop".to_owned(), module(&[], &[], &aliases));
        assert_eq!(modules.nodes(), [("loop-control".to_owned(), 10, 237)]);
    }

    #[test]
    fn names_are_read_off_paths() {
        let name = |path: &str| name_of(Path::new(path));
        assert_eq!(name("kernel/drivers/mmc/host/sdhci-pci.ko").as_deref(), Some("sdhci_pci"));
        assert_eq!(name("a/ext4.ko.zst").as_deref(), Some("ext4"));
        assert_eq!(name("a/modules.dep"), None);
        assert_eq!(name("a/ext4.kobold"), None);
    }
}
