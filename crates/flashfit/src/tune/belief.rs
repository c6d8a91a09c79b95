//! What is believed after a batch of trials, as a line of JSON.

use flashfit_tune::RunProgress;
use schemars::JsonSchema;
use serde::Serialize;

use super::wear_so_far::WearSoFar;
use crate::{output, schemas};

#[derive(JsonSchema, Serialize)]
pub struct Believed {
    schema: String,
    schema_version: u32,
    trials: usize,
    time_ns: u64,
    written_bytes: u64,
    /// `None` for a file, and before anything was written.
    wear: Option<WearSoFar>,
    trials_left_at_most: Option<u64>,
    leader: Option<String>,
}

/// Prints the line to standard output.
pub fn print(so_far: &RunProgress<'_>, wear: Option<WearSoFar>, leader: Option<String>) {
    let believed = Believed {
        schema: schemas::name::<Believed>(),
        schema_version: 1,
        trials: so_far.history.len(),
        time_ns: so_far.spent.time_ns,
        written_bytes: so_far.spent.written_bytes,
        wear,
        trials_left_at_most: so_far.left,
        leader,
    };
    output::whole_line(&believed);
}
