//! The internal geometry of a flash device: page, write unit, erase block, open erase blocks.
//!
//! [`reading`] and [`writing`] infer it from timing a device, [`flashbench`] from published tables.
//! All evidence about the erase block is combined in a [`belief`], and every quantity gets a
//! verdict ([`findings`]). The rest of flashfit uses [`geometry`].

pub mod belief;
pub mod findings;
pub mod flashbench;
pub mod geometry;
mod likeliest;
pub mod probed;
pub mod reading;
pub mod writing;

pub use belief::{DeviceStructure, GeometryBelief};
pub use findings::{
    CandidateValue, GeometryFinding, GeometryFindings, QuantityValue, QuantityVerdict,
};
pub use geometry::{EraseBlockGrid, Geometry, QuantitySource, Sourced};
pub use probed::{FailedRequest, ProbeError, ProbeEvidence, ProbeObserver, Probed};
