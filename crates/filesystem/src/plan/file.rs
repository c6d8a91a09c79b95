//! Reads and writes plan files: JSON with schema and version.

use flashfit_user_error::{ExitClass, Hint, Task, UserError};
use serde::{Deserialize, Serialize};

use super::document::{Plan, SCHEMA, SCHEMA_VERSION};

/// An invalid plan file.
#[derive(Debug, thiserror::Error)]
pub enum PlanFileError {
    /// It is not a document of a plan.
    #[error("it is not a plan: {0}")]
    Unreadable(#[from] serde_json::Error),
    /// It is another document.
    #[error(
        "it is a document `{schema}`, version {version}; expected `{}`, version {SCHEMA_VERSION}",
        full_schema()
    )]
    Other { schema: String, version: u32 },
}

impl UserError for PlanFileError {
    fn class(&self) -> ExitClass {
        ExitClass::Usage
    }

    fn hint(&self) -> Option<Hint> {
        Some(Hint::from("make it again: ").and(Task::WritePlan))
    }
}

#[derive(Serialize, Deserialize)]
struct Document<T> {
    schema: String,
    schema_version: u32,
    tool_version: String,
    data: T,
}

fn full_schema() -> String {
    format!("flashfit.{SCHEMA}")
}

/// The text of the file.
pub fn write(plan: &Plan, tool_version: &str) -> String {
    let document = Document {
        schema: full_schema(),
        schema_version: SCHEMA_VERSION,
        tool_version: tool_version.to_owned(),
        data: plan,
    };
    serde_json::to_string_pretty(&document).expect("plain data") + "\n"
}

/// Reads the text of a file.
///
/// # Errors
/// See [`PlanFileError`]. What is read is not to be trusted: see [`Plan::rebuild`].
pub fn read(text: &str) -> Result<Plan, PlanFileError> {
    let head: Document<serde_json::Value> = serde_json::from_slice(text.as_bytes())?;
    if head.schema != full_schema() || head.schema_version != SCHEMA_VERSION {
        return Err(PlanFileError::Other { schema: head.schema, version: head.schema_version });
    }
    Ok(serde_json::from_value(head.data)?)
}
