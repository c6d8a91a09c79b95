//! Scores card structures: simulates what is new, and fits the times.
//!
//! The operations of a structure are counted once, those of the patterns once for each state of its
//! log for small writes. Of several states, the one that fits best counts. Limit: the number of
//! states is limited ([`LogStates`]), and only structures that fit best are tried with them.

use std::ops::ControlFlow;
use std::thread;

use super::time_fit::{KnownWork, TimeFit, ordered};
use super::{BestFit, FitInterrupted, Search, by_error, sizes};
use crate::counts;
use crate::structure::CardStructure;

/// Structures that a thread simulates, and that are fitted, before the observer is asked whether to
/// go on.
const SIMULATED_AT_ONCE: usize = 8;
const FITTED_AT_ONCE: usize = 32;
/// How many simulations are half of the usual number.
const USUALLY_TRIED: f64 = 2000.0;

/// The states of logs that are tried. When a log is full is what most of the times of small writes
/// depend on, so that a structure is not known to be wrong before.
#[derive(Debug, Clone, Copy)]
pub(super) struct LogStates {
    /// Into how many parts an erase block is divided.
    pub parts: u32,
    /// For how many structures.
    pub most: usize,
    /// How many are simulated for one start or all, so that a fit takes at most a few minutes and
    /// a wrong start leaves enough for the others.
    pub all: usize,
}

impl Search<'_> {
    /// Allows so many more states of logs to be simulated.
    pub(super) fn allow_logs(&mut self, more: usize) {
        self.most_logs = self.cache.logged.len() + more;
    }

    /// Simulates new structures and fits the times of all; of the best ones, with what fits best of
    /// several states of the log for small writes before the patterns.
    pub(super) fn evaluate_with_logs(
        &mut self,
        structures: &[CardStructure],
        LogStates { parts, most, .. }: LogStates,
    ) -> Result<Vec<BestFit>, FitInterrupted> {
        let mut first = self.evaluate(structures)?;
        first.sort_by(by_error);
        let mut left = self.most_logs.saturating_sub(self.cache.logged.len());
        if self.target.patterns.is_none() || left == 0 {
            return Ok(first);
        }
        let unit = self.target.erase_block.0;
        let states = |(at, of): (usize, &BestFit)| {
            if of.structure.log_blocks == 0 || at >= most || left == 0 {
                return Vec::new();
            }
            let all = sizes::logged_pages(unit, &of.structure, parts);
            left = left.saturating_sub(all.len());
            all
        };
        let all: Vec<Vec<CardStructure>> = first.iter().enumerate().map(states).collect();
        self.simulate(&all.concat())?;
        let fit = self.time_fit();
        let best = |(first, states): &(BestFit, Vec<CardStructure>)| {
            let near = states.iter().filter_map(|state| fit.refitted(*state, first));
            let near = near.min_by(by_error).filter(|near| near.score < first.score);
            let exact = near.and_then(|near| fit.fitted(near.structure));
            exact.into_iter().chain([*first]).min_by(by_error).expect("at least the first")
        };
        let (logged, others): (Vec<_>, Vec<_>) =
            first.into_iter().zip(all).partition(|(_, states)| !states.is_empty());
        let mut found = spread(&logged, &best);
        found.extend(others.into_iter().map(|(first, _)| first));
        Ok(found)
    }

    /// Simulates new structures and fits the times of all.
    pub(super) fn evaluate(
        &mut self,
        structures: &[CardStructure],
    ) -> Result<Vec<BestFit>, FitInterrupted> {
        self.simulate(structures)?;
        let mut new: Vec<_> = structures.to_vec();
        new.sort_unstable();
        new.dedup();
        new.retain(|structure| !self.fits.contains_key(structure));
        for part in new.chunks(FITTED_AT_ONCE) {
            self.go_on()?;
            let fit = self.time_fit();
            let fitted = spread(part, &|of: &CardStructure| fit.fitted(*of));
            self.fits.extend(part.iter().copied().zip(fitted));
        }
        Ok(structures.iter().filter_map(|structure| self.fits[structure]).collect())
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

    /// Simulates structures on all processors.
    fn in_parallel<T: Send>(
        &mut self,
        structures: &[CardStructure],
        simulate: impl Fn(&CardStructure) -> T + Sync,
    ) -> Result<Vec<T>, FitInterrupted> {
        let mut results = Vec::new();
        for batch in structures.chunks(workers() * SIMULATED_AT_ONCE) {
            self.tried += batch.len();
            self.go_on()?;
            results.extend(spread(batch, &simulate));
        }
        Ok(results)
    }

    /// Asks the observer whether to go on.
    fn go_on(&mut self) -> Result<(), FitInterrupted> {
        // The total is unknown, so the reported progress approaches 1 asymptotically.
        let progress = 1.0 - 1.0 / (1.0 + self.tried as f64 / USUALLY_TRIED);
        match self.observer.step(progress, "trying card models") {
            ControlFlow::Continue(()) => Ok(()),
            ControlFlow::Break(()) => Err(FitInterrupted),
        }
    }

    fn time_fit(&self) -> TimeFit<'_> {
        TimeFit {
            target: self.target,
            durations: &self.durations,
            buses: &self.buses,
            known: self.cache,
            cliffs: self.cliffs,
        }
    }
}

fn workers() -> usize {
    thread::available_parallelism().map_or(1, usize::from)
}

/// Computes something of each item, in equal parts on all processors.
fn spread<T: Sync, R: Send>(items: &[T], compute: &(impl Fn(&T) -> R + Sync)) -> Vec<R> {
    thread::scope(|scope| {
        let running: Vec<_> = items
            .chunks(items.len().div_ceil(workers()).max(1))
            .map(|part| scope.spawn(move || part.iter().map(compute).collect::<Vec<R>>()))
            .collect();
        let join = |thread: thread::ScopedJoinHandle<'_, Vec<R>>| {
            thread.join().expect("neither a simulation nor a fit panics")
        };
        running.into_iter().flat_map(join).collect()
    })
}

#[cfg(test)]
mod tests {
    use flashfit_device::Bytes;
    use flashfit_geometry::probed::NoObserver;

    use super::super::{CHANGED_LOGS, SimulatedCounts};
    use super::*;
    use crate::fit_target::MeasuredPatterns;
    use crate::fit_target::tests::target;
    use crate::structure::OrderedLayerKind;

    /// Start structures of a wrong kind of layer used up what was allowed for all of them.
    #[test]
    fn each_start_is_tried_with_a_limited_number_of_states_of_its_log() {
        let patterns = MeasuredPatterns { filled: Bytes::mib(64), measured: Vec::new() };
        let target = target(Bytes::kib(128)).with_patterns(Some(patterns), None);
        let (mut cache, mut observer) = (SimulatedCounts::default(), NoObserver);
        let mut search = Search::new(&target, &mut cache, &mut observer);
        let mut before = 0;
        for kind in [OrderedLayerKind::LogBlock, OrderedLayerKind::UpdateLog] {
            search.allow_logs(20);
            for _ in 0..3 {
                let starts = search.starts(kind);
                let found = search.evaluate_with_logs(&starts, CHANGED_LOGS).expect("not stopped");
                assert_eq!(found.len(), starts.len());
            }
            let tried = search.cache.logged.len() - before;
            before += tried;
            // The last structure is tried with all of its states.
            let each = CHANGED_LOGS.parts as usize;
            assert!(tried > 0 && tried < 20 + each, "{kind:?}: {tried}");
        }
    }
}
