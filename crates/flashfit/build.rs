//! Embeds the files of `docs/schemas`, for the builds that do not generate them: compressed as one,
//! because they have much in common.

use std::fmt::Write;
use std::path::{Path, PathBuf};

use miniz_oxide::deflate::compress_to_vec_zlib;

/// The best that zlib knows.
const COMPRESSION_LEVEL: u8 = 9;

fn main() {
    let manifest = std::env::var_os("CARGO_MANIFEST_DIR").expect("cargo sets CARGO_MANIFEST_DIR");
    let folder = Path::new(&manifest).join("../../docs/schemas");
    println!("cargo::rerun-if-changed={}", folder.display());
    println!("cargo::rerun-if-changed=build.rs");
    let out = std::env::var_os("OUT_DIR").expect("cargo sets OUT_DIR");
    let out = Path::new(&out);
    let entries = std::fs::read_dir(&folder).expect("docs/schemas is a folder");
    let mut files: Vec<PathBuf> = entries.map(|entry| entry.expect("readable").path()).collect();
    files.sort();
    let mut list = String::from("&[\n");
    let mut all = Vec::new();
    for file in files {
        println!("cargo::rerun-if-changed={}", file.display());
        let name = file.file_stem().expect("listed").to_string_lossy();
        let start = all.len();
        all.extend(std::fs::read(&file).expect("a listed file is readable"));
        let range = start..all.len();
        writeln!(list, "    ({name:?}, {range:?}),").expect("writing to a string does not fail");
    }
    let packed = compress_to_vec_zlib(&all, COMPRESSION_LEVEL);
    std::fs::write(out.join("schemas.zlib"), packed).expect("OUT_DIR is writable");
    list.push(']');
    std::fs::write(out.join("schemas.rs"), list).expect("OUT_DIR is writable");
}
