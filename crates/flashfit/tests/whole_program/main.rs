//! The whole program from outside: the built command run on images, loop devices and simulated
//! cards, its exit codes, what it prints, and what it leaves behind.
//!
//! Tests that need root, loop devices or FUSE say so and return where the machine lacks them.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod agent;
mod apply;
mod card;
mod catalog;
mod devices;
mod environment;
mod fixture;
mod foreign_runs;
mod full_disk;
mod guard;
mod lost_device;
mod machine;
mod named_files;
mod one_at_a_time;
mod output;
mod probe;
mod ranking;
mod replay;
mod search;
mod sudden_end;
mod swapped;
mod terminal;
mod test_beds;
mod usage;
