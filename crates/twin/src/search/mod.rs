//! Searches for the card structure that explains a target best.
//!
//! Every kind of layer is tried with a few start structures, some of them with what a probe found.
//! From the best of each kind and write unit, coordinate descent makes one change at a time
//! (`candidates.rs`) while that improves the fit; the result is then tried with the other kinds of
//! layer, and with two changes at a time. Each structure is simulated once ([`crate::counts`]), and
//! one with a log for small writes once for each of several states of its log (`evaluate.rs`); its
//! times are fitted without simulation ([`crate::times`]). A structure without a cliff that the
//! probe found counts as worse than any that has it. The search is deterministic. Limits: it finds
//! a local optimum, and several structures may explain a table equally well.

mod candidates;
mod evaluate;
mod sizes;
mod time_fit;

use std::collections::{BTreeMap, BTreeSet};

use flashfit_geometry::belief::median;
use flashfit_geometry::probed::ProbeObserver;

use candidates::Change;
use evaluate::LogStates;
pub use time_fit::SimulatedCounts;

use crate::cliff::SeenCliff;
use crate::counts::FitBus;
use crate::fit_target::{FitTarget, MeasuredPatterns};
use crate::hints::DeviceHints;
use crate::structure::{CardStructure, KINDS, bus_for};
use crate::times::{Durations, FittedTimes};

/// How many starts are searched in detail, without and with patterns. More of them fit few rates by
/// chance.
const STARTS_SEARCHED: usize = 4;
const STARTS_SEARCHED_WITH_PATTERNS: usize = 7;
/// A start that is worse than the best by more than this is dropped.
const MAX_START_GAP: f64 = 0.4;
/// Smallest improvement of the mean absolute log ratio that justifies a change.
const MIN_GAIN: f64 = 0.001;
/// Speed of a limiting bus relative to the fastest measured rate.
const LIMITING_BUS_FACTOR: f64 = 1.03;
/// Upper limit of passes over all values.
const MAX_ROUNDS: usize = 3;
/// A difference of the mean absolute log ratio that says nothing about which structure is right.
const ALIKE: f64 = 0.02;
/// What is tried with starts, with single changes of each, with those of the best one, and with
/// pairs of them. The last two share what is allowed for all.
const STARTED_LOGS: LogStates = LogStates { parts: 8, most: 12, all: 300 };
const CHANGED_LOGS: LogStates = LogStates { parts: 10, most: 6, all: 200 };
const BEST_LOGS: LogStates = LogStates { parts: 20, most: 6, all: 800 };
const PAIRED_LOGS: LogStates = LogStates { parts: 8, most: 24, all: 500 };

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
    fits: BTreeMap<CardStructure, Option<BestFit>>,
    /// No state of a log is simulated beyond this number.
    most_logs: usize,
}

impl<'a> Search<'a> {
    pub fn new(
        target: &'a FitTarget,
        cache: &'a mut SimulatedCounts,
        observer: &'a mut dyn ProbeObserver,
    ) -> Self {
        let durations = target.durations();
        let (buses, hints) = (buses_of(target), DeviceHints::default());
        Self {
            buses,
            target,
            durations,
            cache,
            observer,
            hints,
            cliffs: &[],
            tried: 0,
            fits: BTreeMap::new(),
            most_logs: 0,
        }
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
        self.allow_logs(STARTED_LOGS.all);
        for kind in KINDS {
            let all = self.evaluate_with_logs(&self.starts(kind), STARTED_LOGS)?;
            starts.extend(self.best_starts(all));
        }
        for start in &mut starts {
            let others = self.alternatives(start.structure, Change::WasFull);
            let new = self.evaluate_with_logs(&others, CHANGED_LOGS)?;
            *start = new.into_iter().chain([*start]).min_by(by_error).expect("the start itself");
        }
        starts.sort_by(by_error);
        let Some(least) = starts.first().map(|best| best.score) else { return Ok(None) };
        starts.retain(|best| best.score <= least + MAX_START_GAP);
        starts.truncate(match self.target.patterns {
            Some(_) => STARTS_SEARCHED_WITH_PATTERNS,
            None => STARTS_SEARCHED,
        });
        let mut found = Vec::new();
        for start in starts {
            self.allow_logs(CHANGED_LOGS.all);
            found.push(self.improve(start, CHANGED_LOGS)?);
        }
        let Some(mut best) = found.iter().copied().min_by(by_error) else { return Ok(None) };
        // The result of one kind may suit another kind whose own start was worse.
        let others = self.as_other_kinds(best.structure);
        let others = self.evaluate_with_logs(&others, CHANGED_LOGS)?;
        if let Some(other) = others.into_iter().min_by(by_error) {
            if other.score < best.score - MIN_GAIN {
                best = other;
            }
        }
        self.allow_logs(BEST_LOGS.all);
        best = self.improve(best, BEST_LOGS)?;
        best = self.improve_by_pairs(best)?;
        let as_good = |of: &&BestFit| {
            of.structure.kind != best.structure.kind && of.score <= best.score + ALIKE
        };
        let alike = found.iter().filter(as_good).map(|of| of.structure).collect();
        Ok(Some(FoundFit { best, alike }))
    }

    /// The best of all starts of one kind and replacement; with patterns, the best of each write
    /// unit.
    fn best_starts(&self, mut all: Vec<BestFit>) -> Vec<BestFit> {
        all.sort_by(by_error);
        let mut units = BTreeSet::new();
        let shows_unit = self.target.patterns.is_some();
        all.retain(|BestFit { structure, .. }| {
            units.insert((structure.replacement, shows_unit.then_some(structure.page_bytes)))
        });
        all
    }

    /// Coordinate descent from one structure.
    fn improve(&mut self, mut best: BestFit, logs: LogStates) -> Result<BestFit, FitInterrupted> {
        for _ in 0..MAX_ROUNDS {
            let before = best.score;
            for change in Change::ALL {
                let others = self.alternatives(best.structure, change);
                let all = match change {
                    Change::Logged => self.evaluate(&others)?,
                    _ => self.evaluate_with_logs(&others, logs)?,
                };
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

    /// Leaves local optima in which two values are wrong that belong together.
    fn improve_by_pairs(&mut self, mut best: BestFit) -> Result<BestFit, FitInterrupted> {
        for _ in 0..MAX_ROUNDS {
            let all = self.evaluate_with_logs(&self.pairs(best.structure), PAIRED_LOGS)?;
            match all.into_iter().min_by(by_error) {
                Some(other) if other.score < best.score - MIN_GAIN => {
                    best = self.improve(other, BEST_LOGS)?
                }
                _ => break,
            }
        }
        Ok(best)
    }
}

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

#[cfg(test)]
mod tests {
    use flashfit_device::Bytes;
    use flashfit_geometry::probed::NoObserver;

    use super::*;
    use crate::fit_target::tests::target;
    use crate::structure::OrderedLayerKind;
    use crate::times::Times;

    /// A simulated block-mapped card with a write unit of 4 KiB got a page-mapped twin: the search
    /// began with 16 KiB, with which other kinds of layer explained more.
    #[test]
    fn with_patterns_every_kind_is_searched_from_a_small_write_unit_too() {
        let patterns = MeasuredPatterns { filled: Bytes::mib(64), measured: Vec::new() };
        for (patterns, pages) in [(None, vec![16384]), (Some(patterns), vec![4096, 16384])] {
            let target = target(Bytes::kib(128)).with_patterns(patterns, None);
            let (mut cache, mut observer) = (SimulatedCounts::default(), NoObserver);
            let search = Search::new(&target, &mut cache, &mut observer);
            for kind in KINDS {
                let fit = |structure: CardStructure| BestFit {
                    structure,
                    fitted: FittedTimes { times: Times::NONE, error: 0.1 },
                    bus: search.buses[0],
                    score: 0.1,
                };
                let all = search.starts(kind).into_iter().map(fit).collect();
                let mut found: Vec<u64> =
                    search.best_starts(all).iter().map(|of| of.structure.page_bytes).collect();
                found.sort_unstable();
                found.dedup();
                assert_eq!(found, pages, "{kind:?}");
            }
        }
    }

    /// The twin of a simulated card whose log takes writes of 16 KiB got one for 8 KiB, although
    /// the probe had found it: only the starts with the usual write unit knew.
    #[test]
    fn with_patterns_every_start_has_the_log_that_the_probe_found() {
        let patterns = MeasuredPatterns { filled: Bytes::mib(64), measured: Vec::new() };
        let target = target(Bytes::kib(128)).with_patterns(Some(patterns), None);
        let (mut cache, mut observer) = (SimulatedCounts::default(), NoObserver);
        let hints = DeviceHints {
            likely_write_unit_bytes: Some(8192),
            log_request_bytes: Some(16384),
            ..DeviceHints::default()
        };
        let search = Search::new(&target, &mut cache, &mut observer).with_hints(&hints, &[]);
        let starts = search.starts(OrderedLayerKind::LogBlock);
        let known: BTreeSet<_> =
            starts.iter().map(|of| (of.page_bytes, of.log_request_bytes)).collect();
        assert_eq!(Vec::from_iter(known), [(4096, 16384), (8192, 16384)]);
        let converted = search.as_other_kinds(starts[0]);
        let logs = converted.iter().map(|of| of.log_request_bytes).filter(|&bytes| bytes > 0);
        assert!(logs.clone().count() > 0 && logs.clone().all(|bytes| bytes == 16384));
    }

    /// Of a published table, half of whose rates were hidden, few showed the log, and a
    /// page-mapped twin without one was up to 50 times too slow for small writes.
    #[test]
    fn a_log_that_few_rates_show_is_a_start() {
        let target = target(Bytes::kib(128));
        let (mut cache, mut observer) = (SimulatedCounts::default(), NoObserver);
        let hints =
            DeviceHints { possible_log_request_bytes: Some(8192), ..DeviceHints::default() };
        let search = Search::new(&target, &mut cache, &mut observer).with_hints(&hints, &[]);
        let starts = search.starts(OrderedLayerKind::UpdateLog);
        let known: BTreeSet<_> = starts.iter().map(|of| of.log_request_bytes).collect();
        assert_eq!(Vec::from_iter(known), [4096, 8192]);
        let replacements: BTreeSet<_> = starts.iter().map(|of| of.replacement).collect();
        assert_eq!(replacements.len(), 2, "without patterns, random replacement is a start, too");
    }
}
