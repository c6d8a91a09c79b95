//! JSON Schemas of all documents that commands print, generated from the types that are printed.
//! A release contains the generated files instead, which are much smaller than the generators.
//!
//! `output::json` takes only types that are registered here, so a document without a schema does
//! not compile. A schema names every key with its type. Keys that a document always has are
//! required; further keys are allowed, because later versions add some.

mod commands;
mod envelope;
#[cfg(any(test, debug_assertions))]
mod generated;
mod registry;
#[cfg(any(test, not(debug_assertions)))]
mod stored;

use schemars::JsonSchema;
use serde::Serialize;

pub use commands::COMMANDS;
pub use envelope::{error_text, line, name, text};
#[cfg(debug_assertions)]
use generated::DocumentSchema;
pub use registry::NAMES;

/// A document that commands print.
pub trait JsonDocument: Serialize + JsonSchema {
    /// Its name: the key `schema` has `flashfit.` before it.
    const NAME: &'static str;
}

impl<T: JsonDocument> JsonDocument for &T {
    const NAME: &'static str = T::NAME;
}

/// The text of a document's schema, which is its file in `docs/schemas`.
#[cfg(debug_assertions)]
pub fn schema_text(name: &str) -> Option<String> {
    generated::all().iter().find(|document| document.name == name).map(DocumentSchema::text)
}

#[cfg(not(debug_assertions))]
pub use stored::text as schema_text;

#[cfg(test)]
mod tests;
