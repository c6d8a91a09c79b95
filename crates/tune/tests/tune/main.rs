//! Tests of the public interface: strategies on simulated landscapes, runs on a fake test bed, and
//! conclusions from trials with known figures.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod all_file_systems;
mod analysis;
mod changed;
mod corpus;
mod extension;
mod head_to_head;
mod life;
mod limits;
mod no_figure;
mod recommendation;
mod run_dir;
mod session;
mod sessions;
mod short_budgets;
mod spread;
mod support;
mod sustained;
