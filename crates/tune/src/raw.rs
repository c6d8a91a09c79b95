//! Measures the bare device once a run, under those workloads that need no file system: how much of
//! the device a file system leaves shows only next to it.
//!
//! Limits: not in runs on several boards, and only in runs in which it costs little
//! ([`LEAST_SHARE`], [`LEAST_TRIALS`]). The device is as the guard handed it over, and what is read
//! was written right before; a file system in use has older data in between.

use flashfit_bench::{MeasurementLength, Workload, estimate_ns, most_written_bytes};
use flashfit_filesystem::Setup;
use flashfit_run_format::RawMeasurement;
use flashfit_testbed::{TestBed, TrialError};

use crate::budget::Budget;
use crate::record::{TrialKey, TrialPurpose};
use crate::session::{Observer, TuneError, TuneSession, request};

/// A workload may take this part of a budget at most.
const LEAST_SHARE: u64 = 20;
/// A run of fewer trials is a quick look.
const LEAST_TRIALS: u32 = 20;
/// Stands in for the name of a file system.
const NO_FILESYSTEM: &str = "raw";

impl TuneSession<'_> {
    /// Measures what is not known yet, and takes its cost off the budget.
    pub(crate) fn measure_raw(
        &mut self,
        test_bed: &mut dyn TestBed,
        observer: &mut dyn Observer,
    ) -> Result<(), TuneError> {
        let mut known = self.dir.raw()?;
        let wanted: Vec<&Workload> = self.workloads.iter().filter(|one| self.wants(one)).collect();
        for workload in wanted {
            if known.iter().any(|raw| raw.workload == workload.name) {
                continue;
            }
            observer.on_raw_start(&workload.name);
            let Some(measured) = self.raw(workload, test_bed)? else { break };
            known.push(measured);
            self.dir.keep_raw(&known)?;
        }
        for cost in known.iter().map(RawMeasurement::cost) {
            let limits = &mut self.rules.limits;
            let left = |limit: &mut Option<u64>, spent| {
                *limit = limit.map(|most| most.saturating_sub(spent).max(1));
            };
            left(&mut limits.budget_ns, cost.time_ns);
            left(&mut limits.max_write_bytes, cost.written_bytes);
        }
        Ok(())
    }

    fn wants(&self, workload: &Workload) -> bool {
        let plan = self.spec.run_plan();
        let (Ok(time_ns), Ok(written)) =
            (estimate_ns(workload, &plan), most_written_bytes(workload, &plan))
        else {
            return false;
        };
        // Reading needs data, which is written before.
        let written = written + plan.data_size_bytes;
        workload.raw
            && self.spec.workloads.contains(&workload.name)
            && affords(&self.spec.limits, time_ns, written)
    }

    fn raw(
        &self,
        workload: &Workload,
        test_bed: &mut dyn TestBed,
    ) -> Result<Option<RawMeasurement>, TuneError> {
        let scheduler = test_bed.facts().default_scheduler.clone();
        let setup = Setup {
            filesystem: NO_FILESYSTEM.to_owned(),
            options: Vec::new(),
            scheduler: scheduler.clone(),
        };
        let key = TrialKey {
            purpose: TrialPurpose::Search,
            setup,
            workload: workload.name.clone(),
            length: MeasurementLength::Full,
            repeat: 0,
        };
        let request = request(self.spec, self.workloads, &key, None);
        let (report, message) = match test_bed.run_without_filesystem(&request) {
            Ok(Some(report)) => (report, None),
            Ok(None) => return Ok(None),
            Err(TrialError::Setup { message, report }) => (*report, Some(message)),
            Err(fatal) => return Err(fatal.into()),
        };
        let mut points = report.points;
        points.iter_mut().for_each(|point| point.raw_json.clear());
        Ok(Some(RawMeasurement {
            workload: key.workload,
            scheduler,
            points,
            message,
            time_ns: report.phases.total_ns,
            written_bytes: report.written.map_or(0, |written| written.trial_bytes),
        }))
    }
}

fn affords(limits: &Budget, time_ns: u64, written_bytes: u64) -> bool {
    let is_small = |limit: Option<u64>, part: u64| {
        limit.is_none_or(|most| part.saturating_mul(LEAST_SHARE) <= most)
    };
    is_small(limits.budget_ns, time_ns)
        && is_small(limits.max_write_bytes, written_bytes)
        && limits.trials.is_none_or(|trials| trials >= LEAST_TRIALS)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_left_out_where_it_would_cost_much() {
        const MINUTE_NS: u64 = 60_000_000_000;
        let limits = |budget_ns, max_write_bytes, trials| Budget {
            budget_ns,
            max_write_bytes,
            trials,
            ..Budget::default()
        };
        assert!(affords(&limits(None, None, None), MINUTE_NS, 1 << 30));
        assert!(affords(&limits(Some(30 * MINUTE_NS), None, None), MINUTE_NS, 0));
        assert!(!affords(&limits(Some(10 * MINUTE_NS), None, None), MINUTE_NS, 0));
        assert!(!affords(&limits(None, Some(1 << 30), None), 0, 1 << 29));
        assert!(!affords(&limits(None, None, Some(8)), 0, 0));
    }
}
