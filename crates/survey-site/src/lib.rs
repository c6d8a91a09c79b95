//! A survey as static web pages: an index that compares products, and a page for each product.
//!
//! The pages load nothing, and a content security policy forbids it. The only script sorts tables;
//! everything is readable without it. Pages are for publishing: serial numbers, names that users
//! gave to cards, the local part of kernel versions and paths are left out. The same survey gives
//! the same pages, byte for byte. docs/survey.md says what is compared.

mod constants;
mod error;
mod figures;
mod index;
mod page;
mod plots;
mod product;
mod product_page;
mod shared;
mod speed_section;
mod standing;
mod table;
mod words;

use std::fs::File;
use std::io::Write;
use std::path::Path;

use flashfit_host::new_folder::NewFolder;
use flashfit_survey::database::ResultTable;
use flashfit_survey::query::ListedCard;

pub use error::SurveySiteError;
use figures::FigureTable;
use product::SiteProduct;

/// What is published beyond the figures.
#[derive(Debug, Clone, Copy, Default)]
pub struct SiteOptions {
    /// Names that users gave to cards, and whole kernel versions.
    pub with_names: bool,
}

/// What was written.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct SurveySite {
    /// Products of real cards.
    pub products: u64,
    pub simulated_products: u64,
    pub cards: u64,
    /// Cards that differ from their siblings or contradict themselves.
    pub marked_cards: u64,
    /// Cards that others measured.
    pub bundled_cards: u64,
    pub pages: u64,
    pub bytes: u64,
}

/// All that pages are made from.
pub(crate) struct SiteData<'a> {
    pub(crate) cards: &'a [ListedCard],
    pub(crate) results: &'a ResultTable,
    pub(crate) products: Vec<SiteProduct>,
    pub(crate) figures: FigureTable,
    pub(crate) options: SiteOptions,
}

/// Writes the pages of these cards, whose differences from siblings are flagged already, to the
/// new directory `dir`.
///
/// # Errors
/// If there is such a directory, or it cannot be written.
pub fn publish(
    cards: &[ListedCard],
    results: &ResultTable,
    options: SiteOptions,
    dir: &Path,
) -> Result<SurveySite, SurveySiteError> {
    let folder = NewFolder::begin(dir)?;
    let products = product::products(cards);
    let figures = FigureTable::of(cards, results, &products);
    let data = SiteData { cards, results, products, figures, options };
    let mut written = SurveySite {
        cards: cards.len() as u64,
        marked_cards: cards.iter().filter(|card| !card.doubts().is_empty()).count() as u64,
        bundled_cards: cards.iter().filter(|card| card.is_bundled()).count() as u64,
        ..SurveySite::default()
    };
    for product in &data.products {
        match product.is_simulated {
            true => written.simulated_products += 1,
            false => written.products += 1,
        }
        let page = product_page::render(&data, product);
        write(&folder.content().join(&product.file), &page, &mut written)?;
    }
    write(&folder.content().join("index.html"), &index::render(&data), &mut written)?;
    folder.finish()?;
    Ok(written)
}

fn write(path: &Path, page: &str, written: &mut SurveySite) -> Result<(), SurveySiteError> {
    let failed = |source| SurveySiteError::write(path, source);
    let mut file = File::create_new(path).map_err(failed)?;
    file.write_all(page.as_bytes()).and_then(|()| file.sync_all()).map_err(failed)?;
    written.pages += 1;
    written.bytes += page.len() as u64;
    Ok(())
}
