//! ext2, ext3 and ext4, read with `dumpe2fs -h`.
//!
//! Source: dumpe2fs(8) and lib/e2p/ls.c of e2fsprogs, which prints the RAID numbers only where they
//! are not 0.

use std::path::Path;

use flashfit_host::{Program, Runner};

use super::lines::ToolLines;
use super::{FactsError, Read};

pub(super) fn read(runner: &dyn Runner, node: &Path) -> Result<Read, FactsError> {
    let program = Program::new("dumpe2fs").arg("-h").arg(node);
    let lines = ToolLines::of(runner, &program)?;
    let block_bytes = lines.needed("Block size")?;
    let mut read = Read { block_bytes, ..Read::default() };
    read.number("block_bytes", block_bytes, "dumpe2fs: Block size");
    for (name, label) in [
        ("cluster_bytes", "Cluster size"),
        ("stride_blocks", "RAID stride"),
        ("stripe_width_blocks", "RAID stripe width"),
        ("max_mount_count", "Maximum mount count"),
        ("check_interval_s", "Check interval"),
    ] {
        if let Some(value) = lines.number(label) {
            read.number(name, value, &format!("dumpe2fs: {label}"));
        }
    }
    let features = lines.text("Filesystem features").unwrap_or_default();
    read.features = features.split_whitespace().map(str::to_owned).collect();
    Ok(read)
}
