//! The part of the session that follows once the erase block is sought: the fast area and the open
//! erase blocks.

use super::boundaries::{MIN_STRETCH, SensedMerging};
use super::change;
use super::erasures::BuildBelief;
use super::fast_area::{self, KnownUnits, WrittenFirst};
use super::layout::UnitLayout;
use super::meter::{LARGEST_REQUEST, MeasurementStop};
use super::open_erase_blocks::{self, UnitOrder, UnitPlacement};
use super::openings::{self, Openings};
use super::session::{WriteSession, found_bytes};
use super::write_steps::{self, RunPlaces, ShiftVerdict};
use crate::findings::{GeometryFinding, QuantityValue, QuantityVerdict};

/// Merges of erase blocks of up to this size may be too cheap to show.
const QUIETLY_MERGED: u64 = 1 << 20;
/// Units needed to count the open erase blocks.
const WANTED_UNITS: u64 = 28;

impl WriteSession<'_> {
    /// Looks for an area that is written first, on devices that do not merge.
    pub(super) fn find_fast_area(
        &mut self,
        merging: Option<&SensedMerging>,
    ) -> Result<(), MeasurementStop> {
        if merging.is_some_and(SensedMerging::is_clear) {
            let reason = "scattered writes cause merges, so writes do not go to a fast area first";
            self.meter.probed.findings.pslc_cache =
                GeometryFinding::inconclusive(reason, Vec::new());
            return Ok(());
        }
        self.meter.now("looking for a fast area")?;
        let fill = self.meter.probed.evidence.samples[..self.filled].to_vec();
        let erase_block = found_bytes(&self.erase_block()).map(|(bytes, _)| bytes);
        let known = KnownUnits {
            erase_block,
            write_unit: self.likely_write_unit(),
            has_log: self.erases_log(),
        };
        let found = fast_area::measure(&mut self.meter, &fill, &self.window, known)?;
        if let Some(shown) = found.shown {
            self.update_from_fast_area(shown);
        }
        self.meter.probed.findings.pslc_cache = found.finding;
        Ok(())
    }

    /// Whether the visible erasures are those of a log for small writes.
    pub(super) fn erases_log(&self) -> bool {
        self.erasures.as_ref().is_some_and(BuildBelief::is_log)
    }

    /// Adds the evidence of the search for a fast area for what is erased.
    fn update_from_fast_area(&mut self, shown: WrittenFirst) {
        let Some(erasures) = &mut self.erasures else { return };
        let before = erasures.result().gains;
        erasures.knows_written_first(shown);
        let after = erasures.result().gains;
        let gains =
            before.iter().zip(&after).map(|((unit, before), (_, after))| (*unit, after - before));
        let gains: Vec<(u64, f64)> = gains.collect();
        self.update_from_gains(&gains);
    }

    /// Looks for the write unit once more, in runs of writes of one size, if it is unknown. One
    /// that write times by size showed is confirmed by shifts, since a half of it fits nearly as
    /// well.
    pub(super) fn look_for_write_steps(&mut self, merges: bool) -> Result<(), MeasurementStop> {
        let known = self.likely_write_unit();
        let is_to_confirm = merges && self.read_pages[0].value.is_none();
        if known.is_some() && !is_to_confirm {
            return Ok(());
        }
        self.meter.now("measuring the write unit")?;
        match self.measure_write_unit(known, merges) {
            Err(MeasurementStop::Spent) => {}
            found => {
                if let Some(found) = found? {
                    self.meter.probed.findings.write_unit = found;
                }
            }
        }
        Ok(())
    }

    fn measure_write_unit(
        &mut self,
        known: Option<u64>,
        merges: bool,
    ) -> Result<Option<GeometryFinding>, MeasurementStop> {
        let layout = self.layout.unwrap_or(UnitLayout { unit: LARGEST_REQUEST, offset: 0 });
        let placement = UnitPlacement { window: self.window.clone(), layout, write_bytes: 0 };
        let starts = (0..placement.units()).map(|number| placement.start(number)).collect();
        let places = RunPlaces { starts, room: layout.unit };
        if let Some(known) = known {
            let (meter, ns_per_byte) = (&mut self.meter, self.ns_per_byte);
            match write_steps::confirm(meter, places.clone(), known, ns_per_byte)? {
                ShiftVerdict::Confirmed | ShiftVerdict::Unclear => return Ok(None),
                ShiftVerdict::Refuted => {}
            }
            // Kept if the rest cannot be measured.
            let reason = "write times grow in steps of this size, but shifts by it cost more";
            self.meter.probed.findings.write_unit =
                GeometryFinding::inconclusive(reason, Vec::new());
        }
        let found = write_steps::measure(&mut self.meter, places, merges)?;
        Ok(found.value.is_some().then_some(found))
    }

    /// The write unit so far, in bytes.
    fn likely_write_unit(&self) -> Option<u64> {
        let written = found_bytes(&self.meter.probed.findings.write_unit);
        let read = || found_bytes(&self.read_pages[0]);
        written.or_else(read).map(|(bytes, _)| bytes)
    }

    /// A write size for open erase blocks: above that of a log for small writes, several of which
    /// fit into a unit, and whole write units.
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
            && (bytes / 2 >= MIN_STRETCH || bytes > unit / 8)
        {
            bytes /= 2;
        }
        bytes
    }

    /// Extends the sequential window if it has few units.
    fn widen(&mut self, unit: u64) -> Result<(), MeasurementStop> {
        let wanted = self.window.start + WANTED_UNITS * unit;
        let end = wanted.min(self.meter.region().end / LARGEST_REQUEST * LARGEST_REQUEST);
        // Half of the budget is for the units themselves.
        if end > self.window.end && end - self.window.end < self.meter.left_bytes() / 2 {
            self.meter.fill(self.window.end..end)?;
            self.window.end = end;
        }
        Ok(())
    }

    /// The open erase blocks by the cost of beginning one more, if they show.
    fn begin_further_units(
        &mut self,
        ground: &UnitPlacement,
    ) -> Result<Option<GeometryFinding>, MeasurementStop> {
        let log = found_bytes(&self.meter.probed.findings.small_write_log).map(|(bytes, _)| bytes);
        let Openings { finding, costs, .. } = openings::measure(&mut self.meter, ground, log)?;
        if !costs.is_empty() {
            let series = open_erase_blocks::series("beginning erase blocks", &costs);
            self.meter.probed.evidence.series.push(series);
        }
        Ok(finding.value.is_some().then_some(finding))
    }

    pub(super) fn count_open_erase_blocks(&mut self, merges: bool) -> Result<(), MeasurementStop> {
        let unit = match self.erase_block().value {
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
                    "the test needs the erase block, which is unknown"
                } else {
                    "the device showed no merges, so a change has another cause"
                };
                found = GeometryFinding::inconclusive(reason, found.candidates);
            }
            let series = open_erase_blocks::series(&format!("open erase blocks, {name}"), &costs);
            self.meter.probed.evidence.series.push(series);
            let is_lacking = order == UnitOrder::Linear && found.value.is_none();
            if is_lacking && unit.is_some_and(|unit| merges || unit <= QUIETLY_MERGED) {
                let begun = self.begin_further_units(&ground)?;
                let agrees = |of: &GeometryFinding| {
                    !matches!(of.value, Some(QuantityValue::Count(open))
                        if change::is_too_small(&costs, open))
                };
                found = begun.filter(agrees).unwrap_or(found);
            }
            match order {
                UnitOrder::Linear => self.meter.probed.findings.open_erase_blocks_linear = found,
                UnitOrder::Random => self.meter.probed.findings.open_erase_blocks_random = found,
            }
        }
        Ok(())
    }
}
