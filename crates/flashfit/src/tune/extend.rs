//! What `tune --resume` adds to a run: more workloads, file systems, options, repeats and budget.

use flashfit_bench::Workloads;
use flashfit_device::Bytes;
use flashfit_filesystem::FileSystemCatalog;
use flashfit_tune::life::UnknownLife;
use flashfit_tune::{Budget, RunSpec, SearchPhase, Spent, StrategyKind, TimeSpan, TrialRecord};

use crate::command_error::CommandError;
use crate::output::note;
use crate::tune::args::TuneArgs;
use crate::tune::constraints::contradiction;
use crate::tune::spec_check;

/// The specification of a recorded run with what the command line adds.
pub fn extended(
    args: &TuneArgs,
    before: RunSpec,
    trials: &[TrialRecord],
) -> Result<RunSpec, CommandError> {
    let mut spec = before.clone();
    let catalog = Workloads::load(spec.catalog_dir.as_deref())?;
    let named = args.what.workloads.clone();
    let named = named.map(|names| spec_check::named_workloads(names, &catalog));
    add_names(&mut spec.workloads, named.as_deref());
    add_names(&mut spec.filesystems, args.what.filesystems.as_deref());
    add_options(&mut spec, args)?;
    let new: Vec<&String> =
        spec.filesystems.iter().filter(|name| !before.filesystems.contains(name)).collect();
    if let Some(life) = &mut spec.life {
        // A recorded run does not decide which files are read, and its usage model may be one.
        life.unknown.extend(new.into_iter().map(|filesystem| UnknownLife {
            filesystem: filesystem.clone(),
            reason: "it was added to the run later".to_owned(),
        }));
    }
    if let Some(repeats) = args.what.repeats {
        spec.repeats = at_least("--repeats", repeats, before.repeats)?;
    }
    if let Some(memory) = args.what.memory {
        spec.memory = at_least("--memory", memory, before.memory)?;
    }
    let limits = &mut spec.limits;
    // What was without a limit is at least what was spent.
    let (made, spent) = spent(trials);
    if let Some(trials) = args.spend.trials {
        limits.trials = Some(at_least("--trials", trials, limits.trials.unwrap_or(made))?);
        // As in a new run, the number of trials takes the place of a time.
        limits.budget_ns = None;
    }
    if let Some(size) = args.spend.max_write {
        let least = Bytes(limits.max_write_bytes.unwrap_or(spent.written_bytes));
        limits.max_write_bytes = Some(at_least("--max-write", size, least)?.0);
    }
    if let Some(budget) = args.spend.budget {
        let whole_seconds = spent.time_ns.next_multiple_of(1_000_000_000);
        let least = TimeSpan(limits.budget_ns.unwrap_or(whole_seconds));
        let more = at_least("--budget", budget, least)?;
        limits.budget_ns = (more != TimeSpan::UNLIMITED).then_some(more.0);
    }
    if spec == before {
        return Ok(spec);
    }
    let filesystems = FileSystemCatalog::load(spec.catalog_dir.as_deref())?;
    spec_check::check(&spec, &filesystems, &catalog)?;
    if searches_again(&before, &spec, trials) {
        spec.phase = SearchPhase::after(trials);
        note(
            "the run is extended: earlier trials count, and the answer is confirmed with fresh ones",
        );
    } else {
        note("the run is extended: earlier trials count, also those that confirm the answer");
    }
    Ok(spec)
}

/// How many trials were made, and what they cost.
fn spent(trials: &[TrialRecord]) -> (u32, Spent) {
    let mut spent = Spent::default();
    trials.iter().for_each(|trial| spent.add(trial.cost()));
    (u32::try_from(trials.len()).unwrap_or(u32::MAX), spent)
}

/// Whether the answer may be another one, so that earlier confirming trials confirm nothing.
fn searches_again(before: &RunSpec, spec: &RunSpec, trials: &[TrialRecord]) -> bool {
    let grown = (&before.workloads, &before.filesystems, &before.options, before.repeats)
        != (&spec.workloads, &spec.filesystems, &spec.options, spec.repeats);
    // A search that ranks chose its finalists by its budget. An adaptive one that races its
    // finalists never searches again by itself; with a little more, it goes on racing.
    let is_adaptive = spec.strategy == StrategyKind::Adaptive;
    let (mut before, now) = (before.limits.clone(), &spec.limits);
    if is_adaptive && before.trials.is_none() && now.trials.is_some() {
        // A number of trials that takes the place of a time is more only beyond those made.
        before = Budget { trials: Some(spent(trials).0), budget_ns: None, ..before };
    }
    let is_later = |trial: &TrialRecord| trial.batch.is_none_or(|batch| batch.number > 0);
    let size = trials.first().and_then(|trial| trial.batch).map_or(0, |batch| batch.size as usize);
    if !grown && trials.len() < size && !trials.iter().any(is_later) {
        // The first batch goes on.
        return false;
    }
    grown || if is_adaptive { now.is_much_more_than(&before) } else { *now != before }
}

fn add_names(names: &mut Vec<String>, more: Option<&[String]>) {
    for name in more.unwrap_or_default() {
        if !names.contains(name) {
            names.push(name.clone());
        }
    }
}

fn add_options(spec: &mut RunSpec, args: &TuneArgs) -> Result<(), CommandError> {
    for (filesystem, option) in &args.asked.with {
        if !spec.filesystems.contains(filesystem) {
            return Err(contradiction(
                format!("--with {filesystem}:{option} names a file system that is not tried"),
                &format!("add it with --fs {filesystem}"),
            ));
        }
        let choice = spec.options.entry(filesystem.clone()).or_default();
        choice.exclude.retain(|known| known != option);
        if !choice.always.contains(option) && !choice.include.contains(option) {
            choice.include.push(option.clone());
        }
    }
    Ok(())
}

fn at_least<T: PartialOrd + std::fmt::Display>(
    flag: &str,
    value: T,
    least: T,
) -> Result<T, CommandError> {
    if value >= least {
        return Ok(value);
    }
    Err(contradiction(
        format!("{flag} {value} is less than the {least} that the run has"),
        &format!("a run is only extended: use {flag} {least} or more, or begin another run"),
    ))
}

#[cfg(test)]
mod tests;
