//! The card structures that a search tries: where it starts, and what differs from a structure in
//! one value or in two that belong together.
//!
//! Limits: sizes are powers of two, or what a probe found; numbers come from short lists.

use flashfit_card::model::{Collection, Replacement};

use super::Search;
use super::sizes::{logged_pages_near, powers, random_pages};
use crate::counts::DIES;
use crate::hints::DeviceHints;
use crate::structure::{CardStructure, KINDS, OrderedLayerKind};

/// Write units that the search starts with if the probe found none: a common one that is also fast
/// to simulate, unless another is likely, and with patterns a small one, too. What is right with
/// one explains little with the other.
const START_PAGES: [u64; 2] = [16384, 4096];
const MAX_OPEN: u32 = 16;
/// The most open erase blocks that patterns tell apart.
const MOST_SHOWN: u32 = 10;
/// Sizes of a volatile cache that the search starts with, in bytes: with a much larger one than the
/// device has, most of the rest is wrong.
const START_CACHES: [u64; 2] = [64 << 10, 512 << 10];
/// Candidate sizes of the largest write that goes to a log.
const LOG_REQUESTS: [u64; 3] = [4096, 8192, 32768];

const COLLECTIONS: [Collection; 3] =
    [Collection::Greedy, Collection::CostBenefit, Collection::Fifo];
/// Spare blocks of a page-mapped layer that the search starts with, the usual number first.
const SPARE_UNITS: [u32; 3] = [6, 2, 24];

/// What the search changes at a time.
#[derive(Debug, Clone, Copy)]
pub(super) enum Change {
    /// The write unit and what collects parts of it. How many pages are programmed follows from
    /// both, so either alone is rarely better.
    PageAndPartial,
    LogRequest,
    Open,
    OpenRandom,
    Replacement,
    RandomPages,
    Chunk,
    LogUnits,
    SpareUnits,
    Collection,
    Cache,
    WasFull,
    Zone,
    Logged,
    Dies,
}

impl Change {
    /// Dies come last, because with them, a wrong write unit explains some times as well.
    pub(super) const ALL: [Self; 15] = [
        Self::PageAndPartial,
        Self::WasFull,
        Self::LogRequest,
        Self::LogUnits,
        Self::Zone,
        Self::Logged,
        Self::Open,
        Self::Replacement,
        Self::RandomPages,
        Self::Chunk,
        Self::OpenRandom,
        Self::SpareUnits,
        Self::Collection,
        Self::Cache,
        Self::Dies,
    ];
}

/// What collects partial pages: a buffer for one, a scratch block, or nothing.
const PARTIAL: [(bool, bool); 3] = [(true, false), (false, false), (false, true)];

impl Search<'_> {
    /// Start structures: one for each number of open blocks, with what the probe found; without
    /// patterns, also with usual values instead.
    /// With patterns, also with everything that collects partial pages, and with all collections:
    /// rates alone hardly show these, and the more starts, the more of them fit by chance.
    pub(super) fn starts(&self, kind: OrderedLayerKind) -> Vec<CardStructure> {
        let unit = self.target.erase_block.0;
        let has_patterns = self.target.patterns.is_some();
        let known = self.known_sizes();
        let mut starts = Vec::new();
        let is_found = |open| self.hints.open_erase_blocks.is_none_or(|found| found == open);
        for open_erase_blocks in 1..=self.max_open() {
            let tries_all = has_patterns && is_found(open_erase_blocks);
            let partial = if tries_all { &PARTIAL[..] } else { &PARTIAL[..1] };
            for ((page, log_request), (buffer, scratch)) in
                known.iter().flat_map(|known| partial.iter().map(move |partial| (*known, *partial)))
            {
                let open_random = self.hints.open_erase_blocks_random.unwrap_or(open_erase_blocks);
                let structure = CardStructure {
                    kind,
                    page_bytes: page,
                    dies: 1,
                    open_erase_blocks,
                    open_erase_blocks_random: open_random,
                    replacement: Replacement::LeastRecent,
                    random_pages: u32::try_from(unit / page / 2).unwrap_or(0),
                    scratch,
                    buffer,
                    log_blocks: 2,
                    log_request_bytes: log_request.unwrap_or(4096),
                    chunk_bytes: if kind == OrderedLayerKind::PageMapped { page } else { unit / 8 },
                    spare_blocks: SPARE_UNITS[0],
                    collection: COLLECTIONS[0],
                    cache_bytes: 0,
                    was_full: true,
                    zone_blocks: self.zone_units(),
                    logged_pages: 0,
                };
                // Collecting hides what else is right, so that it cannot be found afterwards.
                let collecting = match kind {
                    OrderedLayerKind::PageMapped if has_patterns => {
                        (&SPARE_UNITS[..], &COLLECTIONS[..])
                    }
                    _ => (&SPARE_UNITS[..1], &COLLECTIONS[..1]),
                };
                for &spare_blocks in collecting.0 {
                    for &collection in collecting.1 {
                        starts.push(
                            CardStructure { spare_blocks, collection, ..structure }.normalized(),
                        );
                    }
                }
                if kind == OrderedLayerKind::UpdateLog && !has_patterns {
                    let replacement = Replacement::Random;
                    starts.push(CardStructure { replacement, ..structure }.normalized());
                }
            }
        }
        if self.target.has_cache() {
            let with = |cache_bytes| {
                move |of: &CardStructure| CardStructure { cache_bytes, ..*of }.normalized()
            };
            starts =
                START_CACHES.iter().flat_map(|&cache| starts.iter().map(with(cache))).collect();
        }
        self.valid(starts)
    }

    /// Write units and largest log writes of start structures.
    fn known_sizes(&self) -> Vec<(u64, Option<u64>)> {
        let DeviceHints {
            write_unit_bytes: write_unit,
            likely_write_unit_bytes: likely_write_unit,
            log_request_bytes: log_request,
            possible_log_request_bytes: possible_log_request,
            ..
        } = self.hints;
        let divides = |page: &u64| self.target.erase_block.0 % page == 0;
        let write_unit = write_unit.filter(divides);
        if self.target.patterns.is_none() {
            let mut known = vec![(START_PAGES[0], None)];
            if write_unit.is_some() || log_request.is_some() {
                known.push((write_unit.unwrap_or(START_PAGES[0]), log_request));
            }
            if possible_log_request.is_some() {
                known.push((START_PAGES[0], possible_log_request));
            }
            return known;
        }
        // With patterns, what the probe found is right.
        let mut pages = match write_unit {
            Some(found) => vec![found],
            None => {
                vec![likely_write_unit.filter(divides).unwrap_or(START_PAGES[0]), START_PAGES[1]]
            }
        };
        pages.sort_unstable();
        pages.dedup();
        pages.into_iter().map(|page| (page, log_request)).collect()
    }

    /// Write units to try. What the probe found is right, and what is likely is kept where a start
    /// has it: others explain times as well, with another number of dies or another state of a log.
    fn pages(&self, now: u64) -> Vec<u64> {
        let found = self.hints.write_unit_bytes;
        match (&self.target.patterns, found.or(self.hints.likely_write_unit_bytes)) {
            (Some(_), Some(known)) if known == now => vec![known],
            _ => powers(4096, 65536).chain(found).collect(),
        }
    }

    /// The erase blocks of the zone that the probe found, with patterns.
    fn zone_units(&self) -> u32 {
        let zone = self.hints.zone_bytes.filter(|_| self.target.patterns.is_some()).unwrap_or(0);
        u32::try_from(zone / self.target.erase_block.0).unwrap_or(0)
    }

    /// One more than the target has means any larger number, unless the probe found it.
    fn max_open(&self) -> u32 {
        let found = self.hints.open_erase_blocks.unwrap_or(0);
        // Patterns show more open erase blocks than a short table.
        let shown = self.target.patterns.as_ref().map_or(0, |_| MOST_SHOWN);
        (self.target.most_units() + 1).max(found).max(shown).min(MAX_OPEN + 1)
    }

    /// The structures that differ from `from` in one change.
    pub(super) fn alternatives(&self, from: CardStructure, change: Change) -> Vec<CardStructure> {
        let unit = self.target.erase_block.0;
        let with = |change: &dyn Fn(&mut CardStructure)| {
            let mut structure = from;
            change(&mut structure);
            structure
        };
        let by_page = from.kind == OrderedLayerKind::PageMapped;
        let mut others: Vec<CardStructure> = match change {
            // The random-order log keeps its size in bytes.
            Change::PageAndPartial => self
                .pages(from.page_bytes)
                .into_iter()
                .flat_map(|page| PARTIAL.map(|partial| (page, partial)))
                .map(|(page, (buffer, scratch))| {
                    with(&|s| {
                        let bytes = u64::from(s.random_pages) * s.page_bytes;
                        s.random_pages = u32::try_from(bytes / page).unwrap_or(0);
                        (s.page_bytes, s.buffer, s.scratch) = (page, buffer, scratch);
                    })
                })
                .collect(),
            // What the probe found is right. With other sizes, the log was taken for a buffer.
            Change::LogRequest if self.hints.log_request_bytes == Some(from.log_request_bytes) => {
                Vec::new()
            }
            Change::LogRequest => powers(4096, (unit / 2).min(512 << 10))
                .map(|log| with(&|s| s.log_request_bytes = log))
                .collect(),
            Change::Open => (1..=self.max_open())
                .map(|open| {
                    with(&|s| {
                        let all = s.open_erase_blocks_random == s.open_erase_blocks;
                        s.open_erase_blocks = open;
                        if all {
                            s.open_erase_blocks_random = open;
                        }
                    })
                })
                .collect(),
            // Not tried with patterns, like `CardStructure::closes_take_time`.
            Change::Replacement if by_page || self.target.patterns.is_some() => Vec::new(),
            Change::Replacement => [Replacement::LeastRecent, Replacement::Random]
                .map(|replacement| with(&|s| s.replacement = replacement))
                .to_vec(),
            Change::RandomPages => random_pages(unit, &from)
                .into_iter()
                .map(|pages| with(&|s| s.random_pages = pages))
                .collect(),
            Change::Chunk if by_page => powers(4096, from.page_bytes)
                .map(|chunk| with(&|s| s.chunk_bytes = chunk))
                .collect(),
            Change::Chunk => powers(from.page_bytes.max(unit / 64), unit)
                .map(|chunk| with(&|s| s.chunk_bytes = chunk))
                .collect(),
            Change::OpenRandom => (0..=from.open_erase_blocks)
                .map(|open| with(&|s| s.open_erase_blocks_random = open))
                .collect(),
            Change::LogUnits => {
                [1, 2, 3, 4, 6, 8, 16].map(|log| with(&|s| s.log_blocks = log)).to_vec()
            }
            Change::SpareUnits => {
                [0, 2, 4, 8, 12, 24, 40].map(|spare| with(&|s| s.spare_blocks = spare)).to_vec()
            }
            Change::Collection => {
                COLLECTIONS.map(|collection| with(&|s| s.collection = collection)).to_vec()
            }
            // Rates alone hardly show it.
            Change::WasFull | Change::Dies | Change::Zone | Change::Logged
                if self.target.patterns.is_none() =>
            {
                Vec::new()
            }
            // What the probe found is right.
            Change::Zone if self.hints.zone_bytes.is_some() => Vec::new(),
            Change::Zone => [0, 1, 2, 4].map(|zone| with(&|s| s.zone_blocks = zone)).to_vec(),
            Change::Logged if from.log_blocks == 0 => Vec::new(),
            Change::Logged => logged_pages_near(unit, &from)
                .map(|pages| with(&|s| s.logged_pages = pages))
                .collect(),
            Change::Dies => DIES.map(|dies| with(&|s| s.dies = dies)).to_vec(),
            Change::WasFull => vec![with(&|s| s.was_full = !s.was_full)],
            Change::Cache if from.cache_bytes == 0 => Vec::new(),
            Change::Cache => {
                powers(16384, 16 << 20).map(|cache| with(&|s| s.cache_bytes = cache)).collect()
            }
        };
        for structure in &mut others {
            structure.chunk_bytes = match by_page {
                true => structure.chunk_bytes.min(structure.page_bytes),
                false => structure.chunk_bytes.max(structure.page_bytes),
            };
            *structure = structure.normalized();
        }
        others.retain(|structure| *structure != from);
        self.valid(others)
    }

    /// The structures that differ from `from` in two changes, each to a next value.
    pub(super) fn pairs(&self, from: CardStructure) -> Vec<CardStructure> {
        let mut pairs = Vec::new();
        // How full the log was is searched with every structure.
        let all: Vec<Change> =
            Change::ALL.into_iter().filter(|change| !matches!(change, Change::Logged)).collect();
        for (at, &one) in all.iter().enumerate() {
            for near in self.next_to(from, one) {
                for &other in &all[at + 1..] {
                    pairs.extend(self.next_to(near, other));
                }
            }
        }
        self.valid(pairs)
    }

    /// Those alternatives whose value is the next smaller or larger one.
    fn next_to(&self, from: CardStructure, change: Change) -> Vec<CardStructure> {
        let mut all = self.alternatives(from, change);
        if let Change::PageAndPartial = change {
            let near = from.page_bytes / 2..=from.page_bytes * 2;
            all.retain(|other| near.contains(&other.page_bytes));
            return all;
        }
        // They differ in one value, which therefore orders them.
        let at = all.partition_point(|other| *other < from);
        all.drain(at.saturating_sub(1)..all.len().min(at + 1)).collect()
    }

    /// The structure converted to the other kinds of layer, with several sizes of log writes.
    pub(super) fn as_other_kinds(&self, from: CardStructure) -> Vec<CardStructure> {
        let kinds = KINDS.into_iter().filter(|&kind| kind != from.kind);
        let known = self.hints.log_request_bytes.filter(|_| self.target.patterns.is_some());
        let log_requests = known.map_or(LOG_REQUESTS.to_vec(), |found| vec![found]);
        let others = kinds
            .flat_map(|kind| log_requests.iter().map(move |&log_request| (kind, log_request)))
            .map(|(kind, log_request)| {
                let by_page = kind == OrderedLayerKind::PageMapped;
                CardStructure {
                    kind,
                    open_erase_blocks: from.open_erase_blocks.max(1),
                    log_blocks: from.log_blocks.max(2),
                    log_request_bytes: log_request,
                    chunk_bytes: if by_page {
                        from.page_bytes
                    } else {
                        self.target.erase_block.0 / 8
                    },
                    spare_blocks: SPARE_UNITS[0],
                    ..from
                }
            })
            .map(CardStructure::normalized)
            .collect();
        self.valid(others)
    }

    /// Those whose sizes are multiples of each other as required, each once.
    fn valid(&self, mut structures: Vec<CardStructure>) -> Vec<CardStructure> {
        structures.retain(|structure| self.is_valid(structure));
        structures.sort_unstable();
        structures.dedup();
        structures
    }

    fn is_valid(&self, structure: &CardStructure) -> bool {
        let unit = self.target.erase_block.0;
        let divides = |size: u64| size == 0 || unit % size == 0;
        // Consecutive write units are spread over the dies.
        let stripe = structure.page_bytes * u64::from(structure.dies);
        divides(stripe)
            && divides(structure.chunk_bytes)
            && structure.page_bytes % 512 == 0
            && (!structure.scratch
                || u64::from(structure.open_erase_blocks) * structure.page_bytes <= unit)
            && (structure.kind != OrderedLayerKind::UpdateLog
                || structure.chunk_bytes % stripe == 0)
    }
}
