//! A run on all boards of a lab that are free, a thread each: from the first look at their devices
//! to the last release.

mod boards;

use flashfit_testbed::{Capabilities, Host, OpenRequest, TestBedFacts, TrialError};
use flashfit_user_error::{ExitClass, UserError};

use super::take::RunPlan;
use super::{
    RunError, RunEvent, RunOptionFindings, RunPreview, RunRequest, RunResult, RunUi, TrialTarget,
    extension, tidy,
};
use crate::run_dir::{RunDirLock, StoredRun};
use crate::spread::{Worker, WorkerPool};
use boards::InspectedBoard;

/// A board that nobody else uses. The host ends before the lock is released.
pub struct LockedBoard<'a> {
    /// Its name in the lab.
    pub name: String,
    pub host: Box<dyn Host + Send + 'a>,
    pub lock: Box<dyn BoardLock>,
}

/// The lock of a board, released when dropped.
pub trait BoardLock: Send {
    /// Checks now and then whether the board is still locked.
    ///
    /// # Errors
    /// If somebody else has it by now, or the user interrupts.
    fn still_ours(&mut self) -> Result<(), TrialError>;

    /// Switches the board off when it is released.
    fn power_off(&mut self);
}

/// What the run would do on the first board.
pub(super) fn preview(
    request: RunRequest<'_>,
    boards: Vec<LockedBoard<'_>>,
    earlier: Option<&StoredRun>,
    ui: &mut dyn RunUi,
) -> Result<RunPreview, RunError> {
    let facts = earlier.map(|earlier| &earlier.header.facts);
    let mut boards = boards::inspect(request, boards, facts, ui)?;
    let offers = boards::common_offers(&boards);
    let findings = boards::option_findings(request, &mut boards)?;
    let names: Vec<String> = boards.iter().map(|board| board.made_on().to_string()).collect();
    ui.event(RunEvent::SpreadOver(&names));
    let InspectedBoard { target, board, .. } = boards.swap_remove(0);
    let preview = super::preview(request, target, &offers, &findings);
    drop(board);
    preview
}

pub(super) fn run(
    request: RunRequest<'_>,
    boards: Vec<LockedBoard<'_>>,
    earlier: Option<StoredRun>,
    ui: &mut dyn RunUi,
) -> Result<RunResult, RunError> {
    let facts = earlier.as_ref().map(|earlier| &earlier.header.facts);
    let mut boards = boards::inspect(request, boards, facts, ui)?;
    let offers = boards::common_offers(&boards);
    if earlier.is_none() {
        RunDirLock::is_free(request.dir)?;
    }
    boards::agree(&mut boards, ui)?;
    let findings = match &earlier {
        Some(earlier) if !extension::extends(request.spec, &earlier.header.spec) => {
            RunOptionFindings::default()
        }
        _ => boards::option_findings(request, &mut boards)?,
    };
    let existed = request.dir.exists();
    take(request, boards, &offers, &findings, earlier, ui)
        .inspect_err(|_| tidy::forget_unbegun(request.dir, existed))
}

/// Takes the devices over, makes the trials, gives everything back.
fn take(
    request: RunRequest<'_>,
    boards: Vec<InspectedBoard<'_>>,
    offers: &Capabilities,
    findings: &RunOptionFindings,
    earlier: Option<StoredRun>,
    ui: &mut dyn RunUi,
) -> Result<RunResult, RunError> {
    let made_on = boards.iter().map(InspectedBoard::made_on).collect();
    let requests: Vec<OpenRequest> =
        boards.iter().map(|board| board.open_request(request, offers)).collect();
    let (targets, boards): (Vec<TrialTarget>, Vec<LockedBoard<'_>>) =
        boards.into_iter().map(|board| (board.target, board.board)).unzip();
    let plan = RunPlan { request, target: &targets[0], offers };
    // What is wrong with the space and the directory shows before a device is touched.
    plan.space_before_attaching(findings)?;
    let storage = plan.claim(earlier)?;
    let (pool, workers) = WorkerPool::new(made_on);
    let targets = &targets;
    std::thread::scope(move |scope| {
        for ((board, open), worker) in boards.into_iter().zip(requests).zip(workers) {
            scope.spawn(move || work(board, &open, worker, request));
        }
        // The pool goes with this closure, and then the boards do.
        let mut pool = pool;
        let (number, facts) = opened(&mut pool, ui)?;
        let plan = RunPlan { target: &targets[number], ..plan };
        let open = plan.begin(&facts, storage, findings, ui)?;
        let result = open
            .make_trials(request, ui, |session, ui| session.run_spread(&mut pool, ui.observer()));
        if result.is_ok() {
            tidy::tidy(request.dir);
        }
        result
    })
}

/// Works on one board until the run has no more for it, and gives the board back.
fn work(mut board: LockedBoard<'_>, open: &OpenRequest, worker: Worker, request: RunRequest<'_>) {
    let LockedBoard { host, lock, .. } = &mut board;
    let mut was_used = false;
    let mut still_ours = || {
        was_used = true;
        lock.still_ours()
    };
    let served = serve(host.as_mut(), open, &worker, request, &mut still_ours);
    let Err(error) = served else { return };
    // One that never worked keeps its power, as one does that the user takes out of work.
    if was_used && error.class() != ExitClass::Interrupted {
        board.lock.power_off();
    }
    // Given back before the others hear of it: who looks then sees it so.
    drop(board);
    worker.leave(error);
}

fn serve(
    host: &mut dyn Host,
    open: &OpenRequest,
    worker: &Worker,
    request: RunRequest<'_>,
    still_ours: &mut dyn FnMut() -> Result<(), TrialError>,
) -> Result<(), TrialError> {
    host.prepare(&open.grant)?;
    let mut test_bed = host.open(open)?;
    worker.opened(test_bed.facts());
    worker.serve(test_bed.as_mut(), request.spec, &request.catalogs.workloads, still_ours)
}

/// The first board whose device was taken over, with what all of them offer.
fn opened(pool: &mut WorkerPool, ui: &mut dyn RunUi) -> Result<(usize, TestBedFacts), RunError> {
    let mut found: Option<(usize, TestBedFacts)> = None;
    let mut last = None;
    for (number, opened) in pool.opened().into_iter().enumerate() {
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
                let made_on = pool.made_on(number);
                ui.event(RunEvent::BoardLeftOut(&format!("{made_on}: {error}")));
                last = Some(RunError::from(error).on_board(&made_on.board));
            }
        }
    }
    match (found, last) {
        (Some(found), _) => Ok(found),
        (None, Some(error)) => Err(error),
        (None, None) => unreachable!("there is at least one board"),
    }
}
