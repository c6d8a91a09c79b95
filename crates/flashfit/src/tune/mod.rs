//! `flashfit tune TARGET`: measures setups on a device and recommends one.

mod announce;
pub mod args;
mod constraints;
mod option_findings;
mod outcome;
mod progress;
mod replay;
pub(crate) mod resolve;
mod scratch;
mod space;
mod spread;
pub(crate) mod subject;

use std::path::Path;
use std::time::Duration;

use flashfit_card::CardModel;
use flashfit_device::{ConsentMethod, Device, DeviceKind, Target};
use flashfit_filesystem::{Conditions, FileSystem, PartitionLayout, Scheduler};
use flashfit_host::interrupt::Interrupt;
use flashfit_host::{ProgramError, SystemRunner};
use flashfit_testbed::{
    Capabilities, Host, MemoryFacts, OpenRequest, Requirements, TestBedFacts, TestBedSpec,
    WriteGrant,
};
use flashfit_tune::{
    CatalogUsed, Problem, RunDir, RunDirLock, RunEnd, RunHeader, RunSpec, Space, StoredRun,
    TrialRecord, TuneSession,
};
use flashfit_user_error::ExitClass;

use crate::catalogs::{self, Catalogs};
use crate::command_error::CommandError;
use crate::consent;
use crate::output::{note, warn};
use crate::test_beds::{self, TestBedContext};
use args::{ProgressArg, TuneArgs};
use flashfit_target::TargetSource;
use option_findings::RunOptionFindings;
use outcome::OutputForm;
use progress::TuneProgress;
use resolve::ResolvedSpec;
use scratch::ScratchFolder;
use space::HostKnowledge;
use subject::TrialTarget;

/// How often and after how long it is looked again whether a mount point is free.
const TIDY_TRIES: u32 = 20;
const TIDY_INTERVAL: Duration = Duration::from_millis(50);

pub fn run(args: &TuneArgs, catalog: Option<&Path>) -> Result<(), CommandError> {
    if let Some(dirs) = &args.replay {
        return replay::run(args, dirs, catalog);
    }
    let (resolved, earlier) = match &args.resume {
        Some(dir) => resume(args, dir, catalog)?,
        None => (resolve::resolve(args, catalog)?, None),
    };
    let ResolvedSpec { spec, dir } = &resolved;
    let runner = SystemRunner::new(signals()?);
    let catalogues = Catalogs::load(spec)?;
    let took = if let TestBedSpec::Lab { tags } = &spec.on {
        let means = spread::SpreadContext { spec, dir, catalogues: &catalogues, runner: &runner };
        spread::run(args, tags, means, earlier)?
    } else {
        in_one_place(args, &resolved, &catalogues, &runner, earlier)?
    };
    let Some(took) = took else { return Ok(()) };
    let form = match (args.json, args.json_stream) {
        (true, _) => OutputForm::Json,
        (_, true) => OutputForm::JsonLine,
        _ => OutputForm::Text,
    };
    let run =
        outcome::FinishedRun { header: &took.header, trials: &took.trials, ended: &took.ended };
    match &took.ended {
        // What is known so far is told also to who did not wait.
        Ok(_) => outcome::present(&run, &catalogues, dir, form),
        Err(failure) if failure.class() == ExitClass::Interrupted && !took.trials.is_empty() => {
            outcome::present(&run, &catalogues, dir, form)?;
            took.ended.map(drop)
        }
        Err(_) => took.ended.map(drop),
    }
}

/// Makes the run in the one place where it is to be; nothing came of it where that was only to be
/// shown.
fn in_one_place(
    args: &TuneArgs,
    resolved: &ResolvedSpec,
    catalogues: &Catalogs,
    runner: &SystemRunner,
    earlier: Option<StoredRun>,
) -> Result<Option<RunResult>, CommandError> {
    let ResolvedSpec { spec, dir } = resolved;
    let scratch = ScratchFolder::of(dir)?;
    let means = TestBedContext { runner, catalogues, dir, scratch: scratch.path() };
    let mut place = test_beds::place(spec, means)?;
    let subject = TrialTarget::look(spec, place.as_mut())?;
    if let Some(earlier) = &earlier {
        same_medium(&earlier.header, &subject)?;
    }
    let offers = place.describe(&Requirements::of(&catalogues.filesystems))?;
    if args.dry_run {
        let validity = RunOptionFindings::look(spec, &subject, catalogues, place.as_mut())?;
        let known = HostKnowledge { validity: &validity, offers: &offers };
        announce::dry_run(spec, &subject, catalogues, known, dir)?;
        return Ok(None);
    }
    environment(spec, &subject, &offers)?;
    if earlier.is_none() {
        RunDirLock::is_free(dir)?;
    }
    announce::geometry(&subject);
    let named = match &subject.inspected.source {
        TargetSource::Device(medium) => {
            let mut guard = |given: &ConsentMethod| place.check_consent(medium, given);
            Some(consent::agreed(medium, confirmed(args)?, &mut guard)?)
        }
        TargetSource::Card(_) => None,
    };
    let leave = subject.leave(named);
    let was_there = dir.exists();
    let plan = Plan { spec, subject: &subject, catalogues, dir, offers: &offers };
    let shows = ProgressOptions { progress: args.progress, stream: args.json_stream };
    take(&plan, shows, leave, place.as_mut(), earlier)
        .map(Some)
        .inspect_err(|_| forget_unbegun(dir, was_there))
}

/// The name of the one device that was agreed to on the command line.
fn confirmed(args: &TuneArgs) -> Result<Option<&str>, CommandError> {
    match &args.confirm[..] {
        [] => Ok(None),
        [name] => Ok(Some(name)),
        _ => Err(CommandError::new(
            ExitClass::Usage,
            "one medium is tuned, and several are agreed to",
            Some("give --confirm once"),
        )),
    }
}

/// What is shown while trials are made.
#[derive(Clone, Copy)]
struct ProgressOptions {
    progress: ProgressArg,
    stream: bool,
}

/// What a recorded run goes on with. It decides alone neither on programs nor on places outside
/// its directory: docs/run-format.md says which of them the command line names again.
fn resume(
    args: &TuneArgs,
    dir: &Path,
    catalog: Option<&Path>,
) -> Result<(ResolvedSpec, Option<StoredRun>), CommandError> {
    let run = StoredRun::read(dir)?;
    let mut spec = catalogs::recorded(&run.header, catalog)?;
    spec.on = args.stand.again(&spec.on, dir)?;
    if let Some(elsewhere) = spec.mount_dir.take() {
        note(&format!(
            "note: file systems are mounted in {}, not in {}",
            dir.join("mnt").display(),
            elsewhere.display()
        ));
    }
    note(&format!("going on with {}: {} trials were made", dir.display(), run.trials.len()));
    let resolved = ResolvedSpec { spec, dir: dir.to_owned() };
    Ok((resolved, Some(run)))
}

/// A run goes on only on the device on which it was begun.
fn same_medium(header: &RunHeader, subject: &TrialTarget) -> Result<(), CommandError> {
    let before = &header.facts.device;
    let is_same = match &subject.inspected.source {
        TargetSource::Card(model) => {
            let card = header.facts.card.as_ref();
            let same = |before: &CardModel| {
                // What is said of a card may be worded better since.
                let (title, source) = (model.title.clone(), model.source.clone());
                CardModel { title, source, ..before.clone() } == **model
            };
            card.is_some_and(|card| card.model.as_ref().is_none_or(same))
        }
        TargetSource::Device(now) => {
            let mut identity = now.identity.clone();
            // Counts attachments, not devices: it differs after the card was out, or the machine
            // off.
            identity.disk_sequence = before.identity.disk_sequence;
            let is_image = matches!(subject.inspected.target, Target::Image(_));
            same_file(before, now)
                && before.capacity == now.capacity
                && (is_image || before.identity == identity)
        }
    };
    if is_same {
        return Ok(());
    }
    Err(CommandError::new(
        ExitClass::Refused,
        format!(
            "the run was begun on another medium: {} of {}{}",
            before.identity.summary(),
            before.capacity,
            match &subject.inspected.source {
                TargetSource::Device(now) if !same_file(before, now) =>
                    ", on another file than this one",
                _ => "",
            }
        ),
        Some("put that medium in, or begin a new run without --resume"),
    ))
}

/// Whether both looks were at one file: an image, or what is behind a loop device. A run of an
/// earlier flashfit does not say.
fn same_file(before: &Device, now: &Device) -> bool {
    let file = |medium: &Device| match medium.kind {
        DeviceKind::Image => medium.object,
        _ => medium.backing,
    };
    match (file(before), file(now)) {
        (Some(before), Some(now)) => before.is_same_file(&now),
        _ => true,
    }
}

/// A run goes on only with the numbers that its trials were made with.
fn same_numbers(header: &RunHeader, facts: &TestBedFacts) -> Result<(), CommandError> {
    let planned = |facts: &TestBedFacts, name: &str| facts.conditions_for(name).planned;
    let names = header.choices.iter().map(|choices| choices.filesystem.as_str());
    match names.into_iter().find(|name| planned(&header.facts, name) != planned(facts, name)) {
        None => Ok(()),
        Some(name) => Err(CommandError::new(
            ExitClass::Refused,
            format!("{name} would be made with other numbers than in the trials of this run"),
            Some("go on with the flashfit that began it, or begin a new run without --resume"),
        )),
    }
}

/// What the place must have, looked at before anybody is asked for a device's data.
fn environment(
    spec: &RunSpec,
    subject: &TrialTarget,
    offers: &Capabilities,
) -> Result<(), CommandError> {
    let lacking =
        if subject.inspected.is_simulated() { &offers.lacks_cards } else { &offers.lacks_devices };
    if let Some(reason) = lacking {
        return Err(CommandError::new(
            ExitClass::Environment,
            format!("trials cannot be made {}: {reason}", test_beds::whereabouts(&spec.on)),
            Some(
                "run it as root (sudo flashfit tune ...), on a machine with loop devices and FUSE; \
                 or in a virtual machine, which needs neither: flashfit doctor",
            ),
        ));
    }
    let partitions = matches!(subject.layout.layout, PartitionLayout::Partition { .. });
    for program in ["fio", "mount", "blkdiscard"].into_iter().chain(partitions.then_some("sfdisk"))
    {
        if !offers.has_program(program) {
            return Err(ProgramError::Missing { name: program.to_owned() }.into());
        }
    }
    Ok(())
}

/// What a run does, on what, and where it is kept.
#[derive(Clone, Copy)]
struct Plan<'a> {
    spec: &'a RunSpec,
    subject: &'a TrialTarget,
    catalogues: &'a Catalogs,
    dir: &'a Path,
    offers: &'a Capabilities,
}

impl Plan<'_> {
    /// The space that is searched where the device offers this.
    fn space(
        &self,
        conditions: &Conditions,
        schedulers: &[Scheduler],
        default: &Scheduler,
        validity: &RunOptionFindings,
    ) -> Result<space::BuiltSpace, CommandError> {
        let (filesystems, room) = (&self.catalogues.filesystems, self.subject.filesystem_size());
        let conditions =
            |filesystem: &FileSystem| self.subject.conditions_for(filesystem, conditions);
        let known = HostKnowledge { validity, offers: self.offers };
        space::build(self.spec, filesystems, &conditions, schedulers, default, room, known)
    }
}

struct RunResult {
    header: RunHeader,
    trials: Vec<TrialRecord>,
    ended: Result<RunEnd, CommandError>,
}

/// Takes the device over, makes the trials, gives it back.
fn take(
    plan: &Plan<'_>,
    shows: ProgressOptions,
    leave: WriteGrant,
    place: &mut dyn Host,
    earlier: Option<StoredRun>,
) -> Result<RunResult, CommandError> {
    let Plan { spec, subject, catalogues, dir, .. } = *plan;
    place.prepare(&leave)?;
    // A run that goes on has its space from before.
    let validity = match earlier {
        Some(_) => RunOptionFindings::default(),
        None => RunOptionFindings::look(spec, subject, catalogues, place)?,
    };
    // What this search space lacks is said before the device is touched.
    let first = subject.schedulers.first().cloned().unwrap_or_else(|| Scheduler::new("none"));
    plan.space(&subject.conditions, &subject.schedulers, &first, &validity)?;
    // Before the device is touched: the run may be under way elsewhere, or its disk be full.
    let kept = match earlier {
        Some(_) => RunStorage::Earlier(Box::new(RunDir::resume(dir)?)),
        None => RunStorage::New(RunDirLock::new(dir, spec)?),
    };
    scratch::own_folders(dir)?;
    let opening = OpenRequest {
        grant: leave,
        geometry_override: subject.geometry.clone(),
        layout: subject.layout.clone(),
        memory_bytes: spec.memory.0,
        mount_dir: spec.mount_dir.clone(),
    };
    let mut stand = place.open(&opening)?;
    if let RunStorage::Earlier(earlier) = &kept {
        same_numbers(&earlier.1.header, stand.facts())?;
    }
    let OpenRun { header, space, run_dir, trials } = begin(plan, stand.facts(), kept, &validity)?;
    header.warnings.iter().for_each(|text| warn(text));
    let problem = Problem::of_run(&space, spec)?;
    announce::run(spec, &problem, trials.len(), dir);
    let mut progress = TuneProgress::new(shows.progress, trials.len(), shows.stream);
    let mut session = TuneSession::new(spec, &problem, &catalogues.workloads, run_dir, trials)?;
    let ended = session.run(stand.as_mut(), &mut progress);
    progress.finish();
    let trials = session.into_trials();
    drop(stand);
    tidy(dir);
    Ok(RunResult { header, trials, ended: ended.map_err(|error| resumable(error, spec, dir)) })
}

fn signals() -> Result<Interrupt, CommandError> {
    Interrupt::on_signals().map_err(|error| {
        CommandError::new(ExitClass::Environment, format!("cannot catch signals: {error}"), None)
    })
}

/// Where a run is kept, before it is known on what exactly it is made.
enum RunStorage {
    New(RunDirLock),
    Earlier(Box<(RunDir, StoredRun)>),
}

/// A run whose directory is open.
struct OpenRun {
    header: RunHeader,
    space: Space,
    run_dir: RunDir,
    trials: Vec<TrialRecord>,
}

/// What a run goes on from: the earlier one's directory, or a new one.
fn begin(
    plan: &Plan<'_>,
    facts: &TestBedFacts,
    kept: RunStorage,
    validity: &RunOptionFindings,
) -> Result<OpenRun, CommandError> {
    let claimed = match kept {
        RunStorage::New(claimed) => claimed,
        RunStorage::Earlier(earlier) => {
            let (run_dir, StoredRun { header, trials }) = *earlier;
            let space = Space::of_run(&header, &plan.catalogues.filesystems)?;
            return Ok(OpenRun { header, space, run_dir, trials });
        }
    };
    let (schedulers, default) = (&facts.schedulers, &facts.default_scheduler);
    let built = plan.space(&facts.conditions, schedulers, default, validity)?;
    built.notes.iter().for_each(|text| note(&format!("note: {text}")));
    let mut header = RunHeader::new(
        env!("CARGO_PKG_VERSION"),
        plan.spec.clone(),
        facts.clone(),
        built.space.names(),
        warnings(&plan.spec.on, facts),
    );
    header.left_out = built.notes;
    header.catalog = Some(CatalogUsed::of(plan.spec, plan.spec.catalog_dir.as_deref())?);
    let run_dir = claimed.begin(&header)?;
    Ok(OpenRun { header, space: built.space, run_dir, trials: Vec::new() })
}

fn warnings(on: &TestBedSpec, facts: &TestBedFacts) -> Vec<String> {
    let mut warnings = facts.card.as_ref().map(|card| card.notes.clone()).unwrap_or_default();
    if let TestBedSpec::Vm(choice) = on {
        warnings.extend(choice.disk.warning().map(str::to_owned));
    }
    if let MemoryFacts::Unlimited(reason) = &facts.memory {
        warnings.push(format!(
            "memory is not limited ({reason}): workloads that go through the page cache may measure \
             memory instead of the medium"
        ));
    }
    warnings
}

/// Leaves nothing of a run that ended before it was begun.
fn forget_unbegun(dir: &Path, was_there: bool) {
    if dir.join("run.json").exists() {
        return;
    }
    tidy(dir);
    if !was_there {
        // Should anything be in it after all, it stays.
        let _ = std::fs::remove_dir(dir);
    }
}

/// Removes the folders that are only needed while trials are made.
fn tidy(dir: &Path) {
    ScratchFolder::tidy(dir);
    // A file system that was busy when it was unmounted leaves its place a moment later. Should
    // something still be mounted there then, it stays.
    for _ in 0..TIDY_TRIES {
        match std::fs::remove_dir(dir.join("mnt")) {
            Err(error) if error.kind() == std::io::ErrorKind::ResourceBusy => {
                std::thread::sleep(TIDY_INTERVAL);
            }
            _ => return,
        }
    }
}

/// An error that ends a run tells how to go on with it.
fn resumable(error: flashfit_tune::TuneError, spec: &RunSpec, dir: &Path) -> CommandError {
    let dir = format!("{}{}", dir.display(), test_beds::args::again_words(spec));
    CommandError::from(error)
        .in_dir(&dir)
        .or_hint(&format!("what was recorded is kept; go on with: flashfit tune --resume {dir}"))
}
