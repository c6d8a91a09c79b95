//! Arguments of `flashfit card`.

use std::path::PathBuf;

use clap::{Args, Subcommand};
use flashfit_card::EnabledFault;

use crate::card_bench::CardBenchArgs;
use crate::cli::target_name;
use crate::commands::serving_args::ServingArgs;

#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  flashfit card list\n  flashfit card serve sd-c4-block\n  \
                  flashfit card serve sd-c4-block --nbd /tmp/card.sock --state my-card.state\n  \
                  flashfit card stats /dev/loop3\n  \
                  flashfit card cut /dev/loop3 --fault rollback=250 --power-on")]
pub struct CardArgs {
    #[command(subcommand)]
    pub command: CardCommand,
}

#[derive(Debug, Subcommand)]
pub enum CardCommand {
    /// List the simulated cards.
    List {
        /// Print one JSON document instead of text.
        #[arg(long)]
        json: bool,
    },
    /// Show the model of a card.
    Show {
        /// Name of a card, or path of a card file.
        #[arg(value_parser = target_name())]
        name: String,
        /// Print the card file, as a start for your own: edit it and use it as sim:FILE.
        #[arg(long, conflicts_with = "json")]
        file: bool,
        /// Print one JSON document instead of text.
        #[arg(long)]
        json: bool,
    },
    /// Measure a card with simple patterns and compare it with the real card behind the model.
    Bench(CardBenchArgs),
    /// Attach a card as a loop device, or serve it over NBD, until interrupted.
    Serve(ServeArgs),
    /// Show the counters of a served card: wear, merges, write amplification.
    Stats {
        /// Loop device or socket of the card.
        device: PathBuf,
        /// Reset the counters to 0, except for wear.
        #[arg(long)]
        reset: bool,
        /// Print one JSON document instead of text.
        #[arg(long)]
        json: bool,
    },
    /// Cut the power of a served card.
    Cut(CutArgs),
    /// Switch the power of a card on again.
    PowerOn {
        /// Loop device or socket of the card.
        device: PathBuf,
    },
}

#[derive(Debug, Args)]
pub struct ServeArgs {
    /// Name of a card, or path of a card file.
    #[arg(value_parser = target_name())]
    pub name: String,
    /// Attach the card as a loop device; needs root. This is the default.
    #[arg(long = "loop", conflicts_with = "nbd")]
    pub on_loop: bool,
    #[command(flatten)]
    pub how: ServingArgs,
}

const FAULTS: &str = "\
Without --fault, the power cut has only the effects that a good device allows: \
data that was not yet flushed can be lost, and a write in progress can be torn.

Faults:
  lost-cache[=N]      unflushed writes are lost; N of 1000 survive
  torn-write[=N]      part of the write units of a write arrive; N of 1000 whole
  torn-sector         part of the 512-byte sectors of a write arrive
  paired-page         a write destroys flushed data in the same cells
  rollback[=N]        the last N milliseconds of writes are undone, even flushed
  half-merge          an erase block under merge stays half empty
  folding-window[=N]  up to 1.6 s after a write, an erase block or the whole
                      card is lost, with a probability of N of 1000
  weak-page[=N]       the page written last cannot be read after N more reads
  stale-discard[=N]   N of 1000 discarded sectors return, old or garbled
  brick               the card never answers again

Examples:
  flashfit card cut /dev/loop3 --power-on
  flashfit card cut /dev/loop3 --fault rollback=250 --image after.img";

#[derive(Debug, Args)]
#[command(after_help = FAULTS)]
pub struct CutArgs {
    /// Loop device or socket of the card.
    pub device: PathBuf,
    /// A fault that a good device would not have, see below; may be repeated.
    #[arg(long = "fault", value_name = "NAME[=VALUE]")]
    pub faults: Vec<EnabledFault>,
    /// Seed of all random choices.
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub seed: u64,
    /// Switch the power on again at once. Otherwise all requests fail until `card power-on`.
    #[arg(long, conflicts_with = "image")]
    pub power_on: bool,
    /// Write what a host would find on the card to a new, sparse image file.
    #[arg(long, value_name = "FILE")]
    pub image: Option<PathBuf>,
    /// Print one JSON document instead of text.
    #[arg(long)]
    pub json: bool,
}

#[derive(Debug, Args)]
pub struct CardServerArgs {
    /// Name of a card, or path of a card file.
    #[arg(value_parser = target_name())]
    pub name: String,
    #[command(flatten)]
    pub how: ServingArgs,
}

#[cfg(test)]
mod tests {
    use flashfit_card::FaultClass;

    #[test]
    fn the_help_lists_every_fault() {
        for fault in FaultClass::ALL {
            assert!(super::FAULTS.contains(&format!("\n  {}", fault.name())), "{}", fault.name());
        }
    }
}
