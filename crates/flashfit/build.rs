//! Embeds the compressed files of `docs/schemas`, for the builds that do not generate them.

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
    for file in files {
        println!("cargo::rerun-if-changed={}", file.display());
        let name = file.file_stem().expect("listed").to_string_lossy();
        let text = std::fs::read(&file).expect("a listed file is readable");
        let packed = compress_to_vec_zlib(&text, COMPRESSION_LEVEL);
        let packed_name = format!("{name}.zlib");
        std::fs::write(out.join(&packed_name), packed).expect("OUT_DIR is writable");
        let include = format!("include_bytes!(concat!(env!(\"OUT_DIR\"), \"/{packed_name}\"))");
        writeln!(list, "    ({name:?}, {include}),").expect("writing to a string does not fail");
    }
    list.push(']');
    std::fs::write(out.join("schemas.rs"), list).expect("OUT_DIR is writable");
}
