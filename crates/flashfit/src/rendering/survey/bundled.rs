//! What was put into a bundle.

use flashfit_device::Bytes;
use flashfit_report::text::{plain, wrap};
use schemars::JsonSchema;
use serde::Serialize;

use super::cards::counted;

/// That of `survey bundle`.
#[derive(Debug, JsonSchema, Serialize)]
pub struct BundledDocument {
    /// The file of the survey.
    pub database: String,
    /// The bundle.
    pub file: String,
    pub cards: usize,
    pub sources: usize,
    pub figures: usize,
    /// Size of the bundle.
    pub bytes: u64,
    /// Simulated cards that are not in it.
    pub simulated_left_out: usize,
    /// Cards that others measured, which are never in it.
    pub bundled_left_out: usize,
}

pub fn bundled_text(document: &BundledDocument, width: usize) -> String {
    let count = |count: usize, what: &str| counted(count as u64, what);
    let mut text = format!(
        "{}: {}, {}, {} ({}).",
        plain(&document.file),
        count(document.cards, "card"),
        count(document.sources, "source"),
        count(document.figures, "figure"),
        Bytes(document.bytes).si(),
    );
    if document.simulated_left_out > 0 {
        text += &format!(" Left out: {}.", count(document.simulated_left_out, "simulated card"));
    }
    if document.bundled_left_out > 0 {
        let cards = count(document.bundled_left_out, "card");
        text += &format!(" Left out: {cards} of bundles of others.");
    }
    text += " Read it before you send it: names of workloads, kernels and the dates of days are in \
             it.";
    wrap(&text, width).join("\n") + "\n"
}
