//! flashbench's tables: how long reads take across boundaries, and how fast a device takes writes
//! that go to several erase blocks in turn.
//!
//! [`import`] reads what flashbench prints ([`align`], [`table`], [`fat`], with the numbers of
//! `number`), [`procedure`] measures open-unit tables on any [`flashfit_device::BlockDev`],
//! [`comparison`] lays two of them beside each other. Source: flashbench, `README` and
//! `flashbench.c`.

pub mod align;
pub mod comparison;
pub mod fat;
pub mod import;
pub mod inference;
mod number;
pub mod procedure;
pub mod table;

pub use align::{AlignRow, AlignTable};
pub use comparison::{Comparison, units_before_the_cliff};
pub use fat::{FatRow, FatTable};
pub use import::{ImportError, ImportWarning, Imported};
pub use procedure::{OpenBlockProcedure, ProcedureError};
pub use table::{AccessOrder, OpenBlockTable, TableCell, TableError};
