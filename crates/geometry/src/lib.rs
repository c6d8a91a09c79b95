//! How a device is built inside: page, write unit, erase block, open erase blocks.
//!
//! [`reading`] and [`writing`] find it out by timing a device, [`flashbench`] from published
//! tables; all evidence of the erase block adds up in one [`belief`], and every quantity gets a
//! verdict ([`findings`]). [`geometry`] is what the rest of flashfit takes of it.

pub mod belief;
pub mod findings;
pub mod flashbench;
pub mod geometry;
pub mod probed;
pub mod reading;
pub mod writing;

pub use belief::{DeviceStructure, GeometryBelief};
pub use findings::{
    CandidateValue, GeometryFinding, GeometryFindings, QuantityValue, QuantityVerdict,
};
pub use geometry::{Geometry, QuantitySource, Sourced};
pub use probed::{FailedRequest, ProbeError, ProbeEvidence, ProbeObserver, Probed};
