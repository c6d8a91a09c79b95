//! squashfs, read with `unsquashfs -s`.
//!
//! Source: unsquashfs(1). The image is packed as a whole, so there is no area that files are
//! allocated from.

use std::path::Path;

use flashfit_host::{Program, Runner};

use super::lines::ToolLines;
use super::{FactsError, Read};

pub(super) fn read(runner: &dyn Runner, node: &Path) -> Result<Read, FactsError> {
    let program = Program::new("unsquashfs").arg("-s").arg(node);
    let lines = ToolLines::of(runner, &program)?;
    let block_bytes = lines.needed("Block size")?;
    let mut read = Read { block_bytes, ..Read::default() };
    read.number("block_bytes", block_bytes, "unsquashfs: Block size");
    if let Some(compressor) = lines.text("Compression") {
        read.word("compressor", compressor, "unsquashfs: Compression");
    }
    Ok(read)
}
