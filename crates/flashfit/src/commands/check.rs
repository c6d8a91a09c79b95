//! `flashfit check TARGET`: what is wrong with a medium as it is, and what would mend it.

use std::path::Path;

use clap::Args;
use flashfit_medium::Bytes;

use crate::cli::size;
use crate::failure::Failure;

#[derive(Debug, Args)]
pub struct CheckArgs {
    /// A device node or an image file.
    pub target: String,
    /// The erase unit, where you know it better than the medium says.
    #[arg(long, value_name = "SIZE", value_parser = size)]
    pub erase_unit: Option<Bytes>,
    /// Print one JSON document.
    #[arg(long)]
    pub json: bool,
}

pub fn run(_args: &CheckArgs, _catalog: Option<&Path>) -> Result<(), Failure> {
    Ok(())
}
