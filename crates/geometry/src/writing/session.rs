//! One probe by writing: which question is asked when, and what is said in the end.

use std::ops::Range;

use flashfit_device::{BlockDev, Bytes, Clock};

use super::boundaries::{LEAST_STRETCH, MergeEvidence, SensedMerging};
use super::erasures::BuildBelief;
use super::layout::UnitLayout;
use super::meter::{LARGEST_REQUEST, MeasurementStop, Meter};
use super::open_units::{self, UnitOrder, UnitPlacement};
use super::streams::{self, StreamAnswer};
use super::write_unit::{self, InferredWriteUnit};
use super::{WritingOptions, capacity, change, small_writes, sustained, unwritten, zone};
use crate::belief::{DeviceStructure, GeometryBelief, log_sum_exp, median};
use crate::findings::{GeometryFinding, GeometryFindings, QuantityValue, QuantityVerdict, SURE};
use crate::probed::{ProbeError, ProbeObserver, Probed};
use crate::reading::{self, ReadingOptions};

/// How much of the region is written in order before merges are looked for, and how much when a
/// first window shows none: larger units need more room.
pub const WINDOWS: [u64; 2] = [256 << 20, 1 << 30];
/// What is left alone at the start, where devices may have zones of their own: a quarter at most.
const SKIPPED: u64 = 128 << 20;
/// How long boundaries are asked for, in nanoseconds.
const MOST_ASKING_NS: u64 = 600_000_000_000;
/// The largest write unit that is considered before the erase block is known.
const MOST_WRITE_UNIT: u64 = 256 << 10;
/// Small writes that are made to see whether the device erases already, and whether it does later.
const FIRST_WRITES: usize = 4096;
const LATER_WRITES: usize = 1 << 16;
/// How many units are wanted to see how many can be open.
const WANTED_UNITS: u64 = 28;
/// How much better than by chance boundaries must explain costs, as a logarithm.
const SHOWN: f64 = 3.0;
/// How likely it is that parts of a unit are merged by themselves, where it cannot be told; and how
/// much likelier where units are written in order, as layers with such parts do.
const UNTOLD_PARTS: f64 = 0.02;
const UNTOLD_IN_ORDER: f64 = 0.5;
/// A size that reading found so likely before anything was written is none that writing made.
const HINTED: f64 = 0.05;
/// The least likelihood of a unit that no number of parts agrees with.
const LEAST_SHARE: f64 = 1e-6;

/// A probe under way.
pub struct WriteSession<'a> {
    meter: Meter<'a>,
    options: WritingOptions,
    capacity_bytes: u64,
    belief: GeometryBelief,
    /// What reading said before anything was written.
    first: Option<GeometryBelief>,
    /// The erase block as reading found it.
    read: Option<GeometryFinding>,
    /// What was written in order so far.
    window: Range<u64>,
    ns_per_byte: f64,
    write_unit: Option<InferredWriteUnit>,
    /// Whether what writes cost depends on boundaries.
    has_boundaries: bool,
    /// What was lacking for the erase block.
    lacking: String,
    seen: &'static str,
    layout: Option<UnitLayout>,
}

impl<'a> WriteSession<'a> {
    /// A probe that has measured nothing yet.
    pub fn new(
        device: &'a mut dyn BlockDev,
        clock: &'a dyn Clock,
        options: &WritingOptions,
        read: Option<&Probed>,
        watch: &'a mut dyn ProbeObserver,
    ) -> Self {
        let capacity_bytes = device.describe().capacity_bytes;
        let belief = read
            .and_then(|read| read.belief.as_ref())
            .map_or_else(|| GeometryBelief::new(capacity_bytes, &[]), GeometryBelief::as_hints);
        let start = options.region.start;
        Self {
            meter: Meter::new(device, clock, options, watch),
            options: options.clone(),
            capacity_bytes,
            belief,
            first: read.and_then(|read| read.belief.clone()),
            read: read.map(|read| read.findings.erase_unit.clone()),
            window: start..start,
            ns_per_byte: 0.0,
            write_unit: None,
            has_boundaries: false,
            lacking: "nothing was measured".to_owned(),
            seen: "reads across its boundaries take longer than reads beside them",
            layout: None,
        }
    }

    /// Asks everything.
    pub fn run(mut self) -> Result<Probed, ProbeError> {
        match self.ask() {
            Ok(()) => {}
            Err(MeasurementStop::Spent) => {
                let most = Bytes(self.options.max_write_bytes);
                let note =
                    format!("not everything was measured: {most} were allowed to be written");
                self.meter.probed.notes.push(note);
            }
            Err(MeasurementStop::Failed(error)) => return Err(error),
        }
        Ok(self.finish())
    }

    fn ask(&mut self) -> Result<(), MeasurementStop> {
        if self.options.check_capacity {
            self.meter.now("whether the capacity is there")?;
            let seed = self.options.seed;
            let found = capacity::check(&mut self.meter, self.capacity_bytes, seed)?;
            let there = found.value == Some(QuantityValue::Bytes(self.capacity_bytes));
            self.meter.probed.findings.capacity = found;
            if !there {
                self.lacking = "capacity is missing, so nothing else was measured".to_owned();
                return Ok(());
            }
        }
        let merging = self.find_merging()?;
        if let Some(merging) = &merging {
            self.meter.now("where erase units begin")?;
            let told = merging.tell(&mut self.meter, &self.belief, MOST_ASKING_NS)?;
            self.learn_boundaries(&told)?;
        }
        // Where writes surely cost merges, those would be taken for erasures.
        let surely = merging.as_ref().is_some_and(|merging| merging.is_clear());
        if self.erase_unit().value.is_none() && !surely {
            self.read_again()?;
        }
        if self.erase_unit().value.is_none() && !surely {
            self.meter.now("when erase units are erased")?;
            self.watch_erasures()?;
        }
        if let Some(layout) = self.layout {
            self.meter.now("what is written together")?;
            let found = self.find_write_unit(layout)?;
            self.meter.probed.findings.write_unit = found;
        }
        let merges = merging.is_some();
        if let Some(merging) = merging.filter(SensedMerging::is_clear) {
            self.meter.now("whether small writes have a log")?;
            let found = small_writes::measure(&mut self.meter, &merging)?;
            self.meter.probed.findings.small_write_log = found;
            if let Some(layout) = self.layout {
                self.meter.now("whether the first units are special")?;
                let found = zone::measure(&mut self.meter, &merging, layout)?;
                self.meter.probed.findings.special_zone = found;
            }
        } else {
            let reason = "it shows only where writes to ever other places cost merges";
            self.meter.probed.findings.small_write_log = GeometryFinding::not_measured(reason);
            self.meter.probed.findings.special_zone = GeometryFinding::not_measured(reason);
        }
        self.meter.now("how many erase units can be open")?;
        self.count_open_units(merges)
    }

    /// Writes a window in order, and then to ever other places in it.
    fn find_merging(&mut self) -> Result<Option<SensedMerging>, MeasurementStop> {
        let region = self.meter.region();
        let room = region.end - region.start;
        let skipped = SKIPPED.min(room / 4) / LARGEST_REQUEST * LARGEST_REQUEST;
        let start = (region.start + skipped).next_multiple_of(LARGEST_REQUEST);
        self.window = start..start;
        for most in WINDOWS {
            let end = (start + most).min(region.end / LARGEST_REQUEST * LARGEST_REQUEST);
            if end == self.window.end {
                break;
            }
            self.meter.now("how fast writing in order is")?;
            let unwritten = self.window.end..end;
            let before = unwritten::read(&mut self.meter, &unwritten, 0)?;
            let times = self.meter.fill(unwritten.clone())?;
            if self.window.is_empty() {
                let after = unwritten::read(&mut self.meter, &unwritten, 1)?;
                let found = unwritten::finding(&before, &after);
                self.meter.probed.findings.unwritten_is_faster = found;
                self.meter.probed.findings.pslc_cache = sustained::finding(&times);
            }
            self.window.end = end;
            let rates: Vec<f64> = times[times.len() / 2..]
                .iter()
                .map(|(length, time_ns)| time_ns / *length as f64)
                .collect();
            self.ns_per_byte = median(&rates);
            if self.write_unit.is_none() {
                self.meter.now("what is written together")?;
                let timed = write_unit::measure(&mut self.meter, [self.window.clone()])?;
                self.write_unit = write_unit::infer(&timed, MOST_WRITE_UNIT);
            }
            self.meter.now("whether writes cost merges")?;
            let sensed = SensedMerging::sense(&mut self.meter, &self.window, self.ns_per_byte)?;
            if sensed.is_some() {
                return Ok(sensed);
            }
        }
        self.lacking =
            "writes to ever other places cost no merges, so no boundaries showed".to_owned();
        Ok(None)
    }

    /// Adds what boundaries say, and which of them are those of whole units.
    fn learn_boundaries(&mut self, told: &MergeEvidence) -> Result<(), MeasurementStop> {
        let layout = told.layout;
        let best = told.log_likelihoods.iter().map(|(_, log)| *log).fold(f64::MIN, f64::max);
        if best < told.log_nothing + SHOWN {
            // Whatever made those writes slow, a device without boundaries may have units too.
            self.lacking = format!(
                "{} stretches were written, and what they cost has nothing to do with boundaries",
                told.questions
            );
            return Ok(());
        }
        self.has_boundaries = true;
        let asked = if told.probability > 0.5 {
            let window = self.window.clone();
            streams::parts(&mut self.meter, &window, layout, self.ns_per_byte)?
        } else {
            StreamAnswer::Untold
        };
        self.learn_parts(told, &asked);
        self.seen = "writes across its boundaries cost a merge more than writes beside them";
        self.lacking = format!(
            "{} stretches were written, and their costs agree with several sizes",
            told.questions
        );
        let unit = self.belief.answer().map(|(unit, _)| unit);
        if let Some(unit) = unit.filter(|unit| unit % layout.unit == 0) {
            self.layout = Some(UnitLayout { unit, offset: layout.offset });
            if told.probability > 0.95 && unit == layout.unit {
                let offset = QuantityValue::Bytes(layout.offset);
                let reason = "the boundaries that cost merges begin there";
                self.meter.probed.findings.erase_unit_offset =
                    GeometryFinding::found(offset, told.probability, reason);
            }
        }
        Ok(())
    }

    /// Adds what boundaries say of each unit, over all numbers of parts that it may have.
    fn learn_parts(&mut self, told: &MergeEvidence, asked: &StreamAnswer) {
        let untold = match asked {
            StreamAnswer::EveryPairMerges => UNTOLD_PARTS,
            _ => UNTOLD_PARTS + UNTOLD_IN_ORDER * told.in_order,
        };
        let prior = |number: u64| match (number, asked) {
            (number, StreamAnswer::Told(_)) => streams::prior(number),
            (1, _) => 1.0 - untold,
            (2 | 4 | 8, _) => untold / 3.0,
            _ => 0.0,
        };
        // Pairs say how many of the parts that they wrote make a unit, whatever the parts are.
        let written = told.layout.unit;
        let of_pairs = |unit: u64| {
            let StreamAnswer::Told(parts) = asked else { return 0.0 };
            let number = if unit % written == 0 { unit / written } else { 0 };
            let found = parts.probabilities.iter().find(|(parts, _)| *parts == number);
            let share = found.map_or(0.0, |(number, share)| share / streams::prior(*number));
            share.max(LEAST_SHARE).ln()
        };
        let nothing = told.log_nothing;
        self.belief.learn(|structure| {
            let Some(unit) = structure.bytes() else { return 0.0 };
            let logs = told.log_likelihoods.iter().filter(|(part, _)| unit % part == 0);
            let logs = logs.map(|(part, log)| log - nothing + prior(unit / part).ln());
            let unseen = told.log_likelihoods.iter().all(|(part, _)| *part != unit);
            let unseen = if unseen { prior(1).ln() } else { f64::NEG_INFINITY };
            (log_sum_exp(logs.chain([unseen])) + of_pairs(unit)).max(-500.0)
        });
    }

    /// Reads what was written: now pages show, where there were none before, and with them whether
    /// a small unit is the erase block. What is found so needs no more writing.
    fn read_again(&mut self) -> Result<(), MeasurementStop> {
        let is_large = self.window.end - self.window.start >= reading::LEAST_BYTES;
        let Some(first) = self.first.as_ref().filter(|_| is_large) else { return Ok(()) };
        let (seed, region) = (self.options.seed, Some(self.window.clone()));
        let options = ReadingOptions { seed, region, ..ReadingOptions::default() };
        let read = self
            .meter
            .read_only(|device, clock, watch| reading::probe(device, clock, &options, watch))?;
        let GeometryFindings { erase_unit, write_unit, .. } = read.findings;
        // What is written has more to show than units: where requests began, what the cache cut
        // them into, pieces of the map. A size must have shown a little before.
        let showed_before = |bytes| first.probability(DeviceStructure::Unit(bytes)) > HINTED;
        let is_clear =
            matches!(erase_unit.value, Some(QuantityValue::Bytes(bytes)) if showed_before(bytes));
        if let Some(belief) = read.belief.filter(|_| is_clear) {
            self.belief.learn_hints(&belief);
            self.read = Some(erase_unit);
            if self.meter.probed.findings.write_unit.value.is_none() {
                self.meter.probed.findings.write_unit = write_unit;
            }
        }
        Ok(())
    }

    /// Writes the whole region once, and then a few places of it until erasures show.
    fn watch_erasures(&mut self) -> Result<(), MeasurementStop> {
        self.lacking = "the medium had not begun to erase when no more could be written: allow \
                        more than twice its capacity"
            .to_owned();
        let region = self.meter.region();
        let sizes = self.write_unit.as_ref().map_or(&[][..], |unit| &unit.sizes);
        let mut watching = BuildBelief::new(&self.belief, sizes, &self.window, self.has_boundaries);
        // A device in use erases from the start, one that is new not before all of it was written
        // somewhere.
        if self.meter.discards() {
            self.meter.discard(region.clone())?;
        }
        self.meter.probed.findings.write_unit = GeometryFinding::inconclusive(
            "it shows with the erasures, and those did not",
            Vec::new(),
        );
        let watched = self.watch(&mut watching);
        if !watching.has_shown() {
            return watched;
        }
        if !watching.is_explained() {
            self.lacking =
                "what takes longer at regular distances agrees with no erase unit".to_owned();
            return watched;
        }
        let told = watching.told();
        let (write_unit, probability) = told.write_unit;
        if probability >= SURE {
            let reason = "writes of this size and its multiples fill erase units without waste";
            self.meter.probed.findings.write_unit =
                GeometryFinding::found(QuantityValue::Bytes(write_unit), probability, reason);
        }
        self.belief.learn(|structure| match structure {
            DeviceStructure::Nothing => 0.0,
            DeviceStructure::Unit(unit) => {
                told.gains.iter().find(|(bytes, _)| *bytes == unit).map_or(0.0, |(_, gain)| *gain)
            }
        });
        self.lacking = "one write in so many takes longer, but of which size the units are that \
                        are erased then is not clear"
            .to_owned();
        self.seen = "one write in so many takes longer, wherever it goes: a unit is erased";
        self.meter.probed.findings.erase_unit_offset = GeometryFinding::inconclusive(
            "the medium puts writes wherever it likes, so its units have no place for the host",
            Vec::new(),
        );
        watched
    }

    /// What was seen counts, also where no more may be written.
    fn watch(&mut self, watching: &mut BuildBelief) -> Result<(), MeasurementStop> {
        let mut shown = watching.first_run(&mut self.meter, FIRST_WRITES)?;
        let late = !shown;
        if !shown {
            let before = self.meter.probed.written_bytes;
            watching.use_up(&mut self.meter, self.capacity_bytes.saturating_sub(before))?;
        }
        while !shown {
            shown = watching.first_run(&mut self.meter, LATER_WRITES)?;
            if !shown {
                watching.use_up(&mut self.meter, (self.capacity_bytes / 16).max(16 << 20))?;
            }
        }
        // A fast area is not larger than what was written before, where that is much of the device.
        if late && self.window.end - self.window.start >= self.capacity_bytes / 4 {
            watching.began_late(FIRST_WRITES);
        }
        watching.further_runs(&mut self.meter)?;
        // What a log for small writes copies looks like folding.
        if self.has_boundaries {
            return Ok(());
        }
        let window = self.window.clone();
        watching.look_for_folding(&mut self.meter, &window)
    }

    /// Writes whole units from their beginnings, where nothing else than writing costs time.
    fn find_write_unit(&mut self, layout: UnitLayout) -> Result<GeometryFinding, MeasurementStop> {
        let UnitLayout { unit, offset } = layout;
        let first = (self.window.start - offset).div_ceil(unit);
        let last = (self.window.end - offset) / unit;
        // Not the last byte of a unit: that would merge it.
        let units = (first..last).map(|at| offset + at * unit..offset + (at + 1) * unit - 1);
        let timed = write_unit::measure(&mut self.meter, units)?;
        Ok(write_unit::finding(write_unit::infer(&timed, unit / 32).as_ref()))
    }

    /// A size for writing in turn: above what goes to a log for small writes, where the unit has
    /// room for several of it, and no part of a write unit.
    fn write_of_whole_write_units(&self, unit: u64) -> u64 {
        let known = match self.meter.probed.findings.write_unit.value {
            Some(QuantityValue::Bytes(bytes)) => bytes,
            _ => 4096,
        };
        let log = match self.meter.probed.findings.small_write_log.value {
            Some(QuantityValue::Bytes(bytes)) => bytes,
            _ => 0,
        };
        let mut bytes = unit;
        while bytes % (2 * known) == 0
            && bytes / 2 > log
            && (bytes / 2 >= LEAST_STRETCH || bytes > unit / 8)
        {
            bytes /= 2;
        }
        bytes
    }

    /// Writes more in order, where the window has few units.
    fn widen(&mut self, unit: u64) -> Result<(), MeasurementStop> {
        let wanted = self.window.start + WANTED_UNITS * unit;
        let end = wanted.min(self.meter.region().end / LARGEST_REQUEST * LARGEST_REQUEST);
        // Half of what may be written is for the units themselves.
        if end > self.window.end && end - self.window.end < self.meter.left_bytes() / 2 {
            self.meter.fill(self.window.end..end)?;
            self.window.end = end;
        }
        Ok(())
    }

    /// What is found of the erase block. Where writing leaves it open, what reading found counts,
    /// as sure as reading was, as long as nothing else is likelier now.
    fn erase_unit(&self) -> GeometryFinding {
        let found = self.belief.finding(|_| self.seen.to_owned(), &self.lacking);
        let likeliest = self.belief.likeliest().0.bytes();
        let read = self.read.as_ref().filter(|read| {
            found.value.is_none()
                && read.verdict == QuantityVerdict::Found
                && read.value == likeliest.map(QuantityValue::Bytes)
        });
        read.cloned().unwrap_or(found)
    }

    fn count_open_units(&mut self, merges: bool) -> Result<(), MeasurementStop> {
        let unit = match self.erase_unit().value {
            Some(QuantityValue::Bytes(bytes)) => Some(bytes),
            _ => None,
        };
        let layout = self.layout.or(unit.map(|unit| UnitLayout { unit, offset: 0 }));
        let layout = layout.unwrap_or(UnitLayout { unit: 8 << 20, offset: 0 });
        if self.layout.is_some() {
            self.widen(layout.unit)?;
        }
        let ground = UnitPlacement {
            window: self.window.clone(),
            layout,
            write_bytes: self.write_of_whole_write_units(layout.unit),
        };
        let base_ns = self.ns_per_byte * ground.write_bytes as f64;
        for (order, name) in [(UnitOrder::Linear, "linear"), (UnitOrder::Random, "random")] {
            let costs = ground.measure(&mut self.meter, order)?;
            let base_ns = match (order, costs.first()) {
                (UnitOrder::Linear, Some(first)) => first.time_ns.min(2.0 * base_ns),
                _ => base_ns,
            };
            let mut found = change::finding(&costs, base_ns, order);
            if found.verdict == QuantityVerdict::Found && (!merges || unit.is_none()) {
                let reason = if merges {
                    "which units were written is not clear, as the erase unit is not known"
                } else {
                    "the medium showed no merges, so a change here has another cause"
                };
                found = GeometryFinding::inconclusive(reason, found.candidates);
            }
            let series = open_units::series(&format!("open units, {name}"), &costs);
            self.meter.probed.evidence.series.push(series);
            match order {
                UnitOrder::Linear => self.meter.probed.findings.open_units_linear = found,
                UnitOrder::Random => self.meter.probed.findings.open_units_random = found,
            }
        }
        Ok(())
    }

    fn finish(self) -> Probed {
        let elapsed_ns = self.meter.elapsed_ns();
        let erase_unit = self.erase_unit();
        let mut probed = self.meter.probed;
        probed.findings.erase_unit = erase_unit;
        probed.belief = Some(self.belief);
        probed.elapsed_ns = elapsed_ns;
        probed
    }
}
