//! How rows of a survey are filtered and printed.

use clap::Args;
use flashfit_survey::query::RowFilter;

use crate::command_error::CommandError;

/// How rows are filtered and printed.
#[derive(Debug, Args)]
pub struct SurveyRowArgs {
    /// Condition such as product=SL32G or capacity_bytes>=32GiB, with = != < <= > >= or ~ (a part
    /// of the text). May be repeated; all must hold.
    #[arg(long = "where", value_name = "COLUMN=VALUE")]
    pub conditions: Vec<String>,
    /// Print CSV instead of text.
    #[arg(long, conflicts_with = "json")]
    pub csv: bool,
    /// Print one JSON document instead of text.
    #[arg(long)]
    pub json: bool,
}

impl SurveyRowArgs {
    pub fn filters(&self, columns: &[&str]) -> Result<Vec<RowFilter>, CommandError> {
        filters(&self.conditions, columns)
    }
}

pub fn filters(conditions: &[String], columns: &[&str]) -> Result<Vec<RowFilter>, CommandError> {
    conditions.iter().map(|text| Ok(RowFilter::parse(text, columns)?)).collect()
}
