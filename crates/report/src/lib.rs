//! Renders the result of a run for the terminal, as SVG and as HTML.
//!
//! The input is plain data ([`document`], [`figure`]); this crate does not depend on fio, file
//! systems or run directories. Rendering cannot fail: a value that is not finite is left out of a
//! chart and shown as a dash in a table. The same input gives the same output, byte for byte.
//!
//! Any text may come from a device or from another program, so every renderer removes control and
//! bidirectional characters ([`text`]) and escapes markup.

pub mod document;
pub mod figure;
pub mod finding;
pub mod html;
pub mod markup;
pub mod quantity;
pub mod svg;
pub mod table;
pub mod terminal;
pub mod text;

pub use document::{
    ComparisonPage, FailedTrials, RangeMeaning, RankRow, RankingTable, Report, ReportCommand,
    ReportVerdict, ReportedGain, RunOutcome, SetupDetail, SetupRole,
};
pub use figure::{
    Bar, BarChart, BetterDirection, Chart, ChartPoint, ChartSeries, DotChart, DotEmphasis, DotRow,
    FigureGroup, LineChart, ValueScale, XAxis,
};
pub use finding::{ColumnKind, ReportFinding};
pub use quantity::{FigureUnit, probability};
pub use table::{Align, Column, Shorten, TextTable};
