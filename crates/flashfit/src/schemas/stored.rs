//! The schemas as they are in `docs/schemas`, compressed into the binary. To generate them takes a
//! tenth of the program, and the files are the same (a test).

use std::ops::Range;

/// Where each schema is in all of them.
static STORED: &[(&str, Range<usize>)] = include!(concat!(env!("OUT_DIR"), "/schemas.rs"));
static PACKED: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/schemas.zlib"));

/// The text of a document's schema.
pub fn text(name: &str) -> Option<String> {
    let (_, range) = STORED.iter().find(|(stored, _)| *stored == name)?;
    let bytes = miniz_oxide::inflate::decompress_to_vec_zlib(PACKED);
    let bytes = bytes.expect("the build compressed it");
    Some(String::from_utf8(bytes[range.clone()].to_vec()).expect("a schema is text"))
}
