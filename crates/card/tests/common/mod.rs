//! What several tests of whole cards need.

pub mod open_au;
