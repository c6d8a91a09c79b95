//! The subcommands, a file each; `tune` has its own folder.

pub mod agent;
pub mod analyze;
mod board;
pub mod card;
pub mod card_args;
pub mod card_power;
mod card_serve;
pub mod card_server;
pub mod card_stats;
mod card_stop;
pub mod catalog;
pub mod catalog_mistakes;
pub mod check;
pub mod compare;
pub mod completions;
pub mod doctor;
pub mod inspect;
pub mod list;
pub mod man;
pub mod options;
pub mod plan;
pub mod report;
pub mod schema;
pub mod serving_args;
