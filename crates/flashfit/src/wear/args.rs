//! Arguments of `flashfit wear`.

use std::path::PathBuf;

use clap::{Args, Subcommand};

#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  flashfit wear show /dev/mmcblk0")]
pub struct WearArgs {
    #[command(subcommand)]
    pub command: WearCommand,
}

#[derive(Debug, Subcommand)]
pub enum WearCommand {
    /// Show what a device reports about its wear. Reads only.
    Show(WearShowArgs),
}

#[derive(Debug, Args)]
pub struct WearShowArgs {
    /// Device node.
    pub device: PathBuf,
    /// Print one JSON document instead of text.
    #[arg(long)]
    pub json: bool,
}
