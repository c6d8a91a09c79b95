//! A survey: results of many devices, from runs, probes and other documents, in one database.
//!
//! `import` reads what was measured, `identity` decides which card it was, `database` keeps it,
//! `query` answers, `bundle` is the file that can be sent. Nothing here prints or asks.
//! docs/survey.md states the rules.

pub mod bundle;
pub mod database;
mod error;
pub mod identity;
pub mod import;
pub mod metric;
pub mod prior;
pub mod query;
pub mod record;

pub use database::{AddOptions, Addition, SurveyDatabase};
pub use error::{SurveyError, SurveyInputError};
pub use identity::CardIdentity;
pub use metric::{MetricGroup, SurveyMetric};
pub use record::{SourceKind, SurveyResult, SurveySource};
