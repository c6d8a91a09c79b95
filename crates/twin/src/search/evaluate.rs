//! Scores card structures: simulates what is new, and fits the times.
//!
//! The operations of a structure are counted once, those of the patterns once for each state of its
//! log for small writes. Of several states, the one that fits best counts. Limit: no more than
//! [`MOST_LOGS`] states are simulated, and only for the structures that already fit best.

use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::thread;

use flashfit_geometry::flashbench::AccessOrder;

use super::{BestFit, FitInterrupted, Search, by_error, sizes};
use crate::counts::{self, BusFreeWork, CellKey, CountedWork, FitBus, key};
use crate::structure::CardStructure;
use crate::times::{self, FittedTimes};

/// No more states of logs are simulated, so that a fit takes at most a few minutes.
const MOST_LOGS: usize = 1500;
/// Structures that a thread simulates before it asks whether to go on.
const SIMULATED_AT_ONCE: usize = 8;
/// How many simulations are half of the usual number.
const USUALLY_TRIED: f64 = 2000.0;
/// What a missing cliff adds to the error: more than any error that cells can have.
const MISSING_CLIFF: f64 = 3.0;

/// Cached counts of simulated structures with one die, valid for any subset of a target's cells.
#[derive(Debug, Default)]
pub struct SimulatedCounts {
    counts: BTreeMap<CardStructure, Option<KnownWork>>,
    /// Of the patterns, after some writes to the log.
    logged: BTreeMap<CardStructure, Option<Vec<BusFreeWork>>>,
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

/// The states of logs that are tried. When a log is full is what most of the times of small writes
/// depend on, so that a structure is not known to be wrong before.
#[derive(Debug, Clone, Copy)]
pub(super) struct LogStates {
    /// Into how many parts an erase block is divided.
    pub parts: u32,
    /// For how many structures.
    pub most: usize,
}

impl Search<'_> {
    /// Simulates new structures and fits the times of all; of the best ones, with what fits best of
    /// several states of the log for small writes before the patterns.
    pub(super) fn evaluate_with_logs(
        &mut self,
        structures: &[CardStructure],
        LogStates { parts, most }: LogStates,
    ) -> Result<Vec<BestFit>, FitInterrupted> {
        let mut first = self.evaluate(structures)?;
        first.sort_by(by_error);
        if self.target.patterns.is_none() || self.cache.logged.len() >= MOST_LOGS {
            return Ok(first);
        }
        let unit = self.target.erase_block.0;
        let states = |(at, of): (usize, &BestFit)| match of.structure.log_units {
            0 => Vec::new(),
            _ if at >= most => Vec::new(),
            _ => sizes::logged_pages(unit, &of.structure, parts),
        };
        let all: Vec<Vec<CardStructure>> = first.iter().enumerate().map(states).collect();
        self.simulate(&all.concat())?;
        let best = |(first, states): (BestFit, Vec<CardStructure>)| {
            let near = states.into_iter().filter_map(|state| self.refitted(state, &first));
            let near = near.min_by(by_error).filter(|near| near.score < first.score);
            let exact = near.and_then(|near| self.fitted(near.structure));
            exact.into_iter().chain([first]).min_by(by_error).expect("at least the first")
        };
        Ok(first.into_iter().zip(all).map(best).collect())
    }

    /// Simulates new structures and fits the times of all.
    pub(super) fn evaluate(
        &mut self,
        structures: &[CardStructure],
    ) -> Result<Vec<BestFit>, FitInterrupted> {
        self.simulate(structures)?;
        Ok(structures.iter().filter_map(|structure| self.fitted(*structure)).collect())
    }

    /// Simulates those that were not yet.
    fn simulate(&mut self, structures: &[CardStructure]) -> Result<(), FitInterrupted> {
        let all = || structures.iter().map(CardStructure::on_one_die);
        let mut empty: Vec<_> = all().map(|structure| structure.with_empty_log()).collect();
        let mut logged: Vec<_> = all().filter(|structure| structure.logged_pages > 0).collect();
        for structure in &mut logged {
            *structure = structure.at_fill(self.target);
        }
        for new in [&mut empty, &mut logged] {
            new.sort_unstable();
            new.dedup();
        }
        empty.retain(|structure| !self.cache.counts.contains_key(structure));
        logged.retain(|structure| !self.cache.logged.contains_key(structure));
        let target = self.target;
        let counted = self.in_parallel(&empty, |of| counts::count(target, of).ok())?;
        for (structure, counts) in empty.into_iter().zip(counted) {
            let known = counts.map(|all| KnownWork {
                cells: all.cells.into_iter().map(|(k, c)| (ordered(k), c)).collect(),
                parts: all.parts,
            });
            self.cache.counts.insert(structure, known);
        }
        let counted = self.in_parallel(&logged, |of| counts::count_parts(target, of).ok())?;
        self.cache.logged.extend(logged.into_iter().zip(counted));
        Ok(())
    }

    fn in_parallel<T: Send>(
        &mut self,
        structures: &[CardStructure],
        simulate: impl Fn(&CardStructure) -> T + Sync,
    ) -> Result<Vec<T>, FitInterrupted> {
        let workers = thread::available_parallelism().map_or(1, usize::from);
        let mut results = Vec::new();
        for batch in structures.chunks(workers * SIMULATED_AT_ONCE) {
            self.tried += batch.len();
            // The total is unknown, so the reported progress approaches 1 asymptotically.
            let progress = 1.0 - 1.0 / (1.0 + self.tried as f64 / USUALLY_TRIED);
            if let ControlFlow::Break(()) = self.observer.step(progress, "trying card models") {
                return Err(FitInterrupted);
            }
            thread::scope(|scope| {
                let simulate = &simulate;
                let running: Vec<_> = batch
                    .chunks(SIMULATED_AT_ONCE)
                    .map(|part| scope.spawn(move || part.iter().map(simulate).collect::<Vec<T>>()))
                    .collect();
                for thread in running {
                    results.extend(thread.join().expect("a simulation does not panic"));
                }
            });
        }
        Ok(results)
    }

    fn fitted(&self, structure: CardStructure) -> Option<BestFit> {
        let work = self.work(structure)?;
        let on_each = self.buses.iter().map(|&bus| {
            self.scored(structure, bus, &work, |counts| {
                times::fit(counts, &self.durations, structure.page)
            })
        });
        on_each.flatten().min_by(by_error)
    }

    /// With times next to those of the same structure in another state.
    fn refitted(&self, structure: CardStructure, near: &BestFit) -> Option<BestFit> {
        let work = self.work(structure)?;
        self.scored(structure, near.bus, &work, |counts| {
            times::refit(counts, &self.durations, structure.page, &near.fitted.times)
        })
    }

    /// The work of the cells, the parts and the patterns of a simulated structure.
    fn work(&self, structure: CardStructure) -> Option<Vec<BusFreeWork>> {
        let one_die = structure.on_one_die();
        let all = self.cache.counts.get(&one_die.with_empty_log())?.as_ref()?;
        let parts = match structure.logged_pages {
            0 => &all.parts,
            _ => self.cache.logged.get(&one_die.at_fill(self.target))?.as_ref()?,
        };
        let cells = self.target.cells.iter();
        let work: Option<Vec<BusFreeWork>> =
            cells.map(|cell| all.cells.get(&ordered(key(cell))).copied()).collect();
        let mut work = work?;
        work.extend(parts);
        work.extend(self.target.pattern_sums(parts));
        Some(work)
    }

    fn scored(
        &self,
        structure: CardStructure,
        bus: FitBus,
        work: &[BusFreeWork],
        fit: impl Fn(&[CountedWork]) -> FittedTimes,
    ) -> Option<BestFit> {
        let dies = structure.dies;
        let empty = structure.on_one_die().with_empty_log();
        let all = self.cache.counts.get(&empty)?.as_ref()?;
        let counts: Vec<CountedWork> = work.iter().map(|work| work.on(bus, dies)).collect();
        let fitted = fit(&counts);
        let rate = |cell: CellKey| {
            let bytes = f64::from(cell.0);
            Some(bytes / fitted.times.duration(&all.cells.get(&ordered(cell))?.on(bus, dies)))
        };
        let missing = self.cliffs.iter().filter(|cliff| !cliff.shows_in(rate)).count();
        let score = fitted.error + MISSING_CLIFF * missing as f64;
        Some(BestFit { structure, fitted, bus, score })
    }
}
