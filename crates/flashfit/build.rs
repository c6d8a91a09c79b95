//! Embeds the files of `docs/schemas`, for the builds that do not generate them: compressed as one,
//! because they have much in common. Also the hash of the source, by which two machines recognize
//! that they have the same flashfit, also if it is built for different processors.

use std::fmt::Write;
use std::path::{Path, PathBuf};

use miniz_oxide::deflate::compress_to_vec_zlib;

/// The best that zlib knows.
const COMPRESSION_LEVEL: u8 = 9;

fn main() {
    let manifest = std::env::var_os("CARGO_MANIFEST_DIR").expect("cargo sets CARGO_MANIFEST_DIR");
    let root = Path::new(&manifest).join("../..");
    println!("cargo::rustc-env=FLASHFIT_BUILD={:016x}", source_hash(&root));
    let folder = root.join("docs/schemas");
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

/// The hash of all code and of the catalog. Limit: other versions of the libraries have the same.
fn source_hash(root: &Path) -> u64 {
    let crates = std::fs::read_dir(root.join("crates")).expect("crates is a folder");
    let mut folders: Vec<PathBuf> =
        crates.map(|entry| entry.expect("readable").path().join("src")).collect();
    folders.push(root.join("catalog"));
    let mut files = Vec::new();
    for folder in folders.iter().filter(|folder| folder.is_dir()) {
        println!("cargo::rerun-if-changed={}", folder.display());
        add_files(folder, &mut files);
    }
    files.sort();
    let mut hash = FNV_START;
    for file in files {
        let name = file.strip_prefix(root).expect("it is below the root").to_string_lossy();
        hash = fnv1a(hash, name.as_bytes());
        hash = fnv1a(hash, &[0]);
        hash = fnv1a(hash, &std::fs::read(&file).expect("a listed file is readable"));
    }
    hash
}

fn add_files(folder: &Path, files: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(folder).expect("a folder") {
        let path = entry.expect("readable").path();
        if path.is_dir() {
            add_files(&path, files);
        } else if !path.file_name().is_some_and(|name| name.to_string_lossy().starts_with('.')) {
            files.push(path);
        }
    }
}

const FNV_START: u64 = 0xcbf2_9ce4_8422_2325;

/// Continues FNV-1a, 64 bits. The crate `numbers` has it, too, but its dependencies would be built
/// a second time.
fn fnv1a(hash: u64, bytes: &[u8]) -> u64 {
    bytes.iter().fold(hash, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3))
}
