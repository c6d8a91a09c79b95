//! Which structure fits best: a search over those that can be.
//!
//! Every kind of layer is tried with a few starts; from the best of each kind one value after
//! another is changed to each other that it can have, as long as that helps; what is found is tried
//! with the other kinds of layer too. A structure is simulated once ([`crate::counts`]), its times
//! are fitted without simulation ([`crate::times`]). The same target gives the same twin. Limits: a
//! search of that kind finds a good structure, not surely the best, and several can explain a table
//! equally well.

use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::thread;

use flashfit_geometry::belief::median;
use flashfit_geometry::flashbench::AccessOrder;
use flashfit_geometry::probed::ProbeObserver;

use crate::counts::{self, BusFreeWork, CellKey, CountedWork, FitBus, key};
use crate::fit_target::FitTarget;
use crate::structure::{CardStructure, KINDS, OrderedLayerKind, bus_for};
use crate::times::{self, FittedTimes};

/// How many of the kinds are searched further.
const KINDS_SEARCHED: usize = 3;
/// A kind that begins so much farther off than the best is not searched further.
const HOPELESS: f64 = 0.15;
/// A change must bring the rates nearer by this, as a mean of logarithms, to be worth it.
const WORTH: f64 = 0.001;
/// A bus that limits the fastest rate is hardly faster than that.
const SLOWEST_BUS: f64 = 1.03;
/// A usual write unit, and one with which cards are quickly simulated.
const START_PAGE: u64 = 16384;
/// More open erase blocks than that are not looked for.
const MOST_OPEN: u32 = 16;
/// Largest writes to a log.
const LOG_REQUESTS: [u64; 3] = [4096, 8192, 32768];
/// How often all values are gone through at most.
const MOST_ROUNDS: usize = 3;

/// The counts of structures that were simulated; good for any subset of a target's cells.
#[derive(Debug, Default)]
pub struct SimulatedCounts {
    counts: BTreeMap<CardStructure, Option<BTreeMap<KeyOrder, BusFreeWork>>>,
}

/// A key with an order of its own.
type KeyOrder = (u32, bool, u64);

fn ordered((units, access, write): CellKey) -> KeyOrder {
    (units, access == AccessOrder::Random, write.0)
}

/// A structure with the times that fit it best.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct BestFit {
    /// How it is built.
    pub structure: CardStructure,
    /// Its times, and how far the rates lie off with them.
    pub fitted: FittedTimes,
    /// Its bus.
    pub bus: FitBus,
}

/// The search was ended from outside.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FitInterrupted;

/// A search, and what it knows so far.
pub struct Search<'a> {
    target: &'a FitTarget,
    took: Vec<f64>,
    buses: [FitBus; 2],
    known: &'a mut SimulatedCounts,
    watch: &'a mut dyn ProbeObserver,
    tried: usize,
}

impl<'a> Search<'a> {
    /// A search for the structure that explains a target.
    pub fn new(
        target: &'a FitTarget,
        known: &'a mut SimulatedCounts,
        watch: &'a mut dyn ProbeObserver,
    ) -> Self {
        let unit = target.erase_unit.0 as f64;
        let took = target
            .cells
            .iter()
            .map(|cell| unit * f64::from(cell.units) / cell.bytes_per_second as f64)
            .collect();
        Self { buses: buses_of(target), target, took, known, watch, tried: 0 }
    }

    /// The best structure that is found.
    ///
    /// # Errors
    /// [`FitInterrupted`] when whoever watches ends it.
    pub fn run(&mut self) -> Result<Option<BestFit>, FitInterrupted> {
        let mut begun = Vec::new();
        for kind in KINDS {
            let all = self.weigh(&self.starts(kind))?;
            begun.extend(all.into_iter().min_by(nearer));
        }
        begun.sort_by(nearer);
        let Some(least) = begun.first().map(|best| best.fitted.off) else { return Ok(None) };
        begun.retain(|best| best.fitted.off <= least + HOPELESS);
        begun.truncate(KINDS_SEARCHED);
        let mut found = Vec::new();
        for start in begun {
            found.push(self.improve(start)?);
        }
        let Some(best) = found.into_iter().min_by(nearer) else { return Ok(None) };
        // What was found for one kind may suit another that a worse start led astray.
        let others = self.weigh(&self.as_other_kinds(best.structure))?;
        match others.into_iter().min_by(nearer) {
            Some(other) if other.fitted.off < best.fitted.off - WORTH => {
                self.improve(other).map(Some)
            }
            _ => Ok(Some(best)),
        }
    }

    /// Changes one value after another, as long as that helps.
    fn improve(&mut self, mut best: BestFit) -> Result<BestFit, FitInterrupted> {
        for _ in 0..MOST_ROUNDS {
            let before = best.fitted.off;
            for value in 0..VALUES {
                let others: Vec<CardStructure> = self.alternatives(best.structure, value);
                let all = self.weigh(&others)?;
                if let Some(other) = all.into_iter().min_by(nearer) {
                    if other.fitted.off < best.fitted.off - WORTH {
                        best = other;
                    }
                }
            }
            if best.fitted.off > before - WORTH {
                break;
            }
        }
        Ok(best)
    }

    /// Simulates what was not simulated yet and fits the times of each.
    fn weigh(&mut self, structures: &[CardStructure]) -> Result<Vec<BestFit>, FitInterrupted> {
        let mut new: Vec<CardStructure> = structures.to_vec();
        new.sort_unstable();
        new.dedup();
        new.retain(|structure| !self.known.counts.contains_key(structure));
        let workers = thread::available_parallelism().map_or(1, usize::from);
        for some in new.chunks(workers) {
            self.tried += some.len();
            // How many will be tried is not known; the share comes nearer to all with each.
            let done = 1.0 - 1.0 / (1.0 + self.tried as f64 / 100.0);
            if let ControlFlow::Break(()) = self.watch.step(done, "trying card models") {
                return Err(FitInterrupted);
            }
            let target = self.target;
            let counted = thread::scope(|scope| {
                let running: Vec<_> = some
                    .iter()
                    .map(|structure| scope.spawn(move || counts::count(target, structure).ok()))
                    .collect();
                let ends = running.into_iter().map(|thread| thread.join());
                ends.map(|end| end.expect("a simulation does not panic")).collect::<Vec<_>>()
            });
            for (structure, counts) in some.iter().zip(counted) {
                let by_key =
                    counts.map(|all| all.into_iter().map(|(k, c)| (ordered(k), c)).collect());
                self.known.counts.insert(*structure, by_key);
            }
        }
        Ok(structures.iter().filter_map(|structure| self.fitted(*structure)).collect())
    }

    fn fitted(&self, structure: CardStructure) -> Option<BestFit> {
        let all = self.known.counts.get(&structure)?.as_ref()?;
        let done: Option<Vec<BusFreeWork>> =
            self.target.cells.iter().map(|cell| all.get(&ordered(key(cell))).copied()).collect();
        let done = done?;
        let on_each = self.buses.into_iter().map(|bus| {
            let counts: Vec<CountedWork> = done.iter().map(|done| done.on(bus)).collect();
            BestFit { structure, fitted: times::fit(&counts, &self.took, structure.page), bus }
        });
        on_each.min_by(nearer)
    }

    /// What the search begins with: every number of open erase blocks.
    fn starts(&self, kind: OrderedLayerKind) -> Vec<CardStructure> {
        let unit = self.target.erase_unit.0;
        let mut starts = Vec::new();
        for open_units in 1..=self.most_open() {
            let structure = CardStructure {
                kind,
                page: START_PAGE,
                open_units,
                open_units_random: open_units,
                random_pages: u32::try_from(unit / START_PAGE / 2).unwrap_or(0),
                scratch: false,
                buffer: true,
                log_units: 2,
                log_request: 4096,
                chunk: if kind == OrderedLayerKind::PageMapped { START_PAGE } else { unit / 8 },
                spare_units: 6,
            };
            starts.push(structure.plain());
        }
        starts.retain(|structure| self.can_be(structure));
        starts.sort_unstable();
        starts.dedup();
        starts
    }

    /// One more than were written test beds for all that are more.
    fn most_open(&self) -> u32 {
        self.target.most_units().min(MOST_OPEN) + 1
    }

    /// The structures that differ from one in one of its values.
    fn alternatives(&self, from: CardStructure, value: usize) -> Vec<CardStructure> {
        let unit = self.target.erase_unit.0;
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
            // A log out of order holds as many bytes as before.
            0 => powers(4096, 65536)
                .map(|page| {
                    with(&|s| {
                        let bytes = u64::from(s.random_pages) * s.page;
                        s.random_pages = u32::try_from(bytes / page).unwrap_or(0);
                        s.page = page;
                    })
                })
                .collect(),
            1 => [true, false].map(|buffer| with(&|s| s.buffer = buffer)).to_vec(),
            2 => powers(4096, (unit / 2).min(512 << 10))
                .map(|log| with(&|s| s.log_request = log))
                .collect(),
            3 => (1..=self.most_open())
                .map(|open| {
                    with(&|s| {
                        let all = s.open_units_random == s.open_units;
                        s.open_units = open;
                        if all {
                            s.open_units_random = open;
                        }
                    })
                })
                .collect(),
            4 => {
                // Shares of a unit, in sixteenths.
                let pages = |share: u64| u32::try_from(unit / from.page * share / 16).unwrap_or(0);
                [0, 1, 2, 3, 4, 6, 8, 12, 16]
                    .map(|share| with(&|s| s.random_pages = pages(share)))
                    .to_vec()
            }
            5 => powers(from.page.max(unit / 64), unit)
                .map(|chunk| with(&|s| s.chunk = chunk))
                .collect(),
            6 => (0..=from.open_units).map(|open| with(&|s| s.open_units_random = open)).collect(),
            7 => [1, 2, 4, 8, 16].map(|log| with(&|s| s.log_units = log)).to_vec(),
            8 => [true, false].map(|scratch| with(&|s| s.scratch = scratch)).to_vec(),
            _ => [0, 2, 4, 8, 12, 24].map(|spare| with(&|s| s.spare_units = spare)).to_vec(),
        };
        for structure in &mut others {
            if structure.kind == OrderedLayerKind::PageMapped {
                structure.chunk = structure.chunk.min(structure.page);
            } else {
                structure.chunk = structure.chunk.max(structure.page);
            }
            *structure = structure.plain();
        }
        if from.kind == OrderedLayerKind::PageMapped && value == 5 {
            others =
                powers(4096, from.page).map(|chunk| with(&|s| s.chunk = chunk).plain()).collect();
        }
        others.retain(|structure| *structure != from && self.can_be(structure));
        others.sort_unstable();
        others.dedup();
        others
    }

    /// A structure as it would be with a layer of another kind, where that has a log with several
    /// of the largest writes to it.
    fn as_other_kinds(&self, from: CardStructure) -> Vec<CardStructure> {
        let kinds = KINDS.into_iter().filter(|&kind| kind != from.kind);
        let mut others: Vec<CardStructure> = kinds
            .flat_map(|kind| LOG_REQUESTS.map(|log_request| (kind, log_request)))
            .map(|(kind, log_request)| {
                let by_page = kind == OrderedLayerKind::PageMapped;
                let chunk = if by_page { from.page } else { self.target.erase_unit.0 / 8 };
                let (log_units, spare_units) = (from.log_units.max(2), 6);
                let open_units = from.open_units.max(1);
                CardStructure {
                    kind,
                    open_units,
                    log_units,
                    log_request,
                    chunk,
                    spare_units,
                    ..from
                }
            })
            .map(CardStructure::plain)
            .collect();
        others.retain(|structure| self.can_be(structure));
        others.sort_unstable();
        others.dedup();
        others
    }

    /// Whether the sizes fit into each other.
    fn can_be(&self, structure: &CardStructure) -> bool {
        let unit = self.target.erase_unit.0;
        let divides = |size: u64| size == 0 || unit % size == 0;
        divides(structure.page)
            && divides(structure.chunk)
            && structure.page % 512 == 0
            && (structure.kind != OrderedLayerKind::UpdateLog
                || structure.chunk % structure.page == 0)
    }
}

/// The values of a structure that are changed.
const VALUES: usize = 10;

fn nearer(one: &BestFit, other: &BestFit) -> std::cmp::Ordering {
    one.fitted.off.total_cmp(&other.fitted.off).then(one.structure.cmp(&other.structure))
}

/// A bus that limits none of the rates, and one that limits the fastest; single rates that are far
/// off do not count.
fn buses_of(target: &FitTarget) -> [FitBus; 2] {
    let mut rates: Vec<f64> =
        target.cells.iter().map(|cell| cell.bytes_per_second as f64).collect();
    rates.sort_by(f64::total_cmp);
    let upper = median(&rates[rates.len() * 9 / 10..]);
    [
        FitBus { bytes_per_second: bus_for(upper as u64), limits: false },
        FitBus { bytes_per_second: (upper * SLOWEST_BUS).max(1000.0) as u64, limits: true },
    ]
}
