//! A kernel's modules and their dependencies, and the index for `modprobe` in the guest.
//!
//! They are read from depmod's index (`depmod`) or, for a package that was only unpacked, from the
//! module files (`scan`). Module names use `_` instead of `-`, as in the kernel.

mod depmod;
mod scan;

use schemars::JsonSchema;
use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::{Path, PathBuf};

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Module {
    /// File, relative to the modules directory.
    pub path: PathBuf,
    /// Modules that must be loaded first.
    pub depends: Vec<String>,
    /// Soft dependencies, often aliases, without which it may fail at run time.
    pub wants: Vec<String>,
    /// Such as `fs-ext4`, `crypto-crc32c`, or device patterns.
    pub aliases: Vec<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, JsonSchema, serde::Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum ModulePresence {
    /// In a module file.
    Module,
    BuiltIn,
    Lacking,
}

/// The modules of one kernel.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Modules {
    folder: PathBuf,
    modules: BTreeMap<String, Module>,
    built_in: BTreeSet<String>,
}

/// Dependencies that modules do not declare.
const UNDECLARED: [(&str, &[&str]); 5] = [
    ("fat", &["nls_cp437", "nls_ascii", "nls_iso8859_1", "nls_utf8"]),
    ("libcrc32c", &["crypto-crc32c"]),
    ("nilfs2", &["crc32"]),
    ("sd_mod", &["crc_t10dif"]),
    ("virtio_net", &["net_failover", "failover"]),
];

impl Modules {
    /// Reads the modules in `folder`, which is `/lib/modules/RELEASE` or a copy of it.
    ///
    /// # Errors
    /// If the directory cannot be read.
    pub fn read(folder: &Path) -> io::Result<Self> {
        let mut modules = if folder.join(depmod::DEPENDENCIES).is_file() {
            depmod::read(folder)
        } else {
            scan::read(folder)
        }?;
        modules.folder = folder.to_owned();
        Ok(modules)
    }

    /// Whether the dependencies of the modules in `folder` can be read, from depmod's index or from
    /// uncompressed module files.
    pub(crate) fn has_dependencies(folder: &Path) -> bool {
        folder.join(depmod::DEPENDENCIES).is_file() || !scan::has_compressed(&folder.join("kernel"))
    }

    /// Where the module with this name or alias is.
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

    pub fn len(&self) -> usize {
        self.modules.len()
    }

    pub fn is_empty(&self) -> bool {
        self.modules.is_empty()
    }

    /// The modules in `wanted` with all their dependencies.
    pub(crate) fn with_dependencies<S: AsRef<str>>(&self, wanted: &[S]) -> Self {
        let mut chosen = BTreeMap::new();
        let mut rest: Vec<String> = wanted.iter().map(|name| normal(name.as_ref())).collect();
        while let Some(name) = rest.pop() {
            for (name, module) in self.named(&name) {
                if chosen.insert(name.clone(), module.clone()).is_some() {
                    continue;
                }
                rest.extend(module.depends.iter().cloned());
                rest.extend(module.wants.iter().map(|name| normal(name)));
                let undeclared = UNDECLARED.iter().filter(|(of, _)| of == name);
                rest.extend(
                    undeclared.flat_map(|(_, names)| names.iter().map(|name| normal(name))),
                );
            }
        }
        Self { folder: self.folder.clone(), modules: chosen, built_in: self.built_in.clone() }
    }

    /// The files of the modules, relative to [`Modules::folder`].
    pub(crate) fn files(&self) -> impl Iterator<Item = &Path> {
        self.modules.values().map(|module| module.path.as_path())
    }

    pub(crate) fn folder(&self) -> &Path {
        &self.folder
    }

    /// depmod's file of dependencies, if it exists.
    pub(crate) fn index_file(&self) -> Option<PathBuf> {
        Some(self.folder.join(depmod::DEPENDENCIES)).filter(|file| file.is_file())
    }

    /// The files that depmod(8) would write: names and contents.
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

    /// The module with that name, and all with that alias.
    fn named(&self, name: &str) -> Vec<(&String, &Module)> {
        let own = self.modules.get_key_value(name);
        let answers = |module: &Module| module.aliases.iter().any(|alias| normal(alias) == name);
        own.into_iter().chain(self.modules.iter().filter(|(_, module)| answers(module))).collect()
    }
}

/// A module name in the kernel's spelling.
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
    fn hard_and_soft_dependencies_are_included() {
        let names = |wanted: &[&str]| {
            let chosen = sample().with_dependencies(wanted);
            chosen.modules.keys().cloned().collect::<Vec<_>>().join(" ")
        };
        assert_eq!(names(&["ext4"]), "crc32c_generic crc32c_intel ext4 jbd2");
        assert_eq!(names(&["fs-ext4"]), "crc32c_generic crc32c_intel ext4 jbd2");
        assert_eq!(names(&["vfat"]), "fat nls_ascii vfat");
        assert_eq!(names(&["circle", "loop", "nothing"]), "circle");
    }

    #[test]
    fn built_in_modules_are_not_lacking() {
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
    fn module_names_are_read_from_paths() {
        let name = |path: &str| name_of(Path::new(path));
        assert_eq!(name("kernel/drivers/mmc/host/sdhci-pci.ko").as_deref(), Some("sdhci_pci"));
        assert_eq!(name("a/ext4.ko.zst").as_deref(), Some("ext4"));
        assert_eq!(name("a/modules.dep"), None);
        assert_eq!(name("a/ext4.kobold"), None);
    }
}
