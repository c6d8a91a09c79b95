//! btrfs, read with `btrfs inspect-internal dump-super`.
//!
//! Source: btrfs-inspect-internal(8). Limits: whether data and metadata are written once or twice
//! is not in the superblock.

use std::path::Path;

use flashfit_host::{Program, Runner};

use super::lines::ToolLines;
use super::{FactsError, Read};

pub(super) fn read(runner: &dyn Runner, node: &Path) -> Result<Read, FactsError> {
    let program = Program::new("btrfs").args(["inspect-internal", "dump-super"]).arg(node);
    let lines = ToolLines::of(runner, &program)?;
    let sector_bytes = lines.needed("sectorsize")?;
    let mut read = Read { block_bytes: sector_bytes, ..Read::default() };
    read.number("sector_bytes", sector_bytes, "btrfs dump-super: sectorsize");
    read.number("node_bytes", lines.needed("nodesize")?, "btrfs dump-super: nodesize");
    if let Some(checksum) = lines.text("csum_type").and_then(|text| text.split(['(', ')']).nth(1)) {
        read.word("checksum", checksum, "btrfs dump-super: csum_type");
    }
    read.features = features(lines.all());
    Ok(read)
}

/// Each line of flags is followed by their names, one by one, in parentheses.
fn features(text: &str) -> Vec<String> {
    let flags = text.lines().skip_while(|line| !line.starts_with("compat_flags"));
    flags
        .take_while(|line| line.contains("flags") || line.starts_with('\t'))
        .filter(|line| line.starts_with('\t'))
        .flat_map(|line| line.split(|c: char| c.is_whitespace() || "()|".contains(c)))
        .filter(|word| !word.is_empty())
        .map(str::to_owned)
        .collect()
}
