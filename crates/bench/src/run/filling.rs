//! Lays out what a workload reads or writes over, before it is measured.

use std::time::Instant;

use super::{Run, nanoseconds, task_plan};
use crate::error::BenchError;
use crate::jobfile;
use crate::plan::Sizes;
use crate::result;
use crate::target::WorkloadTarget;
use crate::task::{self, FileOrder};

/// Makes the seed of the layout different from that of the stages.
const FILL_SEED: u64 = 0x5EED_F111;
/// The job that writes a device that was given up.
const DEVICE_FILL: &str = include_str!("../device_fill.fio");

impl Run<'_> {
    /// Lays out files; fio keeps those that exist.
    pub(super) fn fill(&mut self, sizes: Sizes) -> Result<(), BenchError> {
        if self.target.folder.is_none() {
            return self.fill_device(sizes);
        }
        if self.workload.needs_tree() {
            let started = Instant::now();
            let tree = self.target.tree();
            let plan = task_plan(self.workload, self.plan, &tree, FileOrder::Name, sizes);
            self.result.fill_bytes += task::lay_out_tree(self.runner, &plan)?;
            self.target.sync()?;
            self.result.fill_ns += nanoseconds(started.elapsed());
        }
        if self.workload.fill.is_empty() {
            return Ok(());
        }
        let started = Instant::now();
        let text = jobfile::with_global(&self.target.text, "create_only=1");
        // With the same seed, the stages would write the same data again.
        let seed = self.plan.seed ^ FILL_SEED;
        let (outcome, output) = self.fio(&text, &self.workload.fill, sizes, sizes.data, seed)?;
        result::read_fill(&outcome, &output)?;
        self.target.sync()?;
        self.result.fill_ns += nanoseconds(started.elapsed());
        self.result.fill_bytes += sizes.data;
        Ok(())
    }

    /// Writes what the workload then reads or writes over; places that were never written are
    /// faster on many devices. A device that may only be read stays as it is.
    fn fill_device(&mut self, sizes: Sizes) -> Result<(), BenchError> {
        let WorkloadTarget::GivenUpDevice(_) = self.target.target else { return Ok(()) };
        if self.result.fill_bytes > 0 {
            return Ok(());
        }
        let started = Instant::now();
        let text =
            jobfile::on_device(DEVICE_FILL, &self.target.identity.path.display().to_string());
        let (seed, sections) = (self.plan.seed ^ FILL_SEED, ["fill".to_owned()]);
        let (outcome, output) = self.fio(&text, &sections, sizes, sizes.data, seed)?;
        result::read_fill(&outcome, &output)?;
        self.result.fill_ns += nanoseconds(started.elapsed());
        self.result.fill_bytes += sizes.data;
        Ok(())
    }
}
