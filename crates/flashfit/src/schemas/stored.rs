//! The schemas as they are in `docs/schemas`, compressed into the binary. To generate them takes a
//! tenth of the program, and the files are the same (a test).

static STORED: &[(&str, &[u8])] = include!(concat!(env!("OUT_DIR"), "/schemas.rs"));

/// The text of a document's schema.
pub fn text(name: &str) -> Option<String> {
    let (_, packed) = STORED.iter().find(|(stored, _)| *stored == name)?;
    let bytes = miniz_oxide::inflate::decompress_to_vec_zlib(packed);
    let bytes = bytes.expect("the build compressed it");
    Some(String::from_utf8(bytes).expect("a schema is text"))
}
