//! Twins: card models fitted to what was measured of real media.

pub mod counts;
pub mod predict;
pub mod search;
pub mod structure;
pub mod target;
pub mod times;
