//! The recorded traces of a setup, in the proportions of a usage model.

use crate::replay::Share;
use crate::trace_file::RecordedTrace;
use crate::usage::UsageModel;

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
        let changed: f64 = (self.traces.iter())
            .map(|trace| trace.header.data_size.0 as f64 / trace.header.capacity.0 as f64)
            .sum();
        changed * 100.0 / usage.changed_percent.value
    }
}

fn of(trace: &RecordedTrace) -> f64 {
    trace.device_bytes() as f64 / trace.header.written_by_programs.0 as f64
}
