//! How much is shown; the rest is in `survey compare`.

/// Products in a chart.
pub const CHART_ROWS: usize = 12;
/// Measures in a table of products, of those that most products have.
pub const TABLE_MEASURES: usize = 6;
/// Charts of measures.
pub const SPEED_CHARTS: usize = 4;
/// Setups of a workload on the page of a product.
pub const SHOWN_SETUPS: usize = 12;
/// Ways in which products were measured, on the index and on the page of a product.
pub const SHOWN_WAYS: usize = 4;
/// Rows of wear and power loss on the page of a product.
pub const SHOWN_ROWS: usize = 200;
/// The probability that a table is wrong about any of its setups or products.
pub const ERROR: f64 = 0.05;
