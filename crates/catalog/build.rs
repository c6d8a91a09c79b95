//! Embeds the files of `catalog/` into the binary, so that a new entry needs no code. Each is
//! compressed by itself: a command reads few of them, and boards have little memory.

use std::fmt::Write;
use std::path::Path;

use miniz_oxide::deflate::compress_to_vec_zlib;

/// The best that zlib knows; more would only take longer.
const COMPRESSION_LEVEL: u8 = 9;

fn main() {
    // Not env!: that would be the place where this script was compiled.
    let manifest = std::env::var_os("CARGO_MANIFEST_DIR").expect("cargo sets CARGO_MANIFEST_DIR");
    let root = Path::new(&manifest).join("../../catalog");
    println!("cargo::rerun-if-changed={}", root.display());
    let out = std::env::var_os("OUT_DIR").expect("cargo sets OUT_DIR");
    let out = Path::new(&out);
    let mut list = String::from("&[\n");
    for folder in sorted(&root) {
        for file in sorted(&folder) {
            println!("cargo::rerun-if-changed={}", file.display());
            let text = std::fs::read_to_string(&file).expect("a file of catalog/ is text");
            let packed = compress_to_vec_zlib(text.as_bytes(), COMPRESSION_LEVEL);
            let packed_name = format!("{}.{}.zlib", name(&folder), name(&file));
            std::fs::write(out.join(&packed_name), packed).expect("OUT_DIR is writable");
            let relative = format!("{}/{}", name(&folder), name(&file));
            let include = format!("include_bytes!(concat!(env!(\"OUT_DIR\"), \"/{packed_name}\"))");
            writeln!(list, "    ({relative:?}, {include}),")
                .expect("writing to a string does not fail");
        }
    }
    list.push(']');
    std::fs::write(out.join("files.rs"), list).expect("OUT_DIR is writable");
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
