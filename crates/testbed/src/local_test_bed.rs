//! The test bed on this machine: runs trials on its kernel, as root.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::time::Instant;

use flashfit_bench::plan::Points;
use flashfit_bench::{MkfsMode, PreparedExercise, RunPlan};
use flashfit_device::{Refusal, SystemRoots, WriteConsent, making_timeout};
use flashfit_filesystem::plan::fitted_conditions;
use flashfit_filesystem::{
    Conditions, FileSystem, FileSystemCatalog, LayoutPlan, Recipe, Setup, TrialOptions, scheduler,
};
use flashfit_geometry::Geometry;
use flashfit_host::kernel_log::KernelLog;
use flashfit_host::memory_limit::MemoryLimit;
use flashfit_host::mount::Mounted;
use flashfit_host::program::version;
use flashfit_host::{Program, Runner};
use flashfit_user_error::{ExitClass, Hint, Task, UserError};

use crate::device_errors::ErrorCounter;
use crate::error::{TrialError, make_room_hint};
use crate::facts::{MemoryFacts, TestBedFacts};
use crate::knob_guard::{self, KnobError, KnobGuard, Knobs};
use crate::scheduler_guard::{self, SchedulerGuard};
use crate::trial_failure::Failure;
use crate::writable_device::WritableBlockDevice;
use crate::{BytesWritten, TestBed, TrialReport, TrialRequest};
use crate::{change_record, device_wear, partition, scheduler_modules, written};

mod layers;
mod measuring;
mod starting_state;

use layers::{TrialMount, TrialRecipe};
pub use starting_state::MOST_SETTLED_BYTES;

/// Upper limit for a result of fio with its job file.
const RESULT_BYTES: usize = 64 << 10;
const LEAST_SECTOR_BYTES: u64 = 512;

#[derive(Debug)]
pub struct LocalTestBedOptions {
    /// Mount point; created if missing.
    pub mount_dir: PathBuf,
    /// For job files and results; not on the device.
    pub scratch_dir: PathBuf,
    /// Takes precedence over what the device declares.
    pub geometry_override: Geometry,
    /// Where on the device file systems are created.
    pub layout: LayoutPlan,
    /// Memory limit of a workload.
    pub memory_bytes: u64,
}

pub struct LocalTestBed<'a> {
    runner: &'a dyn Runner,
    catalog: &'a FileSystemCatalog,
    /// Dropped before `backing`: a loop device that is detached may be somebody else's at once.
    scheduler: SchedulerGuard,
    /// Covers the partition or device of the file systems. It keeps the device open, so it must be
    /// dropped before `backing`.
    consent: WriteConsent,
    backing: WritableBlockDevice,
    knobs: Knobs,
    memory: Option<MemoryLimit>,
    mount_dir: PathBuf,
    scratch_dir: PathBuf,
    facts: TestBedFacts,
    errors: ErrorCounter,
    /// Whether a trial has discarded everything.
    is_discarded: Cell<bool>,
    on_initial_state: Option<&'a dyn Fn()>,
}

impl<'a> LocalTestBed<'a> {
    /// Takes over the device and partitions it according to the layout.
    ///
    /// # Errors
    /// Any [`TrialError`] except [`TrialError::Setup`].
    pub fn new(
        runner: &'a dyn Runner,
        catalog: &'a FileSystemCatalog,
        backing: WritableBlockDevice,
        options: LocalTestBedOptions,
    ) -> Result<Self, TrialError> {
        let stopped = |what: &str, error: &std::io::Error| TrialError::Stopped {
            message: format!("{what}: {error}"),
            class: ExitClass::Environment,
            hint: match error.kind() {
                ErrorKind::PermissionDenied => Some("run it as root".into()),
                ErrorKind::StorageFull => Some("make room and try again".into()),
                _ => None,
            },
        };
        for folder in [&options.mount_dir, &options.scratch_dir] {
            std::fs::create_dir_all(folder)
                .map_err(|error| stopped(&folder.display().to_string(), &error))?;
        }
        let device = backing.consent().device().clone();
        let block = SystemRoots::default().block(&device.disk);
        let queue = block.join("queue");
        let knobs = Knobs::new(block, &device.disk);
        scheduler_modules::load_missing(runner, &queue);
        let scheduler = SchedulerGuard::new(queue.clone(), &device.disk)
            .map_err(|error| stopped("the I/O scheduler cannot be read", &error))?;
        let blocks = SystemRoots::default().sys.join("class/block");
        for folder in [scheduler_guard::folder(), knob_guard::folder()] {
            change_record::reset_unused(&folder, &blocks);
        }
        let consent = partition::make(runner, backing.consent(), &options.layout)?;
        let limit = MemoryLimit::new(options.memory_bytes);
        let geometry = options.geometry_override.clone().or(backing.geometry().clone());
        let mut facts = TestBedFacts {
            test_bed: "here".to_owned(),
            kernel: read_line("/proc/sys/kernel/osrelease"),
            machine: std::env::consts::ARCH.to_owned(),
            processors: std::thread::available_parallelism()
                .map_or(1, |count| u32::try_from(count.get()).unwrap_or(u32::MAX)),
            programs: programs(runner, catalog),
            conditions: Conditions {
                geometry: geometry.clone(),
                discard: device.queue.discards,
                volatile_cache: device.queue.volatile_cache(),
                ..Conditions::default()
            },
            planned: BTreeMap::new(),
            card: backing.card_facts().cloned(),
            geometry,
            layout: options.layout.clone(),
            schedulers: scheduler::available(&queue)
                .map_err(|error| stopped("the I/O schedulers cannot be read", &error))?,
            default_scheduler: scheduler.before().clone(),
            memory: match &limit {
                Ok(_) => MemoryFacts::Limited,
                Err(error) => MemoryFacts::Unlimited(error.to_string()),
            },
            device,
        };
        facts.planned = planned(&facts, catalog);
        let memory = limit.ok();
        let LocalTestBedOptions { mount_dir, scratch_dir, .. } = options;
        Ok(Self {
            runner,
            catalog,
            scheduler,
            consent,
            backing,
            knobs,
            memory,
            mount_dir,
            scratch_dir,
            errors: ErrorCounter::of(&facts.device.disk),
            facts,
            is_discarded: Cell::new(false),
            on_initial_state: None,
        })
    }

    /// Calls `call` in each trial after the initial state is reached, before the workload starts.
    #[must_use]
    pub fn on_initial_state(self, call: &'a dyn Fn()) -> Self {
        Self { on_initial_state: Some(call), ..self }
    }

    /// The node on which file systems are created.
    pub fn node(&self) -> &Path {
        self.consent.path()
    }

    fn attempt(&self, request: &TrialRequest<'_>, report: &mut TrialReport) -> Result<(), Failure> {
        self.begin(request)?;
        let filesystem = self
            .catalog
            .filesystem(&request.setup.filesystem)
            .map_err(|error| Failure::Setup(error.to_string()))?;
        let conditions = self.facts.conditions_for(&filesystem.name);
        // Programs that make file systems discard as they do for the user only in the first trial,
        // or in every one if all are to start from the same state. Later trials would wear the
        // device for nothing, and would find it emptier than a device in use is.
        let discards = request.start.is_none() || !self.is_discarded.replace(true);
        let recipe = self.trial_recipe(filesystem, request, &conditions, discards)?;
        let node = self.consent.path().to_owned();
        let written_before = self.written();
        if discards {
            timed(&mut report.phases.prepare_ns, || self.discard(&node))?;
        }
        timed(&mut report.phases.mkfs_ns, || self.make(&recipe.base, &node))?;
        // Restored when the trial ends, even after an error.
        let _knobs = self.set_knobs(recipe.of_setup())?;
        let mount = |pack| self.mount_trial(request, &recipe, &node, pack);
        let mounted = timed(&mut report.phases.mount_ns, || mount(true))?;
        let prepared = self
            .reach_state(request, &mounted, &node, report)
            .and_then(|()| self.vary_start(request, &mounted, &node, report));
        let mounted = match request.start {
            Some(start) if start.remounted && prepared.is_ok() => {
                timed(&mut report.phases.state_ns, || {
                    mounted.unmount()?;
                    mount(false)
                })?
            }
            _ => mounted,
        };
        let mut exercise = None;
        let prepared = prepared.and_then(|()| {
            exercise = match request.exercise {
                Some(wanted) => Some(timed(&mut report.phases.fill_ns, || {
                    PreparedExercise::new(wanted, mounted.whole().point())
                })?),
                None => None,
            };
            Ok(())
        });
        let on_initial_state = prepared.and_then(|()| self.idle(request, report));
        let on_initial_state = on_initial_state.and_then(|()| self.still_same());
        if let Some(call) = self.on_initial_state {
            call();
        }
        let wear_before = device_wear::read(&self.facts.device, self.runner);
        let (before, written_initially) = (self.counters(), self.written());
        let measured = on_initial_state.and_then(|()| match exercise {
            Some(exercise) => measuring::run_exercise(exercise, report),
            None => self.measure(request, &mounted, &node, report),
        });
        let unmounted = timed(&mut report.phases.unmount_ns, || mounted.unmount());
        if let (Some(before), Some(after)) = (before, self.counters()) {
            report.counters = Some(after.since(&before));
        }
        let wear_after = device_wear::read(&self.facts.device, self.runner);
        device_wear::record(wear_before, wear_after, report);
        if let (Some(first), Some(second), Some(last)) =
            (written_before, written_initially, self.written())
        {
            report.written = Some(BytesWritten {
                trial_bytes: last.saturating_sub(first),
                workload_bytes: last.saturating_sub(second),
            });
        }
        // The first error explains later ones.
        measured.and(unmounted)
    }

    /// Checks the device, and sets the scheduler.
    fn begin(&self, request: &TrialRequest<'_>) -> Result<(), Failure> {
        self.consent.check(self.runner)?;
        self.scheduler.set(&request.setup.scheduler).map_err(|error| {
            Failure::Setup(format!("the scheduler {}: {error}", request.setup.scheduler))
        })
    }

    /// The commands of a trial.
    fn trial_recipe(
        &self,
        filesystem: &FileSystem,
        request: &TrialRequest<'_>,
        conditions: &Conditions,
        discards: bool,
    ) -> Result<TrialRecipe, Failure> {
        let recipe = |filesystem, setup: &Setup, conditions: &Conditions| {
            self.recipe(filesystem, (request, setup), conditions, discards)
        };
        let of_setup = recipe(filesystem, request.setup, conditions)?;
        let Some(host) = self.host_of(filesystem)? else {
            return Ok(TrialRecipe { base: of_setup, image: None });
        };
        let conditions = self.facts.conditions_for(&host.name);
        let setup = Self::host_setup(host, request.setup, &conditions)?;
        let base = recipe(host, &setup, &conditions)?;
        Ok(TrialRecipe { base, image: Some(of_setup) })
    }

    fn recipe(
        &self,
        filesystem: &FileSystem,
        (request, setup): (&TrialRequest<'_>, &Setup),
        conditions: &Conditions,
        discards: bool,
    ) -> Result<Recipe, Failure> {
        let options = match self.made(request) {
            MkfsMode::Quiet => filesystem.trial.clone(),
            MkfsMode::Plain => TrialOptions::default(),
            MkfsMode::Settled => filesystem.crash.clone(),
        };
        let options = if discards { options } else { options.without_discard(filesystem) };
        Recipe::with(filesystem, setup, conditions, &options)
            .map_err(|error| Failure::Setup(error.to_string()))
    }

    /// Checks that the next step writes to the device of the consent, with the same size.
    fn still_same(&self) -> Result<(), Failure> {
        Ok(self.consent.check_same()?)
    }

    fn mount(&self, recipe: &Recipe, node: &Path) -> Result<Mounted, Failure> {
        let options = recipe.mount_options();
        self.consent.surrounded(|| {
            Ok(Mounted::new(self.runner, node, recipe.kind(), &self.mount_dir, options)?)
        })
    }

    fn written(&self) -> Option<u64> {
        written::bytes(&SystemRoots::default().block(&self.facts.device.disk))
    }

    fn make(&self, recipe: &Recipe, node: &Path) -> Result<(), Failure> {
        // The discard may have taken minutes.
        self.consent.check(self.runner)?;
        for program in std::iter::once(recipe.mkfs(node)).chain(recipe.tune(node)) {
            self.consent.run(self.runner, &self.timed(program))?;
        }
        Ok(())
    }

    /// Gives a program as long as a device of this size may take.
    fn timed(&self, program: Program) -> Program {
        program.timeout(making_timeout(self.consent.device().capacity))
    }

    fn set_knobs(&self, recipe: &Recipe) -> Result<KnobGuard, Failure> {
        self.knobs.set(recipe.sysctl(), recipe.sysfs()).map_err(|error| match error {
            KnobError::Access(_) => Failure::Setup(error.to_string()),
            KnobError::OfAnother(_) => Failure::Fatal(TrialError::Stopped {
                message: error.to_string(),
                class: ExitClass::Environment,
                hint: Some(Hint::from("wait until it ends, then: ").and(Task::Resume)),
            }),
        })
    }

    fn counters(&self) -> Option<flashfit_card::Counters> {
        self.backing.card_process().and_then(|card| card.counters().ok())
    }

    /// The error if the device caused a failure: it disappeared, changed, or returned errors.
    fn device_failure(&self, first_error: Option<&str>, count: u64) -> Option<TrialError> {
        if let Some(lost) = self.backing.card_error() {
            return Some(TrialError::Device { what: format!("disappeared: {lost}") });
        }
        if let Some(first) = first_error {
            let what = match count {
                1 => format!("returned an error: {first}"),
                _ => format!("returned an error: {first}; {count} requests failed"),
            };
            return Some(TrialError::Device { what });
        }
        match self.consent.check(self.runner) {
            Ok(()) => None,
            Err(refusal) if refusal.class() == ExitClass::Refused => Some(refusal.into()),
            Err(refusal) => Some(TrialError::Device { what: format!("disappeared: {refusal}") }),
        }
    }
}

impl LocalTestBed<'_> {
    /// The error if the scratch directory is full: fio then exits with success, but without a
    /// result.
    fn scratch_full(&self) -> Option<TrialError> {
        let probe = self.scratch_dir.join("room");
        let written = std::fs::write(&probe, [0; RESULT_BYTES]);
        // A leftover probe is overwritten by the next one and removed with the directory.
        let _ = std::fs::remove_file(&probe);
        written.err().filter(|error| error.kind() == ErrorKind::StorageFull).map(|_| {
            TrialError::Stopped {
                message: format!("no space left in {}", self.scratch_dir.display()),
                class: ExitClass::Environment,
                hint: Some(make_room_hint()),
            }
        })
    }
}

impl LocalTestBed<'_> {
    /// Makes an attempt, and finds out what a failure comes from.
    fn run(
        &mut self,
        attempt: impl FnOnce(&Self, &mut TrialReport) -> Result<(), Failure>,
    ) -> Result<TrialReport, TrialError> {
        self.errors.reset();
        let mut log = KernelLog::from_now();
        let mut report = TrialReport::default();
        let start = Instant::now();
        let outcome = attempt(self, &mut report);
        report.kernel_messages = log.take();
        let (errors, first_error) = self.errors.take(&report.kernel_messages);
        report.device_errors = Some(errors);
        report.phases.total_ns = nanoseconds(start);
        let failure = match outcome {
            Ok(()) => return Ok(report),
            Err(Failure::Fatal(error)) if error.class() == ExitClass::Interrupted => {
                return Err(error);
            }
            Err(failure) => failure,
        };
        // Other errors are consequences of the new size.
        if let Err(resized @ Refusal::Resized { .. }) = self.consent.check_same() {
            return Err(resized.into());
        }
        // Other failures may be caused by the device, or by a full disk under the image or the
        // results.
        let image = || self.backing.image_file().and_then(TrialError::disk_full_under);
        let cause = image().or_else(|| self.device_failure(first_error.as_deref(), errors.count));
        if let Some(cause) = cause.or_else(|| self.scratch_full()) {
            return Err(cause);
        }
        Err(match failure {
            Failure::Fatal(error) => error,
            Failure::Setup(message) => TrialError::Setup { message, report: Box::new(report) },
        })
    }
}

impl TestBed for LocalTestBed<'_> {
    fn facts(&self) -> &TestBedFacts {
        &self.facts
    }

    fn run_trial(&mut self, request: &TrialRequest<'_>) -> Result<TrialReport, TrialError> {
        self.run(|bed, report| bed.attempt(request, report))
    }

    fn run_without_filesystem(
        &mut self,
        request: &TrialRequest<'_>,
    ) -> Result<Option<TrialReport>, TrialError> {
        self.run(|bed, report| bed.attempt_raw(request, report)).map(Some)
    }
}

/// Adds to `into_ns` how long the work took.
fn timed<T>(into_ns: &mut u64, work: impl FnOnce() -> T) -> T {
    let start = Instant::now();
    let result = work();
    *into_ns = into_ns.saturating_add(nanoseconds(start));
    result
}

fn nanoseconds(since: Instant) -> u64 {
    u64::try_from(since.elapsed().as_nanos()).expect("no trial takes 584 years")
}

fn read_line(path: &str) -> String {
    std::fs::read_to_string(path).unwrap_or_default().trim().to_owned()
}

/// The computed option values of each file system for this layout.
fn planned(
    facts: &TestBedFacts,
    catalog: &FileSystemCatalog,
) -> BTreeMap<String, BTreeMap<String, u64>> {
    let sector_bytes = facts.device.queue.logical_sector_bytes.max(LEAST_SECTOR_BYTES);
    let of = |filesystem: &FileSystem| {
        fitted_conditions(filesystem, &facts.conditions, facts.placement(), sector_bytes).planned
    };
    catalog.filesystems().iter().map(|found| (found.name.clone(), of(found))).collect()
}

fn programs(runner: &dyn Runner, catalog: &FileSystemCatalog) -> BTreeMap<String, String> {
    let mut found = BTreeMap::new();
    let fio = ("fio".to_owned(), vec!["--version".to_owned()]);
    let mkfs = catalog
        .filesystems()
        .iter()
        .map(|fs| (fs.mkfs.tool.program.clone(), fs.mkfs.version_args.clone()));
    for (name, args) in std::iter::once(fio).chain(mkfs) {
        if let Some(version) = version(runner, &name, &args) {
            found.insert(name, version);
        }
    }
    found
}
