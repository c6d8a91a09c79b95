//! Embeds the files of `catalog/` into the binary, so that a new entry needs no code.

use std::fmt::Write;
use std::path::Path;

fn main() {
    // Not env!: that would be the place where this script was compiled.
    let manifest = std::env::var_os("CARGO_MANIFEST_DIR").expect("cargo sets CARGO_MANIFEST_DIR");
    let root = Path::new(&manifest).join("../../catalog");
    println!("cargo::rerun-if-changed={}", root.display());
    let mut list = String::from("&[\n");
    for folder in sorted(&root) {
        for file in sorted(&folder) {
            println!("cargo::rerun-if-changed={}", file.display());
            let path = file.canonicalize().expect("a listed file exists");
            let relative = format!("{}/{}", name(&folder), name(&file));
            writeln!(list, "    ({relative:?}, include_str!({path:?})),")
                .expect("writing to a string does not fail");
        }
    }
    list.push(']');
    let out = std::env::var_os("OUT_DIR").expect("cargo sets OUT_DIR");
    std::fs::write(Path::new(&out).join("files.rs"), list).expect("OUT_DIR is writable");
}

fn sorted(folder: &Path) -> Vec<std::path::PathBuf> {
    let entries = std::fs::read_dir(folder).expect("catalog/ is a folder of folders of files");
    let mut paths: Vec<_> = entries.map(|entry| entry.expect("readable").path()).collect();
    paths.sort();
    paths
}

fn name(path: &Path) -> String {
    path.file_name().expect("listed").to_string_lossy().into_owned()
}
