//! How much is measured, for how long, and the variables through which job files learn of it.
//!
//! | variable | meaning |
//! |---|---|
//! | `DIRECTORY` | where files are made |
//! | `SIZE` | the data in bytes |
//! | `BLOCK_SIZE` | the size of one request in bytes |
//! | `RUNTIME` | when jobs end, done or not: seconds, or with a unit such as `1500ms` |
//! | `SEED` | the seed of all random choices |
//! | `WORK_SET` | the data of a workload that is set in relation to the memory, in bytes |
//! | `HALF`, `EIGHTH` | these parts of the work set, in bytes |
//! | `FILES` | the number of small files |

use std::path::PathBuf;
use std::time::Duration;

use flashfit_device::Bytes;
use serde::{Deserialize, Serialize};

use crate::error::BenchError;
use crate::steady;
use crate::workload::{Direction, Parameter, PointProfile, StageSpec, Workload, WorkloadPoint};

/// Less data than this is not worth measuring, and blocks of 1 MiB would not fit.
pub const MIN_DATA_BYTES: u64 = 4 << 20;
/// fio with its jobs needs about this much itself.
pub const MIN_MEMORY_BYTES: u64 = 16 << 20;
/// An eighth of a work set is a multiple of this, so that it divides into files and blocks.
const EIGHTH_GRAIN_BYTES: u64 = 512 << 10;
/// More files than this tell nothing more.
const MAX_FILES: u64 = 32_768;
/// A block size used by workloads whose parameter is another one.
const DEFAULT_BLOCK_BYTES: u64 = 4096;
/// The slowest device for which a time is foretold, in bytes per second.
const SLOW_BYTES_PER_SECOND: u64 = 1 << 20;
/// The slowest device that is waited for, in bytes per second.
const HOPELESS_BYTES_PER_SECOND: u64 = 32 << 10;
/// What a short trial is a part of.
const SHORT_PART: u64 = 4;
/// Shorter than this, starting and ending weigh more than what is measured.
const SHORTEST_NS: u64 = 100_000_000;
/// Starting fio, dropping caches, making and removing files.
const OVERHEAD_NS: u64 = 1_000_000_000;

/// Which points are measured.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Points {
    /// Those of the workload's profile.
    Profile(PointProfile),
    /// These.
    These(Vec<WorkloadPoint>),
}

/// How long a trial measures, compared with what its plan says.
#[derive(
    Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[serde(rename_all = "kebab-case")]
pub enum MeasurementLength {
    /// As the plan says.
    #[default]
    Full,
    /// A quarter of the time and of the data; work sets, which are set in relation to the memory,
    /// stay as they are.
    Short,
}

impl MeasurementLength {
    /// Whether it is the whole.
    pub fn is_full(&self) -> bool {
        *self == Self::Full
    }
}

/// How a workload is measured.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RunPlan {
    /// Which points.
    pub points: Points,
    /// The data of workloads whose parameter is not the work set, in bytes; at least
    /// [`MIN_DATA_BYTES`].
    pub data_size_bytes: u64,
    /// The memory that work sets are compared with: the memory limit, or the machine's; at least
    /// [`MIN_MEMORY_BYTES`].
    pub memory_bytes: u64,
    /// When a stage ends although not all its data was moved.
    pub runtime_ns: u64,
    /// The seed of all random choices and of the data written.
    pub seed: u64,
    /// A folder for job files and results, on no account on the device.
    pub scratch: PathBuf,
}

/// The sizes that follow from plan and point.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Sizes {
    /// What a stage's volume is a part of, in bytes.
    pub(crate) data: u64,
    eighth: u64,
    block: u64,
    files: u64,
}

impl Sizes {
    /// The same with at most `files` files, but with one at least.
    pub(crate) fn with_files(self, files: u64, file_bytes: u64) -> Self {
        let files = files.clamp(1, self.files);
        Self { files, data: files * file_bytes, ..self }
    }
}

impl RunPlan {
    /// The same plan made shorter, as far as a workload still has its points and can be timed.
    #[must_use]
    pub fn of_length(self, length: MeasurementLength, workload: &Workload) -> Self {
        if length.is_full() {
            return self;
        }
        let points = match &self.points {
            Points::Profile(profile) => workload.points(*profile),
            Points::These(points) => points,
        };
        let largest = points.iter().filter_map(|point| match point {
            WorkloadPoint::BlockSize(bytes) => Some(*bytes),
            WorkloadPoint::WorkSet(_) | WorkloadPoint::Only => None,
        });
        let least = largest.max().unwrap_or(0).max(MIN_DATA_BYTES).min(self.data_size_bytes);
        Self {
            data_size_bytes: (self.data_size_bytes / SHORT_PART).max(least),
            runtime_ns: (self.runtime_ns / SHORT_PART).max(SHORTEST_NS.min(self.runtime_ns)),
            ..self
        }
    }

    /// The points to measure.
    ///
    /// # Errors
    /// [`BenchError::BadPlan`] when there is none, one does not suit the workload, or the sizes are
    /// too small.
    pub fn points(&self, workload: &Workload) -> Result<Vec<WorkloadPoint>, BenchError> {
        let bad = |reason: String, hint: String| Err(BenchError::BadPlan { reason, hint });
        if self.data_size_bytes < MIN_DATA_BYTES {
            let reason = format!("{} of data is too little", Bytes(self.data_size_bytes));
            return bad(reason, format!("use at least {}", Bytes(MIN_DATA_BYTES)));
        }
        if self.memory_bytes < MIN_MEMORY_BYTES {
            let reason = format!("{} of memory is too little for fio", Bytes(self.memory_bytes));
            return bad(reason, format!("use at least {}", Bytes(MIN_MEMORY_BYTES)));
        }
        if self.runtime_ns < 1_000_000 {
            let reason = "a run shorter than a millisecond cannot be timed".to_owned();
            return bad(reason, "use a second or more".to_owned());
        }
        let points = match &self.points {
            Points::Profile(profile) => workload.points(*profile).to_vec(),
            Points::These(points) => points.clone(),
        };
        for point in &points {
            if !suits(*point, workload.parameter) || !self.fits(*point) {
                let reason = format!("`{}` cannot be measured at {point}", workload.name);
                return bad(reason, "leave out the points, or give others".to_owned());
            }
        }
        if points.is_empty() {
            return bad("there is no point to measure".to_owned(), "give one".to_owned());
        }
        Ok(points)
    }

    /// Whether a point's blocks fit into the data and its data into numbers.
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
        let work_set = match point {
            WorkloadPoint::WorkSet(hundredths) => {
                self.memory_bytes.saturating_mul(hundredths) / 100
            }
            _ => self.data_size_bytes,
        };
        let eighth =
            (work_set / 8 / EIGHTH_GRAIN_BYTES * EIGHTH_GRAIN_BYTES).max(EIGHTH_GRAIN_BYTES);
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
            // fio takes seeds of 63 bits.
            ("SEED", (seed & u64::MAX >> 1).to_string()),
            ("WORK_SET", (sizes.eighth * 8).to_string()),
            ("HALF", (sizes.eighth * 4).to_string()),
            ("EIGHTH", sizes.eighth.to_string()),
            ("FILES", sizes.files.to_string()),
        ]
        .map(|(name, value)| (name.to_owned(), value))
        .into()
    }

    /// When a stage, or laying out its data, is ended as hopeless.
    pub(crate) fn timeout(&self, bytes: u64) -> Duration {
        Duration::from_nanos(self.runtime_ns) + fill_timeout(bytes)
    }

    /// Whether steady state is looked for: where a claim is to be made, and there is time for it.
    pub(crate) fn watches_steadiness(&self) -> bool {
        self.points == Points::Profile(PointProfile::Standard)
            && self.runtime_ns >= steady::LEAST_RUNTIME_NS
    }
}

/// When writing so much is ended as hopeless.
pub(crate) fn fill_timeout(bytes: u64) -> Duration {
    let slow_ns = duration_ns(bytes, HOPELESS_BYTES_PER_SECOND);
    Duration::from_nanos(slow_ns) + Duration::from_secs(60)
}

impl StageSpec {
    /// The bytes that the stage moves when its time does not run out.
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

fn duration_ns(bytes: u64, bytes_per_second: u64) -> u64 {
    let ns = u128::from(bytes) * 1_000_000_000 / u128::from(bytes_per_second);
    u64::try_from(ns).unwrap_or(u64::MAX)
}

/// The longest that a workload takes on a device that writes and reads 1 MiB a second, in
/// nanoseconds; on a faster one it is over sooner.
///
/// # Errors
/// As [`RunPlan::points`].
pub fn estimate_ns(workload: &Workload, plan: &RunPlan) -> Result<u64, BenchError> {
    let mut total: u64 = 0;
    let mut filled = false;
    for point in plan.points(workload)? {
        let sizes = plan.sizes(workload, point);
        if !workload.fill.is_empty() && (workload.fresh_files || !filled) {
            total = total.saturating_add(duration_ns(sizes.data, SLOW_BYTES_PER_SECOND));
            filled = true;
        }
        for stage in &workload.stages {
            total = total.saturating_add(stage_ns(stage, plan, sizes));
        }
    }
    Ok(total)
}

fn stage_ns(stage: &StageSpec, plan: &RunPlan, sizes: Sizes) -> u64 {
    let moving = duration_ns(stage.volume_bytes(sizes), SLOW_BYTES_PER_SECOND);
    // What was written into the page cache by the end of the time has yet to reach the device.
    let writing_back = if stage.gives(Direction::Write) { moving } else { 0 };
    plan.runtime_ns.min(moving).saturating_add(writing_back).saturating_add(OVERHEAD_NS)
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
    fn sizes_follow_from_data_memory_and_point() {
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
    fn plans_that_make_no_sense_are_refused() {
        let workloads = Workloads::load(None).unwrap();
        let bad = [
            RunPlan { data_size_bytes: 1 << 20, ..plan() },
            RunPlan { memory_bytes: 1 << 20, ..plan() },
            RunPlan { runtime_ns: 1000, ..plan() },
            RunPlan { points: Points::These(Vec::new()), ..plan() },
            RunPlan { points: Points::These(vec![WorkloadPoint::Only]), ..plan() },
            RunPlan { points: Points::These(vec![WorkloadPoint::BlockSize(32 << 20)]), ..plan() },
        ];
        for plan in bad {
            let error = plan.points(workloads.find("linear-read").unwrap()).unwrap_err();
            assert!(matches!(error, BenchError::BadPlan { .. }), "{plan:?}: {error}");
        }
    }

    #[test]
    fn an_estimate_counts_time_that_runs_out_and_data_written_back() {
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
    fn variables_are_what_fio_can_read() {
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
