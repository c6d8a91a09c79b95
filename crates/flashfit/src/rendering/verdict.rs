//! The verdict of a run: the recommended setup, its gain with an interval, and its risk.

use flashfit_filesystem::filesystem::BASE;
use flashfit_filesystem::{FileSystemCatalog, Risk, Setup};
use flashfit_report::{ReportVerdict, ReportedGain, RunOutcome};
use flashfit_search::{PairsTried, SearchEnd};
use flashfit_tune::recommend::{self, percent};
use flashfit_tune::stats::Estimate;
use flashfit_tune::{Conclusion, Recommendation, RunEnd, StrategyKind};

use super::RunView;
use super::headline::{headline, in_words};
use super::setup_commands::commands;

pub fn verdict(view: &RunView<'_>, catalog: &FileSystemCatalog) -> ReportVerdict {
    let Some(found) = view.recommendation() else {
        let headline = no_result(&view.conclusion, view.header.spec.p99_write_max_ns);
        return ReportVerdict {
            outcome: RunOutcome::NoResult,
            headline: headline
                .unwrap_or_else(|| "no setup was measured in all workloads yet".to_owned()),
            ..ReportVerdict::default()
        };
    };
    let chosen = found.recommended();
    let commands = view
        .space
        .of(&chosen.filesystem)
        .map(|choices| commands(view.header, choices, chosen, *chosen == found.baseline))
        .unwrap_or_default();
    ReportVerdict {
        outcome: outcome(found.verdict),
        headline: headline(found, view.header.spec.by),
        gain: found.gain.and_then(|gain| as_gain(&gain)),
        detail: detail(view, found),
        commands,
        risk: risk(chosen, catalog),
        power_cuts: String::new(),
    }
}

/// Why a run or a replay recommends nothing, unless nothing was measured.
pub fn no_result(conclusion: &Conclusion, limit_ns: Option<u64>) -> Option<String> {
    if conclusion.answer.is_none() {
        return super::constraint::not_shown(conclusion, limit_ns);
    }
    // One of those that meet all constraints was measured.
    Some(format!(
        "nothing to recommend yet: too little was measured, and the baseline {} is not among the \
         setups to choose from",
        conclusion.problem.baseline().label()
    ))
}

pub fn outcome(verdict: recommend::GainVerdict) -> RunOutcome {
    match verdict {
        recommend::GainVerdict::Better => RunOutcome::Better,
        recommend::GainVerdict::Likely => RunOutcome::Likely,
        recommend::GainVerdict::Worse
        | recommend::GainVerdict::BaselineTied
        | recommend::GainVerdict::NothingBeatsUntuned => RunOutcome::NoGain,
        recommend::GainVerdict::CannotTell | recommend::GainVerdict::NotConfirmed => {
            RunOutcome::CannotTell
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

/// Why a search ended, as part of a sentence, with its [assumption](super::prior::assumption).
pub fn ended(ended: RunEnd, assumption: Option<&str>) -> String {
    match ended {
        RunEnd::Search(SearchEnd::Confident { probability }) => {
            let assumption = assumption.map_or(String::new(), |text| format!(" {text}"));
            format!(
                "ended when the choice was close enough to the best with a probability of {}{assumption}",
                flashfit_report::probability(probability)
            )
        }
        RunEnd::Search(SearchEnd::Budget) => {
            // Also a round of confirming trials, of which a part confirms nothing.
            "ended because what is left of the budget is too little for the next trials".to_owned()
        }
        RunEnd::Search(SearchEnd::Exhausted) => {
            // A search may also end after its most rounds.
            "ended because its strategy plans no further trial".to_owned()
        }
        RunEnd::Search(SearchEnd::AllFailed { .. }) => {
            "ended because every trial failed".to_owned()
        }
        RunEnd::Limit(reached) => format!("ended because {reached}"),
    }
}

fn detail(view: &RunView<'_>, found: &Recommendation) -> Vec<String> {
    let within = flashfit_tune::Percent(view.header.spec.limits.within_hundredths);
    let basis = match view.header.spec.prior {
        Some(_) => ", from trials on this device alone",
        None => "",
    };
    let probability = format!(
        "The estimated probability that {} is within {within} of the best setup{basis}: {}.",
        in_words(found.recommended(), &found.baseline),
        flashfit_report::probability(found.within)
    );
    let mut detail = Vec::new();
    // Without trials of both, it is what the model supposed before them.
    if found.is_compared {
        detail.push(probability);
    }
    detail.extend(view.conclusion.answer.as_ref().and_then(|answer| untested(answer.pairs)));
    detail.extend(super::life::sentence(&view.conclusion, found.recommended()));
    detail.extend(found.likely.as_ref().map(super::likely::sentence));
    detail.extend(found.left_to_gain.map(|left| super::more_time::sentence(&left)));
    let by_workload = found
        .gain_by_workload
        .iter()
        .filter_map(|(workload, gain)| Some(format!("{workload}: {}", as_gain(gain)?.describe())));
    detail.extend(by_workload);
    detail.extend(super::starts::sentences(view));
    if let Some(gain) = found.winner_gain.as_ref().and_then(as_gain) {
        detail.push(format!(
            "The best in the search, {}: {}",
            found.winner.label(),
            gain.describe()
        ));
    }
    detail.extend(whose_gains(found));
    if let Some((own, gain)) = &found.gain_within {
        detail.extend(
            as_gain(gain).map(|gain| format!("Over the default {own}: {}", gain.describe())),
        );
    }
    if let Some((other, gain)) = &found.runner_up {
        detail.extend(as_gain(gain).map(|gain| {
            format!("{} over the runner-up {other}: {}", found.winner.label(), gain.describe())
        }));
    }
    if view.header.facts.geometry.is_unknown() {
        detail.push(
            "The geometry of this device is unknown, so no option was adapted to it.".to_owned(),
        );
    }
    if let Some(setup) = &found.better_but_undecided {
        detail.push(format!(
            "{} scored higher in the search, but is not known to meet the constraints.",
            in_words(setup, &found.baseline)
        ));
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
            in_words(setup, &found.baseline),
            risks.join(" ")
        ));
    }
    detail
}

/// Whose gains are shown, if that is not the recommended setup. A gain without an interval is not.
fn whose_gains(found: &Recommendation) -> Option<String> {
    let gains = found.gain.iter().chain(found.gain_by_workload.iter().map(|(_, gain)| gain));
    let is_shown = gains.filter_map(as_gain).next().is_some();
    let is_other = found.subject != *found.recommended();
    (is_shown && is_other).then(|| format!("These gains are those of {}.", found.subject.label()))
}

/// What the probability assumes.
fn untested(pairs: PairsTried) -> Option<String> {
    let PairsTried { changes_untested: untested, all_changes: all, .. } = pairs;
    let verb = if untested == 1 { "was" } else { "were" };
    (untested > 0).then(|| {
        format!(
            "It assumes that choices that were never tried together have no unexpected effect on \
             each other: {untested} of {all} pairs of two options, or of an option and a \
             scheduler, {verb} not tried."
        )
    })
}

/// A logarithm of a ratio as a gain in percent; `None` without an interval.
pub fn as_gain(estimate: &Estimate) -> Option<ReportedGain> {
    let (low, high) = estimate.interval?;
    Some(ReportedGain {
        percent_low: percent(low),
        percent_mid: percent(estimate.middle),
        percent_high: percent(high),
        confidence_percent: 95,
        percent_seen: estimate.seen.map(|(low, high)| (percent(low), percent(high))),
        repeats: u32::try_from(estimate.count).unwrap_or(u32::MAX),
    })
}

fn risk(setup: &Setup, catalog: &FileSystemCatalog) -> String {
    let verdict = catalog
        .filesystem(&setup.filesystem)
        .ok()
        .and_then(|filesystem| setup.durability(filesystem).ok());
    match verdict {
        Some(verdict) => {
            let sentence = |risk: &Risk| {
                let of = if risk.option == BASE { &setup.filesystem } else { &risk.option };
                format!("{of} ({}): {}", risk.durability, risk.risk)
            };
            verdict.risks.iter().map(sentence).collect::<Vec<_>>().join(" ")
        }
        None => String::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An adaptive search also ends after its most rounds, with setups left.
    #[test]
    fn an_end_does_not_say_that_everything_was_tried() {
        let text = ended(RunEnd::Search(SearchEnd::Exhausted), None);
        assert_eq!(text, "ended because its strategy plans no further trial");
    }

    /// One round gives no interval, and no gain on the page.
    #[test]
    fn gains_belong_to_a_setup_only_if_they_are_shown() {
        let setup = |options: &[&str]| Setup {
            filesystem: "ext4".to_owned(),
            options: options.iter().map(|&option| option.to_owned()).collect(),
            scheduler: flashfit_filesystem::Scheduler::new("none"),
        };
        let (baseline, winner) = (setup(&[]), setup(&["fast_commit"]));
        let text = |interval| {
            whose_gains(&Recommendation {
                winner: winner.clone(),
                best_of_ties: winner.clone(),
                baseline: baseline.clone(),
                baseline_is_listed: true,
                is_compared: true,
                baseline_is_allowed: true,
                baseline_violates: false,
                verdict: recommend::GainVerdict::NotConfirmed,
                within: 0.5,
                left_to_gain: None,
                likely: None,
                subject: winner.clone(),
                gain: Some(Estimate { middle: 0.1, interval, seen: None, count: 1 }),
                gain_by_workload: Vec::new(),
                winner_gain: None,
                runner_up: None,
                gain_within: None,
                better_but_less_safe: None,
                better_but_undecided: None,
            })
        };
        assert_eq!(text(None), None);
        let said = text(Some((-0.1, 0.3)));
        assert_eq!(said.as_deref(), Some("These gains are those of ext4 fast_commit none."));
    }

    #[test]
    fn a_probability_says_what_was_never_tried_together() {
        // Most pairs are of an option that is off.
        let text = |changes_untested| {
            let all = PairsTried { untested: 90, all: 200, ..PairsTried::default() };
            super::untested(PairsTried { changes_untested, all_changes: 38, ..all })
        };
        assert_eq!(text(0), None);
        let said = "It assumes that choices that were never tried together have no unexpected \
            effect on each other: 2 of 38 pairs of two options, or of an option and a scheduler, \
            were not tried.";
        assert_eq!(text(2).as_deref(), Some(said));
        assert!(text(1).is_some_and(|said| said.ends_with("scheduler, was not tried.")));
    }
}
