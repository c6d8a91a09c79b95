//! A run on all boards of a lab that are free: from the locks to the last release.

mod crew;

use std::path::Path;

use flashfit_filesystem::Scheduler;
use flashfit_host::{ExitClass, Explain, SystemRunner};
use flashfit_lab::{Lab, Tags};
use flashfit_stand::{Facts, Offers, Opening, TrialError};
use flashfit_tune::spread::{Desk, Team};
use flashfit_tune::{Claimed, Problem, Run, RunDir, RunSpec, Session};

use crate::catalogues::Catalogues;
use crate::failure::Failure;
use crate::output::{note, warn};
use crate::stands::lab::{self, Berth, Reaching};
use crate::tune::args::TuneArgs;
use crate::tune::progress::Progress;
use crate::tune::space::Known;
use crate::tune::subject::Subject;
use crate::tune::valid::Validity;
use crate::tune::{
    Begun, Kept, Plan, Shows, Took, announce, begin, forget_unbegun, resumable, tidy,
};
use crew::Member;

/// A run and what it is made with.
#[derive(Clone, Copy)]
pub struct Means<'a> {
    pub spec: &'a RunSpec,
    pub dir: &'a Path,
    pub catalogues: &'a Catalogues,
    pub runner: &'a SystemRunner,
}

/// Makes the run on the boards with these tags; nothing came of it where that was only to be shown.
pub fn run(
    args: &TuneArgs,
    tags: &str,
    means: Means<'_>,
    earlier: Option<Run>,
) -> Result<Option<Took>, Failure> {
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
    means: Means<'_>,
    earlier: Option<Run>,
    lab: &Lab,
) -> Result<Option<Took>, Failure> {
    let Means { spec, dir, catalogues, runner } = means;
    let wait = args.stand.lab_wait.unwrap_or(lab::USUAL_WAIT);
    let leases = lab::lock(lab, tags, std::time::Duration::from_nanos(wait.0))?;
    let berths = lab::reach(leases, Reaching { runner, spec, dir })?;
    let mut crew = crew::look(berths, means, earlier.as_ref().map(|run| &run.header.facts))?;
    let offers = crew::common_offers(&crew);
    if args.dry_run {
        let validity = crew::validity(&mut crew, means)?;
        let known = Known { validity: &validity, offers: &offers };
        let boards: Vec<String> = crew.iter().map(|member| member.made_on().to_string()).collect();
        note(&format!("spread over {}; shown for the first", boards.join(", ")));
        announce::dry_run(spec, &crew[0].subject, catalogues, known, dir)?;
        return Ok(None);
    }
    if earlier.is_none() {
        Claimed::is_free(dir)?;
    }
    crew::agree(&mut crew, &args.confirm)?;
    let validity = match &earlier {
        Some(_) => Validity::default(),
        None => crew::validity(&mut crew, means)?,
    };
    let was_there = dir.exists();
    let shows = Shows { progress: args.progress, stream: args.json_stream };
    take(crew, means, &offers, &validity, shows, earlier)
        .map(Some)
        .inspect_err(|_| forget_unbegun(dir, was_there))
}

/// Takes the media over, makes the trials, gives everything back.
fn take(
    crew: Vec<Member>,
    means: Means<'_>,
    offers: &Offers,
    validity: &Validity,
    shows: Shows,
    earlier: Option<Run>,
) -> Result<Took, Failure> {
    let Means { spec, dir, catalogues, .. } = means;
    let made_on = crew.iter().map(Member::made_on).collect();
    let openings: Vec<Opening> = crew.iter().map(|member| member.opening(spec)).collect();
    let (subjects, berths): (Vec<Subject>, Vec<Berth>) =
        crew.into_iter().map(|member| (member.subject, member.berth)).unzip();
    // What this search space lacks is said before a medium is touched.
    let first = &subjects[0];
    let none = Scheduler::new("none");
    let scheduler = first.schedulers.first().unwrap_or(&none);
    let plan = Plan { spec, subject: first, catalogues, dir, offers };
    plan.space(&first.conditions, &first.schedulers, scheduler, validity)?;
    let kept = match earlier {
        Some(_) => Kept::Earlier(Box::new(RunDir::resume(dir)?)),
        None => Kept::New(Claimed::new(dir, spec)?),
    };
    let (team, desks) = Team::new(made_on);
    let subjects = &subjects;
    std::thread::scope(move |scope| {
        for ((berth, opening), desk) in berths.into_iter().zip(openings).zip(desks) {
            scope.spawn(move || work(berth, &opening, desk, means));
        }
        // The team goes with this closure, and then the boards do.
        let mut team = team;
        let (number, facts) = opened(&mut team)?;
        let plan = Plan { subject: &subjects[number], ..plan };
        let Begun { header, space, run_dir, trials } = begin(&plan, &facts, kept, validity)?;
        header.warnings.iter().for_each(|text| warn(text));
        let problem = Problem::of_run(&space, spec)?;
        announce::run(spec, &problem, trials.len(), dir);
        let mut progress = Progress::new(shows.progress, trials.len(), shows.stream);
        let mut session = Session::new(spec, &problem, &catalogues.workloads, run_dir, trials)?;
        let ended = session.run_spread(&mut team, &mut progress);
        progress.finish();
        let trials = session.into_trials();
        tidy(dir);
        Ok(Took { header, trials, ended: ended.map_err(|error| resumable(error, spec, dir)) })
    })
}

/// Works on one board until the run has no more for it, and gives the board back.
fn work(mut berth: Berth, opening: &Opening, desk: Desk, means: Means<'_>) {
    let Berth { place, lease, .. } = &mut berth;
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
    place: &mut dyn flashfit_stand::Place,
    opening: &Opening,
    desk: &Desk,
    means: Means<'_>,
    still_ours: &mut dyn FnMut() -> Result<(), TrialError>,
) -> Result<(), TrialError> {
    let mut stand = place.open(opening)?;
    desk.opened(stand.facts());
    desk.serve(stand.as_mut(), means.spec, &means.catalogues.workloads, still_ours)
}

/// The first board whose medium was taken over, with what all of them offer.
fn opened(team: &mut Team) -> Result<(usize, Facts), Failure> {
    let mut found: Option<(usize, Facts)> = None;
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
                last = Some(Failure::from(error).at(&team.made_on(number).board));
            }
        }
    }
    match (found, last) {
        (Some(found), _) => Ok(found),
        (None, Some(error)) => Err(error),
        (None, None) => unreachable!("a crew has a board"),
    }
}
