//! The bytes of programmed pages, kept sparse.
//!
//! A page of zeros takes no memory; a copied page shares the bytes of the one it was copied from.
//! What is no longer valid stays until its erase unit is erased, as on real flash, so that a fault
//! can bring it back. Limits: pages of one other byte are not packed.

use std::collections::HashMap;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

/// What is kept of the bytes that are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Keep {
    /// Everything, in memory.
    InMemory,
    /// Nothing: every page reads as zeros. For counts and times alone.
    Nothing,
}

/// The bytes of one page.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum Content {
    /// Zeros only.
    #[default]
    Zeros,
    /// Anything.
    Bytes(Arc<[u8]>),
}

impl Content {
    /// The content that equals `bytes`, a page.
    pub fn from_bytes(bytes: &[u8]) -> Self {
        // Compared in words: most pages that are not zeros differ in the first.
        if bytes.iter().all(|&byte| byte == 0) { Self::Zeros } else { Self::Bytes(bytes.into()) }
    }

    /// Writes the bytes from `start` of the page on to `buffer`.
    pub fn read(&self, start: usize, buffer: &mut [u8]) {
        match self {
            Self::Zeros => buffer.fill(0),
            Self::Bytes(bytes) => buffer.copy_from_slice(&bytes[start..start + buffer.len()]),
        }
    }
}

/// The bytes of all pages that hold other than zeros.
#[derive(Debug, Serialize, Deserialize)]
pub struct Contents {
    keep: Keep,
    page_bytes: u64,
    #[serde(skip)]
    pages: HashMap<u32, Arc<[u8]>>,
}

impl Contents {
    /// Of erased flash.
    pub fn new(keep: Keep, page_bytes: u64) -> Self {
        Self { keep, page_bytes, pages: HashMap::new() }
    }

    /// What is kept.
    pub fn keep(&self) -> Keep {
        self.keep
    }

    /// The size of a page, in bytes.
    pub fn page_bytes(&self) -> u64 {
        self.page_bytes
    }

    /// Sets the bytes of a page.
    pub fn put(&mut self, page: u32, content: Content) {
        match content {
            Content::Bytes(bytes) if self.keep == Keep::InMemory => {
                self.pages.insert(page, bytes);
            }
            _ if self.pages.is_empty() => {}
            _ => {
                self.pages.remove(&page);
            }
        }
    }

    /// The bytes of a page.
    pub fn get(&self, page: u32) -> Content {
        self.pages.get(&page).map_or(Content::Zeros, |bytes| Content::Bytes(Arc::clone(bytes)))
    }

    /// Gives `to` the bytes of `from`.
    pub fn copy(&mut self, from: u32, to: u32) {
        if !self.pages.is_empty() {
            let content = self.get(from);
            self.put(to, content);
        }
    }

    /// Forgets `count` pages from `first` on.
    pub fn erase(&mut self, first: u32, count: u32) {
        if !self.pages.is_empty() {
            for page in first..first + count {
                self.pages.remove(&page);
            }
        }
    }
}
