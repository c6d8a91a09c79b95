//! Sequence of the writing probe: the order of the measurements, and the findings.

use std::ops::Range;

use flashfit_device::{BlockDev, Bytes, Clock};

use super::boundaries::{MergeEvidence, SensedMerging};
use super::capacity::{CheckedCapacity, KeptData};
use super::erased_structure::Erasures;
use super::erasures::{BuildBelief, MIN_WRITE};
use super::layout::UnitLayout;
use super::meter::{LARGEST_REQUEST, MeasurementStop, Meter};
use super::streams::{self, StreamAnswer};
use super::write_unit::{self, InferredWriteUnit};
use super::{WritingOptions, capacity, small_writes, unwritten, zone};
use crate::belief::{GeometryBelief, log_sum_exp, median};
use crate::findings::{GeometryFinding, QuantityValue, QuantityVerdict, SURE};
use crate::probed::{ProbeError, ProbeObserver, Probed};

/// Sequentially written bytes before merges are looked for, and the extended window if the first
/// one shows none: larger units need more room.
pub const WINDOWS: [u64; 2] = [256 << 20, 1 << 30];
/// Bytes skipped at the start, where devices may have special zones; at most a quarter.
const SKIPPED: u64 = 128 << 20;
/// Time limit of the search for boundaries, in nanoseconds.
const MAX_BOUNDARY_SEARCH_NS: u64 = 600_000_000_000;
/// The largest write unit considered before the erase block is known.
const MAX_WRITE_UNIT: u64 = 256 << 10;
/// Small writes to detect erasures: first, and later.
const FIRST_WRITES: usize = 4096;
const LATER_WRITES: usize = 1 << 16;
/// Prior probability that parts of a unit are merged separately if that cannot be measured, and its
/// increase if units are written in order, as layers with such parts do.
const UNTOLD_PARTS: f64 = 0.02;
const UNTOLD_IN_ORDER: f64 = 0.5;
/// The highest confidence of where erase blocks begin and of how many can be open: devices do what
/// their models leave out. Of the answers for drawn cards, 98.7 to 99.3 % are right.
const MOST_CONFIDENT: f64 = 0.99;
/// The smallest likelihood of a unit that agrees with no number of parts.
const MIN_SHARE: f64 = 1e-6;

pub struct WriteSession<'a> {
    pub(super) meter: Meter<'a>,
    pub(super) options: WritingOptions,
    capacity_bytes: u64,
    pub(super) belief: GeometryBelief,
    /// Belief of the read-only probe before any writes.
    pub(super) first: Option<GeometryBelief>,
    /// The erase block found by reading.
    pub(super) read: Option<GeometryFinding>,
    /// The write unit and the page found by reading.
    pub(super) read_pages: [GeometryFinding; 2],
    /// The sequentially written window.
    pub(super) window: Range<u64>,
    /// Number of samples until it was written.
    pub(super) filled: usize,
    pub(super) ns_per_byte: f64,
    write_unit: Option<InferredWriteUnit>,
    /// Whether write costs depend on boundaries.
    has_boundaries: bool,
    /// The erasures, if an erase block explains them.
    pub(super) erasures: Option<BuildBelief>,
    /// Why the erase block was not found.
    lacking: String,
    seen: &'static str,
    pub(super) layout: Option<UnitLayout>,
    /// Why the rest was not measured.
    ended_early: &'static str,
}

impl<'a> WriteSession<'a> {
    pub fn new(
        device: &'a mut dyn BlockDev,
        clock: &'a dyn Clock,
        options: &WritingOptions,
        read: Option<&Probed>,
        observer: &'a mut dyn ProbeObserver,
    ) -> Self {
        let capacity_bytes = device.describe().capacity_bytes;
        let belief = read
            .and_then(|read| read.belief.as_ref())
            .map_or_else(|| GeometryBelief::new(capacity_bytes, &[]), GeometryBelief::as_hints);
        let start = options.region.start;
        Self {
            meter: Meter::new(device, clock, options, observer),
            options: options.clone(),
            capacity_bytes,
            belief,
            first: read.and_then(|read| read.belief.clone()),
            read: read.map(|read| read.findings.erase_block.clone()),
            read_pages: read.map(pages_of).unwrap_or_default(),
            window: start..start,
            filled: 0,
            ns_per_byte: 0.0,
            write_unit: None,
            has_boundaries: false,
            erasures: None,
            lacking: "not measured".to_owned(),
            seen: "reads across its boundaries take longer than adjacent reads",
            layout: None,
            ended_early: "requires reads that reveal it",
        }
    }

    pub fn run(mut self) -> Result<Probed, ProbeError> {
        match self.measure() {
            Ok(()) => {}
            Err(MeasurementStop::Spent) => {
                let most = Bytes(self.options.max_write_bytes);
                let note = format!("incomplete measurement: the write budget of {most} is used up");
                self.meter.probed.notes.push(note);
                self.end_early("the write budget was used up before this was measured");
            }
            Err(MeasurementStop::OutOfTime) => {
                let note = match self.meter.probed.written_bytes {
                    0 => "probed by reading only: no time was left to write",
                    _ => "incomplete measurement: the time limit is reached",
                };
                self.meter.probed.notes.push(note.to_owned());
                self.end_early("the time limit was reached before this was measured");
            }
            Err(MeasurementStop::Failed(ProbeError::Interrupted)) => {
                self.meter.probed.interrupted = true;
                self.end_early("interrupted before this was measured");
            }
            Err(MeasurementStop::Failed(error)) => {
                let note = "incomplete measurement: a request failed".to_owned();
                self.meter.probed.notes.push(note);
                self.end_early("the device failed before this was measured");
                let found = Box::new(self.finish());
                return Err(ProbeError::EndedEarly { error: Box::new(error), found });
            }
        }
        Ok(self.finish())
    }

    /// The reason for everything that was not measured.
    fn end_early(&mut self, reason: &'static str) {
        self.ended_early = reason;
        if self.window.is_empty() {
            reason.clone_into(&mut self.lacking);
        }
    }

    fn measure(&mut self) -> Result<(), MeasurementStop> {
        if self.options.check_capacity {
            self.meter.now("checking the capacity")?;
            let number = self.options.run_number;
            let CheckedCapacity { finding, kept } =
                capacity::check(&mut self.meter, self.capacity_bytes, number)?;
            self.meter.probed.findings.capacity = finding;
            self.meter.probed.loses_data = kept == KeptData::NotEverywhere;
            let ended = match kept {
                KeptData::All if !self.options.only_capacity => None,
                KeptData::All => Some("only the capacity was tested"),
                KeptData::BelowReal => Some("capacity is missing"),
                KeptData::NotEverywhere => Some("the device does not keep what is written"),
            };
            if let Some(reason) = ended {
                self.end_early(reason);
                return Ok(());
            }
        }
        let mut merging = self.find_merging()?;
        if let Some(merging) = &mut merging {
            self.meter.now("locating erase blocks")?;
            let result = merging.locate(&mut self.meter, &self.belief, MAX_BOUNDARY_SEARCH_NS)?;
            self.update_from_boundaries(&result)?;
        }
        // Where writes clearly cause merges, these would be mistaken for erasures.
        let surely = merging.as_ref().is_some_and(|merging| merging.is_clear());
        if self.erase_block().value.is_none() && !surely {
            self.reread_erase_block()?;
        }
        if self.erase_block().value.is_none() && !surely {
            self.meter.now("observing erasures")?;
            self.watch_erasures()?;
        }
        if let Some(layout) = self.layout {
            self.meter.now("measuring the write unit")?;
            let found = self.find_write_unit(layout)?;
            self.meter.probed.findings.write_unit = found;
        }
        self.find_fast_area(merging.as_ref())?;
        let merges = merging.is_some();
        if let Some(merging) = merging.filter(SensedMerging::is_clear) {
            self.meter.now("looking for a log for small writes")?;
            let found = small_writes::measure(&mut self.meter, &merging)?;
            self.meter.probed.findings.small_write_log = found;
            if let Some(layout) = self.layout {
                self.meter.now("testing the first erase blocks")?;
                let found = zone::measure(&mut self.meter, &merging, layout)?;
                self.meter.probed.findings.special_zone = found;
            }
        } else {
            let reason = "only visible if scattered writes cause merges";
            self.meter.probed.findings.small_write_log = GeometryFinding::not_measured(reason);
            self.meter.probed.findings.special_zone = GeometryFinding::not_measured(reason);
        }
        // Counting needs the write unit less than it changes a device that does not merge.
        if !merges {
            self.look_for_write_steps(merges)?;
        }
        self.meter.now("counting open erase blocks")?;
        // A log for small writes is emptied by merges, even if these were too rare to show.
        self.count_open_erase_blocks(merges || self.erases_log())?;
        if merges {
            self.look_for_write_steps(merges)?;
        }
        self.reread_write_unit()
    }

    /// Writes a window sequentially, then makes scattered writes in it.
    fn find_merging(&mut self) -> Result<Option<SensedMerging>, MeasurementStop> {
        let region = self.meter.region();
        let start = window(&region, 0).start;
        self.window = start..start;
        for most in WINDOWS {
            let end = window(&region, most).end;
            if end == self.window.end {
                break;
            }
            self.meter.now("measuring sequential writes")?;
            let unwritten = self.window.end..end;
            let before = unwritten::read(&mut self.meter, &unwritten, 0)?;
            let times = self.meter.fill(unwritten.clone())?;
            if self.window.is_empty() {
                let after = unwritten::read(&mut self.meter, &unwritten, 1)?;
                let found = unwritten::finding(&before, &after);
                self.meter.probed.findings.unwritten_is_faster = found;
            }
            self.window.end = end;
            self.filled = self.meter.probed.evidence.samples.len();
            let rates: Vec<f64> = times[times.len() / 2..]
                .iter()
                .map(|(length, time_ns)| time_ns / *length as f64)
                .collect();
            self.ns_per_byte = median(&rates);
            if self.write_unit.is_none() {
                self.meter.now("measuring the write unit")?;
                let timed = write_unit::measure(&mut self.meter, [self.window.clone()])?;
                self.write_unit = write_unit::infer(&timed, MAX_WRITE_UNIT);
            }
            self.meter.now("looking for merges")?;
            let sensed = SensedMerging::sense(&mut self.meter, &self.window, self.ns_per_byte)?;
            if sensed.is_some() {
                return Ok(sensed);
            }
        }
        self.lacking = "scattered writes cause no merges, so no boundaries are visible".to_owned();
        Ok(None)
    }

    /// Adds the evidence of boundaries, and of parts of units.
    fn update_from_boundaries(&mut self, result: &MergeEvidence) -> Result<(), MeasurementStop> {
        let layout = result.layout;
        if !result.is_related() {
            self.lacking =
                format!("the costs of {} test writes are unrelated to boundaries", result.queries);
            return Ok(());
        }
        self.has_boundaries = true;
        let answer = if result.probability > 0.5 {
            let window = self.window.clone();
            streams::parts(&mut self.meter, &window, layout, self.ns_per_byte)?
        } else {
            StreamAnswer::Untold
        };
        self.update_from_parts(result, &answer);
        self.seen = "writes across its boundaries cause one merge more than others";
        self.lacking =
            format!("the costs of {} test writes agree with several sizes", result.queries);
        let unit = self.belief.answer().map(|(unit, _)| unit);
        if let Some(unit) = unit.filter(|unit| unit % layout.unit == 0) {
            self.layout = Some(UnitLayout { unit, offset: layout.offset });
            if result.probability > 0.95 && unit == layout.unit {
                let offset = QuantityValue::Bytes(layout.offset);
                let reason = "the boundaries that cause merges start there";
                self.meter.probed.findings.erase_block_offset =
                    GeometryFinding::found(offset, result.probability, reason);
            }
        }
        Ok(())
    }

    /// Adds the evidence of boundaries for each unit, summed over all numbers of parts.
    fn update_from_parts(&mut self, result: &MergeEvidence, answer: &StreamAnswer) {
        let untold = match answer {
            StreamAnswer::EveryPairMerges => UNTOLD_PARTS,
            _ => UNTOLD_PARTS + UNTOLD_IN_ORDER * result.in_order,
        };
        let prior = |number: u64| match (number, answer) {
            (number, StreamAnswer::Found(_)) => streams::prior(number),
            (1, _) => 1.0 - untold,
            (2 | 4 | 8, _) => untold / 3.0,
            _ => 0.0,
        };
        // Pairs determine how many of the written parts make a unit.
        let written = result.layout.unit;
        let of_pairs = |unit: u64| {
            let StreamAnswer::Found(parts) = answer else { return 0.0 };
            let number = if unit % written == 0 { unit / written } else { 0 };
            let found = parts.probabilities.iter().find(|(parts, _)| *parts == number);
            let share = found.map_or(0.0, |(number, share)| share / streams::prior(*number));
            share.max(MIN_SHARE).ln()
        };
        let nothing = result.log_nothing;
        self.belief.update(|structure| {
            let Some(unit) = structure.bytes() else { return 0.0 };
            let logs = result.log_likelihoods.iter().filter(|(part, _)| unit % part == 0);
            let logs = logs.map(|(part, log)| log - nothing + prior(unit / part).ln());
            let unseen = result.log_likelihoods.iter().all(|(part, _)| *part != unit);
            let unseen = if unseen { prior(1).ln() } else { f64::NEG_INFINITY };
            (log_sum_exp(logs.chain([unseen])) + of_pairs(unit)).max(-500.0)
        });
    }

    /// Writes the whole region once, then a few places of it until erasures are visible.
    fn watch_erasures(&mut self) -> Result<(), MeasurementStop> {
        self.lacking = "the device had not begun to erase when no more could be written: allow \
                        more than twice its capacity"
            .to_owned();
        let region = self.meter.region();
        let sizes = self.write_unit.as_ref().map_or(&[][..], |unit| &unit.sizes);
        let mut watching = BuildBelief::new(&self.belief, sizes, &self.window, self.has_boundaries);
        // A used device erases from the start, a new one only after its capacity was written once.
        if self.meter.discards() {
            self.meter.discard(region.clone())?;
        }
        self.meter.probed.findings.write_unit =
            GeometryFinding::inconclusive("requires visible erasures", Vec::new());
        let watched = self.observer(&mut watching);
        if !watching.has_shown() {
            return watched;
        }
        if !watching.is_explained() {
            self.lacking = "the periodic delays agree with no erase block size".to_owned();
            return watched;
        }
        let Erasures { gains, write_unit: (write_unit, probability) } = watching.result();
        if probability >= SURE && write_unit == MIN_WRITE && self.lacks_small_writes(&watching)? {
            let reason = "at most 4 KiB: smaller writes fill erase blocks less, or it is unclear \
                          whether they do";
            self.meter.probed.findings.write_unit =
                GeometryFinding::inconclusive(reason, Vec::new());
        } else if probability >= SURE {
            let reason = "writes of multiples of this size fill erase blocks without waste";
            self.meter.probed.findings.write_unit =
                GeometryFinding::found(QuantityValue::Bytes(write_unit), probability, reason);
        }
        self.update_from_gains(&gains);
        self.lacking = "one write in so many takes longer, but of which size the units are that \
                        are erased then is not clear"
            .to_owned();
        self.seen = "writes are delayed periodically by an erasure, wherever they go";
        let reason = if watching.is_log() {
            "only erasures of a log for small writes are visible, which have no fixed address"
        } else {
            "the device places writes freely, so its erase blocks have no fixed address"
        };
        self.meter.probed.findings.erase_block_offset =
            GeometryFinding::inconclusive(reason, Vec::new());
        self.erasures = Some(watching);
        watched
    }

    pub(super) fn update_from_gains(&mut self, gains: &[(u64, f64)]) {
        self.belief.update(|structure| {
            let found = structure.bytes().and_then(|unit| gains.iter().find(|of| of.0 == unit));
            found.map_or(0.0, |(_, gain)| *gain)
        });
    }

    /// Whether a write unit of the smallest size that was tried may be smaller.
    fn lacks_small_writes(&mut self, watching: &BuildBelief) -> Result<bool, MeasurementStop> {
        match watching.is_smallest_write_unit(&mut self.meter) {
            Err(MeasurementStop::Spent) => Ok(true),
            other => Ok(other? != Some(true)),
        }
    }

    /// Results count even if the write budget ends.
    fn observer(&mut self, watching: &mut BuildBelief) -> Result<(), MeasurementStop> {
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
        // A fast area is smaller than what was written before, if that is much of the device.
        if late && self.window.end - self.window.start >= self.capacity_bytes / 4 {
            watching.began_late(FIRST_WRITES);
        }
        watching.further_runs(&mut self.meter)?;
        // Copying from a log for small writes looks like folding.
        if self.has_boundaries {
            return Ok(());
        }
        let window = self.window.clone();
        watching.look_for_folding(&mut self.meter, &window)
    }

    /// Writes whole units from their start, where only programming takes time.
    fn find_write_unit(&mut self, layout: UnitLayout) -> Result<GeometryFinding, MeasurementStop> {
        let UnitLayout { unit, offset } = layout;
        let first = (self.window.start - offset).div_ceil(unit);
        let last = (self.window.end - offset) / unit;
        // Not the end of a unit: that would merge it.
        let units = (first..last).map(|at| offset + at * unit..offset + (at + 1) * unit - 1);
        let timed = write_unit::measure(&mut self.meter, units)?;
        Ok(write_unit::finding(write_unit::infer(&timed, unit / 32).as_ref()))
    }

    /// The finding for the erase block. If writing is inconclusive, the result of reading counts
    /// with its confidence, unless something else is now more likely.
    pub(super) fn erase_block(&self) -> GeometryFinding {
        let found = self.belief.finding(|_| self.seen.to_owned(), &self.lacking);
        let likeliest = self.belief.likeliest().0.bytes();
        let read = self.read.as_ref().filter(|read| {
            found.value.is_none()
                && read.verdict == QuantityVerdict::Found
                && read.value == likeliest.map(QuantityValue::Bytes)
        });
        read.cloned().unwrap_or(found)
    }

    fn finish(self) -> Probed {
        let elapsed_ns = self.meter.elapsed_ns();
        let erase_block = self.erase_block();
        let mut probed = self.meter.probed;
        probed.findings.erase_block = erase_block;
        let findings = &mut probed.findings;
        for found in [
            &mut findings.erase_block_offset,
            &mut findings.open_erase_blocks_linear,
            &mut findings.open_erase_blocks_random,
        ] {
            found.confidence = found.confidence.map(|confidence| confidence.min(MOST_CONFIDENT));
        }
        let [write_unit, page] = self.read_pages;
        let written = probed.findings.write_unit.value;
        if write_unit.value.is_some() && written != write_unit.value {
            // Of answers that differ, those of reading are right more often.
            probed.findings.write_unit = write_unit;
        }
        if page.verdict != QuantityVerdict::NotMeasured {
            probed.findings.page = page;
        }
        for finding in probed.findings.all_mut() {
            if *finding == GeometryFinding::default() {
                *finding = GeometryFinding::not_measured(self.ended_early);
            }
        }
        probed.belief = Some(self.belief);
        probed.elapsed_ns = elapsed_ns;
        probed
    }
}

/// Where a region is written sequentially before merges are looked for, at most so many bytes.
pub fn window(region: &Range<u64>, most: u64) -> Range<u64> {
    let skipped = SKIPPED.min((region.end - region.start) / 4) / LARGEST_REQUEST * LARGEST_REQUEST;
    let start = (region.start + skipped).next_multiple_of(LARGEST_REQUEST);
    let end = (start + most).min(region.end / LARGEST_REQUEST * LARGEST_REQUEST);
    start..end.max(start)
}

/// The write unit and the page that a reading probe found.
pub(super) fn pages_of(read: &Probed) -> [GeometryFinding; 2] {
    [read.findings.write_unit.clone(), read.findings.page.clone()]
}

/// A size that was found, with its confidence.
pub(super) fn found_bytes(finding: &GeometryFinding) -> Option<(u64, f64)> {
    match (finding.value, finding.confidence) {
        (Some(QuantityValue::Bytes(bytes)), Some(confidence)) => Some((bytes, confidence)),
        _ => None,
    }
}
