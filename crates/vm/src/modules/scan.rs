//! Reads modules from their files, if there is no index of depmod(8).
//!
//! Limit: only the name of a compressed module can be read; kernels with compressed modules need
//! depmod's index ([`has_compressed`]).

use std::fs::File;
use std::io;
use std::path::Path;

use object::ReadCache;

use super::{Module, Modules, depmod, name_of, normal};
use crate::elf;

pub(super) fn read(folder: &Path) -> io::Result<Modules> {
    let mut modules = Modules { built_in: depmod::built_in(folder)?, ..Modules::default() };
    let mut folders = vec![folder.join("kernel")];
    while let Some(inside) = folders.pop() {
        for entry in std::fs::read_dir(&inside)? {
            let entry = entry?;
            let path = entry.path();
            if entry.file_type()?.is_dir() {
                folders.push(path);
                continue;
            }
            let Some(name) = name_of(&path) else { continue };
            let relative = path.strip_prefix(folder).expect("it is inside").to_owned();
            let described = describe(&path)?;
            modules.modules.insert(name, Module { path: relative, ..described });
        }
    }
    Ok(modules)
}

/// Whether there are compressed modules, whose dependencies cannot be read.
pub(super) fn has_compressed(folder: &Path) -> bool {
    let Ok(entries) = std::fs::read_dir(folder) else { return false };
    entries.flatten().any(|entry| {
        let path = entry.path();
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            return has_compressed(&path);
        }
        name_of(&path).is_some() && path.extension().is_some_and(|ending| ending != "ko")
    })
}

fn describe(path: &Path) -> io::Result<Module> {
    let cache = ReadCache::new(File::open(path)?);
    let mut module = Module::default();
    for (key, value) in elf::module_info(&cache).unwrap_or_default() {
        match key.as_str() {
            "depends" => {
                module.depends =
                    value.split(',').filter(|name| !name.is_empty()).map(normal).collect();
            }
            "softdep" => module.wants.extend(depmod::wanted(value.split_whitespace())),
            "alias" => module.aliases.push(value),
            _ => {}
        }
    }
    Ok(module)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn modules_without_an_index_are_found() {
        let folder = tempfile::tempdir().unwrap();
        let inside = folder.path().join("kernel/fs/fat");
        std::fs::create_dir_all(&inside).unwrap();
        std::fs::write(inside.join("vfat.ko"), "no ELF file").unwrap();
        std::fs::write(inside.join("notes.txt"), "").unwrap();
        std::fs::write(folder.path().join("modules.builtin"), "kernel/lib/crc16.ko\n").unwrap();
        let modules = Modules::read(folder.path()).unwrap();
        assert_eq!(modules.len(), 1);
        assert_eq!(modules.modules["vfat"].path, Path::new("kernel/fs/fat/vfat.ko"));
        assert!(modules.built_in.contains("crc16"));
    }
}
