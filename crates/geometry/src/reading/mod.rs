//! The read-only probe: infers the geometry from the times of reads.
//!
//! A read that spans two units costs more than one within a unit: it reads two pages and looks up
//! two mappings. Small reads (two sectors) are made across multiples of 2^k and q x 2^k, each a
//! boundary of one candidate and of no larger one, in random order, each place once ([`places`]),
//! in groups that are close in place and time ([`scores`]). All reads give a posterior over the
//! structures ([`steps`], `question`), which also chooses the next reads ([`contest`]). A step that
//! disappears once a place was read ([`confirm`]), or that only some boundaries have (`elsewhere`),
//! does not count as an erase block. A small step that is the only one may come from the write
//! unit, unless longer reads reveal pages (`pages`).
//!
//! The probe ends when it is confident or the budget is used up: a third of the reads of flashbench
//! -a for this capacity, or up to twice its reads if an erase block is then likely but not certain,
//! as on a noisy device. Limits: it only detects structures that affect read times, which erase
//! blocks do not on every card, and write units do not in unwritten areas. Source of the method:
//! flashbench's README and A. Bergmann, "Optimizing Linux with cheap flash drives" (LWN, 2011).

pub mod confirm;
pub mod contest;
mod elsewhere;
mod map_checks;
mod next_reads;
mod pages;
pub mod places;
mod question;
mod regions;
pub mod scores;
mod session;
pub mod steps;
mod verdict;

use std::collections::BTreeSet;
use std::ops::Range;

use flashfit_device::random::Random;
use flashfit_device::{BlockDev, Clock};

use crate::belief::{ANSWERS, DeviceStructure, GeometryBelief};
use crate::findings::SURE;
use crate::probed::{ProbeError, ProbeObserver, Probed, SamplePurpose};
use map_checks::MapCacheCheck;
use pages::Pages;
use places::UnreadPlaces;
use question::{EraseBlockReads, LARGEST_WRITE_UNIT, SmallUnitBelief, UnitShares, WriteUnitReads};
use regions::{RegionKind, Regions};
use scores::BoundaryRead;
use session::ReadSession;
pub use session::is_gone;

/// The smallest region: a few boundaries of the smallest erase blocks.
pub const MIN_BYTES: u64 = 1 << 20;
/// Keeps the probe of an SD card below 20 s, including the step that is running at the end.
const USUAL_TIME_NS: u64 = 15_000_000_000;
/// Number of groups whose reads are interleaved.
const GROUPS_AT_ONCE: u32 = 2;
/// Number of initial groups that cover all sizes.
const SURVEYS: u32 = 4;
/// Number of region kinds.
const KINDS: u32 = 3;
/// Probability at which the write unit is settled.
const SETTLED: f64 = 0.995;
/// Probability at which the erase block needs no more reads. A lower one, down to `SURE`, is
/// accepted when the budget is used up.
const ENOUGH: f64 = 0.97;
/// Largest probability of any other erase block before the effect of the mapping table is checked:
/// at first, and when the budget is nearly used up.
const DOUBT: f64 = 0.02;
const LAST_DOUBT: f64 = 0.2;
/// Largest probability of no structure before that check.
const MAX_NOTHING: f64 = 0.06;
/// If an erase block is at least this likely at the end of the usual budget, the probe continues up
/// to this multiple of the usual reads, twice those of flashbench -a.
const PROMISING: f64 = 0.03;
const PATIENT_TIMES: u64 = 6;
/// A unit of this size in bytes whose step is the only one may be a write unit. Longer reads are
/// used to look for pages unless a smaller step is this likely.
const AMBIGUOUS: Range<u64> = pages::MIN_UNIT..384 << 10;
const ALONE: f64 = 0.98;
/// Reads after which structures this unlikely are given up.
const PATIENCE: u64 = 400;
const HOPELESS: f64 = 0.02;
/// Reads across boundaries of twice the erase block, which may be larger, and the smallest device,
/// in erase blocks, that has enough of them.
const DOUBLES: usize = 32;
const MIN_DOUBLES_ON_DEVICE: u64 = 128;
/// The share of the read budget, in percent, for finding the erase block; the rest is reserved for
/// checking the effect of the mapping table.
const FIRST_PERCENT: u64 = 75;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReadingOptions {
    /// The seed of all random choices.
    pub seed: u64,
    /// The region to read, in bytes; `None` for all of the device.
    pub region: Option<Range<u64>>,
    /// Offset of this block device on the physical device, in bytes: a partition does not start at
    /// 0, and units are counted from the start of the physical device.
    pub origin_bytes: u64,
    /// The read budget; `None` for [`usual_reads`], extended if they leave an erase block likely
    /// but not certain.
    pub max_reads: Option<u64>,
    /// No read starts after this time.
    pub max_time_ns: u64,
}

impl Default for ReadingOptions {
    fn default() -> Self {
        Self { seed: 0, region: None, origin_bytes: 0, max_reads: None, max_time_ns: USUAL_TIME_NS }
    }
}

/// A third of the default reads of flashbench -a for this capacity: 8 times at 3 places of 7
/// regions for each power of two from 32 KiB to the first that is at least a seventh of the device.
pub fn usual_reads(capacity_bytes: u64) -> u64 {
    let mut rows = 1;
    while (32u64 << 10) << (rows - 1) < capacity_bytes / 7 {
        rows += 1;
    }
    rows * 7 * 3 * 8 / 3
}

/// The largest default read budget for this capacity.
pub fn most_reads(capacity_bytes: u64) -> u64 {
    PATIENT_TIMES * usual_reads(capacity_bytes)
}

/// Probes a device by reading.
///
/// If `observer` ends it, the findings so far are returned, [marked](Probed::interrupted).
///
/// # Errors
/// If the region is invalid or too small, or the device disappears or is hardly readable.
pub fn probe(
    device: &mut dyn BlockDev,
    clock: &dyn Clock,
    options: &ReadingOptions,
    observer: &mut dyn ProbeObserver,
) -> Result<Probed, ProbeError> {
    let description = device.describe();
    let sector = u64::from(description.sector_bytes);
    let capacity_bytes = description.capacity_bytes;
    let region = options.region.clone().unwrap_or(0..capacity_bytes);
    let on_sectors = region.start % sector == 0 && region.end % sector == 0;
    if !on_sectors || region.start > region.end || region.end > capacity_bytes {
        let (start, end) = (region.start, region.end);
        return Err(ProbeError::Region { start, end, capacity_bytes });
    }
    let bytes = region.end - region.start;
    if bytes < MIN_BYTES {
        return Err(ProbeError::TooSmall { bytes, least: MIN_BYTES });
    }
    let length = usize::try_from(2 * sector).expect("two sectors");
    let mut session = ReadSession::new(device, clock, observer, length, options.origin_bytes);
    let max_reads = options.max_reads.unwrap_or_else(|| usual_reads(bytes));
    session.set_budget(max_reads, options.max_time_ns);
    let bounds = inner(&region, bytes, sector, options.origin_bytes);
    let mut search = Search {
        sector,
        bytes,
        max_reads,
        is_patient: false,
        first: EraseBlockReads::new(bytes),
        second: WriteUnitReads::new(sector),
        regions: Regions::new(bounds.clone()),
        places: UnreadPlaces::new(bounds),
        random: Random::new(options.seed),
        crossings: Vec::new(),
        groups: 0,
        disproved: BTreeSet::new(),
        belief: GeometryBelief::new(bytes, &[]),
        levels: Vec::new(),
        only_informative: false,
        map_checks: Vec::new(),
        small: SmallUnitBelief::default(),
        pages: Pages::default(),
    };
    match search.all(&mut session, options) {
        Ok(()) => {}
        Err(ProbeError::Interrupted) => {
            search.update_beliefs();
            session.probed.interrupted = true;
        }
        Err(error) => return Err(error),
    }
    Ok(verdict::conclude(search, session))
}

/// The region without its ends; the zone of a file allocation table is often mapped differently.
fn inner(region: &Range<u64>, bytes: u64, sector: u64, origin: u64) -> Range<u64> {
    let margin = (bytes / 64).clamp(2 * sector, 64 << 20);
    let start =
        origin + region.start + if origin + region.start == 0 { margin } else { 2 * sector };
    start..origin + region.end - 2 * sector
}

/// The state of a probe.
struct Search {
    sector: u64,
    /// Size of the region, in bytes.
    bytes: u64,
    max_reads: u64,
    /// Whether the budget was extended, which is for the erase block only.
    is_patient: bool,
    first: EraseBlockReads,
    second: WriteUnitReads,
    places: UnreadPlaces,
    regions: Regions,
    random: Random,
    crossings: Vec<BoundaryRead>,
    groups: u32,
    /// Levels whose steps come from the mapping table or exist only at some boundaries.
    disproved: BTreeSet<u64>,
    belief: GeometryBelief,
    /// Sizes with steps in the most likely model, in bytes.
    levels: Vec<u64>,
    /// Whether the belief uses informative regions only.
    only_informative: bool,
    map_checks: Vec<MapCacheCheck>,
    small: SmallUnitBelief,
    pages: Pages,
}

impl Search {
    fn all(
        &mut self,
        session: &mut ReadSession<'_>,
        options: &ReadingOptions,
    ) -> Result<(), ProbeError> {
        self.survey_all(session)?;
        self.run(session)?;
        if options.max_reads.is_none() && self.is_promising() {
            self.max_reads = most_reads(self.bytes);
            session.set_budget(self.max_reads, options.max_time_ns);
            self.is_patient = true;
            self.run(session)?;
        }
        session.report("done")
    }

    /// Covers all sizes once before reads become selective.
    fn survey_all(&mut self, session: &mut ReadSession<'_>) -> Result<(), ProbeError> {
        for _ in 0..SURVEYS / GROUPS_AT_ONCE {
            self.batch(session, Self::survey, Self::survey)?;
        }
        Ok(())
    }

    /// Reads where hypotheses disagree until the result is clear or the budget is used up.
    fn run(&mut self, session: &mut ReadSession<'_>) -> Result<(), ProbeError> {
        while session.reads_left() > 0 {
            let before = session.probed.reads;
            self.update_beliefs();
            let reserved = session.probed.reads >= self.max_reads * FIRST_PERCENT / 100;
            let suspect = if reserved { self.settled(LAST_DOUBT) } else { self.settled(DOUBT) };
            if let Some(unit) = suspect.filter(|unit| !self.is_clear(*unit)) {
                self.check_map_cache(session, unit)?;
                self.update_beliefs();
            }
            if self.is_only_step() && !self.pages.is_done() {
                session.report("reading longer")?;
                let (places, random) = (&mut self.places, &mut self.random);
                self.pages.check(session, places, &self.regions, random, self.sector)?;
                self.update_beliefs();
            }
            let answered = verdict::confidence(self).is_some_and(|confidence| confidence >= ENOUGH);
            let first_is_open = !answered && !self.is_hopeless(session);
            let settled = |of: &UnitShares| of.first().is_some_and(|(_, share)| *share >= SETTLED);
            let second_is_open = !(settled(&self.small.write_unit) && settled(&self.small.finest))
                && session.probed.reads < self.max_reads * FIRST_PERCENT / 100;
            session.report("reading across boundaries")?;
            match (first_is_open, second_is_open) {
                _ if answered && self.compares_too_few_doubles() => {
                    self.batch(session, Self::doubles, Self::doubles)?;
                }
                (false, _) if self.is_patient => break,
                (false, false) => break,
                (true, false) => self.batch(session, Self::coarse, Self::coarse)?,
                (false, true) => self.batch(session, Self::fine, Self::fine)?,
                (true, true) => self.batch(session, Self::coarse, Self::fine)?,
            }
            // Every place of a small region was read.
            if session.probed.reads == before {
                break;
            }
        }
        self.update_beliefs();
        Ok(())
    }

    /// Whether too few reads show that boundaries of twice the size have no larger step.
    fn compares_too_few_doubles(&self) -> bool {
        let Some((unit, _)) = self.belief.answer() else { return false };
        let is_double = |read: &&BoundaryRead| read.center % (2 * unit) == 0;
        let is_possible = unit.is_power_of_two()
            && unit > LARGEST_WRITE_UNIT
            && unit < *ANSWERS.end()
            && unit <= self.bytes / MIN_DOUBLES_ON_DEVICE;
        is_possible && self.crossings.iter().filter(is_double).count() < DOUBLES
    }

    /// Whether an erase block is likely enough to extend the budget.
    fn is_promising(&self) -> bool {
        let answered = verdict::confidence(self).is_some_and(|confidence| confidence >= SURE);
        let posterior = self.belief.posterior();
        let is_unit =
            |of: &DeviceStructure| of.bytes().is_some_and(|bytes| ANSWERS.contains(&bytes));
        !answered && posterior.iter().any(|(of, share)| *share >= PROMISING && is_unit(of))
    }

    /// Whether the only step may as well come from a write unit.
    fn is_only_step(&self) -> bool {
        let mut levels = self.levels.iter().filter(|level| !self.disproved.contains(level));
        let (Some(&unit), None) = (levels.next(), levels.next()) else { return false };
        AMBIGUOUS.contains(&unit) && self.smaller_shows(unit) < ALONE
    }

    /// The probability of a visible structure well below a unit, which is not the same step.
    fn smaller_shows(&self, unit: u64) -> f64 {
        let well_below = |size: &Option<u64>| size.is_some_and(|size| size <= unit / 8);
        let shares = self.small.finest.iter().filter(|(size, _)| well_below(size));
        let to_short: f64 = shares.map(|(_, share)| share).sum();
        let to_longer = self.pages.show().filter(|_| unit >= pages::MIN_UNIT);
        1.0 - (1.0 - to_short) * (1.0 - to_longer.unwrap_or(0.0))
    }

    /// Whether more reads are unlikely to find an erase block.
    fn is_hopeless(&self, session: &ReadSession<'_>) -> bool {
        if self.is_patient {
            return !self.is_promising();
        }
        let nothing = self.belief.probability(DeviceStructure::Nothing);
        session.probed.reads >= PATIENCE.min(self.max_reads / 2) && nothing > 1.0 - HOPELESS
    }

    /// The erase block that the reads support, if no other has more than this probability. Reads
    /// cannot resolve the remaining doubt whether a small unit is a write unit.
    fn settled(&self, doubt: f64) -> Option<u64> {
        let unit = self.belief.likeliest().0.bytes().filter(|bytes| ANSWERS.contains(bytes))?;
        let posterior = self.belief.posterior();
        let is_other =
            |structure: &DeviceStructure| structure.bytes().is_some_and(|other| other != unit);
        let mut others = posterior.iter().filter(|(structure, _)| is_other(structure));
        let unrivalled = others.all(|&(_, share)| share < doubt);
        let nothing = self.belief.probability(DeviceStructure::Nothing);
        (unrivalled && nothing < doubt.max(MAX_NOTHING)).then_some(unit)
    }

    /// The reads in informative regions.
    fn informative_reads(&self) -> Vec<BoundaryRead> {
        let reads = self.crossings.iter().copied();
        reads
            .filter(|crossing| self.regions.kind(crossing.center) == RegionKind::Informative)
            .collect()
    }

    /// All reads, grouped separately by the kind of their region.
    fn everywhere(&self) -> Vec<BoundaryRead> {
        let of_kind = |&BoundaryRead { center, group, elapsed_ns }: &BoundaryRead| {
            let kind = self.regions.kind(center) as u32;
            BoundaryRead { center, group: KINDS * group + kind, elapsed_ns }
        };
        self.crossings.iter().map(of_kind).collect()
    }

    /// The reads that the belief uses, with the kind of their region.
    fn believed(&self) -> Vec<(RegionKind, BoundaryRead)> {
        let reads =
            if self.only_informative { self.informative_reads() } else { self.everywhere() };
        reads.into_iter().map(|read| (self.regions.kind(read.center), read)).collect()
    }

    fn update_beliefs(&mut self) {
        let (reads, within) = (self.crossings.iter().copied(), 2 * self.sector);
        self.regions.weigh(reads.filter(|read| read.center % within != 0));
        let informative_reads = self.informative_reads();
        let unit = self.belief.likeliest().0.bytes().filter(|_| self.belief.likeliest().1 > 0.5);
        self.small = self.second.shares(&informative_reads, unit);
        let belief = |reads: &[BoundaryRead]| {
            self.first.belief(reads, self.bytes, &self.disproved, |unit| self.smaller_shows(unit))
        };
        let nothing = |of: &(GeometryBelief, Vec<u64>)| of.0.probability(DeviceStructure::Nothing);
        // The cost of a lookup may be visible everywhere or only in written regions.
        let mut likeliest = belief(&self.everywhere());
        let mut only_informative = false;
        if informative_reads.len() < self.crossings.len() {
            let written = belief(&informative_reads);
            if nothing(&written) < nothing(&likeliest) {
                likeliest = written;
                only_informative = true;
            }
        }
        (self.belief, self.levels) = likeliest;
        self.only_informative = only_informative;
    }

    /// Reads of two groups, interleaved at random.
    fn batch(
        &mut self,
        session: &mut ReadSession<'_>,
        one: fn(&mut Self) -> Vec<u64>,
        other: fn(&mut Self) -> Vec<u64>,
    ) -> Result<(), ProbeError> {
        let mut reads: Vec<(u64, u32)> = Vec::new();
        for units in [one(self), other(self)] {
            let largest = units.iter().copied().max().unwrap_or(0);
            // Unwritten regions show no pages, but may show erase blocks.
            let any = largest > LARGEST_WRITE_UNIT && self.random.below(2) == 0;
            let region = self.regions.draw(&mut self.random, largest, any);
            let group = self.groups;
            self.groups += 1;
            for unit in units {
                let place = self.places.fresh(&mut self.random, unit, &region);
                reads.extend(place.map(|place| (place, group)));
            }
        }
        self.random.shuffle(&mut reads);
        for (center, group) in reads {
            if session.reads_left() == 0 {
                break;
            }
            let across = center % (2 * self.sector) == 0;
            let purpose =
                if across { SamplePurpose::ReadAcross } else { SamplePurpose::ReadAdjacent };
            if let Some(elapsed_ns) = session.read_across(center, purpose)? {
                self.crossings.push(BoundaryRead { center, group, elapsed_ns });
            }
        }
        Ok(())
    }
}
