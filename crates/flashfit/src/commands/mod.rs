//! The subcommands, a file each; `tune` has a folder of its own.

pub mod analyze;
pub mod card;
pub mod card_server;
pub mod catalog;
pub mod check;
pub mod inspect;
pub mod list;
pub mod options;
pub mod plan;
pub mod report;
