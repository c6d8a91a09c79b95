//! The reading-only probe: what a device shows of its geometry to one who only reads.
//!
//! A read that spans two units costs more than one that does not: two pages are read, two units
//! looked up. Small reads (two sectors) are made across places that are multiples of 2^k and
//! q x 2^k, each the boundary of one candidate and of no larger one, in random order, each place
//! once ([`places`]), in groups that lie close together in place and time ([`scores`]). All reads
//! together give a posterior over the structures ([`steps`], `question`), which also says where
//! to read next ([`contest`]). A step that is there only as long as a place is new ([`confirm`]),
//! or that only some boundaries have (`elsewhere`), is not taken for an erase block's; a small one
//! that is the only step may be a write unit's, unless pages show to longer reads (`pages`). It
//! ends when it is sure, or when the budget is used up: a third of what flashbench -a reads on a
//! device of this size, or, where an erase block is likely by then but not sure, as on a noisy
//! device, up to twice of what it reads. Limits: sees only what costs readers time, which an erase
//! unit does not on every card, and a write unit does not where nothing was written.
//! Source of the method: flashbench's README and A. Bergmann, "Optimizing Linux with cheap flash
//! drives" (LWN, 2011).

pub mod confirm;
pub mod contest;
mod elsewhere;
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
use confirm::{BoundaryDifference, SuspectedStep};
use pages::Pages;
use places::UnreadPlaces;
use question::{
    COARSE, EraseBlockReads, LARGEST_WRITE_UNIT, SmallUnitBelief, UnitShares, WriteUnitReads,
};
use regions::{RegionKind, Regions};
use scores::BoundaryRead;
use session::ReadSession;
pub use session::is_gone;

/// The least that can be probed: some boundaries of the smallest erase blocks.
pub const LEAST_BYTES: u64 = 1 << 20;
/// A probe of an SD card must not take longer than 20 s; what is under way at the end comes on top.
const USUAL_TIME_NS: u64 = 15_000_000_000;
/// Groups whose reads are mixed with each other.
const GROUPS_AT_ONCE: u32 = 2;
/// Groups that look at everything, before reads go where the doubt is.
const SURVEYS: u32 = 4;
/// Reads of such a group that cross nothing.
const WITHIN_PAGES: usize = 10;
/// Kinds of parts that a group's reads can lie in.
const KINDS: u32 = 3;
/// Pairs of structures that a group tells apart.
const CONTESTS: usize = 4;
/// Sure enough of a write unit to go on.
const SETTLED: f64 = 0.995;
/// Sure enough of an erase block to read no more for it; with less, down to `SURE`, it is answered
/// when the budget is used up.
const ENOUGH: f64 = 0.97;
/// No other erase block may be so likely when it is looked whether a step is a map's, at first and
/// when the budget is nearly used up.
const DOUBT: f64 = 0.02;
const LAST_DOUBT: f64 = 0.2;
/// So likely may it be that nothing shows.
const MOST_DOUBT: f64 = 0.06;
/// Where the usual budget ends with an erase block this likely, the probe goes on, for up to so
/// many times the usual reads: twice those of flashbench -a.
const PROMISING: f64 = 0.03;
const PATIENT_TIMES: u64 = 6;
/// A unit whose step is the only one can be a write unit, in bytes: whether pages show to longer
/// reads is looked at unless a smaller step is this likely.
const AMBIGUOUS: Range<u64> = pages::LEAST_UNIT..384 << 10;
const ALONE: f64 = 0.98;
/// Reads after which a structure that is this unlikely is not looked for any longer.
const PATIENCE: u64 = 400;
const HOPELESS: f64 = 0.02;
/// The most reads of the budget that the first question may use, in percent; the rest is for
/// looking whether it is the map.
const FIRST_PERCENT: u64 = 75;

/// How to probe.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReadingOptions {
    /// What all that is left to chance comes from.
    pub seed: u64,
    /// The part of the device to read, in bytes; all of it where it is not said.
    pub region: Option<Range<u64>>,
    /// Where the device begins on the device, in bytes: a partition does not begin at 0, and units
    /// are counted from where the device does.
    pub origin_bytes: u64,
    /// The most reads; where it is not said [`usual_reads`], or some times more where they leave an
    /// erase block likely but not sure.
    pub max_reads: Option<u64>,
    /// After so many nanoseconds no further read is begun.
    pub max_time_ns: u64,
}

impl Default for ReadingOptions {
    fn default() -> Self {
        Self { seed: 0, region: None, origin_bytes: 0, max_reads: None, max_time_ns: USUAL_TIME_NS }
    }
}

/// A third of the reads that flashbench -a makes by default on a device of so many bytes: 8 times
/// at 3 places of 7 regions for each power of two from 32 KiB to the first that is at least a
/// seventh of the device.
pub fn usual_reads(capacity_bytes: u64) -> u64 {
    let mut rows = 1;
    while (32u64 << 10) << (rows - 1) < capacity_bytes / 7 {
        rows += 1;
    }
    rows * 7 * 3 * 8 / 3
}

/// The most reads that a probe makes by itself on a device of so many bytes.
pub fn most_reads(capacity_bytes: u64) -> u64 {
    PATIENT_TIMES * usual_reads(capacity_bytes)
}

/// Finds what readers are shown.
///
/// # Errors
/// When the region is not on the device or too small, the device vanishes or can hardly be read, or
/// `watch` ends it.
pub fn probe(
    device: &mut dyn BlockDev,
    clock: &dyn Clock,
    options: &ReadingOptions,
    watch: &mut dyn ProbeObserver,
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
    if bytes < LEAST_BYTES {
        return Err(ProbeError::TooSmall { bytes, least: LEAST_BYTES });
    }
    let length = usize::try_from(2 * sector).expect("two sectors");
    let mut session = ReadSession::new(device, clock, watch, length, options.origin_bytes);
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
        only_telling: false,
        looks: Vec::new(),
        small: SmallUnitBelief::default(),
        pages: Pages::default(),
    };
    search.survey_all(&mut session)?;
    search.run(&mut session)?;
    if options.max_reads.is_none() && search.is_promising() {
        search.max_reads = most_reads(bytes);
        session.set_budget(search.max_reads, options.max_time_ns);
        search.is_patient = true;
        search.run(&mut session)?;
    }
    session.tell("done")?;
    Ok(verdict::conclude(search, session))
}

/// Without the ends: a zone for a file allocation table is often mapped in a way of its own.
fn inner(region: &Range<u64>, bytes: u64, sector: u64, origin: u64) -> Range<u64> {
    let margin = (bytes / 64).clamp(2 * sector, 64 << 20);
    let start =
        origin + region.start + if origin + region.start == 0 { margin } else { 2 * sector };
    start..origin + region.end - 2 * sector
}

/// What is measured and believed while the probe works.
struct Search {
    sector: u64,
    /// Size of the region, in bytes.
    bytes: u64,
    max_reads: u64,
    /// Whether the usual budget is used up, and reads are for the erase block alone.
    is_patient: bool,
    first: EraseBlockReads,
    second: WriteUnitReads,
    places: UnreadPlaces,
    regions: Regions,
    random: Random,
    crossings: Vec<BoundaryRead>,
    groups: u32,
    /// Levels whose steps are not those of units: a map makes them, or they are at some boundaries.
    disproved: BTreeSet<u64>,
    belief: GeometryBelief,
    /// The sizes with steps in the likeliest model, in bytes.
    levels: Vec<u64>,
    /// Whether the belief comes from written parts alone.
    only_telling: bool,
    looks: Vec<Look>,
    small: SmallUnitBelief,
    pages: Pages,
}

/// What was seen when it was looked whether the step of a unit is a map's.
struct Look {
    /// In bytes.
    unit: u64,
    /// How much longer reads across boundaries took still.
    differences: Vec<BoundaryDifference>,
    /// How likely the step is not a map's.
    remains: f64,
    /// Whether it need not be looked at again.
    is_over: bool,
}

impl Look {
    fn new(unit: u64) -> Self {
        Self { unit, differences: Vec::new(), remains: confirm::USUAL, is_over: false }
    }
}

impl Search {
    /// Looks at everything once, before reads go where the doubt is.
    fn survey_all(&mut self, session: &mut ReadSession<'_>) -> Result<(), ProbeError> {
        for _ in 0..SURVEYS / GROUPS_AT_ONCE {
            self.batch(session, Self::survey, Self::survey)?;
        }
        Ok(())
    }

    /// Reads where the doubt is, until there is none or the budget is used up.
    fn run(&mut self, session: &mut ReadSession<'_>) -> Result<(), ProbeError> {
        while session.reads_left() > 0 {
            let before = session.probed.reads;
            self.think();
            let reserved = session.probed.reads >= self.max_reads * FIRST_PERCENT / 100;
            let suspect = if reserved { self.settled(LAST_DOUBT) } else { self.settled(DOUBT) };
            if let Some(unit) = suspect.filter(|unit| !self.is_clear(*unit)) {
                self.look_at(session, unit)?;
                self.think();
            }
            if self.is_alone() && !self.pages.is_over() {
                session.tell("reading longer")?;
                let (places, random) = (&mut self.places, &mut self.random);
                self.pages.look(session, places, &self.regions, random, self.sector)?;
                self.think();
            }
            let answered = verdict::confidence(self).is_some_and(|confidence| confidence >= ENOUGH);
            let first_is_open = !answered && !self.is_hopeless(session);
            let settled = |of: &UnitShares| of.first().is_some_and(|(_, share)| *share >= SETTLED);
            let second_is_open = !(settled(&self.small.write_unit) && settled(&self.small.finest))
                && session.probed.reads < self.max_reads * FIRST_PERCENT / 100;
            session.tell("reading across boundaries")?;
            match (first_is_open, second_is_open) {
                (false, _) if self.is_patient => break,
                (false, false) => break,
                (true, false) => self.batch(session, Self::coarse, Self::coarse)?,
                (false, true) => self.batch(session, Self::fine, Self::fine)?,
                (true, true) => self.batch(session, Self::coarse, Self::fine)?,
            }
            // Of a small region every place was read.
            if session.probed.reads == before {
                break;
            }
        }
        self.think();
        Ok(())
    }

    /// Whether some erase block is likely enough to spend more on it than is usual.
    fn is_promising(&self) -> bool {
        let answered = verdict::confidence(self).is_some_and(|confidence| confidence >= SURE);
        let posterior = self.belief.posterior();
        let is_unit =
            |of: &DeviceStructure| of.bytes().is_some_and(|bytes| ANSWERS.contains(&bytes));
        !answered && posterior.iter().any(|(of, share)| *share >= PROMISING && is_unit(of))
    }

    /// Whether the only step is that of a unit that may as well be a write unit.
    fn is_alone(&self) -> bool {
        let mut levels = self.levels.iter().filter(|level| !self.disproved.contains(level));
        let (Some(&unit), None) = (levels.next(), levels.next()) else { return false };
        AMBIGUOUS.contains(&unit) && self.smaller_shows(unit) < ALONE
    }

    /// How likely something well below a unit shows: otherwise it may be the same step.
    fn smaller_shows(&self, unit: u64) -> f64 {
        let well_below = |size: &Option<u64>| size.is_some_and(|size| size <= unit / 8);
        let shares = self.small.finest.iter().filter(|(size, _)| well_below(size));
        let to_short: f64 = shares.map(|(_, share)| share).sum();
        let to_longer = self.pages.show().filter(|_| unit >= pages::LEAST_UNIT);
        1.0 - (1.0 - to_short) * (1.0 - to_longer.unwrap_or(0.0))
    }

    /// Whether more reads would hardly find an erase block.
    fn is_hopeless(&self, session: &ReadSession<'_>) -> bool {
        if self.is_patient {
            return !self.is_promising();
        }
        let nothing = self.belief.probability(DeviceStructure::Nothing);
        session.probed.reads >= PATIENCE.min(self.max_reads / 2) && nothing > 1.0 - HOPELESS
    }

    /// The erase block that the reads so far point to: no other one does with more than this doubt,
    /// and what is left of it, whether a small unit is a write unit, no read can settle.
    fn settled(&self, doubt: f64) -> Option<u64> {
        let unit = self.belief.likeliest().0.bytes().filter(|bytes| ANSWERS.contains(bytes))?;
        let posterior = self.belief.posterior();
        let is_other =
            |structure: &DeviceStructure| structure.bytes().is_some_and(|other| other != unit);
        let mut others = posterior.iter().filter(|(structure, _)| is_other(structure));
        let unrivalled = others.all(|&(_, share)| share < doubt);
        let nothing = self.belief.probability(DeviceStructure::Nothing);
        (unrivalled && nothing < doubt.max(MOST_DOUBT)).then_some(unit)
    }

    /// How likely the step of a unit is not a map's, if that was looked at.
    fn looked_at(&self, unit: u64) -> Option<f64> {
        self.looks.iter().find(|look| look.unit == unit).map(|look| look.remains)
    }

    /// Whether more reads would hardly tell more about whether the step of a unit is a map's.
    fn is_clear(&self, unit: u64) -> bool {
        self.looks.iter().any(|look| look.unit == unit && look.is_over)
    }

    /// Looks whether the step of a unit is a map's, and remembers it. How long the step is must be
    /// known from reads across and beside in the same group.
    fn look_at(&mut self, session: &mut ReadSession<'_>, unit: u64) -> Result<(), ProbeError> {
        let (kind, step) = self.step(unit);
        if step.ns.is_nan() {
            return Ok(());
        }
        if step.is_surely_none() {
            self.disproved.insert(unit);
            self.looks.retain(|look| look.unit != unit);
            self.looks.push(Look { remains: 0.0, is_over: true, ..Look::new(unit) });
            return Ok(());
        }
        let mut others = self.levels.clone();
        others.retain(|&level| level != unit);
        let suspect = SuspectedStep { unit, step_ns: step.ns, spread_ns: step.spread_ns, others };
        let (places, random) = (&mut self.places, &mut self.random);
        let is_like = |place: u64| self.regions.kind(place) == kind;
        let earlier = self.looks.iter().position(|look| look.unit == unit);
        let mut look = earlier.map_or_else(|| Look::new(unit), |at| self.looks.swap_remove(at));
        let before = look.differences.len();
        let differences = &mut look.differences;
        look.remains = confirm::remains(session, places, random, &suspect, &is_like, differences)?;
        let is_enough = confirm::is_enough(&look.differences, look.remains);
        look.is_over = is_enough || look.differences.len() == before;
        if !confirm::UNSURE.contains(&look.remains) && look.remains < 0.5 {
            self.disproved.insert(unit);
        }
        self.looks.push(look);
        Ok(())
    }

    /// The reads where the flash was written, as far as that shows.
    fn telling(&self) -> Vec<BoundaryRead> {
        let reads = self.crossings.iter().copied();
        reads.filter(|crossing| self.regions.kind(crossing.centre) == RegionKind::Telling).collect()
    }

    /// All reads, those in parts of each kind in groups of their own.
    fn everywhere(&self) -> Vec<BoundaryRead> {
        let of_kind = |&BoundaryRead { centre, group, elapsed_ns }: &BoundaryRead| {
            let kind = self.regions.kind(centre) as u32;
            BoundaryRead { centre, group: KINDS * group + kind, elapsed_ns }
        };
        self.crossings.iter().map(of_kind).collect()
    }

    /// The reads that the belief comes from, with the kind of the part that they lie in.
    fn believed(&self) -> Vec<(RegionKind, BoundaryRead)> {
        let reads = if self.only_telling { self.telling() } else { self.everywhere() };
        reads.into_iter().map(|read| (self.regions.kind(read.centre), read)).collect()
    }

    /// Weighs all reads again.
    fn think(&mut self) {
        let (reads, within) = (self.crossings.iter().copied(), 2 * self.sector);
        self.regions.weigh(reads.filter(|read| read.centre % within != 0));
        let telling = self.telling();
        let unit = self.belief.likeliest().0.bytes().filter(|_| self.belief.likeliest().1 > 0.5);
        self.small = self.second.shares(&telling, unit);
        let belief = |reads: &[BoundaryRead]| {
            self.first.belief(reads, self.bytes, &self.disproved, |unit| self.smaller_shows(unit))
        };
        let nothing = |of: &(GeometryBelief, Vec<u64>)| of.0.probability(DeviceStructure::Nothing);
        // A look-up may show everywhere, or only where there is something to look up.
        let mut likeliest = belief(&self.everywhere());
        let mut only_telling = false;
        if telling.len() < self.crossings.len() {
            let written = belief(&telling);
            if nothing(&written) < nothing(&likeliest) {
                likeliest = written;
                only_telling = true;
            }
        }
        (self.belief, self.levels) = likeliest;
        self.only_telling = only_telling;
    }

    /// Reads of two groups in random order.
    fn batch(
        &mut self,
        session: &mut ReadSession<'_>,
        one: fn(&mut Self) -> Vec<u64>,
        other: fn(&mut Self) -> Vec<u64>,
    ) -> Result<(), ProbeError> {
        let mut reads: Vec<(u64, u32)> = Vec::new();
        for units in [one(self), other(self)] {
            let largest = units.iter().copied().max().unwrap_or(0);
            // Where nothing was written no page shows, but an erase block may.
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
        for (centre, group) in reads {
            if session.reads_left() == 0 {
                break;
            }
            let across = centre % (2 * self.sector) == 0;
            let purpose =
                if across { SamplePurpose::ReadAcross } else { SamplePurpose::ReadBeside };
            if let Some(elapsed_ns) = session.read_across(centre, purpose)? {
                self.crossings.push(BoundaryRead { centre, group, elapsed_ns });
            }
        }
        Ok(())
    }

    /// Each power of two once, the finest and the usual ones twice, and some others.
    fn survey(&mut self) -> Vec<u64> {
        let powers = (0..29).map(|exponent| 1u64 << exponent);
        let fits = |unit: &u64| *unit >= self.sector && *unit <= self.bytes / 8;
        let mut units: Vec<u64> = powers.filter(fits).collect();
        units.extend([COARSE; 2]);
        units.extend([self.sector; WITHIN_PAGES]);
        for _ in 0..3 {
            units.push(3 << (16 + self.random.below(8)));
        }
        units
    }

    /// Where likely erase blocks disagree.
    fn coarse(&mut self) -> Vec<u64> {
        let shares: UnitShares =
            self.belief.posterior().into_iter().map(|(of, share)| (of.bytes(), share)).collect();
        self.contests(&shares, COARSE)
    }

    /// Where likely write units disagree.
    fn fine(&mut self) -> Vec<u64> {
        // The largest step can be an erase block's, and the smallest tells that it is.
        let first = self.random.below(2) == 0;
        let shares = if first { &self.small.write_unit } else { &self.small.finest };
        let shares = shares.clone();
        let mut units = self.contests(&shares, self.sector);
        units.retain(|&unit| unit <= LARGEST_WRITE_UNIT);
        units
    }

    /// About sizes that reads can tell: those of whole sectors.
    fn contests(&mut self, shares: &UnitShares, finest: u64) -> Vec<u64> {
        let is_askable = |size: &Option<u64>| size.is_none_or(|size| size % self.sector == 0);
        let shares: UnitShares =
            shares.iter().filter(|(size, _)| is_askable(size)).copied().collect();
        let random = &mut self.random;
        let pairs = (0..CONTESTS).filter_map(|_| contest::pair(random, &shares));
        pairs.flat_map(|pair| contest::reads(pair, finest)).collect()
    }
}
