//! `flashfit tune TARGET`: measures setups on a medium and recommends one.

mod announce;
pub mod args;
mod outcome;
mod progress;
mod resolve;
mod scratch;
mod space;
mod subject;

use std::path::Path;

use flashfit_filesystem::{Layout, Scheduler};
use flashfit_geometry::{Geometry, Known, Source};
use flashfit_host::interrupt::Interrupt;
use flashfit_host::program::find;
use flashfit_host::{ExitClass, ProgramError, SystemRunner, capability, mount};
use flashfit_medium::{Bytes, System, Target, WriteConsent};
use flashfit_stand::{Backing, Here, HereOptions, MemoryFacts, Stand};
use flashfit_tune::{Run, RunDir, RunHeader, RunSpec, Session, Space, TrialRecord};

use crate::catalogues::Catalogues;
use crate::commands::card_server;
use crate::consent::agreement;
use crate::failure::Failure;
use crate::output::{note, warn};
use args::TuneArgs;
use progress::Progress;
use resolve::Resolved;
use scratch::Scratch;
use subject::{Subject, What};

pub fn run(args: &TuneArgs, catalog: Option<&Path>) -> Result<(), Failure> {
    let (resolved, earlier) = match &args.resume {
        Some(dir) => resume(dir)?,
        None => (resolve::resolve(args, catalog)?, None),
    };
    let Resolved { spec, dir } = resolved;
    let runner = SystemRunner::default();
    let subject = Subject::look(&spec, &runner)?;
    if let Some(earlier) = &earlier {
        same_medium(&earlier.header, &subject)?;
    }
    let catalogues = Catalogues::load(&spec)?;
    if args.dry_run {
        return announce::dry_run(&spec, &subject, &catalogues, &dir);
    }
    environment(&subject)?;
    if earlier.is_none() && dir.join("run.json").exists() {
        return Err(flashfit_tune::run_dir::RunDirError::Exists { path: dir }.into());
    }
    announce::geometry(&subject);
    let was_there = dir.exists();
    let took = take(args, &spec, &subject, &catalogues, &dir, earlier)
        .inspect_err(|_| forget_unbegun(&dir, was_there))?;
    outcome::present(&took.header, &took.trials, &catalogues, &dir, args.json)
}

fn resume(dir: &Path) -> Result<(Resolved, Option<Run>), Failure> {
    let run = Run::read(dir)?;
    note(&format!("going on with {}: {} trials were made", dir.display(), run.trials.len()));
    let resolved = Resolved { spec: run.header.spec.clone(), dir: dir.to_owned() };
    Ok((resolved, Some(run)))
}

/// A run goes on only on the medium on which it was begun.
fn same_medium(header: &RunHeader, subject: &Subject) -> Result<(), Failure> {
    let before = &header.facts.medium;
    let is_same = match &subject.what {
        What::Card(model) => {
            let card = header.facts.card.as_ref();
            card.is_some_and(|card| card.model.as_ref().is_none_or(|before| before == model))
        }
        What::Medium(now) => {
            let mut identity = now.identity.clone();
            // Counts attachments, not media: it differs after the card was out, or the machine off.
            identity.disk_sequence = before.identity.disk_sequence;
            let is_image = matches!(subject.target, Target::Image(_));
            before.capacity == now.capacity && (is_image || before.identity == identity)
        }
    };
    if is_same {
        return Ok(());
    }
    Err(Failure::new(
        ExitClass::Refused,
        format!(
            "the run was begun on another medium: {} of {}",
            before.identity.summary(),
            before.capacity
        ),
        Some("put that medium in, or begin a new run without --resume"),
    ))
}

/// What the machine must have, looked at before anybody is asked for a medium's data.
fn environment(subject: &Subject) -> Result<(), Failure> {
    let lacking = if subject.is_simulated() {
        capability::missing_for_simulated_cards()
    } else {
        capability::missing_for_block_devices()
    };
    if let Some(reason) = lacking {
        return Err(Failure::new(
            ExitClass::Environment,
            format!("trials cannot be made here: {reason}"),
            Some("run it as root (sudo flashfit tune …), on a machine with loop devices and FUSE"),
        ));
    }
    let partitions = matches!(subject.layout.layout, Layout::Partition { .. });
    for program in ["fio", "mount", "blkdiscard"].into_iter().chain(partitions.then_some("sfdisk"))
    {
        if find(program).is_none() {
            return Err(ProgramError::Missing { name: program.to_owned() }.into());
        }
    }
    Ok(())
}

struct Took {
    header: RunHeader,
    trials: Vec<TrialRecord>,
}

/// Takes the medium over, makes the trials, gives it back.
fn take(
    args: &TuneArgs,
    spec: &RunSpec,
    subject: &Subject,
    catalogues: &Catalogues,
    dir: &Path,
    earlier: Option<Run>,
) -> Result<Took, Failure> {
    let interrupt = Interrupt::on_signals().map_err(|error| {
        Failure::new(ExitClass::Environment, format!("cannot catch signals: {error}"), None)
    })?;
    let runner = SystemRunner::new(interrupt);
    // What this search space lacks is said before the medium is touched.
    let room = subject.filesystem_size();
    let build = |conditions, schedulers: &[_], default: &_| {
        space::build(spec, &catalogues.filesystems, conditions, schedulers, default, room)
    };
    let first = subject.schedulers.first().cloned().unwrap_or_else(|| Scheduler::new("none"));
    build(&subject.conditions, &subject.schedulers, &first)?;
    mount::enter_private_namespace()?;
    let backing = backing(args, spec, subject, &runner)?;
    let scratch = Scratch::of(dir)?;
    let options = HereOptions {
        mount_dir: spec.mount_dir.clone().unwrap_or_else(|| dir.join("mnt")),
        scratch_dir: scratch.path().to_owned(),
        given: given(spec),
        layout: subject.layout.clone(),
        memory_bytes: spec.memory.0,
    };
    let mut here = Here::new(&runner, &catalogues.filesystems, backing, options)?;
    let facts = here.facts().clone();
    let (header, space, run_dir, trials) = match earlier {
        Some(earlier) => {
            let (run_dir, run) = RunDir::resume(dir)?;
            let space = Space::of_run(&earlier.header, &catalogues.filesystems)?;
            (earlier.header, space, run_dir, run.trials)
        }
        None => {
            let built = build(&facts.conditions, &facts.schedulers, &facts.default_scheduler)?;
            built.notes.iter().for_each(|text| note(&format!("note: {text}")));
            let warnings = warnings(&facts.memory);
            let version = env!("CARGO_PKG_VERSION");
            let header =
                RunHeader::new(version, spec.clone(), facts, built.space.names(), warnings);
            let run_dir = RunDir::create(dir, &header)?;
            (header, built.space, run_dir, Vec::new())
        }
    };
    header.warnings.iter().for_each(|text| warn(text));
    announce::run(spec, &space, trials.len(), dir);
    let mut progress = Progress::new(args.progress, trials.len());
    let mut session = Session::new(spec, &space, &catalogues.workloads, run_dir, trials);
    let ended = session.run(&mut here, &mut progress);
    progress.finish();
    let trials = session.into_trials();
    tidy(dir);
    ended.map_err(|error| resumable(error, dir))?;
    Ok(Took { header, trials })
}

fn given(spec: &RunSpec) -> Geometry {
    let known = |bytes: Option<Bytes>| bytes.map(|bytes| Known::new(bytes, Source::Given));
    Geometry { erase_unit: known(spec.erase_unit), write_unit: known(spec.write_unit) }
}

fn backing(
    args: &TuneArgs,
    spec: &RunSpec,
    subject: &Subject,
    runner: &SystemRunner,
) -> Result<Backing, Failure> {
    let system = System::default();
    match (&subject.what, &subject.target) {
        (What::Card(model), Target::Simulated(name)) => {
            let args = card_server::args(name, spec.catalog_dir.as_deref());
            let program = card_server::program();
            Ok(Backing::card(&system, runner, model, &program, &args)?)
        }
        (What::Medium(medium), target) => {
            let agreed = agreement(medium, args.confirm.as_deref());
            let consent = WriteConsent::ask(&system, runner, medium, &agreed)?;
            match target {
                Target::Image(_) => Ok(Backing::image(runner, &consent)?),
                _ => Ok(Backing::node(consent)),
            }
        }
        (What::Card(_), _) => unreachable!("only a simulated target has a card model"),
    }
}

fn warnings(memory: &MemoryFacts) -> Vec<String> {
    match memory {
        MemoryFacts::Limited => Vec::new(),
        MemoryFacts::Unlimited(reason) => vec![format!(
            "memory is not limited ({reason}): workloads that go through the page cache may measure \
             memory instead of the medium"
        )],
    }
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
    let _ = std::fs::remove_dir_all(dir.join("scratch"));
    // Should something still be mounted on it, it stays.
    let _ = std::fs::remove_dir(dir.join("mnt"));
}

/// An error that ends a run tells how to go on with it.
fn resumable(error: flashfit_tune::TuneError, dir: &Path) -> Failure {
    let dir = dir.display().to_string();
    Failure::from(error)
        .in_dir(&dir)
        .or_hint(&format!("what was recorded is kept; go on with: flashfit tune --resume {dir}"))
}
