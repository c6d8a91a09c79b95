//! What a device and the kernel report about the wear of the device: each counter with its unit, its
//! step and its source.
//!
//! Reading is read-only. Only documented read commands are sent, and vendor commands only to the
//! manufacturers that document them.

pub mod counter;
mod kernel;
pub mod reading;

pub use counter::{CountSpan, CounterUnit, WearCounter, WearQuantity};
pub use reading::{SourceAnswer, WearReading};
