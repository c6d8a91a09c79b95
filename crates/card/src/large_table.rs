//! Tables that grow with the card, in huge pages if the kernel provides them.
//!
//! A request looks up a few random entries in tables of up to several GiB. With pages of 4 KiB,
//! nearly every lookup on a large card misses the TLB, and the page walk misses the caches; with
//! pages of 2 MiB it does not. Huge pages are therefore requested for tables larger than the reach
//! of a TLB with 2048 entries. Without them only the speed differs
//! (`/sys/kernel/mm/transparent_hugepage/enabled` must not be `never`). Limits: such a table
//! allocates memory in steps of 2 MiB, so random writes soon make it fully resident; smaller
//! tables, those of page-mapped cards below 8 GiB with pages of 4 KiB, allocate in steps of 4 KiB.
//! Source: madvise(2), `MADV_HUGEPAGE`.

use std::ops::{Deref, DerefMut};

use rustix::mm::{Advice, madvise};
use serde::{Deserialize, Serialize};

/// On x86-64, and on arm64 with pages of 4 KiB.
const HUGE_PAGE_BYTES: usize = 2 << 20;
/// Minimum table size for huge pages.
const LARGE_BYTES: usize = 8 << 20;

pub trait TableEntry: Copy + Default + PartialEq {}

impl TableEntry for u32 {}
impl TableEntry for u64 {}

/// A table of numbers, initially zero. Untouched parts take no memory.
#[derive(Debug, Serialize, Deserialize)]
#[serde(from = "Vec<T>")]
#[serde(bound(deserialize = "T: TableEntry + Deserialize<'de>"))]
pub struct LargeTable<T>(Vec<T>);

impl<T: TableEntry> LargeTable<T> {
    /// A table of `entries` zeros.
    pub fn new(entries: usize) -> Self {
        // calloc: the kernel provides the zeros on first access.
        let table = vec![T::default(); entries];
        ask_for_huge_pages(&table);
        Self(table)
    }

    /// Memory of the fully written table.
    pub fn memory_bytes(&self) -> usize {
        self.0.capacity() * size_of::<T>()
    }
}

impl<T: TableEntry> From<Vec<T>> for LargeTable<T> {
    /// Copies a loaded table into one that can have huge pages, without touching zeros.
    fn from(loaded: Vec<T>) -> Self {
        let mut table = Self::new(loaded.len());
        for (to, from) in table.iter_mut().zip(loaded) {
            if from != T::default() {
                *to = from;
            }
        }
        table
    }
}

impl<T> Deref for LargeTable<T> {
    type Target = [T];

    fn deref(&self) -> &[T] {
        &self.0
    }
}

impl<T> DerefMut for LargeTable<T> {
    fn deref_mut(&mut self) -> &mut [T] {
        &mut self.0
    }
}

/// Advises the kernel for the huge pages that lie completely within a large table.
#[expect(unsafe_code, reason = "madvise takes an address range, not a borrowed table")]
fn ask_for_huge_pages<T>(table: &[T]) {
    let bytes = size_of_val(table);
    let start = table.as_ptr().cast::<u8>().cast_mut();
    let skipped = start.align_offset(HUGE_PAGE_BYTES);
    let inside = bytes.saturating_sub(skipped) / HUGE_PAGE_BYTES * HUGE_PAGE_BYTES;
    if bytes < LARGE_BYTES || inside == 0 {
        return;
    }
    let range = start.wrapping_add(skipped).cast();
    // SAFETY: the range lies within the table, which is alive; this advice changes neither the
    // contents nor the protection of memory.
    let advised = unsafe { madvise(range, inside, Advice::LinuxHugepage) };
    // Failure only costs speed.
    advised.unwrap_or_default();
}

#[cfg(test)]
mod tests {
    use super::*;

    const ENTRIES: usize = LARGE_BYTES / 4 + 7;

    #[test]
    fn a_large_table_is_zeroed_and_survives_saving_and_loading() {
        let mut table = LargeTable::<u32>::new(ENTRIES);
        assert!(table.iter().all(|&entry| entry == 0));
        table[7] = 3;
        table[ENTRIES - 1] = 4;
        let saved = postcard::to_stdvec(&table).unwrap();
        let loaded: LargeTable<u32> = postcard::from_bytes(&saved).unwrap();
        assert_eq!(*loaded, *table);
        assert_eq!(saved, postcard::to_stdvec(&table.0).unwrap());
    }
}
