//! Copies programs of the host into the guest with their dependencies: libraries, the loader, a
//! script's interpreter, and some files of `/etc`.
//!
//! Libraries are listed by the program's own loader, which knows search paths and
//! processor-specific variants. A copy of fio lacks those of its network engines
//! ([`crate::trimmed`]). Limit: libraries loaded at run time (`dlopen`) are not found.

use std::io::{self, Read, Write};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use flashfit_host::{Program, Runner, program};

use crate::tree::Tree;
use crate::{elf, trimmed};

const LIST_WAIT: Duration = Duration::from_secs(20);
const C_LIBRARY: &str = "libc.so.6";
const UNWINDER: &str = "libgcc_s.so.1";
/// Maximum depth of scripts that are interpreters of scripts.
const MAX_INTERPRETERS: u32 = 4;
/// Configuration files by prefix of the program's name.
const SETTINGS: [(&str, &str); 4] = [
    ("mke2fs", "/etc/mke2fs.conf"),
    ("mkfs.ext", "/etc/mke2fs.conf"),
    ("mkfs.nilfs2", "/etc/nilfs_cleanerd.conf"),
    ("blkid", "/etc/blkid.conf"),
];

/// Libraries by the program that has no use for them in the guest, by the beginning of their file
/// names: GlusterFS, NBD, RDMA, Ceph and persistent memory.
const UNUSED_LIBRARIES: [(&str, &[&str]); 1] = [(
    "fio",
    &[
        "libgfapi.so",
        "libnbd.so",
        "libibverbs.so",
        "librdmacm.so",
        "librados.so",
        "librbd.so",
        "libpmem.so",
        "libpmemblk.so",
    ],
)];

pub(crate) fn unused_libraries(program: &str) -> &'static [&'static str] {
    let found = UNUSED_LIBRARIES.iter().find(|(name, _)| *name == program);
    found.map_or(&[], |(_, libraries)| *libraries)
}

/// Adds the program called `name` under its path on the host; returns that path, or `None` if the
/// host does not have it.
pub(crate) fn bring(
    tree: &mut Tree,
    name: &str,
    runner: &dyn Runner,
) -> io::Result<Option<PathBuf>> {
    let Some(path) = program::find(name) else { return Ok(None) };
    let path = std::path::absolute(path)?;
    add(tree, &path, runner, 0)?;
    for (_, file) in SETTINGS.iter().filter(|(program, _)| name.starts_with(program)) {
        if Path::new(file).is_file() {
            tree.as_on_host(Path::new(file))?;
        }
    }
    Ok(Some(path))
}

/// Adds the dependencies of `file`, which is in the tree under another path.
pub(crate) fn bring_needs(tree: &mut Tree, file: &Path, runner: &dyn Runner) -> io::Result<()> {
    needs(tree, file, runner, 0)
}

fn add(tree: &mut Tree, path: &Path, runner: &dyn Runner, depth: u32) -> io::Result<()> {
    let file = tree.as_on_host(path)?;
    match without_unused_libraries(&file)? {
        None => needs(tree, &file, runner, depth),
        Some(copy) => {
            tree.made_from(&file)?;
            let mut listed = tempfile::NamedTempFile::new()?;
            listed.write_all(&copy)?;
            tree.bytes(&file, std::fs::metadata(&file)?.mode() & 0o7777, copy);
            needs(tree, listed.path(), runner, depth)
        }
    }
}

fn without_unused_libraries(file: &Path) -> io::Result<Option<Vec<u8>>> {
    let name = file.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    let unused = unused_libraries(name);
    if unused.is_empty() {
        return Ok(None);
    }
    let is_unused = |library: &str| unused.iter().any(|unused| library.starts_with(unused));
    Ok(trimmed::without(&std::fs::read(file)?, is_unused))
}

fn needs(tree: &mut Tree, file: &Path, runner: &dyn Runner, depth: u32) -> io::Result<()> {
    if let Some(interpreter) = script_interpreter(file)? {
        // The guest has its own shell.
        if interpreter == Path::new("/bin/sh") || depth >= MAX_INTERPRETERS {
            return Ok(());
        }
        return add(tree, &interpreter, runner, depth + 1);
    }
    let Some(loader) = elf::interpreter(file)? else { return Ok(()) };
    tree.as_on_host(&loader)?;
    let list = Program::new(loader.to_string_lossy()).arg("--list").arg(file).timeout(LIST_WAIT);
    let listed = runner.run_checked(&list).map_err(io::Error::other)?;
    for library in libraries(&listed.stdout) {
        tree.as_on_host(&library)?;
        // The C library loads this one by name when a thread is canceled.
        let unwinder = library.with_file_name(UNWINDER);
        if library.ends_with(C_LIBRARY) && unwinder.exists() {
            tree.as_on_host(&unwinder)?;
        }
    }
    Ok(())
}

/// The paths in a loader's list: `libc.so.6 => /lib/libc.so.6 (0x7f...)`, or a path alone.
fn libraries(list: &str) -> Vec<PathBuf> {
    let of_line = |line: &str| {
        let found = line.split_once("=>").map_or(line, |(_, found)| found);
        let path = found.rsplit_once(" (").map_or(found, |(path, _)| path).trim();
        path.starts_with('/').then(|| PathBuf::from(path))
    };
    list.lines().filter_map(of_line).collect()
}

/// The interpreter of a script (`#!/bin/sh`).
fn script_interpreter(file: &Path) -> io::Result<Option<PathBuf>> {
    let mut beginning = Vec::new();
    std::fs::File::open(file)?.take(256).read_to_end(&mut beginning)?;
    let Some(line) = beginning.strip_prefix(b"#!") else { return Ok(None) };
    let line = line.split(|byte| *byte == b'\n').next().unwrap_or_default();
    let line = String::from_utf8_lossy(line);
    let mut words = line.split_whitespace();
    let first = words.next().map(PathBuf::from);
    if first.as_deref().is_some_and(|path| path.ends_with("env")) {
        return Ok(words.next().and_then(program::find));
    }
    Ok(first)
}

#[cfg(test)]
mod tests {
    use flashfit_host::SystemRunner;

    use super::*;

    #[test]
    fn libraries_are_read_from_the_loaders_list() {
        let list = "\tlinux-vdso.so.1 (0x00007ffd)\n\
                    \tlibm.so.6 => /lib/x86_64-linux-gnu/libm.so.6 (0x00007f)\n\
                    \t/lib64/ld-linux-x86-64.so.2 (0x00007f)\n\tlibx.so => not found\n";
        let expected = ["/lib/x86_64-linux-gnu/libm.so.6", "/lib64/ld-linux-x86-64.so.2"];
        assert_eq!(libraries(list), expected.map(PathBuf::from));
    }

    #[test]
    fn a_program_is_copied_with_its_libraries() {
        let mut tree = Tree::default();
        let path = bring(&mut tree, "sleep", &SystemRunner::default()).unwrap().unwrap();
        assert!(tree.has(&path));
        let has_library = tree.inputs().any(|input| input.path.to_string_lossy().contains("libc"));
        assert!(has_library || elf::interpreter(&path).unwrap().is_none());
        let runner = SystemRunner::default();
        assert_eq!(bring(&mut tree, "flashfit-no-such-program", &runner).unwrap(), None);
    }

    #[test]
    fn a_script_is_copied_with_its_interpreter() {
        let folder = tempfile::tempdir().unwrap();
        let script = folder.path().join("mkfs.wrapped");
        let bash = program::find("bash").unwrap_or_else(|| "/bin/bash".into());
        std::fs::write(&script, format!("#!{} -e\necho\n", bash.display())).unwrap();
        assert_eq!(script_interpreter(&script).unwrap(), Some(bash.clone()));
        if bash.exists() {
            let mut tree = Tree::default();
            bring(&mut tree, &script.to_string_lossy(), &SystemRunner::default()).unwrap();
            assert!(tree.has(&bash));
        }
        std::fs::write(&script, "#!/usr/bin/env sh\n").unwrap();
        assert_eq!(script_interpreter(&script).unwrap(), program::find("sh"));
    }
}
