//! Generates the schemas from the types that are printed.

use std::marker::PhantomData;

use schemars::generate::SchemaSettings;
use schemars::{JsonSchema, Schema};
use serde_json::{Value, json};

pub use super::registry::all;

/// Where the type is in the document.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Wrapping {
    /// In the key `data`.
    Data,
    /// In the key `error`.
    Error,
    /// It is the whole document, with the keys of every document.
    Whole,
}

/// The schema of a document.
#[derive(Debug, Clone, PartialEq)]
pub struct DocumentSchema {
    pub name: &'static str,
    pub schema: Value,
}

impl DocumentSchema {
    pub(super) fn of<T: JsonSchema>(
        name: &'static str,
        wrapping: Wrapping,
        _: PhantomData<T>,
    ) -> Self {
        let settings = SchemaSettings::draft2020_12().for_serialize();
        let mut content = settings.into_generator().into_root_schema_for::<T>();
        content.remove("$schema");
        let definitions = content.remove("$defs");
        let full_name = format!("flashfit.{name}");
        let mut schema = match wrapping {
            Wrapping::Whole => content.to_value(),
            Wrapping::Data => wrapped("data", &content),
            Wrapping::Error => wrapped("error", &content),
        };
        schema["$schema"] = json!("https://json-schema.org/draft/2020-12/schema");
        schema["title"] = json!(full_name);
        schema["properties"]["schema"] = json!({"const": full_name});
        schema["properties"]["schema_version"] = json!({"const": 1});
        if let Some(definitions) = definitions {
            schema["$defs"] = definitions;
        }
        Self { name, schema }
    }

    /// The text of its file.
    pub fn text(&self) -> String {
        serde_json::to_string_pretty(&self.schema).expect("a schema is plain data") + "\n"
    }
}

fn wrapped(key: &str, content: &Schema) -> Value {
    json!({
        "type": "object",
        "properties": { "tool_version": {"type": "string"}, key: content },
        "required": ["schema", "schema_version", "tool_version", key],
    })
}
