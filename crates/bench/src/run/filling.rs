//! Lays out what a workload reads or writes over, before it is measured.
//!
//! fio keeps files that exist with their size, and takes seconds to find that out in a virtual
//! machine with counted instructions. So it does not run for files that are as it left them.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::Instant;

use super::{Run, nanoseconds, task_plan};
use crate::error::BenchError;
use crate::jobfile;
use crate::plain_file::PlainFile;
use crate::plan::Sizes;
use crate::result;
use crate::target::WorkloadTarget;
use crate::task::{self, FileOrder};

/// Makes the seed of the layout different from that of the stages.
const FILL_SEED: u64 = 0x5EED_F111;
/// The job that writes a device that was given up.
const DEVICE_FILL: &str = include_str!("../device_fill.fio");

impl Run<'_> {
    /// Lays out files; fio keeps those that exist.
    pub(super) fn fill(&mut self, sizes: Sizes) -> Result<(), BenchError> {
        let Some(folder) = self.target.folder.as_deref() else {
            return self.fill_device(sizes);
        };
        if self.workload.needs_tree() {
            let started = Instant::now();
            let tree = self.target.tree();
            let plan = task_plan(self.workload, self.plan, &tree, FileOrder::Name, sizes);
            self.result.fill_bytes += task::lay_out_tree(self.runner, &plan)?;
            self.target.sync()?;
            self.result.fill_ns += nanoseconds(started.elapsed());
        }
        if self.workload.fill.is_empty() || self.laid_out.as_ref().is_some_and(|it| it.has(sizes)) {
            return Ok(());
        }
        let started = Instant::now();
        self.lay_out(folder, sizes)?;
        self.target.sync()?;
        self.result.fill_ns += nanoseconds(started.elapsed());
        self.result.fill_bytes += sizes.data;
        self.laid_out = Some(LaidOut::in_folder(folder, sizes));
        Ok(())
    }

    fn lay_out(&self, folder: &Path, sizes: Sizes) -> Result<(), BenchError> {
        // With the same seed, the stages would write the same data again.
        let seed = self.plan.seed ^ FILL_SEED;
        let (text, fill) = (&self.target.text, &self.workload.fill);
        let variables = self.plan.variables(sizes, seed, &self.target.directory());
        let memory_bytes = self.plan.memory_bytes;
        if let Some(file) = PlainFile::of_job(text, fill, &variables, memory_bytes) {
            self.target.target.check_unchanged(&self.target.identity)?;
            let done = file.lay_out(self.runner, folder, seed);
            // A vanished target takes precedence, because it explains any other error.
            self.target.target.check_unchanged(&self.target.identity)?;
            return done;
        }
        let text = jobfile::with_global(text, "create_only=1");
        let (outcome, output) = self.fio(&text, fill, sizes, sizes.data, seed)?;
        result::read_fill(&outcome, &output)
    }

    /// Writes what the workload then reads or writes over; places that were never written are
    /// faster on many devices. A device that may only be read stays as it is.
    fn fill_device(&mut self, sizes: Sizes) -> Result<(), BenchError> {
        let WorkloadTarget::GivenUpDevice(_) = self.target.target else { return Ok(()) };
        if self.result.fill_bytes > 0 {
            return Ok(());
        }
        let started = Instant::now();
        let text =
            jobfile::on_device(DEVICE_FILL, &self.target.identity.path.display().to_string());
        let (seed, sections) = (self.plan.seed ^ FILL_SEED, ["fill".to_owned()]);
        let (outcome, output) = self.fio(&text, &sections, sizes, sizes.data, seed)?;
        result::read_fill(&outcome, &output)?;
        self.result.fill_ns += nanoseconds(started.elapsed());
        self.result.fill_bytes += sizes.data;
        Ok(())
    }
}

/// The files that were laid out.
pub(super) struct LaidOut {
    folder: PathBuf,
    sizes: Sizes,
    /// `None` if they could not be listed.
    files: Option<BTreeMap<OsString, u64>>,
}

impl LaidOut {
    fn in_folder(folder: &Path, sizes: Sizes) -> Self {
        Self { folder: folder.to_owned(), sizes, files: listed(folder).ok() }
    }

    /// Whether fio would find everything that it would lay out for these sizes.
    fn has(&self, sizes: Sizes) -> bool {
        let is_same = sizes.lays_out_like(self.sizes);
        is_same && self.files.is_some() && listed(&self.folder).ok() == self.files
    }
}

/// The sizes of the files in a directory.
fn listed(folder: &Path) -> std::io::Result<BTreeMap<OsString, u64>> {
    let files = std::fs::read_dir(folder)?;
    files.map(|file| file.and_then(|it| Ok((it.file_name(), it.metadata()?.len())))).collect()
}
