//! Stores pages in a sparse file, at their number times the page size, with holes for erased pages.
//!
//! A bitmap in memory tracks stored pages, so a file system without hole punching only wastes
//! space. Limit: copied pages take space twice.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

use rustix::fs::{FallocateFlags, fallocate};

use crate::request_parts::in_memory;

/// A file with the bytes of non-zero pages.
#[derive(Debug)]
pub struct PageFile {
    file: File,
    page_bytes: u64,
    /// A bit for each stored page.
    stored: Vec<u64>,
}

impl PageFile {
    /// Uses an empty file.
    pub fn new(file: File, page_bytes: u64) -> Self {
        Self { file, page_bytes, stored: Vec::new() }
    }

    pub fn put(&mut self, page: u32, bytes: &[u8]) -> io::Result<()> {
        self.file.write_all_at(bytes, self.offset(page))?;
        let (word, bit) = place(page);
        if word >= self.stored.len() {
            self.stored.resize(word + 1, 0);
        }
        self.stored[word] |= bit;
        Ok(())
    }

    pub fn get(&self, page: u32) -> io::Result<Option<Vec<u8>>> {
        if !self.is_stored(page) {
            return Ok(None);
        }
        let mut bytes = vec![0; in_memory(self.page_bytes)];
        self.file.read_exact_at(&mut bytes, self.offset(page))?;
        Ok(Some(bytes))
    }

    pub fn remove(&mut self, page: u32) {
        self.remove_all(page, 1);
    }

    /// Removes `count` pages from `first`.
    pub fn remove_all(&mut self, first: u32, count: u32) {
        let mut any = false;
        for page in first..first + count {
            let (word, bit) = place(page);
            if let Some(bits) = self.stored.get_mut(word) {
                any |= *bits & bit != 0;
                *bits &= !bit;
            }
        }
        if any {
            let flags = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
            let length = u64::from(count) * self.page_bytes;
            // Without hole punching, the file keeps bytes that nobody reads.
            let _ = fallocate(&self.file, flags, self.offset(first), length);
        }
    }

    /// Numbers of all stored pages in ascending order.
    pub fn pages(&self) -> impl Iterator<Item = u32> + '_ {
        let last = u32::try_from(self.stored.len() * 64).unwrap_or(u32::MAX);
        (0..last).filter(|&page| self.is_stored(page))
    }

    fn is_stored(&self, page: u32) -> bool {
        let (word, bit) = place(page);
        self.stored.get(word).is_some_and(|bits| bits & bit != 0)
    }

    fn offset(&self, page: u32) -> u64 {
        u64::from(page) * self.page_bytes
    }
}

fn place(page: u32) -> (usize, u64) {
    (page as usize / 64, 1 << (page % 64))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::MetadataExt;

    use super::*;

    #[test]
    fn a_removed_page_leaves_a_hole() {
        let file = tempfile::tempfile().unwrap();
        let mut pages = PageFile::new(file.try_clone().unwrap(), 1 << 16);
        for page in [0, 1, 100] {
            pages.put(page, &[9; 1 << 16]).unwrap();
        }
        assert_eq!(pages.get(1).unwrap().unwrap()[5], 9);
        let full = file.metadata().unwrap().blocks();
        pages.remove_all(0, 2);
        assert_eq!(pages.get(1).unwrap(), None);
        assert_eq!(pages.pages().collect::<Vec<_>>(), [100]);
        assert!(file.metadata().unwrap().blocks() <= full);
    }
}
