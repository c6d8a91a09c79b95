//! A run from its first look at the device to its last record: claims the directory, takes the
//! device over, makes the trials, cleans up.
//!
//! ```text
//! catalogs         the file systems and workloads that a run uses
//! target           the device, and where on it the file systems go
//! option_findings  which options have no effect there
//! built_space      the space that is searched, and what was left out of it
//! changed          what is not as it was when a run goes on
//! extension        what a run becomes that is continued with more
//! take             the run in one place
//! spread           the run on several boards, a thread each
//! ```
//!
//! Nothing here prints or asks: see [`RunUi`].

mod built_space;
mod catalogs;
mod changed;
mod error;
mod extension;
mod option_findings;
mod same;
mod scratch;
mod spread;
mod take;
mod target;
mod tidy;

use std::path::Path;
use std::time::Instant;

use flashfit_device::{ConsentMethod, Device};
use flashfit_geometry::Geometry;
use flashfit_run_format::RunPrior;
use flashfit_target::InspectedTarget;
use flashfit_testbed::{Capabilities, Host, Requirements, TrialError, WriteGrant};

use crate::problem::Problem;
use crate::record::TrialRecord;
use crate::run_dir::{self, RunDirLock, StoredRun};
use crate::session::{Observer, RunEnd, TuneError};
use crate::spec::{RunHeader, RunSpec};

pub use built_space::BuiltSpace;
pub use catalogs::Catalogs;
pub use changed::changed;
pub use error::{RecordedCatalogError, RunError, UnusableReason};
pub use scratch::ScratchFolder;
pub use spread::{BoardLock, LockedBoard};
pub use target::TrialTarget;

use built_space::HostKnowledge;
use option_findings::RunOptionFindings;
use take::RunPlan;

/// A run to be made.
#[derive(Clone, Copy)]
pub struct RunRequest<'a> {
    pub spec: &'a RunSpec,
    pub dir: &'a Path,
    pub catalogs: &'a Catalogs,
    /// The flashfit that makes it, for the record.
    pub tool_version: &'a str,
    /// Whether the user chose where the partition ends; a target that is a partition is refused
    /// then.
    pub end_requested: bool,
    /// When no further trial begins, whatever the budget.
    pub until: Option<Instant>,
}

/// Where trials are made.
pub enum TrialHosts<'a> {
    One(&'a mut dyn Host),
    /// At least one.
    Boards(Vec<LockedBoard<'a>>),
}

/// Shows a run, and asks for the data of its devices.
pub trait RunUi {
    /// Watches the trials.
    fn observer(&mut self) -> &mut dyn Observer;

    fn event(&mut self, event: RunEvent<'_>);

    /// Called when a device is known, before anybody is asked for its data: whether it is the one
    /// that the run is meant for.
    ///
    /// # Errors
    /// If it is another one. The run goes on with other boards.
    fn check_device(
        &mut self,
        board: Option<&str>,
        device: &InspectedTarget,
    ) -> Result<(), RunError> {
        let _ = (board, device);
        Ok(())
    }

    /// Asks for the data of a device; returns the name by which the user agreed. `guard` asks the
    /// guard where the device is.
    ///
    /// # Errors
    /// [`TrialError::NotAgreed`], or the guard's refusal.
    fn agree(
        &mut self,
        board: Option<&str>,
        device: &Device,
        guard: &mut dyn FnMut(&ConsentMethod) -> Result<(), TrialError>,
    ) -> Result<String, TrialError>;

    /// Called once before a new run in one place, when the user has agreed and nothing was written:
    /// what it begins with besides what its specification says. Of the file systems of the run,
    /// `usable` are those that its place has.
    ///
    /// # Errors
    /// If the run cannot begin.
    fn prepare(
        &mut self,
        grant: &WriteGrant,
        usable: &[String],
    ) -> Result<RunPreparation, RunError> {
        let _ = (grant, usable);
        Ok(RunPreparation::default())
    }
}

/// What is found out between the user's agreement and the first trial.
#[derive(Debug, Default)]
pub struct RunPreparation {
    /// What is known of setups.
    pub prior: Option<RunPrior>,
    /// What a probe of the device found, if there was one.
    pub geometry: Option<Geometry>,
}

impl RunPreparation {
    fn added_to(self, spec: &RunSpec) -> RunSpec {
        RunSpec {
            prior: self.prior.or_else(|| spec.prior.clone()),
            probed: self.geometry.unwrap_or_default().or(spec.probed.clone()),
            ..spec.clone()
        }
    }
}

/// What happens besides trials.
pub enum RunEvent<'a> {
    /// What is known about a device before anybody is asked for its data.
    Target {
        board: Option<&'a str>,
        target: &'a TrialTarget,
    },
    /// The same device, as a probe after that found it to be.
    Probed(&'a TrialTarget),
    /// The boards on which a preview would run.
    SpreadOver(&'a [String]),
    /// A board takes no part, for this reason.
    BoardLeftOut(&'a str),
    /// A file system or an option is not tried, for this reason.
    LeftOut(&'a str),
    Warning(&'a str),
    /// The trials begin, after `made` earlier ones.
    Began {
        problem: &'a Problem,
        made: usize,
    },
    /// No trials are left.
    Ended,
}

/// A run that has ended; its trials are recorded.
pub struct RunResult {
    pub header: RunHeader,
    pub trials: Vec<TrialRecord>,
    pub ended: Result<RunEnd, TuneError>,
}

/// What a run would do.
pub struct RunPreview {
    pub target: TrialTarget,
    pub space: BuiltSpace,
}

/// A run: [`Run::start`], [`Run::resume`], or only [`Run::preview`].
pub struct Run;

impl Run {
    /// Begins a run in a new directory and makes its trials.
    ///
    /// # Errors
    /// If it cannot begin. The directory is then as it was.
    pub fn start(
        request: RunRequest<'_>,
        hosts: TrialHosts<'_>,
        ui: &mut dyn RunUi,
    ) -> Result<RunResult, RunError> {
        run(request, hosts, None, ui)
    }

    /// Continues a run on the devices on which it was begun.
    ///
    /// # Errors
    /// If it cannot continue there.
    pub fn resume(
        request: RunRequest<'_>,
        hosts: TrialHosts<'_>,
        earlier: StoredRun,
        ui: &mut dyn RunUi,
    ) -> Result<RunResult, RunError> {
        run(request, hosts, Some(earlier), ui)
    }

    /// What the run would do; nothing is changed. On several boards, for the first one.
    ///
    /// # Errors
    /// If the run could not begin.
    pub fn preview(
        request: RunRequest<'_>,
        hosts: TrialHosts<'_>,
        earlier: Option<&StoredRun>,
        ui: &mut dyn RunUi,
    ) -> Result<RunPreview, RunError> {
        match hosts {
            TrialHosts::One(host) => {
                let target = TrialTarget::look(request, host, None, ui)?;
                check_same_device(earlier, &target)?;
                let offers = host.describe(&requirements(request))?;
                let findings = RunOptionFindings::look(request, &target, host)?;
                preview(request, target, &offers, &findings)
            }
            TrialHosts::Boards(boards) => spread::preview(request, boards, earlier, ui),
        }
    }
}

fn run(
    request: RunRequest<'_>,
    hosts: TrialHosts<'_>,
    earlier: Option<StoredRun>,
    ui: &mut dyn RunUi,
) -> Result<RunResult, RunError> {
    if earlier.is_some() {
        // Before its device is looked at, which the other process has in use.
        run_dir::check_unlocked(request.dir)?;
    }
    let host = match hosts {
        TrialHosts::One(host) => host,
        TrialHosts::Boards(boards) => return spread::run(request, boards, earlier, ui),
    };
    let target = TrialTarget::look(request, host, None, ui)?;
    check_same_device(earlier.as_ref(), &target)?;
    let offers = host.describe(&requirements(request))?;
    take::check_environment(request.spec, &target, &offers)?;
    if earlier.is_none() {
        RunDirLock::is_free(request.dir)?;
    }
    ui.event(RunEvent::Target { board: None, target: &target });
    let named = match target.inspected.device() {
        Some(device) => {
            let mut guard = |given: &ConsentMethod| host.check_consent(device, given);
            Some(ui.agree(None, device, &mut guard)?)
        }
        None => None,
    };
    let grant = target.grant(named);
    let existed = request.dir.exists();
    begin(request, &target, &offers, (grant, earlier), host, ui)
        .inspect_err(|_| tidy::forget_unbegun(request.dir, existed))
}

/// Makes the trials after the user agreed.
fn begin(
    request: RunRequest<'_>,
    target: &TrialTarget,
    offers: &Capabilities,
    (grant, earlier): (WriteGrant, Option<StoredRun>),
    host: &mut dyn Host,
    ui: &mut dyn RunUi,
) -> Result<RunResult, RunError> {
    let catalog = &request.catalogs.filesystems;
    let room = target.filesystem_size();
    let prepared = match earlier {
        None => ui.prepare(&grant, &built_space::usable(request.spec, catalog, room, offers)?)?,
        Some(_) => RunPreparation::default(),
    };
    let is_probed = prepared.geometry.is_some();
    let spec = prepared.added_to(request.spec);
    let request = RunRequest { spec: &spec, ..request };
    let look_again = || TrialTarget::of(request, target.inspected.clone());
    let probed = is_probed.then(look_again).transpose()?;
    probed.iter().for_each(|target| ui.event(RunEvent::Probed(target)));
    let target = probed.as_ref().unwrap_or(target);
    take::run(RunPlan { request, target, offers }, grant, host, earlier, ui)
}

fn requirements(request: RunRequest<'_>) -> Requirements {
    Requirements::of(&request.catalogs.filesystems)
}

fn check_same_device(earlier: Option<&StoredRun>, target: &TrialTarget) -> Result<(), RunError> {
    earlier.map_or(Ok(()), |earlier| same::device(&earlier.header, target))
}

fn preview(
    request: RunRequest<'_>,
    target: TrialTarget,
    offers: &Capabilities,
    findings: &RunOptionFindings,
) -> Result<RunPreview, RunError> {
    let space = RunPlan { request, target: &target, offers }.space_before_attaching(findings)?;
    Ok(RunPreview { target, space })
}
