//! Sizes and numbers of pages that a search tries.

use crate::structure::CardStructure;

/// How many pages of its newest erase block the log for small writes may have taken before the
/// patterns. How many blocks were full before does not matter: the fill has left nothing current in
/// them.
pub(super) fn logged_pages(unit: u64, of: &CardStructure, parts: u32) -> Vec<CardStructure> {
    let pages = unit / of.page_bytes;
    let all = (0..u64::from(parts)).map(|at| pages * at / u64::from(parts));
    let all = all.filter_map(|logged| u32::try_from(logged).ok());
    let mut all: Vec<_> = all.map(|logged_pages| CardStructure { logged_pages, ..*of }).collect();
    all.dedup();
    all
}

/// A little more or less than now.
pub(super) fn logged_pages_near(unit: u64, from: &CardStructure) -> impl Iterator<Item = u32> {
    let now = u64::from(from.logged_pages);
    let pages = unit / from.page_bytes;
    [16, 32, 64, 128]
        .map(|part| pages / part)
        .into_iter()
        .filter(|step| *step > 0)
        .flat_map(move |step| [(now + pages - step) % pages, (now + step) % pages])
        .filter_map(|pages| u32::try_from(pages).ok())
}

/// Sizes of a random-order log in pages: sixteenths of an erase block, and a little less or more
/// than now.
pub(super) fn random_pages(unit: u64, from: &CardStructure) -> Vec<u32> {
    let pages = unit / from.page_bytes;
    let now = u64::from(from.random_pages);
    let coarse = [0, 1, 2, 3, 4, 6, 8, 12, 16].map(|share| pages * share / 16);
    let fine = [32, 64, 128]
        .map(|part| pages / part)
        .into_iter()
        .flat_map(|step| [now.saturating_sub(step), (now + step).min(pages)]);
    let fine = fine.filter(|pages| now > 0 && *pages > 0);
    coarse.into_iter().chain(fine).filter_map(|pages| u32::try_from(pages).ok()).collect()
}

pub(super) fn powers(least: u64, most: u64) -> impl Iterator<Item = u64> {
    std::iter::successors(Some(least), |size| Some(size * 2)).take_while(move |&size| size <= most)
}
