//! The bytes of programmed pages, kept sparse, in memory or in a file.
//!
//! A page of zeros takes no room; in memory, a copied page shares the bytes of the one it was
//! copied from. What is no longer valid stays until its erase block is erased, as on real flash, so
//! that a fault can bring it back. A page can be damaged (some of it cannot be read) or weak
//! (it can be read so many more times). When a file cannot take a page, the page is damaged, and
//! [`PageBytes::take_failure`] tells. Limits: pages of one other byte are not packed.

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

/// What is kept of the bytes that are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum RetentionPolicy {
    /// Everything, in memory.
    InMemory,
    /// Nothing: every page reads as zeros. For counts and times alone.
    Nothing,
}

/// Where bytes are kept.
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

/// The bytes of all pages that hold other than zeros.
#[derive(Debug, Serialize, Deserialize)]
pub struct PageBytes {
    keep: RetentionPolicy,
    page_bytes: u64,
    #[serde(skip)]
    store: Store,
    #[serde(skip)]
    damaged: BTreeMap<u32, Arc<Damaged>>,
    /// How many more times a weak page can be read.
    weak: BTreeMap<u32, u32>,
    /// Pages copied since they were last asked for, from where and to where.
    #[serde(skip)]
    copies: Vec<(u32, u32)>,
    /// The page that was programmed last.
    #[serde(skip)]
    programmed: u32,
    #[serde(skip)]
    failure: Option<io::Error>,
}

impl PageBytes {
    /// Of erased flash.
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

    /// What is kept.
    pub fn keep(&self) -> RetentionPolicy {
        self.keep
    }

    /// The size of a page, in bytes.
    pub fn page_bytes(&self) -> u64 {
        self.page_bytes
    }

    /// From now on keeps the bytes in this empty file; to be called before anything is programmed.
    pub fn keep_in(&mut self, file: File) {
        self.store = Store::File(PageFile::new(file, self.page_bytes));
    }

    /// Sets the bytes of a page.
    pub fn put(&mut self, page: u32, content: PageContent) {
        if self.keep == RetentionPolicy::Nothing {
            return;
        }
        self.programmed = page;
        self.replace(page, content);
    }

    /// As [`PageBytes::put`], but nothing is programmed: the page changed by itself.
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

    /// As [`PageBytes::replace`] for a page that is as weak as it was.
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

    /// The bytes of a page.
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

    /// Gives `to` the bytes of `from`.
    pub fn copy(&mut self, from: u32, to: u32) {
        if self.keep != RetentionPolicy::Nothing {
            let content = self.get(from);
            self.replace(to, content);
            self.copies.push((from, to));
        }
    }

    /// Forgets `count` pages from `first` on.
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

    /// The page can be read so many more times; then nothing of it can, until it is programmed
    /// again.
    pub fn weaken(&mut self, page: u32, reads: u32) {
        if self.keep != RetentionPolicy::Nothing {
            self.weak.insert(page, reads);
        }
    }

    /// A page is about to be read for the host.
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

    /// The page that was programmed last, copies apart.
    pub fn last_programmed(&self) -> u32 {
        self.programmed
    }

    /// The pages copied since the last call, each from where and to where.
    pub fn take_copies(&mut self) -> std::vec::Drain<'_, (u32, u32)> {
        self.copies.drain(..)
    }

    /// Why bytes could not be kept since the last call, where that is so.
    pub fn take_failure(&mut self) -> Option<io::Error> {
        self.failure.take()
    }

    /// The numbers of all pages that hold other than zeros, in ascending order.
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
    fn a_page_has_the_bytes_that_were_put_or_copied_until_it_is_erased() {
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
    fn damage_goes_along_with_a_copy_and_away_with_an_erasure() {
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
    fn a_weak_page_is_lost_after_so_many_reads() {
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
    fn a_file_that_cannot_take_a_page_is_told_of_and_the_page_is_lost() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let mut contents = PageBytes::new(RetentionPolicy::InMemory, 1024);
        contents.keep_in(File::open(file.path()).unwrap());
        contents.put(1, bytes(7));
        assert!(contents.take_failure().is_some() && contents.take_failure().is_none());
        assert_eq!(contents.get(1).lost_sectors(), 2);
    }
}
