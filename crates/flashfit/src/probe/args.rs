//! What can be typed behind `flashfit probe`.

use std::ops::Range;
use std::path::PathBuf;

use clap::Args;
use flashfit_medium::Bytes;
use flashfit_stand::On;

use crate::cli::size;

const EXAMPLES: &str = "\
Examples:
  flashfit probe /dev/mmcblk0
  flashfit probe /dev/mmcblk0 --write --region 1GiB+2GiB --max-write 4GiB
  flashfit probe sim:sd-c4-block --write --twin twin.toml
  flashfit probe --import flashbench-a.txt --import flashbench-open-au.txt --json
  flashfit probe /dev/mmcblk0 --output geometry.json
  flashfit probe /dev/mmcblk0 --on ssh:root@board
  flashfit plan /dev/mmcblk0 --geometry geometry.json

Without --write the medium is opened for reading only. With --write the data in
the region are lost; the whole medium is the region unless one is given.

The exit code is 0 when it was done, also when nothing could be found; 1 when
capacity is not really there; 2 for wrong usage or a file that is no table; 3
when it was refused; 5 when the medium failed; 6 when interrupted.";

#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct ProbeArgs {
    /// A device node, an image file or sim:NAME.
    #[arg(required_unless_present = "import", conflicts_with = "import")]
    pub target: Option<String>,
    /// Read tables that flashbench printed (-a, --open-au, --find-fat) instead of a medium; may be
    /// given more than once for tables of one medium.
    #[arg(long, value_name = "FILE")]
    pub import: Vec<PathBuf>,
    /// Also write: finds more, and is surer. All data in the region will be lost.
    #[arg(long, conflicts_with = "import")]
    pub write: bool,
    /// Agree that data will be lost on the medium of this name (or serial number).
    #[arg(long, value_name = "NAME", requires = "write")]
    pub confirm: Option<String>,
    /// Only this part of the medium, such as 1GiB+512MiB.
    #[arg(long, value_name = "START+LENGTH", value_parser = region, conflicts_with = "import")]
    pub region: Option<Region>,
    /// The most that may be written; two and a quarter times the region and 2 GiB unless given.
    #[arg(long, value_name = "SIZE", value_parser = size, requires = "write")]
    pub max_write: Option<Bytes>,
    /// Fit a card model to what was measured, and write it to this file, to be used as sim:FILE.
    #[arg(long, value_name = "FILE")]
    pub twin: Option<PathBuf>,
    /// Draw the evidence into this file.
    #[arg(long, value_name = "FILE")]
    pub svg: Option<PathBuf>,
    /// Write the JSON document to this file, for flashfit plan --geometry.
    #[arg(short, long, value_name = "FILE")]
    pub output: Option<PathBuf>,
    /// The seed of every random choice.
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub seed: u64,
    /// Show what would be done, and do nothing.
    #[arg(short = 'n', long, conflicts_with = "import")]
    pub dry_run: bool,
    /// Print one JSON document.
    #[arg(long)]
    pub json: bool,
    /// Where the medium is: here or ssh:HOST.
    #[arg(long, value_name = "STAND", default_value_t = On::Here, conflicts_with = "import")]
    pub on: On,
}

/// A part of a medium, in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Region {
    /// Where it starts.
    pub start: Bytes,
    /// How long it is; never 0.
    pub length: Bytes,
}

impl Region {
    /// From the first byte to the one behind the last.
    pub fn range(self) -> Range<u64> {
        self.start.0..self.start.0 + self.length.0
    }
}

/// Parses `START+LENGTH` for clap.
fn region(text: &str) -> Result<Region, String> {
    let (start, length) = text
        .split_once('+')
        .ok_or_else(|| "a region is START+LENGTH, such as 1GiB+512MiB".to_owned())?;
    let (start, length) = (size(start)?, size(length)?);
    if length.0 == 0 {
        return Err("a region of no length".to_owned());
    }
    if start.0.checked_add(length.0).is_none() {
        return Err("a region beyond any medium".to_owned());
    }
    Ok(Region { start, length })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_region_is_a_start_and_a_length() {
        let parsed = region("1MiB+512KiB").unwrap();
        assert_eq!(parsed.range(), (1 << 20)..(1 << 20) + (512 << 10));
        assert_eq!(region("0+4096").unwrap().range(), 0..4096);
        for wrong in ["1MiB", "1MiB+0", "x+1MiB", "1MiB-2MiB", "18446744073709551615+1", ""] {
            assert!(region(wrong).is_err(), "{wrong}");
        }
    }
}
