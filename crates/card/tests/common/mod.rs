//! Helpers for tests of whole cards.

pub mod open_au;
