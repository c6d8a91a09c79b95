//! Names of directories that say which product is in them, as Hive writes them: `product=SL32G`.
//!
//! DuckDB and Spark decode percent signs, and read the name of an unknown product as NULL.

use std::fmt::Write;

/// What a directory is called whose rows have no product.
const UNKNOWN: &str = "__HIVE_DEFAULT_PARTITION__";
/// Longer products are cut, so that their names fit into a file name when they are encoded.
const MOST_BYTES: usize = 64;

/// The value of a product in the name of its directory.
pub fn value(product: &str) -> String {
    if product.is_empty() {
        return UNKNOWN.to_owned();
    }
    let mut end = product.len().min(MOST_BYTES);
    while !product.is_char_boundary(end) {
        end -= 1;
    }
    let mut encoded = String::new();
    for byte in product[..end].bytes() {
        if byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-' | b'.') {
            encoded.push(char::from(byte));
        } else {
            write!(encoded, "%{byte:02X}").expect("a string takes any text");
        }
    }
    encoded
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_product_is_a_file_name() {
        assert_eq!(value("SL32G"), "SL32G");
        assert_eq!(value("../a b=%"), "..%2Fa%20b%3D%25");
        assert_eq!(value(""), UNKNOWN);
        let long = value(&"ü".repeat(100));
        assert!(long.len() == 3 * MOST_BYTES && long.starts_with("%C3%BC"));
    }
}
