//! Work on files that fio has no jobs for, run by flashfit itself.
//!
//! - `create-files`, `stat-files`, `delete-files`: empty files in one directory, without a sync, as
//!   bonnie++ does: in the order of their names, or with random names in random order.
//! - `walk-tree`: visits a tree of directories and reads the attributes of every entry, like
//!   `find -size` or `du`.
//! - `start-programs`: a program start looks for modules in directories that do not have them,
//!   reads each module, and reads pages of a large file in random order, as its libraries are
//!   mapped. No two starts use the same files, so every start is cold.
//!
//! Limits: this is flashfit's own process, so the page cache is not limited to the memory of the
//! trial. Sources: bonnie++ 1.96 (`-n 16`); Gentoo wiki, SD card (`emerge --help`).

mod files;
mod tree;

use std::path::Path;
use std::time::{Duration, Instant};

use flashfit_device::random::Random;
use flashfit_host::Runner;
use serde::Deserialize;

use crate::error::BenchError;
use crate::figures::{Figures, Latency};

/// How many operations pass between two looks at the clock and at interrupts.
const BETWEEN_LOOKS: usize = 16;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum TaskKind {
    CreateFiles,
    StatFiles,
    DeleteFiles,
    WalkTree,
    StartPrograms,
}

impl TaskKind {
    /// Whether it uses the tree that is laid out before the first stage.
    pub fn needs_tree(self) -> bool {
        matches!(self, Self::WalkTree | Self::StartPrograms)
    }
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum FileOrder {
    #[default]
    Name,
    Random,
}

/// The tree of `walk-tree` and `start-programs`, at the root of the file system.
pub(crate) const TREE: &str = "flashfit-programs";

/// What a task works on.
#[derive(Debug, Clone, Copy)]
pub(crate) struct TaskPlan<'a> {
    /// That of the tree, or that of other files.
    pub folder: &'a Path,
    pub files: u64,
    /// The mean size of a file of the tree; the nominal one of others.
    pub file_bytes: u64,
    pub order: FileOrder,
    pub seed: u64,
    pub runtime: Duration,
}

/// Runs a task; a task that is out of time ends early.
///
/// # Errors
/// Of the file system, and at an interrupt.
pub(crate) fn run(
    runner: &dyn Runner,
    kind: TaskKind,
    plan: &TaskPlan<'_>,
) -> Result<Figures, BenchError> {
    let mut meter = Meter::new(runner, plan.runtime);
    let bytes = match kind {
        TaskKind::CreateFiles => files::create(plan, &mut meter)?,
        TaskKind::StatFiles => files::stat(plan, &mut meter)?,
        TaskKind::DeleteFiles => files::delete(plan, &mut meter)?,
        TaskKind::WalkTree => tree::walk(plan, &mut meter)?,
        TaskKind::StartPrograms => tree::start_programs(plan, &mut meter)?,
    };
    Ok(meter.figures(bytes))
}

/// Creates what tasks that need a tree read; returns its bytes.
///
/// # Errors
/// As [`run`].
pub(crate) fn lay_out_tree(runner: &dyn Runner, plan: &TaskPlan<'_>) -> Result<u64, BenchError> {
    tree::lay_out(runner, plan)
}

/// Measures operations one by one.
pub(crate) struct Meter<'a> {
    runner: &'a dyn Runner,
    runtime: Duration,
    began: Instant,
    ended: Duration,
    latencies_ns: Vec<u64>,
}

impl<'a> Meter<'a> {
    fn new(runner: &'a dyn Runner, runtime: Duration) -> Self {
        let began = Instant::now();
        Self { runner, runtime, began, ended: Duration::ZERO, latencies_ns: Vec::new() }
    }

    /// Starts the clock again, after what is not measured.
    pub fn restart(&mut self) {
        self.began = Instant::now();
    }

    /// Whether there is time for another operation.
    ///
    /// # Errors
    /// At an interrupt.
    pub fn goes_on(&self) -> Result<bool, BenchError> {
        if self.latencies_ns.len() % BETWEEN_LOOKS != 0 {
            return Ok(true);
        }
        self.runner.wait(Duration::ZERO)?;
        Ok(self.latencies_ns.is_empty() || self.began.elapsed() < self.runtime)
    }

    /// Whether the time is over.
    pub fn is_over(&self) -> bool {
        self.began.elapsed() >= self.runtime
    }

    pub fn operation<T>(
        &mut self,
        work: impl FnOnce() -> Result<T, BenchError>,
    ) -> Result<T, BenchError> {
        let start = self.began.elapsed();
        let result = work()?;
        self.ended = self.began.elapsed();
        self.latencies_ns.push(nanoseconds(self.ended.saturating_sub(start)));
        Ok(result)
    }

    fn figures(mut self, bytes: u64) -> Figures {
        self.latencies_ns.sort_unstable();
        let operations = self.latencies_ns.len() as u64;
        let runtime_ns = nanoseconds(self.ended);
        Figures::new(bytes, operations, runtime_ns, latency(&self.latencies_ns))
    }
}

fn nanoseconds(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

fn latency(sorted_ns: &[u64]) -> Latency {
    let Some(max_ns) = sorted_ns.last().copied() else { return Latency::default() };
    let at = |thousandths: usize| {
        let rank = (sorted_ns.len() * thousandths).div_ceil(1000).max(1);
        sorted_ns[rank - 1]
    };
    Latency {
        mean_ns: sorted_ns.iter().sum::<u64>() / sorted_ns.len() as u64,
        p50_ns: at(500),
        p95_ns: at(950),
        p99_ns: at(990),
        p999_ns: at(999),
        max_ns,
    }
}

/// The numbers below `count`, in this order.
fn ordered(count: u64, order: FileOrder, seed: u64) -> Vec<u64> {
    let mut numbers: Vec<u64> = (0..count).collect();
    if order == FileOrder::Random {
        Random::new(seed).shuffle(&mut numbers);
    }
    numbers
}

#[cfg(test)]
mod tests {
    use flashfit_host::SystemRunner;
    use flashfit_host::interrupt::Interrupt;

    use super::*;

    fn plan(folder: &Path, order: FileOrder) -> TaskPlan<'_> {
        let runtime = Duration::from_secs(60);
        TaskPlan { folder, files: 300, file_bytes: 4096, order, seed: 1, runtime }
    }

    fn count(folder: &Path) -> usize {
        std::fs::read_dir(folder).unwrap().flatten().fold(0, |sum, entry| {
            sum + if entry.path().is_dir() { count(&entry.path()) } else { 1 }
        })
    }

    #[test]
    fn files_are_created_looked_at_and_deleted_in_both_orders() {
        let folder = tempfile::tempdir().unwrap();
        let runner = SystemRunner::default();
        for order in [FileOrder::Name, FileOrder::Random] {
            let plan = plan(folder.path(), order);
            for (kind, left) in [
                (TaskKind::CreateFiles, 300),
                (TaskKind::StatFiles, 300),
                (TaskKind::DeleteFiles, 0),
            ] {
                let figures = run(&runner, kind, &plan).unwrap();
                assert_eq!((figures.operations, figures.bytes), (300, 300 * 4096), "{kind:?}");
                assert!(figures.latency.p50_ns > 0 && figures.runtime_ns > 0);
                assert!(figures.latency.max_ns >= figures.latency.p999_ns);
                assert_eq!(count(folder.path()), left, "{kind:?}");
            }
        }
    }

    #[test]
    fn a_tree_is_laid_out_once_and_then_read() {
        let folder = tempfile::tempdir().unwrap();
        let runner = SystemRunner::default();
        let tree = folder.path().join(TREE);
        let plan = plan(&tree, FileOrder::Name);
        let bytes = lay_out_tree(&runner, &plan).unwrap();
        assert!((300 * 2048..300 * 8192).contains(&bytes), "{bytes}");
        assert_eq!(lay_out_tree(&runner, &plan).unwrap(), 0);
        let walk = run(&runner, TaskKind::WalkTree, &plan).unwrap();
        assert!(walk.operations >= 300, "{walk:?}");
        let start = run(&runner, TaskKind::StartPrograms, &plan).unwrap();
        assert!(start.operations >= 2 && start.bytes > 300 * 1024, "{start:?}");
        assert!(start.bytes <= bytes, "nothing is read twice");
    }

    #[test]
    fn tasks_end_at_the_time_limit_and_at_an_interrupt() {
        let folder = tempfile::tempdir().unwrap();
        let short = TaskPlan { runtime: Duration::ZERO, ..plan(folder.path(), FileOrder::Random) };
        let figures = run(&SystemRunner::default(), TaskKind::CreateFiles, &short).unwrap();
        assert_eq!(figures.operations, BETWEEN_LOOKS as u64);
        let interrupt = Interrupt::new();
        interrupt.raise();
        let error = run(&SystemRunner::new(interrupt), TaskKind::StatFiles, &short).unwrap_err();
        assert!(matches!(error, BenchError::Program(_)), "{error}");
    }
}
