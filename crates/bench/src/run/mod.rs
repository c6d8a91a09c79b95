//! Runs a workload: lays out its files, measures stage by stage, cleans up.
//!
//! Files are laid out before, by `crate::plain_file` or a separate run of fio (`create_only`), so
//! this is not part of any result.
//! Before each stage, dirty data is written back and the page cache is dropped. A stage can also be
//! a task (`crate::task`) or a command (`crate::command`).

mod filling;

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use flashfit_host::Runner;
use flashfit_host::memory_limit::MemoryLimit;
use flashfit_host::processor::ProcessorTime;

use crate::command::CommandRunner;
use crate::error::BenchError;
use crate::figures::{Figures, Latency, PointResult, StageResult, WorkloadResult};
use crate::fio::{self, FioAccess, FioRun, system};
use crate::jobfile;
use crate::plan::{RunPlan, Sizes};
use crate::result::{self, ExpectedRun, FioResult};
use crate::stage::{CacheState, Direction, StageSpec};
use crate::steady::SteadyStateCheck;
use crate::target::{TargetIdentity, WorkloadTarget, is_plain};
use crate::task::{self, FileOrder, TaskKind, TaskPlan};
use crate::workload::{Workload, WorkloadPoint};

/// The subdirectory of the target for the files of the workload.
const FOLDER: &str = "flashfit-bench";
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
        laid_out: None,
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
    /// Whether the tree of tasks was there before, in an image.
    has_tree: bool,
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
        let bare = match target {
            WorkloadTarget::BlockDevice(path) => Some((path, workload.raw && !workload.writes())),
            WorkloadTarget::GivenUpDevice(path) => Some((path, workload.raw)),
            WorkloadTarget::Mounted(..) | WorkloadTarget::Directory(_) => None,
        };
        if let Some((path, may_run)) = bare {
            if !may_run {
                let workload = workload.name.clone();
                return Err(BenchError::WouldOverwrite { workload, path: path.to_owned() });
            }
            let text = jobfile::on_device(&workload.text, &identity.path.display().to_string());
            return Ok(Self { target, identity, folder: None, link, text, has_tree: false });
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
        let has_tree = identity.path.join(task::TREE).exists();
        let text = workload.text.clone();
        Ok(Self { target, identity, folder: Some(folder), link, text, has_tree })
    }

    /// Where the tree of tasks is or will be.
    fn tree(&self) -> PathBuf {
        self.identity.path.join(task::TREE)
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
            if !self.has_tree {
                let _ = std::fs::remove_dir_all(self.tree());
            }
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
    laid_out: Option<filling::LaidOut>,
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
            let measured = match (&spec.command, spec.task) {
                (Some(command), _) => self.command(spec, command, sizes)?,
                (None, Some(kind)) => self.task(spec, kind, sizes)?,
                (None, None) => self.jobs(spec, sizes)?,
            };
            // A stage that ran out of time left fewer files to those that come after it.
            let makes_files = spec.task.is_some() || !self.workload.has_tasks();
            if let (Some(file_bytes), Some(write), true) =
                (self.workload.file_bytes, measured.write, makes_files)
            {
                let data = sizes.data;
                sizes = sizes.with_files(write.bytes / file_bytes, file_bytes);
                // The jobs of the same workload have files of their own.
                sizes.data = if spec.task.is_some() { data } else { sizes.data };
            }
            stages.push(StageResult {
                name: spec.name.clone(),
                kind: spec.kind,
                read: measured.read.filter(|_| spec.measures(Direction::Read)),
                write: measured.write.filter(|_| spec.measures(Direction::Write)),
                steady: measured.steady,
            });
            documents.push(measured.json);
            if !measured.version.is_empty() {
                version = measured.version;
            }
        }
        let runtime_ns = stages.iter().map(stage_runtime_ns).sum();
        let raw_json = format!("[{}]", documents.join(","));
        Ok(PointResult { point, stages, fio_version: version, runtime_ns, raw_json })
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

    /// A stage of jobs for fio.
    fn jobs(&mut self, spec: &StageSpec, sizes: Sizes) -> Result<FioResult, BenchError> {
        self.settle()?;
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
        measured.write = self.with_writeback(spec, measured.write)?;
        self.add_processor_time(before);
        Ok(measured)
    }

    /// A stage that flashfit runs itself.
    fn task(
        &mut self,
        spec: &StageSpec,
        kind: TaskKind,
        sizes: Sizes,
    ) -> Result<FioResult, BenchError> {
        self.settle()?;
        let (before, folder) = (ProcessorTime::now(), self.folder()?);
        self.target.target.check_unchanged(&self.target.identity)?;
        let folder = if kind.needs_tree() { self.target.tree() } else { folder };
        let plan = task_plan(self.workload, self.plan, &folder, spec.order, sizes);
        let figures = task::run(self.runner, kind, &plan);
        self.target.target.check_unchanged(&self.target.identity)?;
        self.own_result(spec, figures?, before)
    }

    /// A stage that is a command of the user.
    fn command(
        &mut self,
        spec: &StageSpec,
        command: &str,
        sizes: Sizes,
    ) -> Result<FioResult, BenchError> {
        let (target, folder) = (self.target, self.folder()?);
        let WorkloadTarget::Mounted(mounted, _) = target.target else {
            let reason = "commands need a file system that is mounted for the trial".to_owned();
            return Err(BenchError::BadTarget { path: folder, reason });
        };
        target.target.check_unchanged(&target.identity)?;
        let commands = CommandRunner {
            runner: self.runner,
            memory_limit: self.memory_limit,
            stage: spec,
            mount_point: mounted.point(),
            variables: self.plan.variables(sizes, self.plan.seed, &folder.display().to_string()),
            folder,
        };
        commands.own_folder()?;
        let around = |other: &Option<String>| match other {
            Some(other) => commands.run(other).map(drop),
            None => Ok(()),
        };
        around(&spec.prepare)?;
        if spec.cache == CacheState::Warm {
            commands.run(command)?;
            around(&spec.cleanup)?;
            around(&spec.prepare)?;
            target.sync()?;
        } else {
            self.settle()?;
        }
        let before = ProcessorTime::now();
        let outcome = commands.run(command);
        // What the command left is cleaned up also if it failed, but its error comes first.
        let result = outcome.and_then(|outcome| {
            let ns = nanoseconds(outcome.elapsed);
            let whole = Latency {
                mean_ns: ns,
                p50_ns: ns,
                p95_ns: ns,
                p99_ns: ns,
                p999_ns: ns,
                max_ns: ns,
            };
            self.own_result(spec, Figures::new(0, 1, ns, whole), before)
        });
        let cleaned = around(&spec.cleanup);
        target.target.check_unchanged(&target.identity)?;
        let result = result?;
        cleaned.map(|()| result)
    }

    /// The result of a stage without fio, in the direction that it declares.
    fn own_result(
        &mut self,
        spec: &StageSpec,
        figures: Figures,
        before: Option<ProcessorTime>,
    ) -> Result<FioResult, BenchError> {
        self.result.fio_ns += figures.runtime_ns;
        let figures = self.with_writeback(spec, Some(figures))?;
        self.add_processor_time(before);
        let document = serde_json::json!({ "stage": spec.name, "figures": figures });
        let is_read = spec.measures(Direction::Read);
        Ok(FioResult {
            version: String::new(),
            read: figures.filter(|_| is_read),
            write: figures.filter(|_| !is_read),
            steady: None,
            json: document.to_string(),
        })
    }

    /// Adds the time of writeback, if the stage says so.
    fn with_writeback(
        &mut self,
        spec: &StageSpec,
        figures: Option<Figures>,
    ) -> Result<Option<Figures>, BenchError> {
        if !spec.sync {
            return Ok(figures);
        }
        let more_ns = nanoseconds(self.target.sync()?);
        self.result.fio_ns += more_ns;
        Ok(figures.map(|figures| figures.with_more_time(more_ns)))
    }

    fn add_processor_time(&mut self, before: Option<ProcessorTime>) {
        if let (Some(before), Some(after)) = (before, ProcessorTime::now()) {
            let total = self.result.processor.unwrap_or_default();
            self.result.processor = Some(total.plus(after.since(before)));
        }
    }

    /// Where stages without fio work.
    fn folder(&self) -> Result<PathBuf, BenchError> {
        self.target.folder.clone().ok_or_else(|| BenchError::WouldOverwrite {
            workload: self.workload.name.clone(),
            path: self.target.target.path().to_owned(),
        })
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
            access: match self.target.target {
                WorkloadTarget::BlockDevice(_) => FioAccess::ReadDevice,
                WorkloadTarget::GivenUpDevice(_) => FioAccess::WriteDevice,
                WorkloadTarget::Mounted(..) | WorkloadTarget::Directory(_) => FioAccess::Files,
            },
        };
        let result = fio::run(self.runner, &invocation);
        // A vanished target takes precedence, because it explains any other error.
        self.target.target.check_unchanged(&self.target.identity)?;
        result
    }
}

fn task_plan<'p>(
    workload: &Workload,
    plan: &RunPlan,
    folder: &'p Path,
    order: FileOrder,
    sizes: Sizes,
) -> TaskPlan<'p> {
    TaskPlan {
        folder,
        files: sizes.files,
        file_bytes: workload.file_bytes.unwrap_or(1),
        order,
        seed: plan.seed,
        runtime: Duration::from_nanos(plan.runtime_ns),
    }
}

/// Lays out below `root`, for a file system that is packed from a directory, what the workload
/// reads there; returns its bytes.
///
/// # Errors
/// Of the file system, and at an interrupt.
pub fn lay_out_for_image(
    runner: &dyn Runner,
    workload: &Workload,
    plan: &RunPlan,
    root: &Path,
) -> Result<u64, BenchError> {
    std::fs::create_dir_all(root).map_err(system(root))?;
    if !workload.needs_tree() {
        return Ok(0);
    }
    let tree = root.join(task::TREE);
    let sizes = plan.sizes(workload, WorkloadPoint::Only);
    task::lay_out_tree(runner, &task_plan(workload, plan, &tree, FileOrder::Name, sizes))
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
