//! A small ext4 file system on a loop device, and runners that trace or wrap programs.

use std::path::{Path, PathBuf};

use flashfit_bench::plan::Points;
use flashfit_bench::{
    BenchError, PointProfile, RunPlan, WorkloadResult, WorkloadTarget, Workloads, run_workload,
};
use flashfit_host::loop_device::{LoopDevice, LoopOptions};
use flashfit_host::mount::{Mounted, enter_private_namespace};
use flashfit_host::{Program, ProgramError, ProgramOutcome, Runner, SystemRunner};
use flashfit_test_support::{MissingNeed, TestNeed, block_devices, program, programs, skip};

/// Enters a mount namespace and checks the requirements of the tests.
pub fn prepare() -> Result<(), MissingNeed> {
    let missing = block_devices().or_else(|| programs(&["fio", "mkfs.ext4"]));
    missing.map_or(Ok(()), Err)?;
    enter_private_namespace().map_err(|error| TestNeed::Isolation.missing(error.to_string()))?;
    let file = tempfile::NamedTempFile::new().unwrap();
    file.as_file().set_len(1 << 20).unwrap();
    LoopDevice::attach(file.path(), LoopOptions { direct_io: false, ..LoopOptions::default() })
        .map(|_| ())
        .map_err(|error| TestNeed::Loop.missing(error.to_string()))
}

/// A mounted file system; the fields are dropped in this order.
pub struct Bed {
    pub mounted: Mounted,
    device: LoopDevice,
    /// The default seed and sizes.
    pub plan: RunPlan,
    pub folder: tempfile::TempDir,
}

impl Bed {
    /// A file system of `mib` MiB.
    pub fn new(mib: u64) -> Self {
        Self::named(mib, "point")
    }

    /// Like [`Bed::new`], with a mount point called `name`.
    pub fn named(mib: u64, name: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let image = folder.path().join("image");
        std::fs::File::create(&image).unwrap().set_len(mib << 20).unwrap();
        let options = LoopOptions { direct_io: false, ..LoopOptions::default() };
        let device = LoopDevice::attach(&image, options).unwrap();
        let node = device.node().display().to_string();
        let runner = SystemRunner::default();
        runner.run_checked(&Program::new("mkfs.ext4").args(["-q", "-F", &node])).unwrap();
        let point = folder.path().join(name);
        let scratch = folder.path().join("scratch");
        std::fs::create_dir(&point).unwrap();
        std::fs::create_dir(&scratch).unwrap();
        let mounted = Mounted::new(&runner, device.node(), "ext4", &point, &[]).unwrap();
        Self { mounted, device, plan: plan(scratch), folder }
    }

    pub fn node(&self) -> &Path {
        self.device.node()
    }

    /// Runs a workload of the catalog.
    pub fn run(&self, name: &str) -> Result<WorkloadResult, BenchError> {
        self.run_with(&SystemRunner::default(), name)
    }

    pub fn run_with(&self, runner: &dyn Runner, name: &str) -> Result<WorkloadResult, BenchError> {
        let workloads = Workloads::load(None).unwrap();
        let target = WorkloadTarget::Mounted(&self.mounted, self.node());
        run_workload(runner, workloads.find(name).unwrap(), &self.plan, target, None)
    }
}

pub fn plan(scratch: PathBuf) -> RunPlan {
    RunPlan {
        points: Points::Profile(PointProfile::Quick),
        data_size_bytes: 16 << 20,
        memory_bytes: 64 << 20,
        // A limit that only a workload that hangs should meet, however busy the computer is.
        runtime_ns: 60_000_000_000,
        seed: 7,
        scratch,
    }
}

/// Runs programs with a function call before and after each.
pub struct Around<'a> {
    pub before: &'a (dyn Fn() + Sync),
    pub after: &'a (dyn Fn() + Sync),
}

impl Runner for Around<'_> {
    fn run(&self, program: &Program) -> Result<ProgramOutcome, ProgramError> {
        (self.before)();
        let outcome = SystemRunner::default().run(program);
        (self.after)();
        outcome
    }
}

/// Runs programs under strace, which writes to `trace`.
pub struct Traced {
    pub options: &'static str,
    pub trace: PathBuf,
}

impl Traced {
    /// `None` if strace is missing, and the test is then skipped.
    pub fn new(bed: &Bed, options: &'static str) -> Option<Self> {
        if skip(program("strace")) {
            return None;
        }
        Some(Self { options, trace: bed.folder.path().join("trace") })
    }

    /// The trace of the last program.
    pub fn lines(&self) -> Vec<String> {
        std::fs::read_to_string(&self.trace).unwrap().lines().map(str::to_owned).collect()
    }
}

impl Runner for Traced {
    fn run(&self, program: &Program) -> Result<ProgramOutcome, ProgramError> {
        let trace = flashfit_host::program::quote_path(&self.trace);
        let command =
            format!("exec strace -f -o {trace} {} {}", self.options, program.command_line());
        let mut traced = Program::new("sh").arg("-c").arg(command);
        for (name, value) in program.environment() {
            traced = traced.env(name, value);
        }
        SystemRunner::default().run(&traced)
    }
}
