//! The verdict of a run: what to do, how much it gains, how sure that is, and what it risks.

use flashfit_filesystem::{Durability, FileSystemCatalog, Setup};
use flashfit_report::{ReportVerdict, ReportedGain, RunOutcome};
use flashfit_search::SearchEnd;
use flashfit_tune::recommend::{self, percent};
use flashfit_tune::stats::Estimate;
use flashfit_tune::{Recommendation, RunEnd, StrategyKind};

use super::RunView;
use super::setup_commands::commands;

/// The verdict of a run.
pub fn verdict(view: &RunView<'_>, catalogue: &FileSystemCatalog) -> ReportVerdict {
    let Some(found) = view.recommendation() else {
        return ReportVerdict {
            outcome: RunOutcome::NoResult,
            headline: match view.conclusion.broken.len() {
                0 => "no setup was measured under all workloads yet".to_owned(),
                count => format!(
                    "{count} setups break the demand, and no other was measured under all workloads"
                ),
            },
            ..ReportVerdict::default()
        };
    };
    let chosen = found.recommended();
    let commands = view
        .space
        .of(&chosen.filesystem)
        .map(|choices| commands(view.header, choices, chosen))
        .unwrap_or_default();
    ReportVerdict {
        outcome: outcome(found.verdict),
        headline: headline(found),
        gain: found.gain.and_then(|gain| as_gain(&gain)),
        detail: detail(view, found),
        commands,
        risk: risk(chosen, catalogue),
    }
}

pub fn outcome(verdict: recommend::GainVerdict) -> RunOutcome {
    match verdict {
        recommend::GainVerdict::Better => RunOutcome::Better,
        recommend::GainVerdict::Worse | recommend::GainVerdict::NothingBeatsUntuned => {
            RunOutcome::NoGain
        }
        recommend::GainVerdict::CannotTell | recommend::GainVerdict::NotConfirmed => {
            RunOutcome::CannotTell
        }
    }
}

pub fn headline(found: &Recommendation) -> String {
    let (winner, untuned) = (found.winner.label(), found.untuned.label());
    if !found.untuned_will_do && found.verdict != recommend::GainVerdict::Better {
        return format!(
            "{} is the choice among those that meet the demands, which the untuned {untuned} does \
             not; that it is faster was not shown",
            found.recommended().label()
        );
    }
    match found.verdict {
        recommend::GainVerdict::Better if found.winner == *found.recommended() => {
            format!("{winner} beats the untuned {untuned}")
        }
        recommend::GainVerdict::Better => format!(
            "{winner} beats the untuned {untuned}, and {} cannot be told from it but is the better \
             choice: safer, less wearing or nearer to the defaults",
            found.recommended().label()
        ),
        recommend::GainVerdict::CannotTell => format!(
            "{winner} came first, but fresh trials do not tell it from the untuned {untuned}: keep \
             {untuned}"
        ),
        recommend::GainVerdict::Worse => {
            format!(
                "{winner} came first in the search, but fresh trials show it worse: keep {untuned}"
            )
        }
        recommend::GainVerdict::NothingBeatsUntuned => {
            format!("no setup scored higher than the untuned {untuned}: keep it")
        }
        recommend::GainVerdict::NotConfirmed => {
            format!(
                "{winner} came first, but no fresh trials confirm it yet: keep {untuned} until then"
            )
        }
    }
}

/// A strategy as it is named in a sentence.
pub fn strategy_name(strategy: StrategyKind) -> &'static str {
    match strategy {
        StrategyKind::Adaptive => "Adaptive",
        StrategyKind::Greedy => "Greedy",
        StrategyKind::Exhaustive => "Exhaustive",
        StrategyKind::Random => "Random",
    }
}

/// Why a search ended, as part of a sentence.
pub fn ended(ended: RunEnd) -> String {
    match ended {
        RunEnd::Search(SearchEnd::Confident { probability }) => format!(
            "ended when the choice was near enough to the best with a chance of {}",
            flashfit_report::probability(probability)
        ),
        RunEnd::Search(SearchEnd::Budget) => "ended when the trials were spent".to_owned(),
        RunEnd::Search(SearchEnd::Exhausted) => "ended with nothing more to try".to_owned(),
        RunEnd::Search(SearchEnd::AllFailed { .. }) => {
            "ended because every trial failed".to_owned()
        }
        RunEnd::Limit(reached) => format!("ended because {reached}"),
    }
}

fn detail(view: &RunView<'_>, found: &Recommendation) -> Vec<String> {
    let within = flashfit_tune::Percent(view.header.spec.limits.within_hundredths);
    let chance = format!(
        "The chance that {} is within {within} of the best setup: {}, as the search believes it.",
        found.winner.label(),
        flashfit_report::probability(found.within)
    );
    let mut detail = vec![chance];
    let by_workload = found
        .gain_by_workload
        .iter()
        .filter_map(|(workload, gain)| Some(format!("{workload}: {}", as_gain(gain)?.describe())));
    detail.extend(by_workload);
    if let Some((own, gain)) = &found.gain_within {
        detail.extend(
            as_gain(gain).map(|gain| format!("Over the untuned {own}: {}", gain.describe())),
        );
    }
    if let Some((other, gain)) = &found.runner_up {
        detail.extend(
            as_gain(gain).map(|gain| format!("Over the runner-up {other}: {}", gain.describe())),
        );
    }
    if view.header.facts.geometry.is_unknown() {
        detail.push(
            "No geometry was found for this medium, so no option was tuned to it.".to_owned(),
        );
    }
    if let Some(setup) = &found.better_but_less_safe {
        let risks: Vec<String> = view
            .space
            .of(&setup.filesystem)
            .and_then(|choices| setup.durability(&choices.filesystem).ok())
            .map(|verdict| verdict.risks.into_iter().map(|risk| risk.risk).collect())
            .unwrap_or_default();
        detail.push(format!(
            "{} scored higher in the search, but is not recommended: {}",
            setup.label(),
            risks.join(" ")
        ));
    }
    detail
}

/// A logarithm of a ratio as a gain in percent; `None` without an interval.
pub fn as_gain(estimate: &Estimate) -> Option<ReportedGain> {
    let (low, high) = estimate.interval?;
    Some(ReportedGain {
        percent_low: percent(low),
        percent_mid: percent(estimate.middle),
        percent_high: percent(high),
        confidence_percent: 95,
        repeats: u32::try_from(estimate.count).unwrap_or(u32::MAX),
    })
}

fn risk(setup: &Setup, catalogue: &FileSystemCatalog) -> String {
    let verdict = catalogue
        .filesystem(&setup.filesystem)
        .ok()
        .and_then(|filesystem| setup.durability(filesystem).ok());
    match verdict {
        Some(verdict) if verdict.durability != Durability::Safe => {
            let risks: Vec<String> = verdict
                .risks
                .iter()
                .map(|risk| format!("{} ({}): {}", risk.option, risk.durability, risk.risk))
                .collect();
            risks.join(" ")
        }
        _ => String::new(),
    }
}
