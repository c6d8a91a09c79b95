//! The usage model of a run, as arguments, and what is known about the life of its device.

use clap::Args;
use flashfit_device::Bytes;

use crate::cli::size;

/// The heading of these arguments.
const LIFE: &str = "Life of the device";

#[derive(Debug, Clone, Default, Args)]
pub struct UsageArgs {
    /// Usage model: estimate how many years setups last, as `wear estimate` does. camera,
    /// data-logger, kiosk, phone, raspberry-pi, router, or a file like those in catalog/usage.
    #[arg(help_heading = LIFE, long, value_name = "NAME|FILE")]
    pub usage: Option<String>,
    /// Rated erase cycles, if not those of the model of the device; the rating of a pSLC area
    /// changes with them.
    #[arg(
        help_heading = LIFE,
        long,
        value_name = "CYCLES",
        value_parser = clap::value_parser!(u64).range(1..=10_000_000)
    )]
    pub endurance: Option<u64>,
    /// Capacity of the device in use [default: that of the device; for sim:NAME that of the usage
    /// model].
    #[arg(help_heading = LIFE, long, value_name = "SIZE", value_parser = size)]
    pub capacity: Option<Bytes>,
    /// Model a device as this card; by default by its kind.
    #[arg(help_heading = LIFE, long, value_name = "CARD")]
    pub class: Option<String>,
}
