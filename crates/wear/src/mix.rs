//! The recorded traces of a setup, in the proportions of a usage model.

use flashfit_device::Bytes;
use schemars::JsonSchema;
use serde::Serialize;

use crate::estimate::EstimateError;
use crate::replay::Share;
use crate::trace_file::RecordedTrace;
use crate::usage::{TrimInterval, UsageModel};

/// A changed share this many times larger or smaller is another one.
const CHANGED_FACTOR: f64 = 1.1;
/// A filled share that differs by more percent of the device is another one.
const FILLED_DIFFERENCE: f64 = 2.0;

/// The state of the device as simulated, which recordings of one size cannot always bring to that
/// of the usage model.
#[derive(Debug, Clone, Copy, PartialEq, JsonSchema, Serialize)]
pub struct ModeledUsage {
    /// Share of the device that is changed again and again.
    pub changed_percent: f64,
    /// Share of the device that contains data; all of it without trim.
    pub filled_percent: f64,
}

impl ModeledUsage {
    /// Whether the changed share differs from that of the usage model.
    pub fn is_changed_elsewhere(&self, usage: &UsageModel) -> bool {
        let ratio = self.changed_percent / usage.changed_percent.value;
        !(1.0 / CHANGED_FACTOR..=CHANGED_FACTOR).contains(&ratio)
    }

    /// Whether the filled share differs from that of the usage model. Without trim it is always
    /// the whole device.
    pub fn is_filled_elsewhere(&self, usage: &UsageModel) -> bool {
        usage.trim.value != TrimInterval::Never
            && (self.filled_percent - usage.fill_percent.value).abs() > FILLED_DIFFERENCE
    }
}

/// The traces of one setup.
#[derive(Debug, Clone)]
pub struct SetupTraces {
    /// The setup as the user named it.
    pub name: String,
    /// One for each workload of the usage model, in its order.
    pub traces: Vec<RecordedTrace>,
}

impl SetupTraces {
    /// The size of the tiles that the traces fill; `None` if their sizes differ.
    pub fn tile_bytes(&self) -> Option<u64> {
        let tile = self.traces[0].header.capacity.0;
        self.traces.iter().all(|trace| trace.header.capacity.0 == tile).then_some(tile)
    }

    /// The size of the tiles, if a device of this capacity has one for each workload.
    ///
    /// # Errors
    /// [`EstimateError::Sizes`] and [`EstimateError::TooSmall`].
    pub(crate) fn fitting_tile(&self, capacity: Bytes) -> Result<u64, EstimateError> {
        let sizes = || EstimateError::Sizes { setup: self.name.clone() };
        let tile = self.tile_bytes().ok_or_else(sizes)?;
        let needed = Bytes(tile * self.traces.len() as u64);
        if capacity < needed {
            return Err(EstimateError::TooSmall { capacity, needed });
        }
        Ok(tile)
    }

    /// Bytes sent to the device per byte of programs, over all workloads.
    pub fn filesystem_amplification(&self, usage: &UsageModel) -> f64 {
        let sent =
            usage.writes.iter().zip(&self.traces).map(|((_, gib), trace)| gib.value * of(trace));
        sent.sum::<f64>() / usage.gib_a_day()
    }

    /// The workloads, each with `tiles` tiles.
    pub fn shares(&self, usage: &UsageModel, tiles: u32) -> Vec<Share<'_>> {
        (usage.writes.iter().zip(&self.traces))
            .map(|((_, gib), trace)| {
                let weight = (gib.value * of(trace) * 1e6) as u64;
                Share { trace, weight: weight.max(1), tiles }
            })
            .collect()
    }

    /// The number of tiles for one tile for each workload, so that the changed share of the device
    /// is that of the usage.
    pub fn tiles_per_pass(&self, usage: &UsageModel) -> f64 {
        self.changed_tiles() * 100.0 / usage.changed_percent.value
    }

    /// The share of the device that is changed if each workload uses so many of its tiles.
    pub(crate) fn changed_percent(&self, tiles_per_workload: u32, tiles: u32) -> f64 {
        self.changed_tiles() * 100.0 * f64::from(tiles_per_workload) / f64::from(tiles)
    }

    /// What the workloads change in one tile each, in tiles.
    fn changed_tiles(&self) -> f64 {
        (self.traces.iter())
            .map(|trace| trace.header.data_size.0 as f64 / trace.header.capacity.0 as f64)
            .sum()
    }
}

fn of(trace: &RecordedTrace) -> f64 {
    trace.device_bytes() as f64 / trace.header.written_by_programs.0 as f64
}
