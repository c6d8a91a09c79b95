//! A run in one place: takes the device over, makes the trials, gives it back.

use flashfit_filesystem::{Conditions, FileSystem, PartitionLayout, Scheduler};
use flashfit_host::ProgramError;
use flashfit_search::SearchError;
use flashfit_testbed::{
    Capabilities, Host, MemoryFacts, OpenRequest, TestBedFacts, TestBedSpec, WriteGrant,
};

use super::built_space::{self, BuiltSpace};
use super::{
    HostKnowledge, RunError, RunEvent, RunOptionFindings, RunRequest, RunResult, RunUi,
    TrialTarget, changed, extension, same, scratch, tidy,
};
use crate::problem::Problem;
use crate::record::TrialRecord;
use crate::run_dir::{RunDir, RunDirLock, StoredRun};
use crate::session::{RunEnd, TuneError, TuneSession};
use crate::space::Space;
use crate::spec::{CatalogUsed, RunHeader, RunSpec};

/// What the place must have, checked before anybody is asked for a device's data.
pub(super) fn check_environment(
    spec: &RunSpec,
    target: &TrialTarget,
    offers: &Capabilities,
) -> Result<(), RunError> {
    let is_simulated = target.inspected.is_simulated();
    let lacking = if is_simulated { &offers.lacks_cards } else { &offers.lacks_devices };
    if let Some(reason) = lacking {
        return Err(RunError::NoTrialsThere { on: spec.on.clone(), reason: reason.clone() });
    }
    let partitions = matches!(target.layout.layout, PartitionLayout::Partition { .. });
    for program in ["fio", "mount", "blkdiscard"].into_iter().chain(partitions.then_some("sfdisk"))
    {
        if !offers.has_program(program) {
            return Err(ProgramError::Missing { name: program.to_owned() }.into());
        }
    }
    Ok(())
}

/// A run and the place where it is made.
#[derive(Clone, Copy)]
pub(super) struct RunPlan<'a> {
    pub request: RunRequest<'a>,
    pub target: &'a TrialTarget,
    pub offers: &'a Capabilities,
}

impl RunPlan<'_> {
    /// The space that is searched if the device offers this, and if the number of trials is enough
    /// for one of each file system in it.
    fn space(
        &self,
        conditions: &Conditions,
        schedulers: &[Scheduler],
        default: &Scheduler,
        findings: &RunOptionFindings,
    ) -> Result<BuiltSpace, RunError> {
        let RunRequest { spec, catalogs, .. } = self.request;
        let conditions =
            |filesystem: &FileSystem| self.target.conditions_for(filesystem, conditions);
        let known = HostKnowledge { findings, offers: self.offers };
        let room = self.target.filesystem_size();
        let built = built_space::build(
            spec,
            &catalogs.filesystems,
            &conditions,
            schedulers,
            default,
            room,
            known,
        )?;
        let least = built.space.choices.len() as f64;
        let too_few = spec.limits.trials.map(f64::from).filter(|&trials| trials < least);
        too_few.map_or(Ok(built), |trials| {
            Err(TuneError::Search(SearchError::TooFewTrials { trials, least }).into())
        })
    }

    /// The space as far as it is known before the device is attached.
    pub fn space_before_attaching(
        &self,
        findings: &RunOptionFindings,
    ) -> Result<BuiltSpace, RunError> {
        let TrialTarget { conditions, schedulers, .. } = self.target;
        let none = Scheduler::new("none");
        self.space(conditions, schedulers, schedulers.first().unwrap_or(&none), findings)
    }

    /// Claims the directory of a new run, or opens that of an earlier one: it may be in use
    /// elsewhere, or its disk be full.
    pub fn claim(&self, earlier: Option<StoredRun>) -> Result<RunStorage, RunError> {
        let RunRequest { spec, dir, .. } = self.request;
        Ok(match earlier {
            Some(_) => RunStorage::Earlier(Box::new(RunDir::resume(dir)?)),
            None => RunStorage::New(RunDirLock::new(dir, spec)?),
        })
    }

    /// Writes the header of a new run, or takes up the earlier one.
    pub fn begin(
        &self,
        facts: &TestBedFacts,
        storage: RunStorage,
        findings: &RunOptionFindings,
        ui: &mut dyn RunUi,
    ) -> Result<OpenRun, RunError> {
        let RunRequest { spec, catalogs, tool_version, .. } = self.request;
        let lock = match storage {
            RunStorage::New(lock) => lock,
            RunStorage::Earlier(earlier) => {
                let (run_dir, StoredRun { mut header, trials }) = *earlier;
                let catalog_dir = spec.catalog_dir.as_deref();
                let catalog = CatalogUsed::of(&header.spec, catalog_dir)?;
                let is_other = |used: &CatalogUsed| used.sha256 != catalog.sha256;
                let is_other = header.catalog.as_ref().is_some_and(is_other);
                if extension::extends(spec, &header.spec) {
                    let (schedulers, default) = (&facts.schedulers, &facts.default_scheduler);
                    let built = self.space(&facts.conditions, schedulers, default, findings)?;
                    let found = extension::Found { facts, built, trials: trials.len() };
                    extension::extend(&mut header, self.request, found)?;
                    run_dir.replace_header(&header)?;
                }
                let other = is_other.then(|| CatalogUsed::of(spec, catalog_dir)).transpose()?;
                let of_next = changed::changed(&header, facts, other, trials.len());
                let space = Space::of_run(&header, &catalogs.filesystems)?;
                return Ok(OpenRun { header, of_next, space, run_dir, trials });
            }
        };
        let (schedulers, default) = (&facts.schedulers, &facts.default_scheduler);
        let built = self.space(&facts.conditions, schedulers, default, findings)?;
        built.notes.iter().for_each(|text| ui.event(RunEvent::LeftOut(text)));
        let (names, warnings) = (built.space.names(), warnings(&spec.on, facts));
        let mut header = RunHeader::new(tool_version, spec.clone(), facts.clone(), names, warnings);
        header.left_out = built.notes;
        header.catalog = Some(CatalogUsed::of(spec, spec.catalog_dir.as_deref())?);
        let run_dir = lock.begin(&header)?;
        let (space, trials) = (built.space, Vec::new());
        Ok(OpenRun { header, of_next: None, space, run_dir, trials })
    }

    pub fn open_request(&self, grant: WriteGrant) -> OpenRequest {
        let spec = self.request.spec;
        OpenRequest {
            grant,
            geometry_override: self.target.geometry.clone(),
            layout: self.target.layout.clone(),
            memory_bytes: spec.memory.0,
            mount_dir: spec.mount_dir.clone(),
        }
    }
}

/// Where a run is kept, before it is known on what exactly it is made.
pub(super) enum RunStorage {
    New(RunDirLock),
    Earlier(Box<(RunDir, StoredRun)>),
}

/// A run whose directory is open.
pub(super) struct OpenRun {
    pub header: RunHeader,
    /// What the header becomes with the next trial, if that is made with something else.
    pub of_next: Option<RunHeader>,
    pub space: Space,
    pub run_dir: RunDir,
    pub trials: Vec<TrialRecord>,
}

impl OpenRun {
    /// Makes the trials with `make`, and tidies the directory.
    pub fn make_trials(
        self,
        request: RunRequest<'_>,
        ui: &mut dyn RunUi,
        make: impl FnOnce(&mut TuneSession<'_>, &mut dyn RunUi) -> Result<RunEnd, TuneError>,
    ) -> Result<RunResult, RunError> {
        let Self { header, of_next, space, run_dir, trials } = self;
        let made = trials.len();
        header.warnings.iter().for_each(|text| ui.event(RunEvent::Warning(text)));
        let problem = Problem::of_run(&space, request.spec)?;
        ui.event(RunEvent::Began { problem: &problem, made });
        let workloads = &request.catalogs.workloads;
        let mut session = TuneSession::new(request.spec, &problem, workloads, run_dir, trials)?;
        session.end_by(request.until);
        session.replace_header_with_next_trial(of_next.clone());
        let ended = make(&mut session, ui);
        ui.event(RunEvent::Ended);
        let trials = session.into_trials();
        let header = of_next.filter(|_| trials.len() > made).unwrap_or(header);
        Ok(RunResult { header, trials, ended })
    }
}

pub(super) fn run(
    plan: RunPlan<'_>,
    grant: WriteGrant,
    host: &mut dyn Host,
    earlier: Option<StoredRun>,
    ui: &mut dyn RunUi,
) -> Result<RunResult, RunError> {
    let request = plan.request;
    host.prepare(&grant)?;
    // A run that goes on unchanged has its space from before.
    let findings = match &earlier {
        Some(earlier) if !extension::extends(request.spec, &earlier.header.spec) => {
            RunOptionFindings::default()
        }
        _ => RunOptionFindings::look(request, plan.target, host)?,
    };
    // What is wrong with the space and the directory shows before the device is touched.
    plan.space_before_attaching(&findings)?;
    let storage = plan.claim(earlier)?;
    scratch::create_folders(request.dir)?;
    let mut test_bed = host.open(&plan.open_request(grant))?;
    if let RunStorage::Earlier(earlier) = &storage {
        same::numbers(&earlier.1.header, test_bed.facts())?;
    }
    let open = plan.begin(test_bed.facts(), storage, &findings, ui)?;
    let result =
        open.make_trials(request, ui, |session, ui| session.run(test_bed.as_mut(), ui.observer()));
    drop(test_bed);
    if result.is_ok() {
        tidy::tidy(request.dir);
    }
    result
}

fn warnings(on: &TestBedSpec, facts: &TestBedFacts) -> Vec<String> {
    let mut warnings = facts.card.as_ref().map(|card| card.notes.clone()).unwrap_or_default();
    if let TestBedSpec::Vm(choice) = on {
        warnings.extend(choice.disk.warning().map(str::to_owned));
    }
    if let MemoryFacts::Unlimited(reason) = &facts.memory {
        warnings.push(format!(
            "memory is not limited ({reason}): workloads that go through the page cache may measure \
             memory instead of the device"
        ));
    }
    warnings
}
