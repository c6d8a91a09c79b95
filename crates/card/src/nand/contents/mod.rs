//! Stores the bytes of programmed pages sparsely, in memory or in a file.
//!
//! Pages of zeros take no space; in memory, a copied page shares the bytes of its source. Invalid
//! data stays until its erase block is erased, as on real flash, so that a fault can restore it. A
//! page can be damaged (partly unreadable) or weak (readable a limited number of times). If a file
//! cannot store a page, the page is damaged, and [`PageBytes::take_failure`] returns the error.
//! Limit: pages filled with another byte than zero are not compressed.

mod content;
mod in_file;
mod in_memory;

use std::collections::BTreeMap;
use std::fs::File;
use std::io;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

pub use content::{DAMAGE_BYTES, Damaged, PageContent, Unreadable, is_zero};
use in_file::PageFile;
use in_memory::InMemoryBytes;

/// Whether written bytes are kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum RetentionPolicy {
    /// All bytes, in memory.
    InMemory,
    /// No bytes: every page reads as zeros. For counts and times alone.
    Nothing,
}

#[derive(Debug)]
enum Store {
    Memory(InMemoryBytes),
    File(PageFile),
}

impl Default for Store {
    fn default() -> Self {
        Self::Memory(InMemoryBytes::default())
    }
}

/// The bytes of all non-zero pages.
#[derive(Debug, Serialize, Deserialize)]
pub struct PageBytes {
    keep: RetentionPolicy,
    page_bytes: u64,
    #[serde(skip)]
    store: Store,
    #[serde(skip)]
    damaged: BTreeMap<u32, Arc<Damaged>>,
    /// Remaining reads of weak pages.
    weak: BTreeMap<u32, u32>,
    /// Pages copied since the last [`PageBytes::take_copies`], as (source, destination).
    #[serde(skip)]
    copies: Vec<(u32, u32)>,
    /// The page programmed last.
    #[serde(skip)]
    programmed: u32,
    #[serde(skip)]
    failure: Option<io::Error>,
}

impl PageBytes {
    /// For erased flash.
    pub fn new(keep: RetentionPolicy, page_bytes: u64) -> Self {
        Self {
            keep,
            page_bytes,
            store: Store::default(),
            damaged: BTreeMap::new(),
            weak: BTreeMap::new(),
            copies: Vec::new(),
            programmed: 0,
            failure: None,
        }
    }

    pub fn keep(&self) -> RetentionPolicy {
        self.keep
    }

    pub fn page_bytes(&self) -> u64 {
        self.page_bytes
    }

    /// Stores further bytes in this empty file; call it before anything is programmed.
    pub fn keep_in(&mut self, file: File) {
        self.store = Store::File(PageFile::new(file, self.page_bytes));
    }

    /// Keeps what is programmed from now on in memory.
    pub fn keep_in_memory(&mut self) {
        self.keep = RetentionPolicy::InMemory;
    }

    pub fn put(&mut self, page: u32, content: PageContent) {
        if self.keep == RetentionPolicy::Nothing {
            return;
        }
        self.programmed = page;
        self.replace(page, content);
    }

    /// Like [`PageBytes::put`], for a page that changes without being programmed.
    pub fn replace(&mut self, page: u32, content: PageContent) {
        if !self.damaged.is_empty() {
            self.damaged.remove(&page);
        }
        if !self.weak.is_empty() {
            self.weak.remove(&page);
        }
        match content {
            PageContent::Zeros => self.remove(page),
            PageContent::Bytes(bytes) => self.keep_bytes(page, bytes),
            PageContent::Damaged(damaged) => {
                self.remove(page);
                self.damaged.insert(page, damaged);
            }
        }
    }

    /// Like [`PageBytes::replace`], but keeps the weakness of the page.
    pub fn restore(&mut self, page: u32, content: PageContent) {
        let weak = self.weak.get(&page).copied();
        self.replace(page, content);
        if let Some(reads) = weak {
            self.weak.insert(page, reads);
        }
    }

    fn keep_bytes(&mut self, page: u32, bytes: Arc<[u8]>) {
        match &mut self.store {
            Store::Memory(memory) => memory.put(page, bytes),
            Store::File(file) => {
                if let Err(error) = file.put(page, &bytes) {
                    self.failure = Some(error);
                    self.replace(page, PageContent::lost(self.page_bytes));
                }
            }
        }
    }

    fn remove(&mut self, page: u32) {
        match &mut self.store {
            Store::Memory(memory) => memory.remove(page),
            Store::File(file) => file.remove(page),
        }
    }

    pub fn get(&self, page: u32) -> PageContent {
        if self.keep == RetentionPolicy::Nothing {
            return PageContent::Zeros;
        }
        if let Some(damaged) = self.damaged.get(&page) {
            return PageContent::Damaged(Arc::clone(damaged));
        }
        match &self.store {
            Store::Memory(memory) => memory
                .get(page)
                .map_or(PageContent::Zeros, |bytes| PageContent::Bytes(Arc::clone(bytes))),
            Store::File(file) => match file.get(page) {
                Ok(bytes) => {
                    bytes.map_or(PageContent::Zeros, |bytes| PageContent::Bytes(bytes.into()))
                }
                Err(_) => PageContent::lost(self.page_bytes),
            },
        }
    }

    pub fn copy(&mut self, from: u32, to: u32) {
        if self.keep != RetentionPolicy::Nothing {
            let content = self.get(from);
            self.replace(to, content);
            self.copies.push((from, to));
        }
    }

    /// Erases `count` pages from `first`.
    pub fn erase(&mut self, first: u32, count: u32) {
        if self.keep == RetentionPolicy::Nothing {
            return;
        }
        match &mut self.store {
            Store::Memory(memory) => (first..first + count).for_each(|page| memory.remove(page)),
            Store::File(file) => file.remove_all(first, count),
        }
        if !self.damaged.is_empty() {
            self.damaged.retain(|page, _| !(first..first + count).contains(page));
        }
        if !self.weak.is_empty() {
            self.weak.retain(|page, _| !(first..first + count).contains(page));
        }
    }

    /// Limits the remaining reads of a page; it becomes unreadable after them, until it is
    /// programmed again.
    pub fn weaken(&mut self, page: u32, reads: u32) {
        if self.keep != RetentionPolicy::Nothing {
            self.weak.insert(page, reads);
        }
    }

    /// Called before a page is read for the host.
    pub fn wear_by_reading(&mut self, page: u32) {
        if self.weak.is_empty() {
            return;
        }
        match self.weak.get_mut(&page) {
            Some(0) => self.replace(page, PageContent::lost(self.page_bytes)),
            Some(left) => *left -= 1,
            None => {}
        }
    }

    /// The page programmed last, not counting copies.
    pub fn last_programmed(&self) -> u32 {
        self.programmed
    }

    /// Pages copied since the last call, as (source, destination).
    pub fn take_copies(&mut self) -> std::vec::Drain<'_, (u32, u32)> {
        self.copies.drain(..)
    }

    /// The error of storing bytes since the last call, if any.
    pub fn take_failure(&mut self) -> Option<io::Error> {
        self.failure.take()
    }

    /// Numbers of all non-zero pages in ascending order.
    pub fn pages(&self) -> Vec<u32> {
        let mut pages: Vec<u32> = match &self.store {
            Store::Memory(memory) => memory.pages().collect(),
            Store::File(file) => file.pages().collect(),
        };
        if !self.damaged.is_empty() {
            pages.extend(self.damaged.keys());
            pages.sort_unstable();
        }
        pages
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bytes(value: u8) -> PageContent {
        PageContent::from_bytes(&[value; 1024])
    }

    fn both(check: impl Fn(PageBytes)) {
        check(PageBytes::new(RetentionPolicy::InMemory, 1024));
        let mut in_file = PageBytes::new(RetentionPolicy::InMemory, 1024);
        in_file.keep_in(tempfile::tempfile().unwrap());
        check(in_file);
    }

    #[test]
    fn a_page_keeps_its_bytes_until_it_is_erased() {
        both(|mut contents| {
            contents.put(3, bytes(7));
            contents.copy(3, 9);
            contents.put(4, PageContent::Zeros);
            assert_eq!((contents.get(9), contents.get(4)), (bytes(7), PageContent::Zeros));
            assert_eq!(contents.take_copies().collect::<Vec<_>>(), [(3, 9)]);
            assert_eq!((contents.last_programmed(), contents.pages()), (4, vec![3, 9]));
            contents.erase(0, 5);
            assert_eq!((contents.get(3), contents.pages()), (PageContent::Zeros, vec![9]));
        });
    }

    #[test]
    fn damage_is_copied_and_erased_with_its_page() {
        both(|mut contents| {
            contents.put(1, bytes(7));
            contents.replace(1, PageContent::lost(1024));
            contents.copy(1, 2);
            assert_eq!((contents.get(2).lost_sectors(), contents.pages()), (2, vec![1, 2]));
            contents.erase(0, 4);
            assert_eq!(contents.get(1), PageContent::Zeros);
        });
    }

    #[test]
    fn a_weak_page_is_lost_after_its_last_read() {
        let mut contents = PageBytes::new(RetentionPolicy::InMemory, 1024);
        contents.put(1, bytes(7));
        contents.weaken(1, 2);
        for lost in [0, 0, 2, 2] {
            contents.wear_by_reading(1);
            assert_eq!(contents.get(1).lost_sectors(), lost);
        }
        contents.put(1, bytes(8));
        assert_eq!(contents.get(1), bytes(8));
    }

    #[test]
    fn a_page_that_the_file_cannot_store_is_lost_and_reported() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let mut contents = PageBytes::new(RetentionPolicy::InMemory, 1024);
        contents.keep_in(File::open(file.path()).unwrap());
        contents.put(1, bytes(7));
        assert!(contents.take_failure().is_some() && contents.take_failure().is_none());
        assert_eq!(contents.get(1).lost_sectors(), 2);
    }
}
