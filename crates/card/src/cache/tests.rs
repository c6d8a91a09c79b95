//! What the cache keeps, in which order it is written back, and what a power cut leaves of it.

use flashfit_device::random::Random;

use super::*;
use crate::model::tests::small_with;

/// Pages of 2 KiB with four sectors, eight per erase block.
fn cache(order: &str) -> WriteCache {
    let section = format!("[cache]\nbytes = 2048\norder = \"{order}\"\n[discard]");
    let sizes = [("\"4KiB\"", "\"2KiB\""), ("\"64KiB\"", "\"16KiB\"")];
    let model = small_with(&[sizes[0], sizes[1], ("[discard]", &section)]).unwrap();
    WriteCache::new(&model, model.cache.as_ref().unwrap(), true)
}

fn put(cache: &mut WriteCache, page: u32, value: u8) {
    cache.put(page, &(0..2048), &[value; 2048]);
}

fn runs(cache: &mut WriteCache) -> Vec<Vec<u32>> {
    let mut runs = Vec::new();
    while !cache.is_empty() {
        runs.push(cache.take_run().iter().map(|dirty| dirty.page).collect());
    }
    runs
}

/// The values of the pages that reached the NAND.
fn kept(cache: &mut WriteCache, seed: u64) -> Vec<(u32, u8)> {
    let loss = cache.lose(&mut Random::new(seed), None);
    let first = |dirty: &DirtyPage| dirty.parts().next().unwrap().1[0];
    loss.kept.iter().map(|dirty| (dirty.page, first(dirty))).collect()
}

#[test]
fn reads_see_dirty_data_only() {
    let mut cache = cache("unordered");
    cache.put(3, &(512..1024), &[7; 512]);
    let mut buffer = [1; 1024];
    assert!(!cache.covers(3, &(0..1024)));
    cache.overlay(3, &(0..1024), &mut buffer);
    assert_eq!((buffer[511], buffer[512]), (1, 7));
    assert!(cache.covers(3, &(512..1024)) && !cache.covers(4, &(0..512)));
}

#[test]
fn the_oldest_data_is_written_first_with_adjacent_data() {
    let mut cache = cache("unordered");
    put(&mut cache, 5, 1);
    assert!(!cache.exceeds_capacity());
    for page in [1, 4, 6, 5, 8] {
        put(&mut cache, page, 2);
    }
    assert!(cache.exceeds_capacity());
    // Page 8 is in the next erase block.
    put(&mut cache, 7, 2);
    assert_eq!(runs(&mut cache), [vec![4, 5, 6, 7], vec![1], vec![8]]);
}

#[test]
fn a_gap_within_the_pages_ends_a_run() {
    let mut cache = cache("unordered");
    cache.put(1, &(0..1024), &[1; 1024]);
    put(&mut cache, 2, 1);
    assert_eq!(runs(&mut cache), [[1], [2]]);
}

#[test]
fn an_ordered_cache_writes_in_order_of_arrival() {
    let mut cache = cache("ordered");
    for (page, value) in [(5, 1), (6, 1), (2, 1), (5, 2), (4, 1)] {
        put(&mut cache, page, value);
    }
    let mut buffer = [0; 512];
    cache.overlay(5, &(0..512), &mut buffer);
    assert_eq!(buffer[0], 2);
    assert_eq!(runs(&mut cache), [vec![5, 6], vec![2], vec![5], vec![4]]);
}

#[test]
fn an_ordered_cache_keeps_its_oldest_part() {
    let all = [(5, 1), (2, 1), (5, 2), (4, 1)];
    let mut lengths = BTreeSet::new();
    for seed in 0..100 {
        let mut cache = cache("ordered");
        all.iter().for_each(|&(page, value)| put(&mut cache, page, value));
        let kept = kept(&mut cache, seed);
        assert_eq!(kept, all[..kept.len()]);
        lengths.insert(kept.len());
    }
    assert_eq!(lengths.len(), 5);
}

#[test]
fn an_unordered_cache_keeps_any_part() {
    let mut seen = BTreeSet::new();
    for seed in 0..200 {
        let mut cache = cache("unordered");
        (0..3).for_each(|page| put(&mut cache, page, 1));
        seen.insert(kept(&mut cache, seed));
    }
    assert_eq!(seen.len(), 8);
}

#[test]
fn data_after_a_barrier_is_kept_only_if_all_before_it_is() {
    let mut seen = BTreeSet::new();
    for seed in 0..400 {
        let mut cache = cache("barrier");
        put(&mut cache, 1, 1);
        put(&mut cache, 2, 1);
        cache.begin_epoch();
        put(&mut cache, 1, 2);
        let kept = kept(&mut cache, seed);
        assert!(!kept.contains(&(1, 2)) || kept.len() == 3, "{kept:?}");
        seen.insert(kept);
    }
    assert_eq!(seen.len(), 5);
}

#[test]
fn dropped_data_is_not_written_back() {
    let mut cache = cache("ordered");
    cache.put(1, &(0..1024), &[1; 1024]);
    put(&mut cache, 2, 1);
    cache.put(1, &(0..512), &[2; 512]);
    cache.drop_range(1, &(0..512));
    assert_eq!(cache.pages_in(0..9), [1, 2]);
    cache.drop_range(1, &(512..1024));
    assert_eq!(cache.dirty_bytes, 2048);
    assert_eq!(runs(&mut cache), [[2]]);
    assert_eq!(cache.dirty_bytes, 0);
}

#[test]
fn a_cache_without_data_counts_the_same() {
    let mut cache = cache("unordered");
    cache.keeps_data = false;
    put(&mut cache, 1, 1);
    put(&mut cache, 2, 1);
    let run = cache.take_run();
    assert_eq!(run.iter().map(DirtyPage::bytes).sum::<u64>(), 4096);
    assert!(run.iter().all(|dirty| dirty.is_whole() && dirty.whole_data().is_none()));
}
