//! Fits times to the simulated work of card structures, and scores the result.

use std::collections::BTreeMap;

use flashfit_geometry::flashbench::AccessOrder;

use super::{BestFit, by_error};
use crate::cliff::SeenCliff;
use crate::counts::{BusFreeWork, CellKey, CountedWork, FitBus, key};
use crate::fit_target::FitTarget;
use crate::structure::CardStructure;
use crate::times::{self, Durations, FittedTimes};

/// What a missing cliff adds to the error: more than any error that cells can have.
const MISSING_CLIFF: f64 = 3.0;

/// Cached counts of simulated structures with one die, valid for any subset of a target's cells.
#[derive(Debug, Default)]
pub struct SimulatedCounts {
    pub(super) counts: BTreeMap<CardStructure, Option<KnownWork>>,
    /// Of the patterns, after some writes to the log.
    pub(super) logged: BTreeMap<CardStructure, Option<Vec<BusFreeWork>>>,
}

#[derive(Debug)]
pub(super) struct KnownWork {
    pub cells: BTreeMap<OrderedKey, BusFreeWork>,
    pub parts: Vec<BusFreeWork>,
}

/// A [`CellKey`] that can be ordered.
pub(super) type OrderedKey = (u32, bool, u64);

pub(super) fn ordered((units, access, write): CellKey) -> OrderedKey {
    (units, access == AccessOrder::Random, write.0)
}

/// What a structure is scored with.
pub(super) struct TimeFit<'a> {
    pub target: &'a FitTarget,
    pub durations: &'a Durations,
    pub buses: &'a [FitBus],
    pub known: &'a SimulatedCounts,
    pub cliffs: &'a [SeenCliff],
}

impl TimeFit<'_> {
    /// Of all buses, with times from several starts.
    pub fn fitted(&self, structure: CardStructure) -> Option<BestFit> {
        let work = self.work(structure)?;
        let on_each = self.buses.iter().map(|&bus| {
            self.scored(structure, bus, &work, |counts| {
                times::fit(counts, self.durations, structure.page_bytes)
            })
        });
        on_each.flatten().min_by(by_error)
    }

    /// With times next to those of the same structure in another state.
    pub fn refitted(&self, structure: CardStructure, near: &BestFit) -> Option<BestFit> {
        let work = self.work(structure)?;
        self.scored(structure, near.bus, &work, |counts| {
            times::refit(counts, self.durations, structure.page_bytes, &near.fitted.times)
        })
    }

    /// The work of the cells, the parts and the patterns of a simulated structure.
    fn work(&self, structure: CardStructure) -> Option<Vec<BusFreeWork>> {
        let one_die = structure.on_one_die();
        let all = self.known.counts.get(&one_die.with_empty_log())?.as_ref()?;
        let parts = match structure.logged_pages {
            0 => &all.parts,
            _ => self.known.logged.get(&one_die.at_fill(self.target))?.as_ref()?,
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
        let all = self.known.counts.get(&empty)?.as_ref()?;
        let counts: Vec<CountedWork> = work.iter().map(|work| work.on(bus, dies)).collect();
        let fitted = fit(&counts);
        let rate = |cell: CellKey| {
            let bytes = f64::from(cell.0);
            Some(bytes / fitted.times.duration_s(&all.cells.get(&ordered(cell))?.on(bus, dies)))
        };
        let missing = self.cliffs.iter().filter(|cliff| !cliff.shows_in(rate)).count();
        let score = fitted.error + MISSING_CLIFF * missing as f64;
        Some(BestFit { structure, fitted, bus, score })
    }
}
