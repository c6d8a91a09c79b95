//! What all documents have in common: schema, version and tool.

use serde::Serialize;

use super::JsonDocument;

/// A JSON document as every command prints it.
#[derive(Debug, Serialize)]
struct Document<'a, T> {
    schema: &'a str,
    schema_version: u32,
    tool_version: &'a str,
    #[serde(flatten)]
    content: Content<T>,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "snake_case")]
enum Content<T> {
    Data(T),
    Error(T),
}

impl<'a, T> Document<'a, T> {
    fn new(schema: &'a str, content: Content<T>) -> Self {
        Self { schema, schema_version: 1, tool_version: env!("CARGO_PKG_VERSION"), content }
    }
}

/// The value of the key `schema`.
pub fn name<T: JsonDocument>() -> String {
    format!("flashfit.{}", T::NAME)
}

/// A document with this result.
pub fn text<T: JsonDocument>(data: T) -> String {
    let schema = name::<T>();
    let document = Document::new(&schema, Content::Data(data));
    serde_json::to_string_pretty(&document).expect("documents are plain data")
}

/// The same on one line.
pub fn line<T: JsonDocument>(data: T) -> String {
    let schema = name::<T>();
    let document = Document::new(&schema, Content::Data(data));
    serde_json::to_string(&document).expect("documents are plain data")
}

/// A document with this error, on one line.
pub fn error_text<T: JsonDocument>(error: &T) -> String {
    let schema = name::<T>();
    let document = Document::new(&schema, Content::Error(error));
    serde_json::to_string(&document).expect("documents are plain data")
}
