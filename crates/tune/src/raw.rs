//! Measures the bare device before the trials of a run, under those workloads that need no file
//! system: how much of the device a file system leaves shows only next to it.
//!
//! Limits: not in runs on several boards, and only in runs in which it costs little
//! ([`LEAST_SHARE`], [`LEAST_TRIALS`]); where the budget does not have that for [`REPEATS`], once.
//! The device is as the guard handed it over, and what is read was written right before; a file
//! system in use has older data in between.

use flashfit_bench::{MeasurementLength, Workload, estimate_ns, most_written_bytes};
use flashfit_filesystem::Setup;
use flashfit_run_format::RawMeasurement;
use flashfit_testbed::{TestBed, TrialError};

use crate::budget::Budget;
use crate::record::{TrialKey, TrialPurpose};
use crate::session::{Observer, TuneError, TuneSession, request};

/// So that there is a lowest and a highest.
const REPEATS: usize = 3;
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
        let wanted: Vec<(&Workload, usize)> =
            self.workloads.iter().map(|workload| (workload, self.wanted(workload))).collect();
        // All once, then all again: what changes with time does not look like one workload's.
        for repeat in 1..=REPEATS {
            for (workload, _) in wanted.iter().filter(|(_, times)| repeat <= *times) {
                let is_it = |raw: &&RawMeasurement| raw.workload == workload.name;
                if known.iter().filter(is_it).count() >= repeat {
                    continue;
                }
                observer.on_raw_start(&workload.name);
                let Some(measured) = self.raw(workload, test_bed)? else { break };
                known.push(measured);
                self.dir.keep_raw(&known)?;
            }
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

    /// How often a workload is measured.
    fn wanted(&self, workload: &Workload) -> usize {
        let plan = self.spec.run_plan();
        let (Ok(time_ns), Ok(written)) =
            (estimate_ns(workload, &plan), most_written_bytes(workload, &plan))
        else {
            return 0;
        };
        if !workload.raw || !self.spec.workloads.contains(&workload.name) {
            return 0;
        }
        // Reading needs data, which is written before.
        repeats(&self.spec.limits, time_ns, written + plan.data_size_bytes)
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

fn repeats(limits: &Budget, time_ns: u64, written_bytes: u64) -> usize {
    let times = REPEATS as u64;
    if affords(limits, time_ns.saturating_mul(times), written_bytes.saturating_mul(times)) {
        REPEATS
    } else {
        usize::from(affords(limits, time_ns, written_bytes))
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
        assert_eq!(repeats(&limits(None, None, None), MINUTE_NS, 1 << 30), REPEATS);
        assert_eq!(repeats(&limits(Some(60 * MINUTE_NS), None, None), MINUTE_NS, 0), REPEATS);
        assert_eq!(repeats(&limits(Some(30 * MINUTE_NS), None, None), MINUTE_NS, 0), 1);
        assert_eq!(repeats(&limits(Some(10 * MINUTE_NS), None, None), MINUTE_NS, 0), 0);
        assert_eq!(repeats(&limits(None, Some(1 << 30), None), 0, 1 << 29), 0);
        assert_eq!(repeats(&limits(None, None, Some(8)), 0, 0), 0);
    }
}
