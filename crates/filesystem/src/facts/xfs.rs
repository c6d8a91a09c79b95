//! XFS, as xfs_db reads it from the first superblock, without writing (`-r`).
//!
//! Source: xfs_db(8), type `sb`: `unit` and `width` count file system blocks and are 0 where there
//! is no stripe; bits of `versionnum` and `features_*` are left as they are.

use std::path::Path;

use flashfit_host::{Program, Runner};

use super::lines::ToolLines;
use super::{FactsError, Read};

pub(super) fn read(runner: &dyn Runner, node: &Path) -> Result<Read, FactsError> {
    let program = Program::new("xfs_db")
        .args(["-r", "-c", "sb 0", "-c", "p blocksize sectsize unit width agcount"])
        .args(["-c", "version"])
        .arg(node);
    let lines = ToolLines::of(runner, &program)?;
    let block_bytes = lines.needed("blocksize")?;
    let mut read = Read { block_bytes, ..Read::default() };
    read.number("block_bytes", block_bytes, "xfs_db: blocksize");
    read.number("sector_bytes", lines.needed("sectsize")?, "xfs_db: sectsize");
    for (name, label) in [("sunit_bytes", "unit"), ("swidth_bytes", "width")] {
        let blocks = lines.needed(label)?;
        if let Some(bytes) = blocks.checked_mul(block_bytes).filter(|bytes| *bytes > 0) {
            read.number(name, bytes, &format!("xfs_db: {label}"));
        }
    }
    read.number("allocation_groups", lines.needed("agcount")?, "xfs_db: agcount");
    let version = lines.text("versionnum").unwrap_or_default();
    let names = version.split_once('=').map_or("", |(_, names)| names);
    read.features = names.split(',').map(|name| name.trim().to_lowercase()).collect();
    read.features.retain(|name| !name.is_empty());
    Ok(read)
}
