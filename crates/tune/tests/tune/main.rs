//! The crate from outside: strategies on made-up landscapes, runs on a test bed that only pretends,
//! and what is concluded from trials whose figures are known.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod analysis;
mod corpus;
mod limits;
mod recommendation;
mod run_dir;
mod session;
mod spread;
mod support;
