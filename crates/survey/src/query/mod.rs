//! Answers from a survey: which cards there are, filtered by any column.

pub mod filter;
pub mod listed;

pub use filter::{ColumnValue, RowFilter};
pub use listed::ListedCard;
