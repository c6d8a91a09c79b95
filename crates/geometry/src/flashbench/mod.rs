//! flashbench's tables: times of reads across boundaries, and rates of writes to several erase
//! blocks in turn.
//!
//! [`import`] parses flashbench output ([`align`], [`table`], [`fat`], with the numbers of
//! `number` and the command lines of `command`), [`procedure`] measures open-unit tables on any
//! [`flashfit_device::BlockDev`], and [`comparison`] compares two of them, [`groups`] by the kind
//! of writes. Source: flashbench, `README` and `flashbench.c`.

pub mod align;
mod command;
pub mod comparison;
pub mod fat;
pub mod groups;
pub mod import;
pub mod inference;
mod number;
pub mod procedure;
mod repeats;
pub mod table;

pub use align::{AlignRow, AlignTable};
pub use comparison::{Comparison, units_before_the_cliff};
pub use fat::{FatRow, FatTable};
pub use groups::{CellGroup, GoodFor};
pub use import::{ImportError, ImportWarning, Imported};
pub use procedure::{OpenBlockProcedure, ProcedureError};
pub use table::{AccessOrder, OpenBlockTable, TableCell, TableError};
