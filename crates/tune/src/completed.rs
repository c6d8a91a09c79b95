//! A trial that was made, and its record.

use flashfit_bench::WorkloadPoint;
use flashfit_run_format::record::{RECORD_VERSION, TrialBatch};
use flashfit_testbed::TrialReport;

use crate::record::{RecordedOutcome, TrialDevice, TrialKey, TrialRecord};

/// A completed trial that is not recorded yet.
pub(crate) struct CompletedTrial {
    pub key: TrialKey,
    pub batch: Option<flashfit_search::Batch>,
    pub made_on: Option<TrialDevice>,
    pub started_unix_s: u64,
    pub report: TrialReport,
    /// The error of a setup that failed.
    pub message: Option<String>,
}

impl CompletedTrial {
    /// Takes out what has its own files: fio's output of each point, and what the kernel logged.
    pub fn take_logs(&mut self) -> (Vec<(String, String)>, Vec<String>) {
        let points = self.report.points.iter_mut();
        let raw = points
            .map(|point| (file_label(point.point), std::mem::take(&mut point.raw_json)))
            .collect();
        (raw, self.report.kernel_messages.clone())
    }

    /// Its record with this number.
    pub fn into_record(self, number: u32) -> TrialRecord {
        let Self { key, batch, made_on, started_unix_s, report, message } = self;
        let TrialReport {
            phases,
            points,
            fill_bytes,
            exercised_bytes: _,
            state,
            written,
            counters,
            wear,
            processor,
            kernel_messages,
            device_errors,
            notes,
        } = report;
        TrialRecord {
            version: RECORD_VERSION,
            number,
            key,
            batch: batch.map(|batch| TrialBatch { number: batch.number, size: batch.size }),
            made_on,
            started_unix_s,
            phases,
            outcome: message.map_or(RecordedOutcome::Completed { points }, |message| {
                RecordedOutcome::Failed { message }
            }),
            state,
            fill_bytes,
            written,
            counters,
            wear,
            processor,
            kernel_messages: u32::try_from(kernel_messages.len()).unwrap_or(u32::MAX),
            device_errors,
            notes,
        }
    }
}

/// A point's part of a file name.
fn file_label(point: WorkloadPoint) -> String {
    match point {
        WorkloadPoint::BlockSize(bytes) => format!("bs{bytes}"),
        WorkloadPoint::WorkSet(hundredths) => format!("ws{hundredths}"),
        WorkloadPoint::Only => "only".to_owned(),
    }
}
