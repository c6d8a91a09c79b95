//! A bundle: the figures of a survey in one file that can be sent, without what identifies a card
//! or its owner, and what is accepted of such a file.
//!
//! `format` is the document, `keys` the pseudonyms, `make` leaves out what is private, `check`
//! reads what a stranger wrote. Limits: texts such as the names of workloads and kernels are kept,
//! and anyone who has the survey can recognize its cards in the bundle. docs/survey.md has the
//! rules.

mod check;
pub mod format;
mod keys;
mod make;
#[cfg(test)]
mod tests;

pub use check::{BUNDLE_BYTES, CheckedBundle, is_bundle, parse};
pub(crate) use check::{of_document, within_ranges};
pub use keys::BundleKeys;
pub(crate) use keys::{stored_card, stored_run, stored_source};
pub use make::{BundleOptions, MadeBundle, make};

/// The name of the document.
pub const SCHEMA: &str = "flashfit.survey-bundle";
pub const SCHEMA_VERSION: u32 = 1;
