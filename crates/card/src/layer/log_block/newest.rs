//! The logical pages whose newest version is in a log, with their physical pages.
//!
//! Pages are grouped by what is merged or rewritten together, in a hash table whose size depends on
//! the pages in the log, not on those of the card.

use std::collections::{BTreeMap, HashMap};
use std::hash::{BuildHasherDefault, Hasher};
use std::ops::Range;

use serde::{Deserialize, Serialize};

use crate::layer::block_mapped::NewerPages;

/// The pages of a group in ascending order, with their physical pages.
type Group = Vec<(u32, u32)>;

#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(from = "Saved", into = "Saved")]
pub struct NewestPages {
    pages_per_group: u32,
    /// Contains no empty group.
    groups: HashMap<u32, Group, BuildHasherDefault<Spread>>,
    /// Buffers of removed groups, for reuse.
    spare: Vec<Group>,
}

/// The serialized form, in an order that does not depend on the hash.
#[derive(Serialize, Deserialize)]
struct Saved {
    pages_per_group: u32,
    groups: BTreeMap<u32, Group>,
}

impl From<Saved> for NewestPages {
    fn from(saved: Saved) -> Self {
        let groups = saved.groups.into_iter().collect();
        Self { pages_per_group: saved.pages_per_group, groups, spare: Vec::new() }
    }
}

impl From<NewestPages> for Saved {
    fn from(newest: NewestPages) -> Self {
        let groups = newest.groups.into_iter().collect();
        Self { pages_per_group: newest.pages_per_group, groups }
    }
}

/// A multiplicative hash of one number (Knuth, "The art of computer programming", 6.4).
#[derive(Debug, Default)]
struct Spread(u64);

impl Hasher for Spread {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|&byte| self.write_u32(u32::from(byte)));
    }

    fn write_u32(&mut self, number: u32) {
        let product = (self.0 ^ u64::from(number)).wrapping_mul(0x9E37_79B9_7F4A_7C15);
        self.0 = product ^ (product >> 32);
    }
}

impl NewestPages {
    pub fn new(pages_per_group: u32) -> Self {
        Self { pages_per_group, groups: HashMap::default(), spare: Vec::new() }
    }

    /// Records the newest version of a page.
    pub fn insert(&mut self, logical_page: u32, page: u32) {
        let spare = &mut self.spare;
        let group = self.groups.entry(logical_page / self.pages_per_group);
        let group = group.or_insert_with(|| spare.pop().unwrap_or_default());
        match group.binary_search_by_key(&logical_page, |&(found, _)| found) {
            Ok(index) => group[index].1 = page,
            Err(index) => group.insert(index, (logical_page, page)),
        }
    }

    fn groups_of(&self, logical_pages: &Range<u32>) -> Range<u32> {
        let first = logical_pages.start / self.pages_per_group;
        first..logical_pages.end.div_ceil(self.pages_per_group)
    }
}

impl NewerPages for NewestPages {
    fn page_of(&self, logical_page: u32) -> Option<u32> {
        let group = self.groups.get(&(logical_page / self.pages_per_group))?;
        let index = group.binary_search_by_key(&logical_page, |&(found, _)| found).ok()?;
        Some(group[index].1)
    }

    fn each_in(&self, logical_pages: Range<u32>, mut take: impl FnMut(u32, u32)) {
        for number in self.groups_of(&logical_pages) {
            let group = self.groups.get(&number).map_or(&[][..], |group| group);
            let first = group.partition_point(|&(found, _)| found < logical_pages.start);
            let here = group[first..].iter().take_while(|&&(found, _)| found < logical_pages.end);
            here.for_each(|&(logical_page, page)| take(logical_page, page));
        }
    }

    fn forget(&mut self, logical_pages: Range<u32>) {
        for number in self.groups_of(&logical_pages) {
            let Some(group) = self.groups.get_mut(&number) else { continue };
            group.retain(|(found, _)| !logical_pages.contains(found));
            if group.is_empty() {
                self.spare.extend(self.groups.remove(&number));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all(newest: &NewestPages, pages: Range<u32>) -> Vec<(u32, u32)> {
        let mut found = Vec::new();
        newest.each_in(pages, |logical_page, page| found.push((logical_page, page)));
        found
    }

    #[test]
    fn pages_are_found_in_order_until_they_are_removed() {
        let mut newest = NewestPages::new(10);
        for (logical_page, page) in [(17, 1), (3, 2), (12, 3), (17, 4), (25, 5)] {
            newest.insert(logical_page, page);
        }
        assert_eq!(all(&newest, 3..25), [(3, 2), (12, 3), (17, 4)]);
        newest.forget(12..13);
        newest.forget(20..30);
        assert_eq!((newest.page_of(12), newest.page_of(17)), (None, Some(4)));
        assert_eq!(all(&newest, 0..100), [(3, 2), (17, 4)]);
        newest.insert(20, 6);
        assert_eq!(all(&newest, 20..30), [(20, 6)], "nothing of the emptied group is left");
    }

    #[test]
    fn the_serialized_form_does_not_depend_on_the_order_of_insertion() {
        let (mut one, mut other) = (NewestPages::new(4), NewestPages::new(4));
        for page in 0..100 {
            one.insert(page * 7, page);
            other.insert((99 - page) * 7, 99 - page);
        }
        other.insert(5000, 1);
        other.forget(4000..6000);
        let saved = postcard::to_stdvec(&one).unwrap();
        assert_eq!(postcard::to_stdvec(&other).unwrap(), saved);
        let loaded: NewestPages = postcard::from_bytes(&saved).unwrap();
        assert_eq!(all(&loaded, 0..800), all(&one, 0..800));
    }
}
