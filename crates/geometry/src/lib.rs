//! How a medium is built inside: page, write unit, erase unit, open units.
//!
//! Limits: this version knows what is declared and what the user gives; it does not probe. It can
//! measure and read flashbench's open-unit tables ([`flashbench`]).

pub mod belief;
pub mod findings;
pub mod flashbench;
pub mod geometry;
pub mod probed;
pub mod reading;

pub use belief::{Belief, Structure};
pub use findings::{Candidate, Finding, Findings, Value, Verdict};
pub use geometry::{Geometry, Known, Source};
pub use probed::{Evidence, Fault, ProbeError, Probed, Watch};
