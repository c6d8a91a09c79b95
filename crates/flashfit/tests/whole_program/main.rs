//! Tests the built command on images, loop devices and simulated cards: exit codes, output, and
//! cleanup.
//!
//! Tests that need root, loop devices or FUSE are skipped if the machine lacks them.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod agent;
mod apply;
mod card;
mod card_state;
mod catalog;
mod check;
mod commands;
mod compare;
mod constraints;
mod crash;
mod crash_cuts;
mod crash_machine;
mod crash_requests;
mod devices;
mod environment;
mod extend;
mod fixture;
mod foreign_runs;
mod full_disk;
mod guard;
mod help;
mod life;
mod lost_device;
mod machine;
mod named_files;
mod one_at_a_time;
mod output;
mod probe;
mod ranking;
mod raw_device;
mod replay;
mod report_size;
mod schemas;
mod search;
mod starting_states;
mod sudden_end;
mod survey;
mod survey_bundle;
mod survey_export;
mod survey_prior;
mod survey_site;
mod survey_sources;
mod swapped;
mod terminal;
mod test_beds;
mod usage;
mod wear;
