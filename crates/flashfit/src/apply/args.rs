//! Arguments of `flashfit apply` and `flashfit restore`.

use std::path::PathBuf;

use clap::{ArgGroup, Args};

use flashfit_device::Bytes;

use super::additions::AdditionArgs;
use crate::cli::{confirmed_name, fs_option, size, target_name, text_path};

const EXAMPLES: &str = "\
Examples:
  flashfit plan /dev/mmcblk0 --fs ext4 --output plan.json
  flashfit apply plan.json /dev/mmcblk0 --dry-run
  flashfit apply plan.json /dev/mmcblk0 --backup old-card --install
  flashfit apply my-card /dev/mmcblk0 --confirm mmcblk0
  flashfit apply my-card /dev/mmcblk0 --label rootfs --second swap:512MiB
  flashfit apply squashfs-plan.json /dev/sdb --from /srv/system --install
  flashfit apply --keep-data /dev/mmcblk0 --dry-run
  flashfit apply --keep-data /dev/mmcblk0 --with ext4:nojournal
  flashfit apply --keep-data /dev/mmcblk0 --run my-card --dry-run

After an interruption, repeat the same command to continue. flashfit keeps a \
record of unfinished devices in /var/lib/flashfit, or in the directory named by \
FLASHFIT_STATE_DIR.

Exit codes: 0 the device is as planned; 1 it is not; 2 a plan or name that is \
not valid; 3 refused because something could be lost; 4 the machine lacks \
something; 5 the device failed; 6 interrupted.";

const RESTORE_EXAMPLES: &str = "\
Examples:
  flashfit restore old-card /dev/mmcblk0 --dry-run
  flashfit restore old-card /dev/mmcblk0 --confirm mmcblk0

Restores the partition table and the first and last 4 MiB. Overwritten file \
contents between them do not come back. fstab and udev rules stay as they are. \
The directory of an apply --keep-data takes back its changes instead, those of \
fstab and udev rules too.

Exit codes: as for flashfit apply.";

#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
#[command(group = ArgGroup::new("changes_system").args(["install", "keep_data"]))]
pub struct ApplyArgs {
    /// Plan written by `flashfit plan --output`, or run directory of `flashfit tune`.
    #[arg(value_name = "PLAN|RUN", required_unless_present = "keep_data")]
    pub source: Option<PathBuf>,
    /// Device node or image file. All data on it will be lost.
    #[arg(value_parser = target_name(), required_unless_present = "keep_data")]
    pub target: Option<String>,
    /// Change what needs no mkfs on this device or image, and keep all files: mount options,
    /// scheduler, superblock, free blocks. It may be in use.
    #[arg(
        long,
        value_name = "DEVICE",
        value_parser = target_name(),
        conflicts_with_all = ["source", "target", "install", "mount_point"]
    )]
    pub keep_data: Option<String>,
    /// Directory that is packed into the image of a plan or run for squashfs.
    #[arg(long, value_name = "DIR", value_parser = text_path, conflicts_with = "keep_data")]
    pub from: Option<PathBuf>,
    #[command(flatten)]
    pub additions: AdditionArgs,
    /// Directory for the backup of the partition table and of the first and last 4 MiB [default: a
    /// new directory here].
    #[arg(long, value_name = "DIR")]
    pub backup: Option<PathBuf>,
    /// Also write the fstab line and the udev rule into the system's files.
    #[arg(long)]
    pub install: bool,
    /// Root directory of the system that --install or --keep-data changes. Below another one than
    /// /, no udev rule is written: the device may have another name there.
    #[arg(long, value_name = "DIR", default_value = "/", requires = "changes_system")]
    pub root: PathBuf,
    /// Mount the file system there at the end. --install writes the same directory into fstab.
    #[arg(long, value_name = "DIR", value_parser = text_path)]
    pub mount_point: Option<PathBuf>,
    #[command(flatten)]
    pub agreed: ConsentArgs,
    #[command(flatten)]
    pub keep: KeepDataArgs,
}

/// What `--keep-data` changes in addition to what `flashfit check` proposes.
#[derive(Debug, Args)]
#[command(next_help_heading = "With --keep-data")]
pub struct KeepDataArgs {
    /// Options of file systems to set, such as ext4:nojournal or ext4:commit-60.
    #[arg(
        long = "with",
        value_delimiter = ',',
        value_name = "FS:OPTION",
        value_parser = fs_option,
        requires = "keep_data", conflicts_with = "source"
    )]
    pub with: Vec<(String, String)>,
    /// Run of `flashfit tune`; makes those changes of its recommended setup that need no mkfs.
    #[arg(long, value_name = "DIR", requires = "keep_data", conflicts_with = "source")]
    pub run: Option<PathBuf>,
    /// I/O scheduler of the device.
    #[arg(long, value_name = "NAME", requires = "keep_data", conflicts_with = "source")]
    pub scheduler: Option<String>,
    /// Read-ahead of the device.
    #[arg(long, value_name = "SIZE", value_parser = size, requires = "keep_data", conflicts_with = "source")]
    pub read_ahead: Option<Bytes>,
    /// Erase block size; ext2, ext3 and ext4 then allocate in whole erase blocks.
    #[arg(long, value_name = "SIZE", value_parser = size, requires = "keep_data", conflicts_with = "source")]
    pub erase_block: Option<Bytes>,
    /// Write unit size: the pages that are programmed together.
    #[arg(long, value_name = "SIZE", value_parser = size, requires = "keep_data", conflicts_with = "source")]
    pub write_unit: Option<Bytes>,
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
    /// Write to a copy of the image file or device that the backup was made of.
    #[arg(long)]
    pub to_copy: bool,
    #[command(flatten)]
    pub agreed: ConsentArgs,
}
