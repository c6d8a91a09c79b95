//! What `flashfit survey html` prints.

use flashfit_device::Bytes;
use flashfit_report::text::plain;
use flashfit_survey_site::SurveySite;
use schemars::JsonSchema;
use serde::Serialize;

use super::cards::counted;

/// That of `survey html`.
#[derive(Debug, JsonSchema, Serialize)]
pub struct SiteDocument {
    /// The new directory.
    pub dir: String,
    /// Products of real cards.
    pub products: u64,
    pub simulated_products: u64,
    pub cards: u64,
    /// Cards that contradict themselves or differ from others of their product.
    pub marked_cards: u64,
    /// Cards that others measured, and bundles brought.
    pub bundled_cards: u64,
    pub pages: u64,
    /// Of all pages.
    pub bytes: u64,
}

impl SiteDocument {
    pub fn new(dir: String, site: SurveySite) -> Self {
        Self {
            dir,
            products: site.products,
            simulated_products: site.simulated_products,
            cards: site.cards,
            marked_cards: site.marked_cards,
            bundled_cards: site.bundled_cards,
            pages: site.pages,
            bytes: site.bytes,
        }
    }
}

pub fn site_text(document: &SiteDocument) -> String {
    let simulated = match document.simulated_products {
        0 => String::new(),
        count => format!(", {}", counted(count, "simulated model")),
    };
    let bundled = match document.bundled_cards {
        0 => String::new(),
        count => format!(", {} measured by others (+)", counted(count, "card")),
    };
    format!(
        "{} of {}{simulated}{bundled}, {}: {}/index.html\n",
        counted(document.pages, "page"),
        counted(document.products, "product"),
        Bytes(document.bytes),
        plain(&document.dir),
    )
}
