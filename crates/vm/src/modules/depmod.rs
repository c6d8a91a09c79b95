//! Reads and writes the files of depmod(8) for modprobe(8): `modules.dep`, `modules.alias`,
//! `modules.softdep`, `modules.builtin`.
//!
//! Source: modules.dep(5), modprobe.d(5) and kmod's `depmod.c`.

use std::fmt::Write;
use std::io;
use std::path::{Path, PathBuf};

use super::{Module, Modules, name_of, normal};

pub(super) const DEPENDENCIES: &str = "modules.dep";
const ALIASES: &str = "modules.alias";
const WANTED: &str = "modules.softdep";
pub(super) const BUILT_IN: &str = "modules.builtin";

pub(super) fn read(folder: &Path) -> io::Result<Modules> {
    let mut modules = Modules::default();
    for line in std::fs::read_to_string(folder.join(DEPENDENCIES))?.lines() {
        let Some((path, depends)) = line.split_once(':') else { continue };
        let path = PathBuf::from(path.trim());
        let Some(name) = name_of(&path) else { continue };
        let depends = depends.split_whitespace().filter_map(|path| name_of(Path::new(path)));
        modules
            .modules
            .insert(name, Module { depends: depends.collect(), path, ..Module::default() });
    }
    for (first, alias, name) in lines_of_three(&optional(folder, ALIASES)?) {
        if let (true, Some(module)) = (first == "alias", modules.modules.get_mut(&normal(&name))) {
            module.aliases.push(alias);
        }
    }
    for line in optional(folder, WANTED)?.lines() {
        let mut words = line.split_whitespace().skip(1);
        let Some(module) = words.next().and_then(|name| modules.modules.get_mut(&normal(name)))
        else {
            continue;
        };
        module.wants.extend(wanted(words));
    }
    modules.built_in = built_in(folder)?;
    Ok(modules)
}

pub(super) fn built_in(folder: &Path) -> io::Result<std::collections::BTreeSet<String>> {
    let list = optional(folder, BUILT_IN)?;
    Ok(list.lines().filter_map(|line| name_of(Path::new(line.trim()))).collect())
}

/// The names in `pre: a b post: c`.
pub(super) fn wanted<'a>(words: impl Iterator<Item = &'a str>) -> Vec<String> {
    words.filter(|word| !word.ends_with(':')).map(str::to_owned).collect()
}

pub(super) fn write(modules: &Modules) -> Vec<(&'static str, String)> {
    let (mut dependencies, mut aliases, mut wants) = (String::new(), String::new(), String::new());
    for (name, module) in &modules.modules {
        let _ = write!(dependencies, "{}:", plain(&module.path).display());
        for needed in in_order(modules, name) {
            let _ = write!(dependencies, " {}", plain(&modules.modules[&needed].path).display());
        }
        dependencies.push('\n');
        for alias in &module.aliases {
            let _ = writeln!(aliases, "alias {alias} {name}");
        }
        if !module.wants.is_empty() {
            let _ = writeln!(wants, "softdep {name} pre: {}", module.wants.join(" "));
        }
    }
    let mut built_in = String::new();
    for name in &modules.built_in {
        let _ = writeln!(built_in, "kernel/{name}.ko");
    }
    vec![(DEPENDENCIES, dependencies), (ALIASES, aliases), (WANTED, wants), (BUILT_IN, built_in)]
}

/// Modules are not compressed in the guest.
pub(super) fn plain(path: &Path) -> PathBuf {
    let compressed = path.extension().is_some_and(|ending| ending != "ko");
    if compressed { path.with_extension("") } else { path.to_owned() }
}

/// All dependencies of `name`, each before its own dependencies, as in `modules.dep`.
fn in_order(modules: &Modules, name: &str) -> Vec<String> {
    fn visit(modules: &Modules, name: &str, trail: &mut Vec<String>, found: &mut Vec<String>) {
        let Some(module) = modules.modules.get(name) else { return };
        if trail.iter().any(|above| above == name) {
            return;
        }
        trail.push(name.to_owned());
        for needed in &module.depends {
            visit(modules, needed, trail, found);
        }
        trail.pop();
        if !found.iter().any(|other| other == name) {
            found.push(name.to_owned());
        }
    }
    let mut found = Vec::new();
    visit(modules, name, &mut Vec::new(), &mut found);
    found.retain(|other| other != name);
    found.reverse();
    found
}

/// Lines such as `alias PATTERN MODULE`; a pattern may contain spaces.
fn lines_of_three(text: &str) -> Vec<(String, String, String)> {
    let of_line = |line: &str| {
        let (first, rest) = line.trim().split_once(' ')?;
        let (middle, last) = rest.rsplit_once(' ')?;
        Some((first.to_owned(), middle.to_owned(), last.to_owned()))
    };
    text.lines().filter(|line| !line.starts_with('#')).filter_map(of_line).collect()
}

fn optional(folder: &Path, name: &str) -> io::Result<String> {
    match std::fs::read_to_string(folder.join(name)) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(String::new()),
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DEP: &str = "kernel/fs/ext4/ext4.ko: kernel/fs/jbd2/jbd2.ko kernel/lib/crc16.ko\n\
                       kernel/fs/jbd2/jbd2.ko:\nkernel/lib/crc16.ko:\n\
                       kernel/crypto/crc32c-generic.ko.xz:\n";

    fn folder() -> tempfile::TempDir {
        let folder = tempfile::tempdir().unwrap();
        let files = [
            (DEPENDENCIES, DEP),
            (ALIASES, "# a comment\nalias fs-ext4 ext4\nalias crypto-crc32c crc32c_generic\n"),
            (WANTED, "# a comment\nsoftdep ext4 pre: crypto-crc32c post: jbd2\n"),
            (BUILT_IN, "kernel/drivers/block/loop.ko\n"),
        ];
        for (name, text) in files {
            std::fs::write(folder.path().join(name), text).unwrap();
        }
        folder
    }

    #[test]
    fn files_of_depmod_are_read() {
        let folder = folder();
        let modules = Modules::read(folder.path()).unwrap();
        let ext4 = &modules.modules["ext4"];
        assert_eq!(ext4.depends, ["jbd2", "crc16"]);
        assert_eq!(ext4.wants, ["crypto-crc32c", "jbd2"]);
        assert_eq!(ext4.aliases, ["fs-ext4"]);
        let chosen = modules.with_dependencies(&["ext4"]);
        let files: Vec<_> = chosen.files().map(|path| path.display().to_string()).collect();
        assert!(files.contains(&"kernel/crypto/crc32c-generic.ko.xz".to_owned()), "{files:?}");
        assert_eq!(files.len(), 4);
    }

    #[test]
    fn written_files_are_read_back() {
        let folder = folder();
        let modules = Modules::read(folder.path()).unwrap();
        let copy = tempfile::tempdir().unwrap();
        for (name, text) in modules.index() {
            std::fs::write(copy.path().join(name), text).unwrap();
        }
        let again = Modules::read(copy.path()).unwrap();
        assert_eq!(again.built_in, modules.built_in);
        let facts = |modules: &Modules| {
            let of = |(name, module): (&String, &Module)| {
                let mut depends = module.depends.clone();
                depends.sort();
                (name.clone(), depends, module.wants.clone(), module.aliases.clone())
            };
            modules.modules.iter().map(of).collect::<Vec<_>>()
        };
        assert_eq!(facts(&again), facts(&modules));
        let crc = &again.modules["crc32c_generic"];
        assert_eq!(crc.path, Path::new("kernel/crypto/crc32c-generic.ko"));
    }

    #[test]
    fn dependencies_are_in_the_order_of_unloading() {
        let mut modules = Modules::default();
        for (name, depends) in [("a", vec!["b", "c"]), ("b", vec!["c"]), ("c", vec!["a"])] {
            let depends = depends.into_iter().map(str::to_owned).collect();
            let path = PathBuf::from(format!("{name}.ko"));
            modules.modules.insert(name.to_owned(), Module { depends, path, ..Module::default() });
        }
        assert_eq!(in_order(&modules, "a"), ["b", "c"]);
    }
}
