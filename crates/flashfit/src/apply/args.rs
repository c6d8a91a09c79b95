//! Arguments of `flashfit apply` and `flashfit restore`.

use std::path::PathBuf;

use clap::Args;

use crate::cli::{confirmed_name, target_name, text_path};

const EXAMPLES: &str = "\
Examples:
  flashfit plan /dev/mmcblk0 --fs ext4 --output plan.json
  flashfit apply plan.json /dev/mmcblk0 --dry-run
  flashfit apply plan.json /dev/mmcblk0 --backup old-card --install
  flashfit apply my-card /dev/mmcblk0 --confirm mmcblk0

After an interruption, repeat the same command to continue. flashfit keeps a
record of unfinished devices in /var/lib/flashfit, or in the directory named by
FLASHFIT_STATE_DIR.

Exit codes: 0 the device is as planned; 1 it is not; 2 a plan or name that is
not valid; 3 refused because something could be lost; 4 the machine lacks
something; 5 the device failed; 6 interrupted.";

const RESTORE_EXAMPLES: &str = "\
Examples:
  flashfit restore old-card /dev/mmcblk0 --dry-run
  flashfit restore old-card /dev/mmcblk0 --confirm mmcblk0

Restores the partition table and the first and last 4 MiB. Overwritten file
contents between them do not come back. fstab and udev rules stay as they are.
Exit codes: as for flashfit apply.";

#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct ApplyArgs {
    /// Plan written by `flashfit plan --output`, or run directory of `flashfit tune`.
    #[arg(value_name = "PLAN|RUN")]
    pub source: PathBuf,
    /// Device node or image file. All data on it will be lost.
    #[arg(value_parser = target_name())]
    pub target: String,
    /// Directory for the backup of the partition table and of the first and last 4 MiB [default: a
    /// new directory here].
    #[arg(long, value_name = "DIR")]
    pub backup: Option<PathBuf>,
    /// Also write the fstab line and the udev rule into the system's files.
    #[arg(long)]
    pub install: bool,
    /// Root directory of the system that --install changes.
    #[arg(long, value_name = "DIR", default_value = "/", requires = "install")]
    pub root: PathBuf,
    /// Mount the file system there at the end. --install writes the same directory into fstab.
    #[arg(long, value_name = "DIR", value_parser = text_path)]
    pub mount_point: Option<PathBuf>,
    #[command(flatten)]
    pub agreed: ConsentArgs,
}

/// Consent and output.
#[derive(Debug, Args)]
pub struct ConsentArgs {
    /// Agree to lose data on the device with this name or serial number.
    #[arg(long, value_name = "NAME", value_parser = confirmed_name())]
    pub confirm: Option<String>,
    /// Show what would be done and change nothing.
    #[arg(short = 'n', long)]
    pub dry_run: bool,
    /// Print one JSON document instead of text.
    #[arg(long)]
    pub json: bool,
}

#[derive(Debug, Args)]
#[command(after_help = RESTORE_EXAMPLES)]
pub struct RestoreArgs {
    /// Backup directory made by `flashfit apply`.
    pub dir: PathBuf,
    /// Device node or image file. What was written to it since then will be lost.
    #[arg(value_parser = target_name())]
    pub target: String,
    /// Write to a copy of the image file that the backup was made of.
    #[arg(long)]
    pub to_copy: bool,
    #[command(flatten)]
    pub agreed: ConsentArgs,
}
