//! Surveys: their documents, tables and CSV.

mod cards;

pub use cards::{AddedDocument, AddedSource, CardsDocument, added_text, cards_text};

use flashfit_device::Bytes;
use serde::Serialize;

/// Rows as CSV (RFC 4180), with the keys of the JSON document in the first line.
pub fn csv<T: Serialize>(rows: &[T]) -> String {
    let mut writer = csv::Writer::from_writer(Vec::new());
    for row in rows {
        writer.serialize(row).expect("rows are plain data");
    }
    let bytes = writer.into_inner().expect("memory takes everything");
    String::from_utf8(bytes).expect("rows are text")
}

/// A size, or a dash.
fn size(bytes: Option<u64>) -> String {
    bytes.map_or_else(|| "-".to_owned(), |bytes| Bytes(bytes).to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn csv_quotes_what_must_be_quoted() {
        #[derive(Serialize)]
        struct Row {
            name: &'static str,
            size: Option<u64>,
        }
        let rows = [Row { name: "a,\"b\"", size: None }, Row { name: "c", size: Some(1) }];
        assert_eq!(csv(&rows), "name,size\n\"a,\"\"b\"\"\",\nc,1\n");
    }
}
