//! flashbench's open-unit tables: how fast a medium takes writes that go to several erase units in
//! turn.
//!
//! [`table`] reads what flashbench prints, [`procedure`] measures the same on any
//! [`flashfit_medium::BlockDev`], [`comparison`] lays two beside each other. Source: flashbench,
//! `README` and `flashbench.c` (`try_open_au`), as section 1.2 of the survey of peers describes it.

pub mod comparison;
pub mod procedure;
pub mod table;

pub use comparison::{Comparison, units_before_the_cliff};
pub use procedure::{OpenUnitProcedure, ProcedureError};
pub use table::{Access, Cell, OpenUnitTable, TableError};
