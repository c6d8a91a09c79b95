//! The part of the session that reads again what the probe has written.
//!
//! Reads of a new device need no flash where nothing was written, so the read-only probe before
//! cannot see its structure.

use std::ops::Range;

use super::meter::{MeasurementStop, Meter};
use super::session::{WriteSession, found_bytes, pages_of};
use crate::belief::DeviceStructure;
use crate::findings::QuantityValue;
use crate::probed::Probed;
use crate::reading::{self, ReadingOptions};

/// A size counts in the second reading only if the first one found it this likely.
const HINTED: f64 = 0.05;
/// Larger steps of write times may be those of the parts in which a device merges, in bytes.
const CLEAR_WRITE_UNIT: u64 = 64 << 10;
/// The most that is written again for reads that show the write unit, in bytes.
const REWRITTEN_BYTES: u64 = 256 << 20;

impl WriteSession<'_> {
    /// Repeats the read-only probe on written data: pages are now visible, which decides whether a
    /// small unit is the erase block. A result needs no further writing.
    pub(super) fn reread_erase_block(&mut self) -> Result<(), MeasurementStop> {
        let is_large = self.window.end - self.window.start >= reading::MIN_BYTES;
        let Some(first) = self.first.as_ref().filter(|_| is_large) else { return Ok(()) };
        let read = read_region(&mut self.meter, self.options.seed, self.window.clone())?;
        let [write_unit, page] = pages_of(&read);
        let erase_block = read.findings.erase_block;
        // Written data shows other structures too: starts of requests, pieces cut by the cache,
        // pieces of the mapping table. A size must have had some support before.
        let showed_before = |bytes| first.probability(DeviceStructure::Unit(bytes)) > HINTED;
        let is_clear =
            matches!(erase_block.value, Some(QuantityValue::Bytes(bytes)) if showed_before(bytes));
        if let Some(belief) = read.belief.filter(|_| is_clear) {
            self.belief.update_from_hints(&belief);
            self.read = Some(erase_block);
            for (known, again) in self.read_pages.iter_mut().zip([write_unit, page]) {
                if known.value.is_none() {
                    *known = again;
                }
            }
        }
        Ok(())
    }

    /// Looks for the write unit by reading, if writing did not show it clearly.
    pub(super) fn reread_write_unit(&mut self) -> Result<(), MeasurementStop> {
        let Range { start, end } = self.window;
        let end = end.min(start + REWRITTEN_BYTES);
        let is_large = end - start >= reading::MIN_BYTES;
        let written = found_bytes(&self.meter.probed.findings.write_unit);
        let is_clear = written.is_some_and(|(bytes, _)| bytes <= CLEAR_WRITE_UNIT);
        let is_known = is_clear || self.read_pages[0].value.is_some();
        if is_known || !is_large || self.first.is_none() {
            return Ok(());
        }
        self.meter.now("measuring the write unit")?;
        // Scattered writes before have left it in pieces.
        match self.meter.fill(start..end) {
            Err(MeasurementStop::Spent) => return Ok(()),
            written => written?,
        };
        let read = read_region(&mut self.meter, self.options.seed, start..end)?;
        self.read_pages = pages_of(&read);
        Ok(())
    }
}

/// A read-only probe of a region.
fn read_region(
    meter: &mut Meter<'_>,
    seed: u64,
    region: Range<u64>,
) -> Result<Probed, MeasurementStop> {
    let options = ReadingOptions { seed, region: Some(region), ..ReadingOptions::default() };
    meter.read_only(|device, clock, observer| reading::probe(device, clock, &options, observer))
}
