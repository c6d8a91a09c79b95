//! The reading-only probe: what a medium shows of its geometry to one who only reads.
//!
//! A read that spans two units costs more than one that does not: two pages are read, two units
//! looked up. Small reads (two sectors) are made across places that are multiples of 2^k and
//! q x 2^k, each the boundary of one candidate and of no larger one, in random order, each place
//! once ([`places`]), in groups that lie close together in place and time ([`scores`]). All reads
//! together give a posterior over the structures ([`steps`], [`question`]), which also says where
//! to read next ([`contest`]). A step that is there only as long as a place is new is not taken for
//! an erase unit ([`confirm`]). It ends when it is sure, or when the budget is used up: a third of
//! what flashbench -a reads on a medium of this size. Limits: sees only what costs readers time,
//! which an erase unit does not on every card, and a write unit does not where nothing was written.
//! Source of the method: flashbench's README and A. Bergmann, "Optimizing Linux with cheap flash
//! drives" (LWN, 2011).

pub mod confirm;
pub mod contest;
pub mod places;
mod question;
mod regions;
pub mod scores;
mod session;
pub mod steps;
mod verdict;

use std::collections::BTreeSet;
use std::ops::Range;

use flashfit_medium::random::Random;
use flashfit_medium::{BlockDev, Clock};

use crate::belief::{Belief, Structure};
use crate::probed::{ProbeError, Probed, Purpose, Watch};
use confirm::Suspect;
use places::Places;
use question::{COARSE, EraseUnit, LARGEST_WRITE_UNIT, Shares, SmallUnits, WriteUnit};
use regions::Regions;
use scores::Crossing;
use session::Session;
pub use session::is_gone;

/// The least that can be probed: some boundaries of the smallest erase units.
pub const LEAST_BYTES: u64 = 1 << 20;
/// A probe of an SD card must not take longer than 20 s; what is under way at the end comes on top.
const USUAL_TIME_NS: u64 = 15_000_000_000;
/// Groups whose reads are mixed with each other.
const GROUPS_AT_ONCE: u32 = 2;
/// Groups that look at everything, before reads go where the doubt is.
const SURVEYS: u32 = 4;
/// Reads of such a group that cross nothing.
const WITHIN_PAGES: usize = 10;
/// Pairs of structures that a group tells apart.
const CONTESTS: usize = 4;
/// Sure enough to go on to the next question: no other answer has a larger share of the doubt.
const SETTLED: f64 = 0.995;
/// So likely may it be that nothing shows.
const MOST_DOUBT: f64 = 0.06;
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
    /// Where the device begins on the medium, in bytes: a partition does not begin at 0, and units
    /// are counted from where the medium does.
    pub origin_bytes: u64,
    /// The most reads; [`usual_reads`] where it is not said.
    pub max_reads: Option<u64>,
    /// After so many nanoseconds no further read is begun.
    pub max_time_ns: u64,
}

impl Default for ReadingOptions {
    fn default() -> Self {
        Self { seed: 0, region: None, origin_bytes: 0, max_reads: None, max_time_ns: USUAL_TIME_NS }
    }
}

/// A third of the reads that flashbench -a makes by default on a medium of so many bytes: 8 times
/// at 3 places of 7 regions for each power of two from 32 KiB to the first that is at least a
/// seventh of the medium.
pub fn usual_reads(capacity_bytes: u64) -> u64 {
    let mut rows = 1;
    while (32u64 << 10) << (rows - 1) < capacity_bytes / 7 {
        rows += 1;
    }
    rows * 7 * 3 * 8 / 3
}

/// Finds what readers are shown.
///
/// # Errors
/// When the region is not on the device or too small, the medium vanishes or can hardly be read, or
/// `watch` ends it.
pub fn probe(
    device: &mut dyn BlockDev,
    clock: &dyn Clock,
    options: &ReadingOptions,
    watch: &mut dyn Watch,
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
    let mut session = Session::new(device, clock, watch, length, options.origin_bytes);
    let max_reads = options.max_reads.unwrap_or_else(|| usual_reads(bytes));
    session.set_budget(max_reads, options.max_time_ns);
    let bounds = inner(&region, bytes, sector, options.origin_bytes);
    let mut search = Search {
        sector,
        bytes,
        max_reads,
        first: EraseUnit::new(bytes),
        second: WriteUnit::new(sector),
        regions: Regions::new(bounds.clone()),
        places: Places::new(bounds),
        random: Random::new(options.seed),
        crossings: Vec::new(),
        groups: 0,
        disproved: BTreeSet::new(),
        belief: Belief::new(bytes, &[]),
        levels: Vec::new(),
        remains: Vec::new(),
        small: SmallUnits::default(),
    };
    search.run(&mut session)?;
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
    first: EraseUnit,
    second: WriteUnit,
    places: Places,
    regions: Regions,
    random: Random,
    crossings: Vec<Crossing>,
    groups: u32,
    /// Levels whose steps a map makes.
    disproved: BTreeSet<u64>,
    belief: Belief,
    /// The sizes with steps in the likeliest model, in bytes.
    levels: Vec<u64>,
    /// Of the units whose step was looked at, how likely it is not a map's.
    remains: Vec<(u64, f64)>,
    small: SmallUnits,
}

impl Search {
    fn run(&mut self, session: &mut Session<'_>) -> Result<(), ProbeError> {
        for _ in 0..SURVEYS / GROUPS_AT_ONCE {
            self.batch(session, Self::survey, Self::survey)?;
        }
        while session.reads_left() > 0 {
            self.think();
            if let Some(unit) = self.settled().filter(|unit| self.looked_at(*unit).is_none()) {
                self.look_at(session, unit)?;
                self.think();
            }
            let unit = self.settled().filter(|unit| self.looked_at(*unit).is_some());
            let first_is_open = unit.is_none() && !self.is_hopeless(session);
            let settled = |of: &Shares| of.first().is_some_and(|(_, share)| *share >= SETTLED);
            let second_is_open = !(settled(&self.small.write_unit) && settled(&self.small.finest))
                && session.probed.reads < self.max_reads * FIRST_PERCENT / 100;
            session.tell("reading across boundaries")?;
            match (first_is_open, second_is_open) {
                (false, false) => break,
                (true, false) => self.batch(session, Self::coarse, Self::coarse)?,
                (false, true) => self.batch(session, Self::fine, Self::fine)?,
                (true, true) => self.batch(session, Self::coarse, Self::fine)?,
            }
        }
        self.think();
        Ok(())
    }

    /// Whether more reads would hardly find an erase unit.
    fn is_hopeless(&self, session: &Session<'_>) -> bool {
        let nothing = self.belief.probability(Structure::Nothing);
        session.probed.reads >= PATIENCE.min(self.max_reads / 2) && nothing > 1.0 - HOPELESS
    }

    /// The erase unit that the reads so far point to: no other one does, and what is left of the
    /// doubt, whether a small unit is a write unit, no read can settle.
    fn settled(&self) -> Option<u64> {
        let (unit, _) = self.belief.answer()?;
        let posterior = self.belief.posterior();
        let is_other = |structure: &Structure| structure.bytes().is_some_and(|other| other != unit);
        let mut others = posterior.iter().filter(|(structure, _)| is_other(structure));
        let unrivalled = others.all(|&(_, share)| share < 1.0 - SETTLED);
        let nothing = self.belief.probability(Structure::Nothing);
        (unrivalled && nothing < MOST_DOUBT).then_some(unit)
    }

    /// How likely the step of a unit is not a map's, if that was looked at.
    fn looked_at(&self, unit: u64) -> Option<f64> {
        self.remains.iter().find(|(of, _)| *of == unit).map(|&(_, remains)| remains)
    }

    /// Looks whether the step of a unit is a map's, and remembers it.
    fn look_at(&mut self, session: &mut Session<'_>, unit: u64) -> Result<(), ProbeError> {
        let step = verdict::step(&self.crossings, unit);
        let mut others = self.levels.clone();
        others.retain(|&level| level != unit);
        let suspect = Suspect { unit, step_ns: step.ns, spread_ns: step.spread_ns, others };
        let (places, random) = (&mut self.places, &mut self.random);
        let remains = confirm::remains(session, places, random, &suspect)?;
        self.remains.push((unit, remains));
        if remains < 0.5 {
            self.disproved.insert(unit);
        }
        Ok(())
    }

    /// The reads where the flash was written, as far as that shows.
    fn telling(&self) -> Vec<Crossing> {
        let reads = self.crossings.iter().copied();
        reads.filter(|crossing| self.regions.tells(crossing.centre)).collect()
    }

    /// Weighs all reads anew.
    fn think(&mut self) {
        let (reads, within) = (self.crossings.iter().copied(), 2 * self.sector);
        self.regions.weigh(reads.filter(|read| read.centre % within != 0));
        let telling = self.telling();
        let unit = self.belief.likeliest().0.bytes().filter(|_| self.belief.likeliest().1 > 0.5);
        self.small = self.second.shares(&telling, unit);
        let finest = &self.small.finest;
        // Well below the erase unit, or it may be the same step.
        let smaller_shows = |unit: u64| {
            let well_below = |size: &Option<u64>| size.is_some_and(|size| size <= unit / 8);
            let shares = finest.iter().filter(|(size, _)| well_below(size));
            shares.map(|(_, share)| share).sum()
        };
        let belief = |reads: &[Crossing]| {
            self.first.belief(reads, self.bytes, &self.disproved, smaller_shows)
        };
        let nothing = |of: &(Belief, Vec<u64>)| of.0.probability(Structure::Nothing);
        // A look-up may show everywhere, or only where there is something to look up.
        let mut likeliest = belief(&self.crossings);
        if telling.len() < self.crossings.len() {
            let written = belief(&telling);
            if nothing(&written) < nothing(&likeliest) {
                likeliest = written;
            }
        }
        (self.belief, self.levels) = likeliest;
    }

    /// Reads of two groups in random order.
    fn batch(
        &mut self,
        session: &mut Session<'_>,
        one: fn(&mut Self) -> Vec<u64>,
        other: fn(&mut Self) -> Vec<u64>,
    ) -> Result<(), ProbeError> {
        let mut reads: Vec<(u64, u32)> = Vec::new();
        for units in [one(self), other(self)] {
            let largest = units.iter().copied().max().unwrap_or(0);
            // Where nothing was written no page shows, but an erase unit may.
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
            let purpose = if across { Purpose::ReadAcross } else { Purpose::ReadBeside };
            if let Some(elapsed_ns) = session.read_across(centre, purpose)? {
                self.crossings.push(Crossing { centre, group, elapsed_ns });
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

    /// Where likely erase units disagree.
    fn coarse(&mut self) -> Vec<u64> {
        let shares: Shares =
            self.belief.posterior().into_iter().map(|(of, share)| (of.bytes(), share)).collect();
        self.contests(&shares, COARSE)
    }

    /// Where likely write units disagree.
    fn fine(&mut self) -> Vec<u64> {
        // The largest step can be an erase unit's, and the smallest tells that it is.
        let first = self.random.below(2) == 0;
        let shares = if first { &self.small.write_unit } else { &self.small.finest };
        let shares = shares.clone();
        let mut units = self.contests(&shares, self.sector);
        units.retain(|&unit| unit <= LARGEST_WRITE_UNIT);
        units
    }

    fn contests(&mut self, shares: &Shares, finest: u64) -> Vec<u64> {
        let random = &mut self.random;
        let pairs = (0..CONTESTS).filter_map(|_| contest::pair(random, shares));
        pairs.flat_map(|pair| contest::reads(pair, finest)).collect()
    }
}
