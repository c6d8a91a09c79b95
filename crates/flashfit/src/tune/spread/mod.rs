//! A run on all boards of a lab that are free: from the locks to the last release.

mod workers;

use std::path::Path;

use flashfit_filesystem::Scheduler;
use flashfit_host::SystemRunner;
use flashfit_lab::{Lab, Tags};
use flashfit_testbed::{Capabilities, OpenRequest, TestBedFacts, TrialError};
use flashfit_tune::spread::{Worker, WorkerPool};
use flashfit_tune::{Problem, RunDir, RunDirLock, RunSpec, StoredRun, TuneSession};
use flashfit_user_error::{ExitClass, UserError};

use crate::catalogs::Catalogs;
use crate::command_error::CommandError;
use crate::output::{note, warn};
use crate::test_beds::lab::{self, BoardAccess, LockedBoard};
use crate::tune::args::TuneArgs;
use crate::tune::option_findings::RunOptionFindings;
use crate::tune::progress::TuneProgress;
use crate::tune::space::HostKnowledge;
use crate::tune::subject::TrialTarget;
use crate::tune::{
    OpenRun, Plan, ProgressOptions, RunResult, RunStorage, announce, begin, forget_unbegun,
    resumable, tidy,
};
use workers::WorkerBoard;

/// A run and what it is made with.
#[derive(Clone, Copy)]
pub struct SpreadContext<'a> {
    pub spec: &'a RunSpec,
    pub dir: &'a Path,
    pub catalogues: &'a Catalogs,
    pub runner: &'a SystemRunner,
}

/// Makes the run on the boards with these tags; nothing came of it where that was only to be shown.
pub fn run(
    args: &TuneArgs,
    tags: &str,
    means: SpreadContext<'_>,
    earlier: Option<StoredRun>,
) -> Result<Option<RunResult>, CommandError> {
    let lab = lab::open(means.runner)?;
    let took = with_lab(args, &tags.parse()?, means, earlier, &lab);
    if let Err(error) = lab.close() {
        warn(&format!("{error}; the next start gives back what is still held"));
    }
    took
}

fn with_lab(
    args: &TuneArgs,
    tags: &Tags,
    means: SpreadContext<'_>,
    earlier: Option<StoredRun>,
    lab: &Lab,
) -> Result<Option<RunResult>, CommandError> {
    let SpreadContext { spec, dir, catalogues, runner } = means;
    let wait = args.stand.lab_wait.unwrap_or(lab::USUAL_WAIT);
    let leases = lab::lock(lab, tags, std::time::Duration::from_nanos(wait.0))?;
    let berths = lab::reach(leases, BoardAccess { runner, spec, dir })?;
    let mut crew = workers::look(berths, means, earlier.as_ref().map(|run| &run.header.facts))?;
    let offers = workers::common_offers(&crew);
    if args.dry_run {
        let validity = workers::validity(&mut crew, means)?;
        let known = HostKnowledge { validity: &validity, offers: &offers };
        let boards: Vec<String> = crew.iter().map(|member| member.made_on().to_string()).collect();
        note(&format!("spread over {}; shown for the first", boards.join(", ")));
        announce::dry_run(spec, &crew[0].subject, catalogues, known, dir)?;
        return Ok(None);
    }
    if earlier.is_none() {
        RunDirLock::is_free(dir)?;
    }
    workers::agree(&mut crew, &args.confirm)?;
    let validity = match &earlier {
        Some(_) => RunOptionFindings::default(),
        None => workers::validity(&mut crew, means)?,
    };
    let was_there = dir.exists();
    let shows = ProgressOptions { progress: args.progress, stream: args.json_stream };
    take(crew, means, &offers, &validity, shows, earlier)
        .map(Some)
        .inspect_err(|_| forget_unbegun(dir, was_there))
}

/// Takes the devices over, makes the trials, gives everything back.
fn take(
    crew: Vec<WorkerBoard>,
    means: SpreadContext<'_>,
    offers: &Capabilities,
    validity: &RunOptionFindings,
    shows: ProgressOptions,
    earlier: Option<StoredRun>,
) -> Result<RunResult, CommandError> {
    let SpreadContext { spec, dir, catalogues, .. } = means;
    let made_on = crew.iter().map(WorkerBoard::made_on).collect();
    let openings: Vec<OpenRequest> = crew.iter().map(|member| member.opening(spec)).collect();
    let (subjects, berths): (Vec<TrialTarget>, Vec<LockedBoard>) =
        crew.into_iter().map(|member| (member.subject, member.berth)).unzip();
    // What this search space lacks is said before a device is touched.
    let first = &subjects[0];
    let none = Scheduler::new("none");
    let scheduler = first.schedulers.first().unwrap_or(&none);
    let plan = Plan { spec, subject: first, catalogues, dir, offers };
    plan.space(&first.conditions, &first.schedulers, scheduler, validity)?;
    let kept = match earlier {
        Some(_) => RunStorage::Earlier(Box::new(RunDir::resume(dir)?)),
        None => RunStorage::New(RunDirLock::new(dir, spec)?),
    };
    let (team, desks) = WorkerPool::new(made_on);
    let subjects = &subjects;
    std::thread::scope(move |scope| {
        for ((berth, opening), desk) in berths.into_iter().zip(openings).zip(desks) {
            scope.spawn(move || work(berth, &opening, desk, means));
        }
        // The team goes with this closure, and then the boards do.
        let mut team = team;
        let (number, facts) = opened(&mut team)?;
        let plan = Plan { subject: &subjects[number], ..plan };
        let OpenRun { header, space, run_dir, trials } = begin(&plan, &facts, kept, validity)?;
        header.warnings.iter().for_each(|text| warn(text));
        let problem = Problem::of_run(&space, spec)?;
        announce::run(spec, &problem, trials.len(), dir);
        let mut progress = TuneProgress::new(shows.progress, trials.len(), shows.stream);
        let mut session = TuneSession::new(spec, &problem, &catalogues.workloads, run_dir, trials)?;
        let ended = session.run_spread(&mut team, &mut progress);
        progress.finish();
        let trials = session.into_trials();
        tidy(dir);
        Ok(RunResult { header, trials, ended: ended.map_err(|error| resumable(error, spec, dir)) })
    })
}

/// Works on one board until the run has no more for it, and gives the board back.
fn work(mut berth: LockedBoard, opening: &OpenRequest, desk: Worker, means: SpreadContext<'_>) {
    let LockedBoard { place, lease, .. } = &mut berth;
    let mut was_used = false;
    let mut still_ours = || {
        was_used = true;
        lease.still_ours()
    };
    let served = serve(place, opening, &desk, means, &mut still_ours);
    let Err(error) = served else { return };
    // One that never worked keeps its power, as one does that the user takes out of work.
    berth.lease.power_off |= was_used && error.class() != ExitClass::Interrupted;
    // Given back before the others hear of it: who looks then sees it so.
    drop(berth);
    desk.leave(error);
}

fn serve(
    place: &mut dyn flashfit_testbed::Host,
    opening: &OpenRequest,
    desk: &Worker,
    means: SpreadContext<'_>,
    still_ours: &mut dyn FnMut() -> Result<(), TrialError>,
) -> Result<(), TrialError> {
    let mut stand = place.open(opening)?;
    desk.opened(stand.facts());
    desk.serve(stand.as_mut(), means.spec, &means.catalogues.workloads, still_ours)
}

/// The first board whose device was taken over, with what all of them offer.
fn opened(team: &mut WorkerPool) -> Result<(usize, TestBedFacts), CommandError> {
    let mut found: Option<(usize, TestBedFacts)> = None;
    let mut last = None;
    for (number, opened) in team.opened().into_iter().enumerate() {
        match opened {
            Ok(facts) => match &mut found {
                None => found = Some((number, *facts)),
                Some((_, common)) => {
                    common.schedulers.retain(|known| facts.schedulers.contains(known));
                    common.conditions.discard &= facts.conditions.discard;
                }
            },
            Err(error) if error.class() == ExitClass::Interrupted => return Err(error.into()),
            Err(error) => {
                note(&format!("left out: {}: {error}", team.made_on(number)));
                last = Some(CommandError::from(error).at(&team.made_on(number).board));
            }
        }
    }
    match (found, last) {
        (Some(found), _) => Ok(found),
        (None, Some(error)) => Err(error),
        (None, None) => unreachable!("a crew has a board"),
    }
}
