//! What can be typed behind `flashfit apply` and `flashfit restore`.

use std::path::PathBuf;

use clap::Args;

const EXAMPLES: &str = "\
Examples:
  flashfit plan /dev/mmcblk0 --fs ext4 --output plan.json
  flashfit apply plan.json /dev/mmcblk0 --dry-run
  flashfit apply plan.json /dev/mmcblk0 --backup old-card --install
  flashfit apply my-card /dev/mmcblk0 --confirm mmcblk0

FLASHFIT_STATE_DIR names the folder where this machine remembers media that
were left unfinished; /var/lib/flashfit unless given.

Interrupted at any point, the same command goes on. The exit code is 0 when the
medium is as planned, 1 when it is not, 2 for a plan or name that makes no
sense, 3 when it is refused because something could be lost, 4 when the machine
lacks something, 5 when the medium failed, 6 when interrupted.";

const RESTORE_EXAMPLES: &str = "\
Examples:
  flashfit restore old-card /dev/mmcblk0 --dry-run
  flashfit restore old-card /dev/mmcblk0 --confirm mmcblk0

The partition table and the first and last 4 MiB return; file contents between
them that were overwritten do not, nor do fstab and udev rules. Exit codes as of
flashfit apply.";

#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct ApplyArgs {
    /// A plan that flashfit plan --output wrote, or the run directory of flashfit tune.
    #[arg(value_name = "PLAN|RUN")]
    pub source: PathBuf,
    /// The medium: a device node or an image file. All data on it will be lost.
    pub target: String,
    /// Where to keep its partition table and its first and last 4 MiB; a new folder here unless
    /// given.
    #[arg(long, value_name = "DIR")]
    pub backup: Option<PathBuf>,
    /// Write the line for fstab and the udev rule into the system's files.
    #[arg(long)]
    pub install: bool,
    /// The system whose files --install writes, such as an unpacked image.
    #[arg(long, value_name = "DIR", default_value = "/", requires = "install")]
    pub root: PathBuf,
    /// Leave it mounted there when all is done; also what --install writes into fstab.
    #[arg(long, value_name = "DIR")]
    pub mount_point: Option<PathBuf>,
    #[command(flatten)]
    pub agreed: Agreed,
}

/// Whether to do it, and how to tell of it.
#[derive(Debug, Args)]
pub struct Agreed {
    /// Agree that data on the medium will be lost, by the medium's name.
    #[arg(long, value_name = "NAME")]
    pub confirm: Option<String>,
    /// Show what would be done, and do nothing.
    #[arg(long)]
    pub dry_run: bool,
    /// Print one JSON document.
    #[arg(long)]
    pub json: bool,
}

#[derive(Debug, Args)]
#[command(after_help = RESTORE_EXAMPLES)]
pub struct RestoreArgs {
    /// The folder that flashfit apply made.
    pub dir: PathBuf,
    /// The medium: a device node or an image file. What was written to it since will be lost.
    pub target: String,
    #[command(flatten)]
    pub agreed: Agreed,
}
