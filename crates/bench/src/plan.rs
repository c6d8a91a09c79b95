//! The amount of data and the time of a measurement, and the variables that pass them to job files.
//!
//! | variable | meaning |
//! |---|---|
//! | `DIRECTORY` | the directory of the files |
//! | `SIZE` | the amount of data in bytes |
//! | `BLOCK_SIZE` | the size of one request in bytes |
//! | `RUNTIME` | the time limit of a job, in seconds or with a unit such as `1500ms` |
//! | `SEED` | the seed of all random choices |
//! | `WORK_SET` | the working set in bytes, for workloads that scale with the memory |
//! | `HALF`, `EIGHTH` | these parts of the working set, in bytes |
//! | `FILES` | the number of small files |

use std::path::PathBuf;
use std::time::Duration;

use flashfit_device::Bytes;
use serde::{Deserialize, Serialize};

use crate::error::BenchError;
use crate::stage::{Direction, StageSpec};
use crate::steady;
use crate::workload::{Parameter, PointProfile, Workload, WorkloadPoint};

/// With less data, blocks of 1 MiB would not fit.
pub const MIN_DATA_BYTES: u64 = 4 << 20;
/// fio 3.33 peaks at 19 MiB with its own code. Below that, the kernel keeps dropping that code
/// and reading it again: at 16 MiB, 10.9 million pages in five trials of 14 to 28 s each.
pub const MIN_MEMORY_BYTES: u64 = 32 << 20;
/// An eighth of a working set is a multiple of this, to divide evenly into files and blocks.
const EIGHTH_GRAIN_BYTES: u64 = 512 << 10;
/// More files would not change the result.
const MAX_FILES: u64 = 32_768;
/// The block size of workloads with another parameter.
const DEFAULT_BLOCK_BYTES: u64 = 4096;
/// The speed that estimates assume.
pub(crate) const SLOW_BYTES_PER_SECOND: u64 = 1 << 20;
/// The speed that timeouts assume.
const TIMEOUT_BYTES_PER_SECOND: u64 = 32 << 10;
/// A short trial is 1 / this of a full one.
const SHORT_DIVISOR: u64 = 4;
/// In shorter runs, start and end would dominate.
const MIN_SHORT_NS: u64 = 100_000_000;
/// Starting fio, dropping caches, creating and deleting files.
const OVERHEAD_NS: u64 = 1_000_000_000;

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Points {
    /// The points of this profile of the workload.
    Profile(PointProfile),
    Explicit(Vec<WorkloadPoint>),
}

/// The length of a trial relative to its plan.
#[derive(
    Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[serde(rename_all = "kebab-case")]
pub enum MeasurementLength {
    #[default]
    Full,
    /// A quarter of the time and of the data; working sets, which depend on the memory, do not
    /// change.
    Short,
}

impl MeasurementLength {
    pub fn is_full(&self) -> bool {
        *self == Self::Full
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RunPlan {
    pub points: Points,
    /// The amount of data unless the working set is the parameter; at least [`MIN_DATA_BYTES`].
    pub data_size_bytes: u64,
    /// The memory limit, or the memory of the machine, which working sets are relative to; at least
    /// [`MIN_MEMORY_BYTES`].
    pub memory_bytes: u64,
    /// The time limit of a stage.
    pub runtime_ns: u64,
    /// The seed of all random choices and of the data written.
    pub seed: u64,
    /// A directory for job files and results; must not be on the device.
    pub scratch: PathBuf,
}

/// The sizes for a plan and a point, in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Sizes {
    /// The volume of a stage is relative to this.
    pub(crate) data: u64,
    eighth: u64,
    block: u64,
    pub(crate) files: u64,
}

impl Sizes {
    /// Whether files are laid out the same for both; the size of requests does not matter for that.
    pub(crate) fn lays_out_like(self, other: Self) -> bool {
        Self { block: other.block, ..self } == other
    }

    /// With at most `files` files, but at least one.
    pub(crate) fn with_files(self, files: u64, file_bytes: u64) -> Self {
        let files = files.clamp(1, self.files);
        Self { files, data: files * file_bytes, ..self }
    }
}

impl RunPlan {
    /// Shortens the plan, but not below what the points and the measurement of time need.
    #[must_use]
    pub fn of_length(self, length: MeasurementLength, workload: &Workload) -> Self {
        if length.is_full() {
            return self;
        }
        let points = match &self.points {
            Points::Profile(profile) => workload.points(*profile),
            Points::Explicit(points) => points,
        };
        let largest = points.iter().filter_map(|point| match point {
            WorkloadPoint::BlockSize(bytes) => Some(*bytes),
            WorkloadPoint::WorkSet(_) | WorkloadPoint::Only => None,
        });
        let min_data = largest.max().unwrap_or(0).max(MIN_DATA_BYTES).min(self.data_size_bytes);
        Self {
            data_size_bytes: (self.data_size_bytes / SHORT_DIVISOR).max(min_data),
            runtime_ns: (self.runtime_ns / SHORT_DIVISOR).max(MIN_SHORT_NS.min(self.runtime_ns)),
            ..self
        }
    }

    /// # Errors
    /// [`BenchError::BadPlan`] if there are no points, one does not suit the workload, or the sizes
    /// are too small.
    pub fn points(&self, workload: &Workload) -> Result<Vec<WorkloadPoint>, BenchError> {
        let bad = |reason: String, hint: String| Err(BenchError::BadPlan { reason, hint });
        if self.data_size_bytes < MIN_DATA_BYTES {
            let reason = format!("{} of data is not enough", Bytes(self.data_size_bytes));
            return bad(reason, format!("use at least {}", Bytes(MIN_DATA_BYTES)));
        }
        if self.memory_bytes < MIN_MEMORY_BYTES {
            let reason = format!("{} of memory is not enough for fio", Bytes(self.memory_bytes));
            return bad(reason, format!("use at least {}", Bytes(MIN_MEMORY_BYTES)));
        }
        if self.runtime_ns < 1_000_000 {
            let reason = "a run time below 1 ms is too short".to_owned();
            return bad(reason, "use at least 1 s".to_owned());
        }
        let points = match &self.points {
            Points::Profile(profile) => workload.points(*profile).to_vec(),
            Points::Explicit(points) => points.clone(),
        };
        for point in &points {
            if !suits(*point, workload.parameter) || !self.fits(*point) {
                let reason = format!("the workload `{}` has no point `{point}`", workload.name);
                return bad(reason, "omit the points, or use other points".to_owned());
            }
        }
        if points.is_empty() {
            return bad("the list of points is empty".to_owned(), "add a point".to_owned());
        }
        Ok(points)
    }

    /// Whether a block fits into the data and the working set does not overflow.
    fn fits(&self, point: WorkloadPoint) -> bool {
        match point {
            WorkloadPoint::BlockSize(bytes) => bytes > 0 && bytes <= self.data_size_bytes,
            WorkloadPoint::WorkSet(hundredths) => {
                hundredths > 0 && self.memory_bytes.checked_mul(hundredths).is_some()
            }
            WorkloadPoint::Only => true,
        }
    }

    pub(crate) fn sizes(&self, workload: &Workload, point: WorkloadPoint) -> Sizes {
        let working_set = match point {
            WorkloadPoint::WorkSet(hundredths) => {
                self.memory_bytes.saturating_mul(hundredths) / 100
            }
            _ => self.data_size_bytes,
        };
        let eighth =
            (working_set / 8 / EIGHTH_GRAIN_BYTES * EIGHTH_GRAIN_BYTES).max(EIGHTH_GRAIN_BYTES);
        let block = match point {
            WorkloadPoint::BlockSize(bytes) => bytes,
            _ => DEFAULT_BLOCK_BYTES,
        };
        let files = workload.file_bytes.map_or(1, |bytes| self.data_size_bytes / bytes);
        let files = files.clamp(1, MAX_FILES);
        let data = match (workload.file_bytes, point) {
            (Some(bytes), _) => files * bytes,
            (None, WorkloadPoint::WorkSet(_)) => eighth * 8,
            (None, _) => self.data_size_bytes / block * block,
        };
        Sizes { data, eighth, block, files }
    }

    pub(crate) fn variables(
        &self,
        sizes: Sizes,
        seed: u64,
        directory: &str,
    ) -> Vec<(String, String)> {
        [
            ("DIRECTORY", directory.to_owned()),
            ("SIZE", sizes.data.to_string()),
            ("BLOCK_SIZE", sizes.block.to_string()),
            ("RUNTIME", format!("{}ms", self.runtime_ns / 1_000_000)),
            // fio accepts seeds of 63 bits.
            ("SEED", (seed & u64::MAX >> 1).to_string()),
            ("WORK_SET", (sizes.eighth * 8).to_string()),
            ("HALF", (sizes.eighth * 4).to_string()),
            ("EIGHTH", sizes.eighth.to_string()),
            ("FILES", sizes.files.to_string()),
        ]
        .map(|(name, value)| (name.to_owned(), value))
        .into()
    }

    /// The timeout of a stage or of the layout of its data.
    pub(crate) fn timeout(&self, bytes: u64) -> Duration {
        Duration::from_nanos(self.runtime_ns) + fill_timeout(bytes)
    }

    /// Whether the steady state is checked: in the standard profile, if the run is long enough.
    pub(crate) fn checks_steady_state(&self) -> bool {
        self.points == Points::Profile(PointProfile::Standard)
            && self.runtime_ns >= steady::MIN_RUNTIME_NS
    }
}

pub(crate) fn fill_timeout(bytes: u64) -> Duration {
    let slow_ns = duration_ns(bytes, TIMEOUT_BYTES_PER_SECOND);
    Duration::from_nanos(slow_ns) + Duration::from_secs(60)
}

impl StageSpec {
    /// The bytes that the stage transfers within its time limit.
    pub(crate) fn volume_bytes(&self, sizes: Sizes) -> u64 {
        sizes.data.saturating_mul(self.volume) / 100
    }
}

fn suits(point: WorkloadPoint, parameter: Parameter) -> bool {
    matches!(
        (point, parameter),
        (WorkloadPoint::BlockSize(_), Parameter::BlockSize)
            | (WorkloadPoint::WorkSet(_), Parameter::WorkSet)
            | (WorkloadPoint::Only, Parameter::None)
    )
}

pub(crate) fn duration_ns(bytes: u64, bytes_per_second: u64) -> u64 {
    let ns = u128::from(bytes) * 1_000_000_000 / u128::from(bytes_per_second);
    u64::try_from(ns).unwrap_or(u64::MAX)
}

/// An upper limit of the duration on a device that reads and writes 1 MiB/s, in nanoseconds.
///
/// # Errors
/// As [`RunPlan::points`].
pub fn estimate_ns(workload: &Workload, plan: &RunPlan) -> Result<u64, BenchError> {
    let mut total: u64 = 0;
    let mut filled = false;
    for point in plan.points(workload)? {
        let sizes = plan.sizes(workload, point);
        if workload.lays_out() && (workload.fresh_files || !filled) {
            total = total.saturating_add(duration_ns(sizes.data, SLOW_BYTES_PER_SECOND));
            filled = true;
        }
        for stage in &workload.stages {
            total = total.saturating_add(stage_ns(stage, plan, sizes));
        }
    }
    Ok(total)
}

/// The most bytes that a workload writes in one trial, with the files that it needs.
///
/// # Errors
/// As [`RunPlan::points`].
pub fn most_written_bytes(workload: &Workload, plan: &RunPlan) -> Result<u64, BenchError> {
    let mut total: u64 = 0;
    for point in plan.points(workload)? {
        let sizes = plan.sizes(workload, point);
        let files = if workload.lays_out() { sizes.data } else { 0 };
        let writes = |stage: &&StageSpec| stage.measures(Direction::Write);
        let stages = workload.stages.iter().filter(writes).map(|stage| stage.volume_bytes(sizes));
        total = stages.fold(total.saturating_add(files), u64::saturating_add);
    }
    Ok(total)
}

fn stage_ns(stage: &StageSpec, plan: &RunPlan, sizes: Sizes) -> u64 {
    let transfer_ns = duration_ns(stage.volume_bytes(sizes), SLOW_BYTES_PER_SECOND);
    // At the end of the time, written data may still be in the page cache.
    let writeback_ns = if stage.measures(Direction::Write) { transfer_ns } else { 0 };
    plan.runtime_ns.min(transfer_ns).saturating_add(writeback_ns).saturating_add(OVERHEAD_NS)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::catalog::Workloads;

    fn plan() -> RunPlan {
        RunPlan {
            points: Points::Profile(PointProfile::Quick),
            data_size_bytes: 16 << 20,
            memory_bytes: 64 << 20,
            runtime_ns: 2_000_000_000,
            seed: 1,
            scratch: PathBuf::new(),
        }
    }

    fn sizes(name: &str, plan: &RunPlan, point: WorkloadPoint) -> Sizes {
        plan.sizes(Workloads::load(None).unwrap().find(name).unwrap(), point)
    }

    #[test]
    fn sizes_depend_on_data_memory_and_point() {
        let linear = sizes("linear-read", &plan(), WorkloadPoint::BlockSize(3 << 20));
        assert_eq!((linear.data, linear.block), (15 << 20, 3 << 20));
        let grep = sizes("grep", &plan(), WorkloadPoint::WorkSet(200));
        assert_eq!((grep.data, grep.eighth), (128 << 20, 16 << 20));
        let small = sizes("create-read-delete", &plan(), WorkloadPoint::Only);
        assert_eq!((small.data, small.files), (16 << 20, 4096));
        let huge = RunPlan { data_size_bytes: 1 << 40, ..plan() };
        assert_eq!(sizes("sync-files", &huge, WorkloadPoint::Only).files, MAX_FILES);
    }

    #[test]
    fn invalid_plans_are_rejected() {
        let workloads = Workloads::load(None).unwrap();
        let bad = [
            RunPlan { data_size_bytes: 1 << 20, ..plan() },
            RunPlan { memory_bytes: 1 << 20, ..plan() },
            RunPlan { runtime_ns: 1000, ..plan() },
            RunPlan { points: Points::Explicit(Vec::new()), ..plan() },
            RunPlan { points: Points::Explicit(vec![WorkloadPoint::Only]), ..plan() },
            RunPlan {
                points: Points::Explicit(vec![WorkloadPoint::BlockSize(32 << 20)]),
                ..plan()
            },
        ];
        for plan in bad {
            let error = plan.points(workloads.find("linear-read").unwrap()).unwrap_err();
            assert!(matches!(error, BenchError::BadPlan { .. }), "{plan:?}: {error}");
        }
    }

    #[test]
    fn an_estimate_includes_the_time_limit_and_writeback() {
        let workloads = Workloads::load(None).unwrap();
        let estimate = |name, plan: &RunPlan| {
            estimate_ns(workloads.find(name).unwrap(), plan).unwrap() / 1_000_000_000
        };
        // Laid out in 16 s, then three points of 2 s and a second each.
        assert_eq!(estimate("linear-read", &plan()), 16 + 3 * (2 + 1));
        assert_eq!(estimate("linear-write", &plan()), 3 * (2 + 16 + 1));
        let small = RunPlan { data_size_bytes: 4 << 20, runtime_ns: 60_000_000_000, ..plan() };
        assert_eq!(estimate("linear-read", &small), 4 + 3 * (4 + 1));
    }

    #[test]
    fn variables_have_the_syntax_of_fio() {
        let sizes = sizes("grep", &plan(), WorkloadPoint::WorkSet(100));
        let variables = plan().variables(sizes, u64::MAX, "/d");
        let value = |name: &str| {
            variables.iter().find(|(key, _)| key == name).map(|(_, value)| value.as_str())
        };
        assert_eq!(value("SEED"), Some("9223372036854775807"));
        assert_eq!(value("RUNTIME"), Some("2000ms"));
        assert_eq!(value("WORK_SET"), Some("67108864"));
        assert_eq!(value("DIRECTORY"), Some("/d"));
    }
}
