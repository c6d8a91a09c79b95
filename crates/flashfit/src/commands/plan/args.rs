//! Arguments of `flashfit plan`.

use std::path::PathBuf;

use clap::Args;
use flashfit_device::Bytes;
use flashfit_filesystem::plan::SecondChoice;
use flashfit_filesystem::{Durability, LayoutStart, PartitionTable};
use flashfit_user_error::ExitClass;

use crate::cli::{
    TableArg, check_end, check_placement, durability, layout_start, size, target_name, text_path,
};
use crate::command_error::CommandError;

const EXAMPLES: &str = "\
Examples:
  flashfit plan /dev/mmcblk0
  flashfit plan /dev/mmcblk0 --fs ext4 --erase-block 8MiB --write-unit 8KiB
  flashfit plan /dev/mmcblk0 --geometry geometry.json
  flashfit plan sim:sd-c4-block --fs f2fs --output plan.json
  flashfit plan /dev/sdb --fs squashfs --host f2fs
  flashfit plan /dev/sdb --fs ext4 --label rootfs --second swap:512MiB
  flashfit plan card.img --recipe dreamplug --allow may-corrupt

Recipes are layouts that others published for their own cards: dreamplug, \
gentoo, linutop, pandora.";

pub const MOUNT_POINT: &str = "/mnt/flash";

#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct PlanArgs {
    /// Device node, image file or sim:NAME (a simulated card).
    #[arg(value_parser = target_name())]
    pub target: String,
    /// File systems, separated by commas [default: all that are safe and fit].
    #[arg(long = "fs", value_delimiter = ',', value_name = "NAMES")]
    pub filesystems: Option<Vec<String>>,
    /// Do not read the device to find its erase block.
    #[arg(long)]
    pub no_probe: bool,
    /// Show every plan in full, not only the suggested one.
    #[arg(long)]
    pub all: bool,
    /// Options of the file system, separated by commas, or base for none [default: geometry and
    /// noatime].
    #[arg(long, value_delimiter = ',', value_name = "NAMES")]
    pub options: Option<Vec<String>>,
    /// File system that holds a read-only image (squashfs) and its writable layer [default: the
    /// first suitable one that is safe].
    #[arg(long, value_name = "NAME")]
    pub host: Option<String>,
    /// I/O scheduler [default: the current one].
    #[arg(long, value_name = "NAME")]
    pub scheduler: Option<String>,
    /// Partition table.
    #[arg(long, value_enum)]
    pub table: Option<TableArg>,
    /// End partitions on multiples of the erase block instead of the end of the device; F2FS has
    /// this anyway.
    #[arg(long)]
    pub align_end: bool,
    /// Start of the partition: auto, whole (no partition table) or a position such as 4MiB or 63s
    /// (sectors).
    #[arg(long, value_name = "WHERE")]
    pub start: Option<String>,
    /// Label of the file system; in a GPT, also the name of its partition.
    #[arg(long, value_name = "LABEL")]
    pub label: Option<String>,
    /// A second partition behind the first: swap:SIZE, or FS:SIZE or FS:SIZE:DIR for data, such as
    /// ext4:2GiB:/srv.
    #[arg(long, value_name = "WHAT:SIZE")]
    pub second: Option<SecondChoice>,
    /// Erase block size, if you know it better than the device reports it.
    #[arg(
        long = "erase-block",
        alias = "erase-unit",
        value_name = "SIZE",
        value_parser = size
    )]
    pub erase_block: Option<Bytes>,
    /// Write unit size: the pages that are programmed together.
    #[arg(long, value_name = "SIZE", value_parser = size)]
    pub write_unit: Option<Bytes>,
    /// Geometry file written by `flashfit probe --output`. Where it and the device disagree, the
    /// plan suits both.
    #[arg(long, value_name = "FILE")]
    pub geometry: Option<PathBuf>,
    /// Mount point of the file system.
    #[arg(long, value_name = "DIR", default_value = MOUNT_POINT, value_parser = text_path)]
    pub mount_point: PathBuf,
    /// Use a published recipe for everything that is not given.
    #[arg(long, value_name = "NAME")]
    pub recipe: Option<String>,
    /// What a power cut may do: safe, loses-recent, breaks-promise or may-corrupt; see
    /// `flashfit tune --help`.
    #[arg(long, value_name = "DURABILITY", value_parser = durability, default_value = "safe")]
    pub allow: Durability,
    /// Write the plan to a file, for `flashfit apply`. Needs exactly one file system.
    #[arg(short, long, value_name = "FILE")]
    pub output: Option<PathBuf>,
    /// Replace the file even if flashfit did not write it.
    #[arg(long, requires = "output")]
    pub force: bool,
    /// Print one JSON document instead of text.
    #[arg(long)]
    pub json: bool,
}

impl PlanArgs {
    /// Table and start, if they do not contradict each other.
    pub fn placement(&self) -> Result<(Option<PartitionTable>, Option<LayoutStart>), CommandError> {
        let table = self.table.map(PartitionTable::from);
        let start = self.start.as_deref().map(layout_start).transpose()?;
        check_placement(start, table)?;
        check_end(start, table, self.align_end)?;
        Ok((table, start))
    }

    /// Whether fstab can have the mount point.
    pub fn check_mount_point(&self) -> Result<(), CommandError> {
        if self.mount_point.is_absolute() {
            return Ok(());
        }
        Err(CommandError::new(
            ExitClass::Usage,
            format!("the mount point {} does not begin with /", self.mount_point.display()),
            Some("fstab needs an absolute path: --mount-point /mnt/flash"),
        ))
    }
}
