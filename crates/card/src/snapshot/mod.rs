//! A card saved and loaded, whole: model, wear, mapping, contents, cache, counters and noise.
//!
//! The file: a mark, the version, the state without contents (its length first; `postcard`, whose
//! format is stable: <https://postcard.jamesmunns.com/wire-format>), then every page that holds
//! other than zeros with its number, kind and bytes, an end, and a checksum (CRC-32; files of
//! version 2 have another and are read too). Numbers are little-endian. The same state gives the
//! same bytes on every machine. What is not saved is the recent past ([`Card::record_history`]): a
//! card that was just loaded has nothing under way.
//! Limits: a file with a right checksum is trusted, so load only what flashfit has saved.

mod frame;
pub(crate) mod model_text;

use std::fs::{File, OpenOptions};
use std::io::{self, BufReader, BufWriter, Read, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use flashfit_host::input_file;
use flashfit_user_error::{ExitClass, UserError};

use crate::card::Card;
use crate::nand::contents::{DAMAGE_BYTES, Damaged, PageContent};
use crate::request_parts::in_memory;
use frame::ChecksumWriter;

const MARK: &[u8; 16] = b"flashfit card\r\n\x1a";
/// To be raised whenever the state of a card changes its form.
const VERSION: u32 = 3;
/// The same state with another checksum.
const WORD_SUM_VERSION: u32 = 2;
/// Where the pages end.
const END: u32 = u32::MAX;
const WHOLE: u8 = 0;
const DAMAGED: u8 = 1;

/// Why a card cannot be saved or loaded.
#[derive(Debug, thiserror::Error)]
pub enum SnapshotError {
    /// Something else than a saved card.
    #[error("this is not a saved card")]
    Foreign,
    /// From another version of flashfit.
    #[error("the card was saved in version {found} of the format; this flashfit reads {VERSION}")]
    Version {
        /// The file's.
        found: u32,
    },
    /// It ends too early.
    #[error("the saved card is cut short")]
    Truncated,
    /// It is not what was saved.
    #[error("the saved card is damaged: {0}")]
    Damaged(String),
    /// It cannot be read or written.
    #[error(transparent)]
    Io(io::Error),
    /// The same, with the file's name.
    #[error("{path}: {source}")]
    File {
        /// Which file.
        path: PathBuf,
        /// Why.
        source: Box<SnapshotError>,
    },
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

    fn hint(&self) -> Option<String> {
        match self {
            Self::Version { .. } => Some("save it again with this version of flashfit".to_owned()),
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
    /// [`SnapshotError::Io`]; the writer's.
    pub fn save(&self, writer: impl Write) -> Result<(), SnapshotError> {
        let state = postcard::to_stdvec(self).map_err(|error| io::Error::other(error.to_string()));
        let state = state.map_err(SnapshotError::Io)?;
        let mut out = ChecksumWriter::new(writer);
        out.write(MARK)?;
        out.write(&VERSION.to_le_bytes())?;
        out.write(&(state.len() as u64).to_le_bytes())?;
        out.write(&state)?;
        for page in self.nand.contents().pages() {
            write_page(&mut out, page, &self.nand.content(page))?;
        }
        out.write(&END.to_le_bytes())?;
        Ok(out.finish()?)
    }

    /// Reads a card that was saved; its bytes are kept in memory from then on.
    ///
    /// # Errors
    /// As [`SnapshotError`] tells.
    pub fn load(reader: impl Read) -> Result<Self, SnapshotError> {
        load(reader, None)
    }

    /// As [`Card::load`]; the bytes are kept in an empty file.
    ///
    /// # Errors
    /// As [`SnapshotError`] tells.
    pub fn load_in_file(reader: impl Read, file: File) -> Result<Self, SnapshotError> {
        load(reader, Some(file))
    }

    /// Saves into a file that holds either what it held before or all of the card, whenever this
    /// is interrupted.
    ///
    /// # Errors
    /// [`SnapshotError::File`].
    pub fn save_to(&self, path: &Path) -> Result<(), SnapshotError> {
        self.replace(path).map_err(|error| in_file(path, error))
    }

    fn replace(&self, path: &Path) -> Result<(), SnapshotError> {
        let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
        let folder = folder.unwrap_or(Path::new("."));
        let mut draft = path.as_os_str().to_owned();
        draft.push(format!(".{}.part", std::process::id()));
        // One that was left is not written through: it may be a link to somewhere else.
        let _ = std::fs::remove_file(&draft);
        let created = OpenOptions::new().write(true).create_new(true).open(&draft);
        let saved = created.map_err(SnapshotError::Io).and_then(|file| {
            let mut writer = BufWriter::new(&file);
            self.save(&mut writer)?;
            drop(writer);
            file.sync_all()?;
            std::fs::rename(&draft, path)?;
            Ok(File::open(folder)?.sync_all()?)
        });
        if saved.is_err() {
            // It is there only if this failed before the renaming.
            let _ = std::fs::remove_file(&draft);
        }
        saved
    }

    /// Loads what [`Card::save_to`] has saved.
    ///
    /// # Errors
    /// [`SnapshotError::File`].
    pub fn load_from(path: &Path) -> Result<Self, SnapshotError> {
        let file = input_file::open(path)
            .map_err(|error| in_file(path, SnapshotError::Io(error.into_io())))?;
        Self::load(BufReader::new(file)).map_err(|error| in_file(path, error))
    }
}

fn in_file(path: &Path, source: SnapshotError) -> SnapshotError {
    SnapshotError::File { path: path.to_owned(), source: Box::new(source) }
}

fn load(reader: impl Read, file: Option<File>) -> Result<Card, SnapshotError> {
    let mut input = ChecksumWriter::new(reader);
    let mut mark = [0; MARK.len()];
    match input.read(&mut mark).map_err(SnapshotError::from) {
        Ok(()) if mark == *MARK => {}
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
    if let Some(file) = file {
        card.nand.contents_mut().keep_in(file);
    }
    read_pages(&mut input, &mut card)?;
    if input.ends_well()? {
        Ok(card)
    } else {
        Err(SnapshotError::Damaged("its checksum is another".to_owned()))
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
    let pages = card.nand.unit_count() * card.nand.pages_per_unit();
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
            other => return Err(SnapshotError::Damaged(format!("a page of kind {other}"))),
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
