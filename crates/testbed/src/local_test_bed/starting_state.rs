//! Brings the file system of a trial into the state in which its workload starts.
//!
//! Limit: on devices above [`MOST_SETTLED_BYTES`], inode tables are never written, so what that
//! changes is not measured there.

use std::path::Path;

use flashfit_bench::state::{self, StateTools};
use flashfit_bench::{MkfsMode, StartVariation, StateReached, WorkloadTarget, start};
use flashfit_filesystem::PartitionLayout;
use flashfit_host::Program;

use super::{LocalTestBed, TrialMount, timed};
use crate::trial_failure::Failure;
use crate::{TrialReport, TrialRequest};

/// On larger devices, writing all inode tables in a trial takes too long.
pub const MOST_SETTLED_BYTES: u64 = 2 << 30;

impl LocalTestBed<'_> {
    /// How mkfs is called.
    pub(super) fn made(&self, request: &TrialRequest<'_>) -> MkfsMode {
        let size = match self.facts.layout.layout {
            PartitionLayout::Partition { size_bytes, .. } => size_bytes,
            _ => self.facts.device.capacity.0,
        };
        let is_small = size <= MOST_SETTLED_BYTES;
        request.start.filter(|_| is_small).map_or(MkfsMode::Quiet, |start| start.made)
    }

    /// Discards everything.
    pub(super) fn discard(&self, node: &Path) -> Result<(), Failure> {
        if !self.facts.conditions.discard {
            return Ok(());
        }
        let program = self.timed(Program::new("blkdiscard").arg("--force").arg(node));
        self.consent.run(self.runner, &program).map(drop).map_err(Failure::from)
    }

    /// Fills and ages the file system, if requested.
    pub(super) fn reach_state(
        &self,
        request: &TrialRequest<'_>,
        mounted: &TrialMount,
        node: &Path,
        report: &mut TrialReport,
    ) -> Result<(), Failure> {
        if request.state.is_fresh() {
            return Ok(());
        }
        let tools = StateTools {
            runner: self.runner,
            scratch: &self.scratch_dir,
            memory_limit: self.memory.as_ref(),
            seed: request.seed,
        };
        let target = WorkloadTarget::Mounted(mounted.whole(), mounted.source(node));
        report.state = Some(timed(&mut report.phases.state_ns, || {
            state::prepare(request.state, target, tools)
        })?);
        Ok(())
    }

    /// Uses the file system a little, as requested.
    pub(super) fn vary_start(
        &self,
        request: &TrialRequest<'_>,
        mounted: &TrialMount,
        node: &Path,
        report: &mut TrialReport,
    ) -> Result<(), Failure> {
        let Some(wanted) = request.start else { return Ok(()) };
        let mut reached = match report.state.take() {
            Some(reached) => reached,
            None => StateReached::of(mounted.whole().point())?,
        };
        let free_bytes = state::free_bytes(mounted.whole().point())?;
        let target = WorkloadTarget::Mounted(mounted.whole(), mounted.source(node));
        let most = start::most_writing(request.runtime_ns);
        let wanted = StartVariation { made: self.made(request), ..wanted.clone() };
        let write = || wanted.write_files(target, request.seed, free_bytes, most);
        reached.start = Some(timed(&mut report.phases.state_ns, write)?);
        report.state = Some(reached);
        Ok(())
    }

    pub(super) fn idle(
        &self,
        request: &TrialRequest<'_>,
        report: &mut TrialReport,
    ) -> Result<(), Failure> {
        let Some(start) = request.start else { return Ok(()) };
        timed(&mut report.phases.state_ns, || start.idle(self.runner))?;
        Ok(())
    }
}
