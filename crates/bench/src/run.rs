//! Runs a workload: lays out its files, measures stage by stage, cleans up.
//!
//! A separate run of fio (`create_only`) lays out the files, so it is not part of any result.
//! Before each stage, dirty data is written back and the page cache is dropped.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use flashfit_host::Runner;
use flashfit_host::memory_limit::MemoryLimit;
use flashfit_host::processor::ProcessorTime;

use crate::error::BenchError;
use crate::figures::{PointResult, StageResult, WorkloadResult};
use crate::fio::{self, FioRun, system};
use crate::jobfile;
use crate::plan::{RunPlan, Sizes};
use crate::result::{self, ExpectedRun, FioResult};
use crate::steady::SteadyStateCheck;
use crate::target::{TargetIdentity, WorkloadTarget, is_plain};
use crate::workload::{Direction, StageSpec, Workload, WorkloadPoint};

/// The subdirectory of the target for the files of the workload.
const FOLDER: &str = "flashfit-bench";
/// Makes the seed of the layout different from that of the stages.
const FILL_SEED: u64 = 0x5EED_F111;
const DROP_CACHES: &str = "/proc/sys/vm/drop_caches";

/// Runs a workload at the points of the plan. Its files are always deleted at the end.
///
/// # Errors
/// See [`BenchError`].
pub fn run_workload(
    runner: &dyn Runner,
    workload: &Workload,
    plan: &RunPlan,
    target: WorkloadTarget<'_>,
    memory_limit: Option<&MemoryLimit>,
) -> Result<WorkloadResult, BenchError> {
    let points = plan.points(workload)?;
    let prepared = PreparedTarget::new(workload, plan, target)?;
    let mut run = Run {
        runner,
        workload,
        plan,
        memory_limit,
        target: &prepared,
        result: WorkloadResult::default(),
    };
    for point in points {
        let measured = run.point(point)?;
        run.result.points.push(measured);
    }
    Ok(run.result)
}

/// The target with a directory for files; deletes the directory when dropped.
struct PreparedTarget<'a> {
    target: WorkloadTarget<'a>,
    identity: TargetIdentity,
    /// `None` on a bare device.
    folder: Option<PathBuf>,
    /// A symbolic link to the target, because fio parses the path.
    link: PathBuf,
    text: String,
}

impl<'a> PreparedTarget<'a> {
    fn new(
        workload: &Workload,
        plan: &RunPlan,
        target: WorkloadTarget<'a>,
    ) -> Result<Self, BenchError> {
        let identity = target.identify()?;
        let scratch = plan.scratch.canonicalize().map_err(system(&plan.scratch))?;
        if !is_plain(&scratch) {
            let reason =
                "the path of the scratch directory must consist of letters, digits and `/._-+@,`"
                    .to_owned();
            return Err(BenchError::BadTarget { path: scratch, reason });
        }
        let link = scratch.join("target");
        if let WorkloadTarget::BlockDevice(path) = target {
            if !workload.raw || workload.writes() {
                let workload = workload.name.clone();
                return Err(BenchError::WouldOverwrite { workload, path: path.to_owned() });
            }
            let text = jobfile::on_device(&workload.text, &identity.path.display().to_string());
            return Ok(Self { target, identity, folder: None, link, text });
        }
        // `:` in a directory name is a separator for fio, so a symbolic link replaces the path.
        let _ = std::fs::remove_file(&link);
        std::os::unix::fs::symlink(&identity.path, &link).map_err(system(&link))?;
        let folder = identity.path.join(FOLDER);
        // An existing directory may belong to someone else, so it is not deleted.
        std::fs::create_dir(&folder).map_err(|error| {
            let _ = std::fs::remove_file(&link);
            match error.kind() {
                std::io::ErrorKind::AlreadyExists => BenchError::BadTarget {
                    path: folder.clone(),
                    reason: "the directory exists, perhaps from an earlier run: delete it first"
                        .into(),
                },
                _ => system(&folder)(error),
            }
        })?;
        Ok(Self { target, identity, folder: Some(folder), link, text: workload.text.clone() })
    }

    fn delete_files(&self) -> Result<(), BenchError> {
        let Some(folder) = &self.folder else { return Ok(()) };
        std::fs::remove_dir_all(folder).map_err(system(folder))?;
        std::fs::create_dir(folder).map_err(system(folder))
    }

    fn directory(&self) -> String {
        self.link.join(FOLDER).display().to_string()
    }

    /// Writes back dirty data of the file system and returns how long it took.
    fn sync(&self) -> Result<Duration, BenchError> {
        let Some(folder) = &self.folder else { return Ok(Duration::ZERO) };
        let open = std::fs::File::open(folder).map_err(system(folder))?;
        let started = Instant::now();
        rustix::fs::syncfs(&open).map_err(|error| BenchError::Device {
            message: format!("writeback: {}", std::io::Error::from(error)),
        })?;
        Ok(started.elapsed())
    }
}

impl Drop for PreparedTarget<'_> {
    fn drop(&mut self) {
        // Nothing is deleted from a target that was replaced.
        if let (Some(folder), Ok(())) = (&self.folder, self.target.check_unchanged(&self.identity))
        {
            let _ = std::fs::remove_dir_all(folder);
        }
        let _ = std::fs::remove_file(&self.link);
    }
}

struct Run<'a> {
    runner: &'a dyn Runner,
    workload: &'a Workload,
    plan: &'a RunPlan,
    memory_limit: Option<&'a MemoryLimit>,
    target: &'a PreparedTarget<'a>,
    result: WorkloadResult,
}

impl Run<'_> {
    fn point(&mut self, point: WorkloadPoint) -> Result<PointResult, BenchError> {
        let mut sizes = self.plan.sizes(self.workload, point);
        if self.workload.fresh_files {
            self.target.delete_files()?;
        }
        self.fill(sizes)?;
        let mut stages = Vec::new();
        let mut documents = Vec::new();
        let mut version = String::new();
        for spec in &self.workload.stages {
            self.settle()?;
            let measured = self.stage(spec, sizes)?;
            // A stage that ran out of time left fewer files to those that come after it.
            if let (Some(file_bytes), Some(write)) = (self.workload.file_bytes, measured.write) {
                sizes = sizes.with_files(write.bytes / file_bytes, file_bytes);
            }
            stages.push(StageResult {
                name: spec.name.clone(),
                kind: spec.kind,
                read: measured.read.filter(|_| spec.measures(Direction::Read)),
                write: measured.write.filter(|_| spec.measures(Direction::Write)),
                steady: measured.steady,
            });
            documents.push(measured.json);
            version = measured.version;
        }
        let runtime_ns = stages.iter().map(stage_runtime_ns).sum();
        let raw_json = format!("[{}]", documents.join(","));
        Ok(PointResult { point, stages, fio_version: version, runtime_ns, raw_json })
    }

    /// Lays out files; fio keeps those that exist.
    fn fill(&mut self, sizes: Sizes) -> Result<(), BenchError> {
        if self.workload.fill.is_empty() || self.target.folder.is_none() {
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

    /// Writes back dirty data and drops the page cache.
    fn settle(&mut self) -> Result<(), BenchError> {
        let started = Instant::now();
        self.target.sync()?;
        if let Err(error) = std::fs::write(DROP_CACHES, "3") {
            let note = format!("the page cache was not dropped ({DROP_CACHES}: {error})");
            if !self.result.notes.contains(&note) {
                self.result.notes.push(note);
            }
        }
        self.result.settle_ns += nanoseconds(started.elapsed());
        Ok(())
    }

    fn stage(&mut self, spec: &StageSpec, sizes: Sizes) -> Result<FioResult, BenchError> {
        let bytes = spec.volume_bytes(sizes);
        let check = self.steady_state_check();
        let text = match &check {
            Some(check) => &jobfile::with_global(&self.target.text, &check.settings()),
            None => &self.target.text,
        };
        let before = ProcessorTime::now();
        let (outcome, output) = self.fio(text, &spec.sections, sizes, bytes, self.plan.seed)?;
        let expected = ExpectedRun { stage: spec, bytes, runtime_ns: self.plan.runtime_ns };
        let mut measured = result::read(&outcome, &output, expected)?;
        measured.steady = check.map(|check| check.evaluate(measured.steady)).transpose()?;
        self.result.fio_ns += nanoseconds(outcome.elapsed);
        if spec.sync {
            let more_ns = nanoseconds(self.target.sync()?);
            self.result.fio_ns += more_ns;
            measured.write = measured.write.map(|write| write.with_more_time(more_ns));
        }
        if let (Some(before), Some(after)) = (before, ProcessorTime::now()) {
            let total = self.result.processor.unwrap_or_default();
            self.result.processor = Some(total.plus(after.since(before)));
        }
        Ok(measured)
    }

    fn steady_state_check(&self) -> Option<SteadyStateCheck> {
        let wanted = self.plan.checks_steady_state() && self.target.folder.is_some();
        wanted.then(|| SteadyStateCheck::new(scratch_of(&self.target.link), self.plan.runtime_ns))
    }

    fn fio(
        &self,
        text: &str,
        sections: &[String],
        sizes: Sizes,
        bytes: u64,
        seed: u64,
    ) -> Result<(flashfit_host::ProgramOutcome, String), BenchError> {
        self.target.target.check_unchanged(&self.target.identity)?;
        let invocation = FioRun {
            text,
            sections,
            variables: &self.plan.variables(sizes, seed, &self.target.directory()),
            scratch: scratch_of(&self.target.link),
            timeout: self.plan.timeout(bytes),
            memory_limit: self.memory_limit,
            bare_device: self.target.folder.is_none(),
        };
        let result = fio::run(self.runner, &invocation);
        // A vanished target takes precedence, because it explains any other error.
        self.target.target.check_unchanged(&self.target.identity)?;
        result
    }
}

fn scratch_of(link: &Path) -> &Path {
    link.parent().expect("the link is in the scratch directory")
}

fn stage_runtime_ns(stage: &StageResult) -> u64 {
    [stage.read, stage.write].iter().flatten().map(|figures| figures.runtime_ns).max().unwrap_or(0)
}

fn nanoseconds(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}
