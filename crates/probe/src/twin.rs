//! A twin of the device: open-unit rates are measured for it, or taken from imported tables, and a
//! card model is fitted to them.

use std::ops::Range;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use flashfit_device::{BlockDev, BlockDevError, BlockDevInfo, Bytes, Clock};
use flashfit_geometry::flashbench::procedure::part_of;
use flashfit_geometry::flashbench::{
    AccessOrder, GoodFor, OpenBlockProcedure, OpenBlockTable, TableCell,
};
use flashfit_geometry::probed::ProbeObserver;
use flashfit_twin::file::summaries;
use flashfit_twin::fit_target::MeasuredPatterns;
use flashfit_twin::{DeviceHints, TwinError};

use crate::document::FittedTwin;
use crate::error::ProbeRunError;
use crate::limited::{LimitedDevice, MeasurementProgress};
use crate::recorded::RecordedDevice;
use crate::stalls::Stalls;

/// As in published tables.
const MOST_UNITS: u32 = 7;
const LEAST_WRITE: Bytes = Bytes::kib(4);
/// The erase block that is supposed where none is known: what most cards declare.
const SUPPOSED_UNIT: Bytes = Bytes::mib(4);
/// What may be written where nothing else is said: enough for units of 4 MiB in all pieces.
pub const USUAL_BYTES: u64 = 3 << 30;
/// A rate that would take longer is not measured.
const LONGEST_CELL_NS: u64 = 60_000_000_000;

/// Where rates may be measured.
pub struct RateRoom {
    /// In bytes.
    pub region: Range<u64>,
    /// The most that may still be written, in bytes.
    pub left_bytes: u64,
    /// The time that the probe has taken, and the most that it may take, in nanoseconds.
    pub elapsed_ns: u64,
    pub max_time_ns: Option<u64>,
    /// Whether the user may be asked for more time.
    pub asks: bool,
}

impl RateRoom {
    /// The rest of the time, in nanoseconds; `None` without a limit.
    pub(crate) fn left_ns(&self, elapsed_ns: u64) -> Option<u64> {
        let spent_ns = self.elapsed_ns.saturating_add(elapsed_ns);
        self.max_time_ns.map(|most_ns| most_ns.saturating_sub(spent_ns))
    }

    /// Whether there is time for a measurement that is expected to take so long; the user may
    /// agree to more.
    pub(crate) fn has_time_for(
        &mut self,
        expected_ns: u64,
        elapsed_ns: u64,
        observer: &mut dyn ProbeObserver,
    ) -> bool {
        let spent_ns = self.elapsed_ns.saturating_add(elapsed_ns);
        loop {
            match self.max_time_ns {
                Some(most_ns) if spent_ns.saturating_add(expected_ns) >= most_ns => {
                    let more_ns = self.asks.then(|| observer.extend(spent_ns)).flatten();
                    let Some(more_ns) = more_ns else { return false };
                    self.max_time_ns = Some(most_ns.saturating_add(more_ns.max(1)));
                }
                _ => return true,
            }
        }
    }
}

/// Measures the rates that a twin is fitted to: writes to 1 to 7 erase blocks in turn, in large
/// pieces and small. What would take too long or too much is left out, and so is what remains at
/// the end of the time; `true` if rates are left out because of the bytes that they write. `unit`
/// is the erase block, if it is known.
pub fn measure(
    device: &mut RecordedDevice<'_>,
    clock: &dyn Clock,
    unit: Option<Bytes>,
    mut room: RateRoom,
    observer: &mut dyn ProbeObserver,
    seed: u64,
) -> Result<(OpenBlockTable, bool), ProbeRunError> {
    let unit = unit.unwrap_or(SUPPOSED_UNIT);
    // Units that are no multiple of the smallest write cannot be written in such pieces.
    let erase_block = if unit.0 % LEAST_WRITE.0 == 0 { unit } else { SUPPOSED_UNIT };
    let mut device = Within { device, region: room.region.clone() };
    let capacity = Bytes(device.describe().capacity_bytes);
    let most_units = MOST_UNITS.min(OpenBlockProcedure::room(capacity, erase_block)).max(1);
    let procedure = OpenBlockProcedure { erase_block, least_write: LEAST_WRITE, most_units, seed };
    let (sizes, data) = (procedure.sizes()?, procedure.data());
    let begin_ns = clock.now_ns();
    let (mut cells, mut lacks_bytes) = (Vec::new(), false);
    'all: for access in [AccessOrder::Linear, AccessOrder::Random] {
        for units in 1..=most_units {
            let row_bytes = u64::from(units) * erase_block.0;
            let mut expected_ns = 0;
            for &write in &sizes {
                lacks_bytes |= row_bytes > room.left_bytes;
                if expected_ns > LONGEST_CELL_NS || row_bytes > room.left_bytes {
                    break;
                }
                if !room.has_time_for(expected_ns, clock.now_ns() - begin_ns, observer) {
                    break 'all;
                }
                let done = f64::from(units) / f64::from(most_units) / 2.0;
                let done = done + if access == AccessOrder::Random { 0.5 } else { 0.0 };
                let part = part_of(&data, write);
                let left_ns = room.left_ns(clock.now_ns() - begin_ns);
                let begun = device.device.begin();
                let limited =
                    LimitedDevice::new(&mut device, clock, left_ns, observer, progress(done));
                let took = limited
                    .measure(|device| procedure.time_ns(device, clock, (units, access), part))?;
                room.left_bytes -= row_bytes;
                let Some(took_ns) = took else { break };
                device.device.end(begun);
                // Where every write costs the same, pieces of half the size take twice as long.
                expected_ns = took_ns.saturating_mul(2);
                let rate = u128::from(row_bytes) * 1_000_000_000 / u128::from(took_ns.max(1));
                let bytes_per_second = u64::try_from(rate).unwrap_or(u64::MAX);
                cells.push(TableCell { units, access, write, bytes_per_second });
            }
        }
    }
    Ok((OpenBlockTable { cells }, lacks_bytes))
}

fn progress(done: f64) -> MeasurementProgress {
    MeasurementProgress { done, what: "open-unit rates for the twin" }
}

/// What a twin is fitted to.
#[derive(Debug, Default, PartialEq)]
pub struct TwinMeasurements {
    pub tables: Vec<OpenBlockTable>,
    pub patterns: Option<MeasuredPatterns>,
    pub hints: DeviceHints,
    /// Spread evenly over the rates and the patterns.
    pub stalls: Option<Stalls>,
    /// The most that could be written, if rates were left out because of it.
    pub lacked_bytes: Option<Bytes>,
}

impl TwinMeasurements {
    /// Spreads the time of stalls evenly, first over the rates, then over the parts of the
    /// patterns: the order in which they were measured.
    pub(crate) fn even_out(&mut self, stalls: Stalls) {
        let mut differences = stalls.difference_ns.iter();
        for table in &mut self.tables {
            let erase_block = table.cells.iter().map(|cell| cell.write.0).max().unwrap_or(0);
            for (cell, &difference) in table.cells.iter_mut().zip(&mut differences) {
                let bytes = u128::from(u64::from(cell.units) * erase_block);
                let took_ns = bytes * 1_000_000_000 / u128::from(cell.bytes_per_second.max(1));
                let took_ns = changed_ns(u64::try_from(took_ns).unwrap_or(u64::MAX), difference);
                let rate = bytes * 1_000_000_000 / u128::from(took_ns.max(1));
                cell.bytes_per_second = u64::try_from(rate).unwrap_or(u64::MAX);
            }
        }
        let parts = self.patterns.iter_mut().flat_map(|patterns| &mut patterns.measured);
        for (part_ns, &difference) in parts.flat_map(|of| &mut of.parts_ns).zip(&mut differences) {
            *part_ns = changed_ns(*part_ns, difference);
        }
        self.stalls = Some(stalls);
    }
}

/// At least a tenth remains.
fn changed_ns(took_ns: u64, difference_ns: i64) -> u64 {
    took_ns.saturating_add_signed(difference_ns).max(took_ns / 10)
}

/// Fits a card model to what was measured of `what`, a device or files. The text is that of its
/// card file at `path`.
///
/// # Errors
/// If the tables have too little for a model, or the observer interrupts.
pub fn fit_twin(
    measured: &TwinMeasurements,
    what: &str,
    path: &Path,
    observer: &mut dyn ProbeObserver,
) -> Result<(FittedTwin, String), ProbeRunError> {
    let stem = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
    let TwinMeasurements { tables, patterns, hints, stalls, lacked_bytes } = measured;
    let twin = flashfit_twin::fit(tables, patterns.clone(), *hints, (&stem, what), observer);
    let twin = twin.map_err(|error| match (error, *lacked_bytes) {
        (error @ TwinError::TooFewRates, Some(limit)) => {
            ProbeRunError::TooFewBytesForTwin { error, limit }
        }
        (error, _) => error.into(),
    })?;
    let mut text = twin.to_toml()?;
    if let Some(stalls) = stalls {
        // The comments at the head end with the first empty line.
        text = text.replacen("\n\n", &format!("\n{}\n\n", stalls.comment()), 1);
    }
    let GoodFor { good, not } = twin.good_for();
    let fitted = FittedTwin {
        file: path.to_owned(),
        file_bytes: path.to_str().is_none().then(|| path.as_os_str().as_bytes().to_owned()),
        rates: twin.comparison.cells,
        median_error_thousandths: twin.comparison.median_error_thousandths,
        ninth_decile_error_thousandths: twin.comparison.ninth_decile_error_thousandths,
        groups: twin.groups,
        good_for: good,
        not_for: not,
        patterns: twin.patterns,
        alike: summaries(&twin.alike),
    };
    Ok((fitted, text))
}

/// A part of a device, as a device.
struct Within<'a, 'b> {
    device: &'a mut RecordedDevice<'b>,
    region: Range<u64>,
}

impl Within<'_, '_> {
    fn place(&self, offset: u64, length: u64) -> Result<u64, BlockDevError> {
        let within = offset.checked_add(length).is_some_and(|end| end <= self.size());
        within
            .then(|| self.region.start + offset)
            .ok_or(BlockDevError::OutOfBounds { offset, length })
    }

    fn size(&self) -> u64 {
        self.region.end - self.region.start
    }
}

impl BlockDev for Within<'_, '_> {
    fn describe(&self) -> BlockDevInfo {
        BlockDevInfo { capacity_bytes: self.size(), ..self.device.describe() }
    }

    fn read(&mut self, offset: u64, buffer: &mut [u8]) -> Result<(), BlockDevError> {
        let place = self.place(offset, buffer.len() as u64)?;
        self.device.read(place, buffer)
    }

    fn write(&mut self, offset: u64, data: &[u8]) -> Result<(), BlockDevError> {
        let place = self.place(offset, data.len() as u64)?;
        self.device.write(place, data)
    }

    fn flush(&mut self) -> Result<(), BlockDevError> {
        self.device.flush()
    }

    fn discard(&mut self, offset: u64, length: u64) -> Result<(), BlockDevError> {
        let place = self.place(offset, length)?;
        self.device.discard(place, length)
    }
}

#[cfg(test)]
mod tests {
    use std::ops::ControlFlow;

    use flashfit_card::{Card, InProcessCard, catalog};
    use flashfit_device::VirtualClock;
    use flashfit_geometry::probed::NoObserver;

    use super::*;

    struct Asked(Option<u64>);

    impl ProbeObserver for Asked {
        fn step(&mut self, _done: f64, _what: &str) -> ControlFlow<()> {
            ControlFlow::Continue(())
        }

        fn extend(&mut self, _elapsed_ns: u64) -> Option<u64> {
            self.0.take()
        }
    }

    /// Cells in which erase blocks are merged take much longer than those before.
    #[test]
    fn a_cell_that_takes_long_does_not_exceed_the_time() {
        const SECOND_NS: u64 = 1_000_000_000;
        let mut model = catalog::load("sd-c4-block", None).unwrap();
        model.nand.copy_ns = 20_000_000;
        for limit_s in [5, 10, 15, 20, 25, 30, 35, 40] {
            let clock = VirtualClock::default();
            let mut card = InProcessCard::new(Card::new(&model), clock.clone());
            let room = RateRoom {
                region: 0..card.describe().capacity_bytes,
                left_bytes: USUAL_BYTES,
                elapsed_ns: 0,
                max_time_ns: Some(limit_s * SECOND_NS),
                asks: false,
            };
            let mut card = RecordedDevice::new(&mut card, &clock);
            let (table, lacks_bytes) =
                measure(&mut card, &clock, None, room, &mut NoObserver, 1).unwrap();
            assert!(!table.cells.is_empty() && !lacks_bytes);
            let took_ns = clock.now_ns();
            assert!(took_ns < (limit_s + 3) * SECOND_NS, "{took_ns} ns of {limit_s} s");
        }
    }

    #[test]
    fn rates_count_within_the_time_of_the_probe() {
        let room = |max_time_ns| RateRoom {
            region: 0..1 << 30,
            left_bytes: 1 << 30,
            elapsed_ns: 600,
            max_time_ns,
            asks: true,
        };
        assert!(room(None).has_time_for(u64::MAX, 500, &mut NoObserver));
        assert!(room(Some(1200)).has_time_for(50, 500, &mut NoObserver));
        assert!(!room(Some(1200)).has_time_for(200, 500, &mut NoObserver));
        assert!(room(Some(1200)).has_time_for(200, 500, &mut Asked(Some(1000))));
        assert!(!room(Some(1200)).has_time_for(20_000, 500, &mut Asked(Some(1000))));
        let mut quiet = RateRoom { asks: false, ..room(Some(1200)) };
        assert!(!quiet.has_time_for(200, 500, &mut Asked(Some(1000))));
    }
}
