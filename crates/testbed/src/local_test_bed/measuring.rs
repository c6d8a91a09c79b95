//! Runs the workload of a trial, on a mounted file system or on the bare device.

use std::path::Path;

use flashfit_bench::{PreparedExercise, WorkloadTarget, run_workload};

use super::{LocalTestBed, TrialMount, timed};
use crate::trial_failure::Failure;
use crate::{BytesWritten, TrialReport, TrialRequest};

impl LocalTestBed<'_> {
    pub(super) fn measure(
        &self,
        request: &TrialRequest<'_>,
        mounted: &TrialMount,
        node: &Path,
        report: &mut TrialReport,
    ) -> Result<(), Failure> {
        let target = WorkloadTarget::Mounted(mounted.whole(), mounted.source(node));
        self.measure_on(target, request, report)
    }

    /// Measures on the bare device of the consent, and notes what was written.
    pub(super) fn attempt_raw(
        &self,
        request: &TrialRequest<'_>,
        report: &mut TrialReport,
    ) -> Result<(), Failure> {
        self.begin(request)?;
        let before = self.written();
        let target = WorkloadTarget::GivenUpDevice(self.consent.path());
        let measured = self.consent.surrounded(|| self.measure_on(target, request, report));
        if let (Some(before), Some(after)) = (before, self.written()) {
            let workload_bytes = after.saturating_sub(before);
            report.written = Some(BytesWritten { trial_bytes: workload_bytes, workload_bytes });
        }
        measured
    }

    fn measure_on(
        &self,
        target: WorkloadTarget<'_>,
        request: &TrialRequest<'_>,
        report: &mut TrialReport,
    ) -> Result<(), Failure> {
        let plan = self.run_plan(request);
        let result =
            run_workload(self.runner, request.workload, &plan, target, self.memory.as_ref())?;
        report.phases.fill_ns = result.fill_ns;
        report.fill_bytes = result.fill_bytes;
        report.phases.settle_ns = result.settle_ns;
        report.phases.fio_ns = result.fio_ns;
        report.points = result.points;
        report.processor = result.processor;
        report.notes = result.notes;
        Ok(())
    }
}

/// Runs the exercise and closes its files.
pub(super) fn run_exercise(
    mut exercise: PreparedExercise,
    report: &mut TrialReport,
) -> Result<(), Failure> {
    let written = timed(&mut report.phases.fio_ns, || exercise.run())?;
    report.exercised_bytes = Some(written);
    Ok(())
}
