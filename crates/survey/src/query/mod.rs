//! Answers from a survey: its cards, their variation, and those that differ from their siblings.

pub mod cells;
pub mod comparison;
pub mod filter;
pub mod known;
pub mod listed;
pub mod rows;
pub mod siblings;
pub mod statistics;
#[cfg(test)]
mod tests;
pub mod wear;

pub use filter::{ColumnValue, RowFilter};
pub use listed::{ListedCard, find_card};
pub use rows::ResultFilters;
