//! Reads the contents of a card without side effects: no time passes, nothing is counted.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

use flashfit_device::BlockDevError;

use super::{Card, Power, broken, number};
use crate::nand::contents::PageContent;
use crate::request_parts::pieces;

impl Card {
    /// Fills `buffer` with what a host would read at `offset`, even without power.
    ///
    /// # Errors
    /// [`BlockDevError::OutOfBounds`]; [`BlockDevError::Disconnected`] if the card is broken;
    /// [`BlockDevError::Io`] if flash cannot be read.
    pub fn peek(&self, offset: u64, buffer: &mut [u8]) -> Result<(), BlockDevError> {
        if self.power == Power::Broken {
            return Err(broken());
        }
        self.check_range(offset, buffer.len() as u64)?;
        for piece in pieces(offset, buffer.len(), self.nand.page_bytes()) {
            let content = self.visible(number(piece.unit));
            let part = piece.part.clone();
            content.read(piece.inside.start, &mut buffer[piece.part]).map_err(|_| {
                super::transfer::unreadable_at(offset + part.start as u64, part.len())
            })?;
        }
        Ok(())
    }

    /// Writes what a host would read to an empty file, sparsely. Returns how many bytes could not
    /// be read; the image has zeros there.
    ///
    /// # Errors
    /// I/O errors of the file, and an error if the card is broken.
    pub fn write_image(&self, file: &File) -> io::Result<u64> {
        if self.power == Power::Broken {
            return Err(io::Error::other(broken().to_string()));
        }
        let page_bytes = self.nand.page_bytes();
        file.set_len(self.model.capacity.0)?;
        let mut unreadable = 0;
        for page in 0..self.model.capacity.0 / page_bytes {
            let content = self.visible(number(page));
            if content != PageContent::Zeros {
                file.write_all_at(&content.to_vec(page_bytes), page * page_bytes)?;
            }
            let lost = content.lost_sectors() * crate::nand::contents::DAMAGE_BYTES;
            unreadable += lost as u64;
        }
        Ok(unreadable)
    }
}
