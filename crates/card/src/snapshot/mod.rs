//! Saves and loads a whole card: model, wear, mapping, contents, cache, counters and noise.
//!
//! File format: a magic number, the version, the length and the bytes of the state without contents
//! (`postcard`, whose format is stable: <https://postcard.jamesmunns.com/wire-format>), then every
//! non-zero page with number, kind and bytes, an end mark, and a checksum (CRC-32; version 2 used
//! another one and can still be loaded). Numbers are little-endian. The same state gives the same
//! bytes on every machine. The recent history ([`Card::record_history`]) is not saved, so a loaded
//! card has no request in progress. Limit: a file with a correct checksum is trusted; load only
//! files saved by flashfit.

mod frame;
pub(crate) mod model_text;
mod saved_file;

use std::fs::File;
use std::io::{self, Read, Write};
use std::path::PathBuf;
use std::sync::Arc;

use flashfit_user_error::{ExitClass, Hint, UserError};

use crate::card::Card;
use crate::nand::contents::{DAMAGE_BYTES, Damaged, PageContent};
use crate::request_parts::in_memory;
use frame::ChecksumWriter;

pub use saved_file::is_saved_card;

const MAGIC: &[u8; 16] = b"flashfit card\r\n\x1a";
/// Must be increased whenever the serialized state changes.
const VERSION: u32 = 3;
/// The same state with the old checksum.
const WORD_SUM_VERSION: u32 = 2;
/// Terminates the list of pages.
const END: u32 = u32::MAX;
const WHOLE: u8 = 0;
const DAMAGED: u8 = 1;

#[derive(Debug, thiserror::Error)]
pub enum SnapshotError {
    #[error("not a saved card")]
    Foreign,
    /// Saved by an incompatible version of flashfit.
    #[error("the card was saved in format version {found}: this flashfit reads version {VERSION}")]
    Version { found: u32 },
    #[error("the saved card is truncated")]
    Truncated,
    #[error("the saved card is damaged: {0}")]
    Damaged(String),
    #[error(transparent)]
    Io(io::Error),
    /// Another error, with the path of the file.
    #[error("{path}: {source}")]
    File { path: PathBuf, source: Box<SnapshotError> },
}

impl UserError for SnapshotError {
    fn class(&self) -> ExitClass {
        match self {
            Self::Foreign | Self::Version { .. } | Self::Truncated | Self::Damaged(_) => {
                ExitClass::Usage
            }
            Self::Io(_) => ExitClass::Environment,
            Self::File { source, .. } => source.class(),
        }
    }

    fn hint(&self) -> Option<Hint> {
        match self {
            Self::Version { .. } => Some("create and save the card again with this version".into()),
            Self::File { source, .. } => source.hint(),
            _ => None,
        }
    }
}

impl From<io::Error> for SnapshotError {
    fn from(error: io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::UnexpectedEof => Self::Truncated,
            _ => Self::Io(error),
        }
    }
}

impl Card {
    /// Writes the whole card.
    ///
    /// # Errors
    /// [`SnapshotError::Io`] from the writer.
    pub fn save(&self, writer: impl Write) -> Result<(), SnapshotError> {
        let state = postcard::to_stdvec(self).map_err(|error| io::Error::other(error.to_string()));
        let state = state.map_err(SnapshotError::Io)?;
        let mut out = ChecksumWriter::new(writer);
        out.write(MAGIC)?;
        out.write(&VERSION.to_le_bytes())?;
        out.write(&(state.len() as u64).to_le_bytes())?;
        out.write(&state)?;
        for page in self.nand.contents().pages() {
            write_page(&mut out, page, &self.nand.content(page))?;
        }
        out.write(&END.to_le_bytes())?;
        Ok(out.finish()?)
    }

    /// Reads a saved card; its bytes are kept in memory.
    pub fn load(reader: impl Read) -> Result<Self, SnapshotError> {
        load(reader, None)
    }

    /// Like [`Card::load`], but keeps the bytes in an empty file.
    pub fn load_in_file(reader: impl Read, file: File) -> Result<Self, SnapshotError> {
        load(reader, Some(file))
    }
}

fn load(reader: impl Read, file: Option<File>) -> Result<Card, SnapshotError> {
    let mut input = ChecksumWriter::new(reader);
    let mut mark = [0; MAGIC.len()];
    match input.read(&mut mark).map_err(SnapshotError::from) {
        Ok(()) if mark == *MAGIC => {}
        Err(SnapshotError::Io(error)) => return Err(SnapshotError::Io(error)),
        _ => return Err(SnapshotError::Foreign),
    }
    let found = input.read_u32()?;
    match found {
        VERSION => {}
        WORD_SUM_VERSION => {
            input.use_word_sum(&[&mark[..], &found.to_le_bytes()].concat());
        }
        _ => return Err(SnapshotError::Version { found }),
    }
    let length = input.read_u64()?;
    let state = input.read_vec(length)?;
    let mut card: Card =
        postcard::from_bytes(&state).map_err(|error| SnapshotError::Damaged(error.to_string()))?;
    card.nand.restore_lives(&card.model);
    card.layer.restore(&card.model);
    if let Some(file) = file {
        card.nand.contents_mut().keep_in(file);
    }
    read_pages(&mut input, &mut card)?;
    if input.ends_intact()? {
        Ok(card)
    } else {
        Err(SnapshotError::Damaged("the checksum does not match".to_owned()))
    }
}

fn write_page<W: Write>(
    out: &mut ChecksumWriter<W>,
    page: u32,
    content: &PageContent,
) -> io::Result<()> {
    match content {
        PageContent::Zeros => Ok(()),
        PageContent::Bytes(bytes) => {
            out.write(&page.to_le_bytes())?;
            out.write(&[WHOLE])?;
            out.write(bytes)
        }
        PageContent::Damaged(damaged) => {
            out.write(&page.to_le_bytes())?;
            out.write(&[DAMAGED])?;
            out.write(&damaged.bytes)?;
            let lost: Vec<u8> = damaged.lost.iter().map(|&lost| u8::from(lost)).collect();
            out.write(&lost)
        }
    }
}

fn read_pages<R: Read>(
    input: &mut ChecksumWriter<R>,
    card: &mut Card,
) -> Result<(), SnapshotError> {
    let page_bytes = in_memory(card.nand.page_bytes());
    let pages = card.nand.block_count() * card.nand.pages_per_block();
    loop {
        let page = input.read_u32()?;
        if page == END {
            break;
        }
        let mut kind = [0];
        input.read(&mut kind)?;
        let mut bytes = vec![0; page_bytes];
        input.read(&mut bytes)?;
        let content = match kind[0] {
            WHOLE => PageContent::Bytes(bytes.into()),
            DAMAGED => {
                let mut lost = vec![0; page_bytes.div_ceil(DAMAGE_BYTES)];
                input.read(&mut lost)?;
                let lost = lost.into_iter().map(|lost| lost != 0).collect();
                PageContent::Damaged(Arc::new(Damaged { bytes: bytes.into(), lost }))
            }
            other => return Err(SnapshotError::Damaged(format!("unknown page kind {other}"))),
        };
        if page >= pages {
            return Err(SnapshotError::Damaged(format!("page {page} of {pages}")));
        }
        card.nand.contents_mut().restore(page, content);
    }
    match card.nand.contents_mut().take_failure() {
        Some(error) => Err(SnapshotError::Io(error)),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests;
