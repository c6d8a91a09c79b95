//! What can be typed after `flashfit card`.

use std::path::PathBuf;

use clap::{Args, Subcommand};
use flashfit_card::Fault;
use flashfit_card::served::ServeOptions;

use crate::card_bench::BenchArgs;

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
    /// List the cards of the catalogue.
    List {
        /// Print one JSON document.
        #[arg(long)]
        json: bool,
    },
    /// Show a card's model.
    Show {
        /// Its name, or the path of a card file.
        name: String,
        /// Print the card file itself, to be changed and used as sim:FILE.
        #[arg(long, conflicts_with = "json")]
        file: bool,
        /// Print one JSON document.
        #[arg(long)]
        json: bool,
    },
    /// Show what a card does with simple patterns, beside the real card it is modelled after.
    Bench(BenchArgs),
    /// Attach a card to a loop device, or serve it over NBD, until interrupted.
    Serve(ServeArgs),
    /// Show the counters of a card that is being served.
    Stats {
        /// Its loop device or socket.
        device: PathBuf,
        /// Let the counters begin at 0 again, but for the wear.
        #[arg(long)]
        reset: bool,
        /// Print one JSON document.
        #[arg(long)]
        json: bool,
    },
    /// Take the power of a card that is being served away.
    Cut(CutArgs),
    /// Give a card its power back.
    PowerOn {
        /// Its loop device or socket.
        device: PathBuf,
    },
}

#[derive(Debug, Args)]
pub struct ServeArgs {
    /// Its name, or the path of a card file.
    pub name: String,
    /// Attach it to a loop device, which takes root; so it is where nothing else is said.
    #[arg(long = "loop", conflicts_with = "nbd")]
    pub on_loop: bool,
    #[command(flatten)]
    pub how: HowArgs,
}

/// How a card is served; the same for the command and for the process that it starts.
#[derive(Debug, Args)]
pub struct HowArgs {
    /// Serve it over NBD on a unix socket of that path; needs no root.
    #[arg(long, value_name = "SOCKET")]
    pub nbd: Option<PathBuf>,
    /// Go on with the card saved in FILE where there is one, and save it there at the end.
    #[arg(long, value_name = "FILE")]
    pub state: Option<PathBuf>,
    /// Keep the card's bytes in an unnamed file in DIR rather than in memory.
    #[arg(long, value_name = "DIR")]
    pub keep_data: Option<PathBuf>,
    /// For how many milliseconds what is written over is kept, for `card cut --fault rollback`.
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub history_ms: u64,
}

impl HowArgs {
    /// As the card room has them.
    pub fn options(&self) -> ServeOptions {
        ServeOptions {
            nbd: self.nbd.clone(),
            state: self.state.clone(),
            data_folder: self.keep_data.clone(),
            history_ms: self.history_ms,
            ..ServeOptions::default()
        }
    }

    /// As they are typed.
    pub fn to_args(&self) -> Vec<String> {
        let mut args = vec!["--history-ms".to_owned(), self.history_ms.to_string()];
        let paths =
            [("--nbd", &self.nbd), ("--state", &self.state), ("--keep-data", &self.keep_data)];
        for (name, path) in paths {
            args.extend(path.iter().map(|path| format!("{name}={}", path.display())));
        }
        args
    }
}

#[derive(Debug, Args)]
pub struct CutArgs {
    /// Its loop device or socket.
    pub device: PathBuf,
    /// What happens beyond what a device does that keeps its promises; can be given several times.
    #[arg(long = "fault", value_name = "NAME[=VALUE]")]
    pub faults: Vec<Fault>,
    /// Decides what is left to chance.
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub seed: u64,
    /// Give the power back at once; otherwise the card fails everything until `card power-on`.
    #[arg(long, conflicts_with = "image")]
    pub power_on: bool,
    /// Write what a host would find on the card to a new file, sparse.
    #[arg(long, value_name = "FILE")]
    pub image: Option<PathBuf>,
    /// Print one JSON document.
    #[arg(long)]
    pub json: bool,
}

#[derive(Debug, Args)]
pub struct CardServerArgs {
    /// The card's name or file.
    pub name: String,
    #[command(flatten)]
    pub how: HowArgs,
}
