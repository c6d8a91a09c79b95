//! A twin of the device: open-unit rates are measured for it, or taken from imported tables, and a
//! card model is fitted to them.

use std::ops::{ControlFlow, Range};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use flashfit_device::{BlockDev, BlockDevError, BlockDevInfo, Bytes, Clock};
use flashfit_geometry::flashbench::procedure::part_of;
use flashfit_geometry::flashbench::{AccessOrder, OpenBlockProcedure, OpenBlockTable, TableCell};
use flashfit_geometry::probed::ProbeObserver;
use flashfit_twin::DeviceHints;

use crate::document::FittedTwin;
use crate::error::ProbeRunError;

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
}

/// Measures the rates that a twin is fitted to: writes to 1 to 7 erase blocks in turn, in large
/// pieces and small. What would take too long or too much is left out. `unit` is the erase block,
/// if it is known.
pub fn measure(
    device: &mut dyn BlockDev,
    clock: &dyn Clock,
    unit: Option<Bytes>,
    mut room: RateRoom,
    observer: &mut dyn ProbeObserver,
    seed: u64,
) -> Result<OpenBlockTable, ProbeRunError> {
    let unit = unit.unwrap_or(SUPPOSED_UNIT);
    // Units that are no multiple of the smallest write cannot be written in such pieces.
    let erase_block = if unit.0 % LEAST_WRITE.0 == 0 { unit } else { SUPPOSED_UNIT };
    let mut device = Within { device, region: room.region.clone() };
    let capacity = Bytes(device.describe().capacity_bytes);
    let most_units = MOST_UNITS.min(OpenBlockProcedure::room(capacity, erase_block)).max(1);
    let procedure = OpenBlockProcedure { erase_block, least_write: LEAST_WRITE, most_units, seed };
    let (sizes, data) = (procedure.sizes()?, procedure.data());
    let mut cells = Vec::new();
    for access in [AccessOrder::Linear, AccessOrder::Random] {
        for units in 1..=most_units {
            let row_bytes = u64::from(units) * erase_block.0;
            let mut expected_ns = 0;
            for &write in &sizes {
                if expected_ns > LONGEST_CELL_NS || row_bytes > room.left_bytes {
                    break;
                }
                let done = f64::from(units) / f64::from(most_units) / 2.0;
                let half = if access == AccessOrder::Random { 0.5 } else { 0.0 };
                if observer.step(done + half, "open-unit rates for the twin")
                    == ControlFlow::Break(())
                {
                    return Err(ProbeRunError::Interrupted);
                }
                let part = part_of(&data, write);
                let took = procedure.time_ns(&mut device, clock, (units, access), part);
                let took_ns = took?;
                room.left_bytes -= row_bytes;
                // Where every write costs the same, pieces of half the size take twice as long.
                expected_ns = took_ns.saturating_mul(2);
                let rate = u128::from(row_bytes) * 1_000_000_000 / u128::from(took_ns.max(1));
                let bytes_per_second = u64::try_from(rate).unwrap_or(u64::MAX);
                cells.push(TableCell { units, access, write, bytes_per_second });
            }
        }
    }
    Ok(OpenBlockTable { cells })
}

/// Fits a card model to the tables of `what`, a device or files. The text is that of its card file
/// at `path`.
///
/// # Errors
/// If the tables have too little for a model, or the observer interrupts.
pub fn fit_twin(
    tables: &[OpenBlockTable],
    hints: DeviceHints,
    what: &str,
    path: &Path,
    observer: &mut dyn ProbeObserver,
) -> Result<(FittedTwin, String), ProbeRunError> {
    let stem = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
    let twin = flashfit_twin::fit(tables, hints, (&stem, what), observer)?;
    let text = twin.to_toml()?;
    let fitted = FittedTwin {
        file: path.to_owned(),
        file_bytes: path.to_str().is_none().then(|| path.as_os_str().as_bytes().to_owned()),
        rates: twin.comparison.cells,
        median_error_thousandths: twin.comparison.median_error_thousandths,
        ninth_decile_error_thousandths: twin.comparison.ninth_decile_error_thousandths,
    };
    Ok((fitted, text))
}

/// A part of a device, as a device.
struct Within<'a> {
    device: &'a mut dyn BlockDev,
    region: Range<u64>,
}

impl Within<'_> {
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

impl BlockDev for Within<'_> {
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
