//! What `flashfit survey export` prints.

use flashfit_device::Bytes;
use flashfit_report::text::plain;
use schemars::JsonSchema;
use serde::Serialize;

use super::cards::counted;

/// That of `survey export`.
#[derive(Debug, JsonSchema, Serialize)]
pub struct ExportedDocument {
    /// The new directory.
    pub dir: String,
    /// Directories of products in each table.
    pub products: u64,
    /// Rows of the table of cards.
    pub cards: u64,
    /// Rows of the table of results.
    pub results: u64,
    /// Of all files.
    pub bytes: u64,
}

pub fn exported_text(document: &ExportedDocument) -> String {
    format!(
        "{} of {} ({}), {}: {}\n",
        counted(document.results, "result"),
        counted(document.cards, "card"),
        counted(document.products, "product"),
        Bytes(document.bytes),
        plain(&document.dir),
    )
}
