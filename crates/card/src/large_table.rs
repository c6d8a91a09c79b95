//! Tables that grow with the card, in huge pages where the kernel gives them.
//!
//! A request looks up a few entries anywhere in tables of up to some gibibytes. With pages of
//! 4 KiB nearly every look-up on a large card misses the TLB too, and its walk through the page
//! table misses the caches; with pages of 2 MiB it does not. So the kernel is asked for those, for
//! tables that are larger than what a TLB of 2048 entries covers. Whether it gives them is its
//! affair (`/sys/kernel/mm/transparent_hugepage/enabled` must not be `never`); a refusal changes
//! only the speed. Limits: such a table takes memory in steps of 2 MiB where it is written, so that
//! one written at random is soon in memory as a whole; smaller ones, those of a page-mapped card
//! below 8 GiB with pages of 4 KiB, in steps of 4 KiB.
//! Source: madvise(2), `MADV_HUGEPAGE`.

use std::ops::{Deref, DerefMut};

use rustix::mm::{Advice, madvise};
use serde::{Deserialize, Serialize};

/// A huge page of x86-64, and of arm64 with pages of 4 KiB.
const HUGE_PAGE_BYTES: usize = 2 << 20;
/// From this size on a table is worth huge pages.
const LARGE_BYTES: usize = 8 << 20;

/// A number in a table.
pub trait TableEntry: Copy + Default + PartialEq {}

impl TableEntry for u32 {}
impl TableEntry for u64 {}

/// A table of numbers that are zero at first. What stays zero takes no memory.
#[derive(Debug, Serialize, Deserialize)]
#[serde(from = "Vec<T>")]
#[serde(bound(deserialize = "T: TableEntry + Deserialize<'de>"))]
pub struct LargeTable<T>(Vec<T>);

impl<T: TableEntry> LargeTable<T> {
    /// So many zeros.
    pub fn new(entries: usize) -> Self {
        // Zeros come from the kernel, untouched.
        let table = vec![T::default(); entries];
        ask_for_huge_pages(&table);
        Self(table)
    }

    /// What it takes when all of it was written.
    pub fn memory_bytes(&self) -> usize {
        self.0.capacity() * size_of::<T>()
    }
}

impl<T: TableEntry> From<Vec<T>> for LargeTable<T> {
    /// The numbers of a table that was loaded, moved to where huge pages can be; zeros stay
    /// untouched.
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

/// Advises the kernel for the whole huge pages that lie within a large table.
#[expect(unsafe_code, reason = "the advice is given for addresses, not for a borrowed table")]
fn ask_for_huge_pages<T>(table: &[T]) {
    let bytes = size_of_val(table);
    let start = table.as_ptr().cast::<u8>().cast_mut();
    let skipped = start.align_offset(HUGE_PAGE_BYTES);
    let inside = bytes.saturating_sub(skipped) / HUGE_PAGE_BYTES * HUGE_PAGE_BYTES;
    if bytes < LARGE_BYTES || inside == 0 {
        return;
    }
    let range = start.wrapping_add(skipped).cast();
    // SAFETY: the range lies within the table, which is alive; this advice changes neither what
    // memory holds nor who may use it.
    let advised = unsafe { madvise(range, inside, Advice::LinuxHugepage) };
    // Without huge pages everything works as well, only more slowly.
    advised.unwrap_or_default();
}

#[cfg(test)]
mod tests {
    use super::*;

    const ENTRIES: usize = LARGE_BYTES / 4 + 7;

    #[test]
    fn a_large_table_is_zero_and_comes_back_as_it_was_saved() {
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
