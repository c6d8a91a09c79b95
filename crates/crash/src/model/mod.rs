//! What a file system may show after a power cut: the names and contents of every moment that the
//! operations before the cut allow.
//!
//! The model follows acknowledgments, not flushes: an operation that returned before the cut is
//! acknowledged, one that began before it may have had an effect. A sync binds what it covers; what
//! happened since may be there or not. Names and data are judged separately, as file systems order
//! them separately.
//!
//! Limits: times, permissions and link counts are not judged.

mod content;
mod found;
mod history;
mod judge;
mod namespace;
mod order;
#[cfg(test)]
mod tests;

pub use history::History;
pub use judge::{Oracle, Violation};
pub use namespace::{DataChange, ModelChange, Namespace, NodeKind, SyncScope};
