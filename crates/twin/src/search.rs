//! Searches for the card structure that explains a target best.
//!
//! Every kind of layer is tried with a few start structures, some of them with what a probe found.
//! For the best kinds, coordinate descent changes one value at a time while that improves the fit;
//! the result is then tried with the other kinds of layer. Each structure is simulated once
//! ([`crate::counts`]); its times are fitted without simulation ([`crate::times`]). A structure
//! without a cliff that the probe found counts as worse than any that has it. The search is
//! deterministic. Limits: it finds a local optimum, and several structures may explain a table
//! equally well.

use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::thread;

use flashfit_geometry::belief::median;
use flashfit_geometry::flashbench::AccessOrder;
use flashfit_geometry::probed::ProbeObserver;

use crate::cliff::SeenCliff;
use crate::counts::{self, BusFreeWork, CellKey, CountedWork, FitBus, key};
use crate::fit_target::{FitTarget, MeasuredPatterns};
use crate::hints::DeviceHints;
use crate::structure::{CardStructure, KINDS, OrderedLayerKind, bus_for};
use crate::times::{self, Durations, FittedTimes};

/// How many kinds of layer are searched in detail.
const KINDS_SEARCHED: usize = 3;
/// A kind whose start is worse than the best by more than this is dropped.
const MAX_START_GAP: f64 = 0.15;
/// Smallest improvement of the mean absolute log ratio that justifies a change.
const MIN_GAIN: f64 = 0.001;
/// Speed of a limiting bus relative to the fastest measured rate.
const LIMITING_BUS_FACTOR: f64 = 1.03;
/// A common write unit that is also fast to simulate.
const START_PAGE: u64 = 16384;
const MAX_OPEN: u32 = 16;
/// The most open erase blocks that patterns tell apart.
const MOST_SHOWN: u32 = 10;
/// A common size of a volatile cache, in bytes.
const START_CACHE: u64 = 512 << 10;
/// Candidate sizes of the largest write that goes to a log.
const LOG_REQUESTS: [u64; 3] = [4096, 8192, 32768];
/// Upper limit of passes over all values.
const MAX_ROUNDS: usize = 3;
/// A difference of the mean absolute log ratio that says nothing about which structure is right.
const ALIKE: f64 = 0.02;
/// What a missing cliff adds to the error: more than any error that cells can have.
const MISSING_CLIFF: f64 = 3.0;

/// Cached counts of simulated structures, valid for any subset of a target's cells.
#[derive(Debug, Default)]
pub struct SimulatedCounts {
    counts: BTreeMap<CardStructure, Option<KnownWork>>,
}

#[derive(Debug)]
struct KnownWork {
    cells: BTreeMap<OrderedKey, BusFreeWork>,
    parts: Vec<BusFreeWork>,
}

/// A [`CellKey`] that can be ordered.
type OrderedKey = (u32, bool, u64);

fn ordered((units, access, write): CellKey) -> OrderedKey {
    (units, access == AccessOrder::Random, write.0)
}

/// A structure with its best times.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct BestFit {
    pub structure: CardStructure,
    pub fitted: FittedTimes,
    pub bus: FitBus,
    /// The error of the fit, and more for each cliff that it lacks.
    pub score: f64,
}

/// The result of a search.
#[derive(Debug, Clone, PartialEq)]
pub struct FoundFit {
    pub best: BestFit,
    /// The best of other kinds of layers whose error is about the same.
    pub alike: Vec<CardStructure>,
}

/// The observer stopped the search.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FitInterrupted;

pub struct Search<'a> {
    target: &'a FitTarget,
    durations: Durations,
    buses: Vec<FitBus>,
    cache: &'a mut SimulatedCounts,
    observer: &'a mut dyn ProbeObserver,
    hints: DeviceHints,
    cliffs: &'a [SeenCliff],
    tried: usize,
}

impl<'a> Search<'a> {
    pub fn new(
        target: &'a FitTarget,
        cache: &'a mut SimulatedCounts,
        observer: &'a mut dyn ProbeObserver,
    ) -> Self {
        let durations = target.durations();
        let (buses, hints) = (buses_of(target), DeviceHints::default());
        Self { buses, target, durations, cache, observer, hints, cliffs: &[], tried: 0 }
    }

    /// Starts from what a probe found, and prefers structures with the cliffs that it found.
    #[must_use]
    pub fn with_hints(self, hints: &DeviceHints, cliffs: &'a [SeenCliff]) -> Self {
        Self { hints: *hints, cliffs, ..self }
    }

    /// Runs the search; `None` if no structure can be simulated.
    ///
    /// # Errors
    /// [`FitInterrupted`] when the observer stops it.
    pub fn run(&mut self) -> Result<Option<FoundFit>, FitInterrupted> {
        let mut starts = Vec::new();
        for kind in KINDS {
            let all = self.evaluate(&self.starts(kind))?;
            starts.extend(all.into_iter().min_by(by_error));
        }
        starts.sort_by(by_error);
        let Some(least) = starts.first().map(|best| best.score) else { return Ok(None) };
        starts.retain(|best| best.score <= least + MAX_START_GAP);
        starts.truncate(KINDS_SEARCHED);
        let mut found = Vec::new();
        for start in starts {
            found.push(self.improve(start)?);
        }
        let Some(mut best) = found.iter().copied().min_by(by_error) else { return Ok(None) };
        // The result of one kind may suit another kind whose own start was worse.
        let others = self.evaluate(&self.as_other_kinds(best.structure))?;
        if let Some(other) = others.into_iter().min_by(by_error) {
            if other.score < best.score - MIN_GAIN {
                best = self.improve(other)?;
            }
        }
        let as_good = |of: &&BestFit| {
            of.structure.kind != best.structure.kind && of.score <= best.score + ALIKE
        };
        let alike = found.iter().filter(as_good).map(|of| of.structure).collect();
        Ok(Some(FoundFit { best, alike }))
    }

    /// Coordinate descent from one structure.
    fn improve(&mut self, mut best: BestFit) -> Result<BestFit, FitInterrupted> {
        for _ in 0..MAX_ROUNDS {
            let before = best.score;
            for value in 0..VALUES {
                let others: Vec<CardStructure> = self.alternatives(best.structure, value);
                let all = self.evaluate(&others)?;
                if let Some(other) = all.into_iter().min_by(by_error) {
                    if other.score < best.score - MIN_GAIN {
                        best = other;
                    }
                }
            }
            if best.score > before - MIN_GAIN {
                break;
            }
        }
        Ok(best)
    }

    /// Simulates new structures and fits the times of all.
    fn evaluate(&mut self, structures: &[CardStructure]) -> Result<Vec<BestFit>, FitInterrupted> {
        let mut new: Vec<CardStructure> = structures.to_vec();
        new.sort_unstable();
        new.dedup();
        new.retain(|structure| !self.cache.counts.contains_key(structure));
        let workers = thread::available_parallelism().map_or(1, usize::from);
        for batch in new.chunks(workers) {
            self.tried += batch.len();
            // The total is unknown, so the reported progress approaches 1 asymptotically.
            let progress = 1.0 - 1.0 / (1.0 + self.tried as f64 / 100.0);
            if let ControlFlow::Break(()) = self.observer.step(progress, "trying card models") {
                return Err(FitInterrupted);
            }
            let target = self.target;
            let counted = thread::scope(|scope| {
                let running: Vec<_> = batch
                    .iter()
                    .map(|structure| scope.spawn(move || counts::count(target, structure).ok()))
                    .collect();
                let ends = running.into_iter().map(|thread| thread.join());
                ends.map(|end| end.expect("a simulation does not panic")).collect::<Vec<_>>()
            });
            for (structure, counts) in batch.iter().zip(counted) {
                let known = counts.map(|all| KnownWork {
                    cells: all.cells.into_iter().map(|(k, c)| (ordered(k), c)).collect(),
                    parts: all.parts,
                });
                self.cache.counts.insert(*structure, known);
            }
        }
        Ok(structures.iter().filter_map(|structure| self.fitted(*structure)).collect())
    }

    fn fitted(&self, structure: CardStructure) -> Option<BestFit> {
        let all = self.cache.counts.get(&structure)?.as_ref()?;
        let work: Option<Vec<BusFreeWork>> = self
            .target
            .cells
            .iter()
            .map(|cell| all.cells.get(&ordered(key(cell))).copied())
            .collect();
        let mut work = work?;
        work.extend(&all.parts);
        work.extend(self.target.pattern_sums(&all.parts));
        let on_each = self.buses.iter().map(|&bus| {
            let counts: Vec<CountedWork> = work.iter().map(|work| work.on(bus)).collect();
            let fitted = times::fit(&counts, &self.durations, structure.page);
            let rate = |cell: CellKey| {
                let bytes = f64::from(cell.0);
                Some(bytes / fitted.times.duration(&all.cells.get(&ordered(cell))?.on(bus)))
            };
            let missing = self.cliffs.iter().filter(|cliff| !cliff.shows_in(rate)).count();
            let score = fitted.error + MISSING_CLIFF * missing as f64;
            BestFit { structure, fitted, bus, score }
        });
        on_each.min_by(by_error)
    }

    /// Start structures: one for each number of open blocks, with what the probe found.
    fn starts(&self, kind: OrderedLayerKind) -> Vec<CardStructure> {
        let unit = self.target.erase_block.0;
        let found = (self.hints.write_unit, self.hints.log_request);
        let usual = (None, None);
        let known = if found == usual { vec![usual] } else { vec![usual, found] };
        let mut starts = Vec::new();
        let numbers = (1..=self.max_open()).flat_map(|open| known.iter().map(move |k| (open, *k)));
        for (open_erase_blocks, (write_unit, log_request)) in numbers {
            let page = write_unit.filter(|page| unit % page == 0).unwrap_or(START_PAGE);
            let open_random = self.hints.open_erase_blocks_random.unwrap_or(open_erase_blocks);
            let structure = CardStructure {
                kind,
                page,
                open_erase_blocks,
                open_erase_blocks_random: open_random,
                random_pages: u32::try_from(unit / page / 2).unwrap_or(0),
                scratch: false,
                buffer: true,
                log_units: 2,
                log_request: log_request.unwrap_or(4096),
                chunk: if kind == OrderedLayerKind::PageMapped { page } else { unit / 8 },
                spare_units: 6,
                cache: if self.target.volatile_cache { START_CACHE } else { 0 },
            };
            starts.push(structure.normalized());
        }
        starts.retain(|structure| self.is_valid(structure));
        starts.sort_unstable();
        starts.dedup();
        starts
    }

    /// One more than the target has means any larger number, unless the probe found it.
    fn max_open(&self) -> u32 {
        let found = self.hints.open_erase_blocks.unwrap_or(0);
        // Patterns show more open erase blocks than a short table.
        let shown = self.target.patterns.as_ref().map_or(0, |_| MOST_SHOWN);
        (self.target.most_units() + 1).max(found).max(shown).min(MAX_OPEN + 1)
    }

    /// The structures that differ from `from` in one value.
    fn alternatives(&self, from: CardStructure, value: usize) -> Vec<CardStructure> {
        let unit = self.target.erase_block.0;
        let powers = |least: u64, most: u64| {
            std::iter::successors(Some(least), |size| Some(size * 2))
                .take_while(move |&size| size <= most)
        };
        let with = |change: &dyn Fn(&mut CardStructure)| {
            let mut structure = from;
            change(&mut structure);
            structure
        };
        let mut others: Vec<CardStructure> = match value {
            // The random-order log keeps its size in bytes.
            0 => powers(4096, 65536)
                .chain(self.hints.write_unit)
                .map(|page| {
                    with(&|s| {
                        let bytes = u64::from(s.random_pages) * s.page;
                        s.random_pages = u32::try_from(bytes / page).unwrap_or(0);
                        s.page = page;
                    })
                })
                .collect(),
            // A scratch block only shows where no buffer collects partial pages, and without both,
            // more pages are programmed than with either.
            1 => [(true, false), (false, false), (false, true)]
                .map(|(buffer, scratch)| {
                    with(&|s| {
                        s.buffer = buffer;
                        s.scratch = scratch;
                    })
                })
                .to_vec(),
            2 => powers(4096, (unit / 2).min(512 << 10))
                .map(|log| with(&|s| s.log_request = log))
                .collect(),
            3 => (1..=self.max_open())
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
            4 => {
                // Sixteenths of an erase block.
                let pages = |share: u64| u32::try_from(unit / from.page * share / 16).unwrap_or(0);
                [0, 1, 2, 3, 4, 6, 8, 12, 16]
                    .map(|share| with(&|s| s.random_pages = pages(share)))
                    .to_vec()
            }
            5 => powers(from.page.max(unit / 64), unit)
                .map(|chunk| with(&|s| s.chunk = chunk))
                .collect(),
            6 => (0..=from.open_erase_blocks)
                .map(|open| with(&|s| s.open_erase_blocks_random = open))
                .collect(),
            7 => [1, 2, 4, 8, 16].map(|log| with(&|s| s.log_units = log)).to_vec(),
            8 => [0, 2, 4, 8, 12, 24].map(|spare| with(&|s| s.spare_units = spare)).to_vec(),
            _ if from.cache == 0 => Vec::new(),
            _ => powers(16384, 16 << 20).map(|cache| with(&|s| s.cache = cache)).collect(),
        };
        for structure in &mut others {
            if structure.kind == OrderedLayerKind::PageMapped {
                structure.chunk = structure.chunk.min(structure.page);
            } else {
                structure.chunk = structure.chunk.max(structure.page);
            }
            *structure = structure.normalized();
        }
        if from.kind == OrderedLayerKind::PageMapped && value == 5 {
            others = powers(4096, from.page)
                .map(|chunk| with(&|s| s.chunk = chunk).normalized())
                .collect();
        }
        others.retain(|structure| *structure != from && self.is_valid(structure));
        others.sort_unstable();
        others.dedup();
        others
    }

    /// The structure converted to the other kinds of layer, with several sizes of log writes.
    fn as_other_kinds(&self, from: CardStructure) -> Vec<CardStructure> {
        let kinds = KINDS.into_iter().filter(|&kind| kind != from.kind);
        let mut others: Vec<CardStructure> = kinds
            .flat_map(|kind| LOG_REQUESTS.map(|log_request| (kind, log_request)))
            .map(|(kind, log_request)| {
                let by_page = kind == OrderedLayerKind::PageMapped;
                let chunk = if by_page { from.page } else { self.target.erase_block.0 / 8 };
                let (log_units, spare_units) = (from.log_units.max(2), 6);
                let open_erase_blocks = from.open_erase_blocks.max(1);
                CardStructure {
                    kind,
                    open_erase_blocks,
                    log_units,
                    log_request,
                    chunk,
                    spare_units,
                    ..from
                }
            })
            .map(CardStructure::normalized)
            .collect();
        others.retain(|structure| self.is_valid(structure));
        others.sort_unstable();
        others.dedup();
        others
    }

    /// Whether the sizes are multiples of each other as required.
    fn is_valid(&self, structure: &CardStructure) -> bool {
        let unit = self.target.erase_block.0;
        let divides = |size: u64| size == 0 || unit % size == 0;
        divides(structure.page)
            && divides(structure.chunk)
            && structure.page % 512 == 0
            && (!structure.scratch
                || u64::from(structure.open_erase_blocks) * structure.page <= unit)
            && (structure.kind != OrderedLayerKind::UpdateLog
                || structure.chunk % structure.page == 0)
    }
}

/// Number of values that the search changes.
const VALUES: usize = 10;

fn by_error(one: &BestFit, other: &BestFit) -> std::cmp::Ordering {
    one.score.total_cmp(&other.score).then(one.structure.cmp(&other.structure))
}

/// A bus that limits no rate, one that limits the fastest writes, and one as fast as the large
/// reads of the patterns. The upper decile's median is used, so that outliers do not matter.
fn buses_of(target: &FitTarget) -> Vec<FitBus> {
    let mut rates: Vec<f64> =
        target.cells.iter().map(|cell| cell.bytes_per_second as f64).collect();
    rates.sort_by(f64::total_cmp);
    let upper = median(&rates[rates.len() * 9 / 10..]);
    let limiting = (upper * LIMITING_BUS_FACTOR).max(1000.0);
    let reads = target.patterns.as_ref().and_then(MeasuredPatterns::read_rate).unwrap_or(0.0);
    let free = bus_for(upper.max(reads) as u64);
    let mut buses = vec![FitBus { bytes_per_second: free, limits: false }];
    if reads <= limiting {
        buses.push(FitBus { bytes_per_second: limiting as u64, limits: true });
    }
    if reads > 0.0 {
        let bytes_per_second = (reads * LIMITING_BUS_FACTOR).max(limiting) as u64;
        buses.push(FitBus { bytes_per_second, limits: false });
        buses.push(FitBus { bytes_per_second, limits: true });
    }
    buses
}
