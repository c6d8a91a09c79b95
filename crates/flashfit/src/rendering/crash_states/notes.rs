//! What `flashfit crash` says under its table: how much was checked, what follows from it, and what
//! the device did.

use std::collections::BTreeSet;

use flashfit_crash::campaign::{CampaignPlan, FaultCounts, SetupResult};
use flashfit_crash::setup::CrashSetup;
use flashfit_crash::state::FlushFault;
use flashfit_crash::workload::CrashWorkload;
use flashfit_report::text::count_of;

use super::Counted;
use crate::rendering::two_digits;

/// Paragraphs for all setups, then those that explain marks.
pub fn notes(
    plan: &CampaignPlan,
    setups: &[CrashSetup],
    results: &[SetupResult],
    counted: Counted,
) -> Vec<String> {
    let is_one_log = plan.requests.is_some();
    let mut notes = Vec::new();
    for result in results {
        if result.counts.states == 0 {
            let what = if counted == Counted::Cuts { "power cut" } else { "state" };
            notes.push(format!("{}: no {what} was checked, so nothing is known.", result.label));
            continue;
        }
        notes.push(match counted {
            Counted::States => of_states(result, is_one_log),
            Counted::Cuts => of_cuts(result),
        });
        notes.extend(faults(plan, result).map(|text| format!("{}: {text}", result.label)));
        let counts = &result.counts;
        if counts.mismatched > 0 {
            notes.push(format!(
                "{}: {} of {} equal states that were mounted nevertheless were judged otherwise, so \
                 the counts and limits are not reliable. Repeat it with --no-equivalence, and please \
                 report it.",
                result.label, counts.mismatched, counts.rechecked
            ));
        }
    }
    if counted == Counted::States && !is_one_log {
        notes.push(
            "States of one log are alike, so the limit for further runs counts logs only, and of \
             these the broken ones and those that were checked to the end. The limit for these logs \
             says nothing about other runs."
                .to_owned(),
        );
    }
    notes.push("(n): the file system does not promise it.".to_owned());
    notes.extend(match plan.workload {
        CrashWorkload::Files | CrashWorkload::Metadata => None,
        CrashWorkload::Sqlite(_) | CrashWorkload::Program(_) => {
            Some("-: not examined with this work.".to_owned())
        }
        CrashWorkload::Requests => Some(
            "-: not examined, because nobody knows what the recorded work promised.".to_owned(),
        ),
    });
    if setups.iter().any(|setup| !setup.withdrawn.is_empty()) {
        notes.push("n w: an option withdraws the promise, as the catalog says.".to_owned());
    }
    notes.extend(exceptions(setups, results));
    notes
}

fn of_states(result: &SetupResult, is_one_log: bool) -> String {
    let (label, counts) = (&result.label, &result.counts);
    let [here, runs] =
        [result.upper_bound(), result.runs_upper_bound()].map(|share| two_digits(share * 100.0));
    let equal = counts.same_bytes + counts.same_reads;
    let checked = format!("{} mounted, {equal} equal to one of them", counts.mounted);
    let (broken, states) = (counts.broken, counts.states);
    if is_one_log {
        return format!(
            "{label}: {broken} of {states} states broke a promise; {checked}. At 95 %, at most {here} % \
             of all states of this log do. That says nothing about other work."
        );
    }
    let (logs, bad) = (count_of(result.rounds as usize, "log"), result.broken_rounds);
    format!(
        "{label}: {broken} of {states} states broke a promise, in {bad} of {logs}; {checked}. At \
         95 %, at most {here} % of all states of these logs do. If the work runs again and as many \
         random states of that run are checked, one of them breaks a promise in at most {runs} % of \
         such runs."
    )
}

/// Each of them was of another run.
fn of_cuts(result: &SetupResult) -> String {
    format!(
        "{}: {} of {} power cuts broke a promise, at most {} % at 95 %; {} power cuts an hour.",
        result.label,
        result.counts.broken,
        result.counts.states,
        two_digits(result.upper_bound() * 100.0),
        result.states_per_hour(),
    )
}

/// What the device did, and how often it was noticed; also of faults that were asked for and never
/// happened.
fn faults(plan: &CampaignPlan, result: &SetupResult) -> impl Iterator<Item = String> {
    let found = device_faults(plan, result);
    found.into_iter().map(|(name, faults)| {
        if faults.happened == 0 {
            return format!(
                "{name} was asked for and happened at no power cut, so nothing is known of it."
            );
        }
        let by: Vec<String> = faults
            .by_oracle
            .iter()
            .map(|(oracle, count)| format!("{} {count}", oracle.name()))
            .collect();
        let by = if by.is_empty() { String::new() } else { format!(" ({})", by.join(", ")) };
        format!(
            "{name} happened {} times, with a broken promise {} times{by}.",
            faults.happened, faults.noticed
        )
    })
}

/// The faults that happened, and those that were asked for.
pub fn device_faults(
    plan: &CampaignPlan,
    result: &SetupResult,
) -> Vec<(&'static str, FaultCounts)> {
    let mut classes = result.counts.faults.clone();
    for fault in plan.card.iter().flat_map(|card| &card.faults) {
        classes.entry(fault.class).or_default();
    }
    let mut found: Vec<_> =
        classes.into_iter().map(|(class, faults)| (class.name(), faults)).collect();
    let ignored = &result.counts.ignored_flushes;
    if ignored.happened > 0 || plan.flushes != FlushFault::None {
        found.push(("ignored-flush", ignored.clone()));
    }
    found
}

/// What the catalog says of promises that were broken and have exceptions.
fn exceptions(setups: &[CrashSetup], results: &[SetupResult]) -> Vec<String> {
    let mut named = BTreeSet::new();
    let mut notes = Vec::new();
    for (setup, result) in setups.iter().zip(results) {
        let is_broken = |promise| result.counts.by_promise.get(promise).is_some_and(|n| *n > 0);
        let kind = setup.recipe.kind();
        if setup.promises.exceptions.iter().any(is_broken) && named.insert(kind) {
            notes.push(format!(
                "n e: the catalog names exceptions of this promise of {kind}; whether these states \
                 are such was not judged: {}",
                setup.risk
            ));
        }
    }
    notes
}
