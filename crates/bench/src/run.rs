//! Running a workload: lay out its files, settle, measure stage by stage, clean up.
//!
//! Laying out is a run of fio by itself (`create_only`), so that it is in no figure. Before each
//! stage dirty data is written back and the page cache is dropped.

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
use crate::steady::SteadyWatch;
use crate::target::{TargetIdentity, WorkloadTarget, is_plain};
use crate::workload::{Direction, StageSpec, Workload, WorkloadPoint};

/// The sub-directory of the target in which files are made.
const FOLDER: &str = "flashfit-bench";
/// Sets the seed of laying out apart from that of the stages.
const FILL_SEED: u64 = 0x5EED_F111;
const DROP_CACHES: &str = "/proc/sys/vm/drop_caches";

/// Runs a workload at the points of the plan. Its files are removed at the end, however it ends.
///
/// # Errors
/// Whatever keeps a figure from being believed; see [`BenchError`].
pub fn run_workload(
    runner: &dyn Runner,
    workload: &Workload,
    plan: &RunPlan,
    target: WorkloadTarget<'_>,
    memory_limit: Option<&MemoryLimit>,
) -> Result<WorkloadResult, BenchError> {
    let points = plan.points(workload)?;
    let place = Place::prepare(workload, plan, target)?;
    let mut run = Run {
        runner,
        workload,
        plan,
        memory_limit,
        place: &place,
        result: WorkloadResult::default(),
    };
    for point in points {
        let measured = run.point(point)?;
        run.result.points.push(measured);
    }
    Ok(run.result)
}

/// The target, made ready; what was made is removed when dropped.
struct Place<'a> {
    target: WorkloadTarget<'a>,
    was: TargetIdentity,
    /// The directory for files; `None` on a bare device.
    folder: Option<PathBuf>,
    /// Through which fio reaches the target, whatever it is called.
    link: PathBuf,
    text: String,
}

impl<'a> Place<'a> {
    fn prepare(
        workload: &Workload,
        plan: &RunPlan,
        target: WorkloadTarget<'a>,
    ) -> Result<Self, BenchError> {
        let was = target.look()?;
        let scratch = plan.scratch.canonicalize().map_err(system(&plan.scratch))?;
        if !is_plain(&scratch) {
            let reason = "fio cannot use a scratch folder of that name".to_owned();
            return Err(BenchError::BadTarget { path: scratch, reason });
        }
        let link = scratch.join("target");
        if let WorkloadTarget::BlockDevice(path) = target {
            if !workload.raw || workload.writes() {
                let workload = workload.name.clone();
                return Err(BenchError::WouldOverwrite { workload, path: path.to_owned() });
            }
            let text = jobfile::on_device(&workload.text, &was.path.display().to_string());
            return Ok(Self { target, was, folder: None, link, text });
        }
        // fio takes `:` in a directory's name for a separator; a link needs no quoting.
        let _ = std::fs::remove_file(&link);
        std::os::unix::fs::symlink(&was.path, &link).map_err(system(&link))?;
        let folder = was.path.join(FOLDER);
        // What is there already is not known to be flashfit's, so it is not removed.
        std::fs::create_dir(&folder).map_err(|error| {
            let _ = std::fs::remove_file(&link);
            match error.kind() {
                std::io::ErrorKind::AlreadyExists => BenchError::BadTarget {
                    path: folder.clone(),
                    reason: "is there already, perhaps of an earlier run; remove it first".into(),
                },
                _ => system(&folder)(error),
            }
        })?;
        Ok(Self { target, was, folder: Some(folder), link, text: workload.text.clone() })
    }

    /// Removes all files.
    fn empty(&self) -> Result<(), BenchError> {
        let Some(folder) = &self.folder else { return Ok(()) };
        std::fs::remove_dir_all(folder).map_err(system(folder))?;
        std::fs::create_dir(folder).map_err(system(folder))
    }

    fn directory(&self) -> String {
        self.link.join(FOLDER).display().to_string()
    }

    /// Writes back what is dirty on the target's file system and returns how long it took.
    fn sync(&self) -> Result<Duration, BenchError> {
        let Some(folder) = &self.folder else { return Ok(Duration::ZERO) };
        let open = std::fs::File::open(folder).map_err(system(folder))?;
        let started = Instant::now();
        rustix::fs::syncfs(&open).map_err(|error| BenchError::Medium {
            message: format!("writing back: {}", std::io::Error::from(error)),
        })?;
        Ok(started.elapsed())
    }
}

impl Drop for Place<'_> {
    fn drop(&mut self) {
        // Files are removed only where they were made, not from what took the target's place.
        if let (Some(folder), Ok(())) = (&self.folder, self.target.is_still(&self.was)) {
            let _ = std::fs::remove_dir_all(folder);
        }
        let _ = std::fs::remove_file(&self.link);
    }
}

/// A run under way.
struct Run<'a> {
    runner: &'a dyn Runner,
    workload: &'a Workload,
    plan: &'a RunPlan,
    memory_limit: Option<&'a MemoryLimit>,
    place: &'a Place<'a>,
    result: WorkloadResult,
}

impl Run<'_> {
    fn point(&mut self, point: WorkloadPoint) -> Result<PointResult, BenchError> {
        let mut sizes = self.plan.sizes(self.workload, point);
        if self.workload.fresh_files {
            self.place.empty()?;
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
                read: measured.read.filter(|_| spec.gives(Direction::Read)),
                write: measured.write.filter(|_| spec.gives(Direction::Write)),
                steady: measured.steady,
            });
            documents.push(measured.json);
            version = measured.version;
        }
        let runtime_ns = stages.iter().map(stage_runtime_ns).sum();
        let raw_json = format!("[{}]", documents.join(","));
        Ok(PointResult { point, stages, fio_version: version, runtime_ns, raw_json })
    }

    /// Lays out files; fio leaves those that are there already.
    fn fill(&mut self, sizes: Sizes) -> Result<(), BenchError> {
        if self.workload.fill.is_empty() || self.place.folder.is_none() {
            return Ok(());
        }
        let started = Instant::now();
        let text = jobfile::with_global(&self.place.text, "create_only=1");
        // With the stages' own seed, what they write would repeat what was laid out.
        let seed = self.plan.seed ^ FILL_SEED;
        let (outcome, output) = self.fio(&text, &self.workload.fill, sizes, sizes.data, seed)?;
        result::read_fill(&outcome, &output)?;
        self.place.sync()?;
        self.result.fill_ns += nanoseconds(started.elapsed());
        self.result.fill_bytes += sizes.data;
        Ok(())
    }

    /// Writes back what is dirty and drops what is cached.
    fn settle(&mut self) -> Result<(), BenchError> {
        let started = Instant::now();
        self.place.sync()?;
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
        let watch = self.watch();
        let text = match &watch {
            Some(watch) => &jobfile::with_global(&self.place.text, &watch.settings()),
            None => &self.place.text,
        };
        let before = ProcessorTime::now();
        let (outcome, output) = self.fio(text, &spec.sections, sizes, bytes, self.plan.seed)?;
        let asked = ExpectedRun { stage: spec, bytes, runtime_ns: self.plan.runtime_ns };
        let mut measured = result::read(&outcome, &output, asked)?;
        measured.steady = watch.map(|watch| watch.judge(measured.steady)).transpose()?;
        self.result.fio_ns += nanoseconds(outcome.elapsed);
        if spec.sync {
            let more_ns = nanoseconds(self.place.sync()?);
            self.result.fio_ns += more_ns;
            measured.write = measured.write.map(|write| write.with_more_time(more_ns));
        }
        if let (Some(before), Some(after)) = (before, ProcessorTime::now()) {
            let known = self.result.processor.unwrap_or_default();
            self.result.processor = Some(known.plus(after.since(before)));
        }
        Ok(measured)
    }

    /// Looks for a steady state, where that is wanted.
    fn watch(&self) -> Option<SteadyWatch> {
        let wanted = self.plan.watches_steadiness() && self.place.folder.is_some();
        wanted.then(|| SteadyWatch::new(scratch_of(&self.place.link), self.plan.runtime_ns))
    }

    fn fio(
        &self,
        text: &str,
        sections: &[String],
        sizes: Sizes,
        bytes: u64,
        seed: u64,
    ) -> Result<(flashfit_host::ProgramOutcome, String), BenchError> {
        self.place.target.is_still(&self.place.was)?;
        let invocation = FioRun {
            text,
            sections,
            variables: &self.plan.variables(sizes, seed, &self.place.directory()),
            scratch: scratch_of(&self.place.link),
            timeout: self.plan.timeout(bytes),
            memory_limit: self.memory_limit,
            bare_device: self.place.folder.is_none(),
        };
        let ended = fio::run(self.runner, &invocation);
        // A target that went away explains whatever else went wrong.
        self.place.target.is_still(&self.place.was)?;
        ended
    }
}

fn scratch_of(link: &Path) -> &Path {
    link.parent().expect("the link lies in the scratch folder")
}

fn stage_runtime_ns(stage: &StageResult) -> u64 {
    [stage.read, stage.write].iter().flatten().map(|figures| figures.runtime_ns).max().unwrap_or(0)
}

fn nanoseconds(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}
