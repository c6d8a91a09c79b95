//! The verdict of a run: the recommended setup, its gain with an interval, and its risk.

use flashfit_filesystem::filesystem::BASE;
use flashfit_filesystem::{FileSystemCatalog, Risk, Setup};
use flashfit_report::{ReportVerdict, ReportedGain, RunOutcome};
use flashfit_search::SearchEnd;
use flashfit_tune::recommend::{self, percent};
use flashfit_tune::stats::Estimate;
use flashfit_tune::{Criterion, Recommendation, RunEnd, StrategyKind};

use super::RunView;
use super::setup_commands::commands;

/// With more workloads, the headline names only the largest gain and the losses.
const MOST_WORKLOADS: usize = 3;

pub fn verdict(view: &RunView<'_>, catalog: &FileSystemCatalog) -> ReportVerdict {
    let Some(found) = view.recommendation() else {
        let not_shown = super::constraint::of_run(&view.conclusion, &view.header.spec);
        return ReportVerdict {
            outcome: RunOutcome::NoResult,
            headline: match view.conclusion.broken.len() {
                _ if not_shown.is_some() => not_shown.unwrap_or_default(),
                0 => "no setup was measured in all workloads yet".to_owned(),
                count => format!(
                    "{count} setups violate the constraint, and no other was measured in all \
                     workloads"
                ),
            },
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

pub fn outcome(verdict: recommend::GainVerdict) -> RunOutcome {
    match verdict {
        recommend::GainVerdict::Better => RunOutcome::Better,
        recommend::GainVerdict::Worse
        | recommend::GainVerdict::BaselineTied
        | recommend::GainVerdict::NothingBeatsUntuned => RunOutcome::NoGain,
        recommend::GainVerdict::CannotTell | recommend::GainVerdict::NotConfirmed => {
            RunOutcome::CannotTell
        }
    }
}

pub fn headline(found: &Recommendation, by: Criterion) -> String {
    let baseline_setup = &found.baseline;
    let winner = in_words(&found.winner, baseline_setup);
    let recommended = in_words(found.recommended(), baseline_setup);
    let baseline = in_words(baseline_setup, baseline_setup);
    if !found.baseline_is_allowed && found.verdict != recommend::GainVerdict::Better {
        return format!(
            "use {recommended}: it meets the constraints, and {baseline} does not (no measured \
             speed-up)"
        );
    }
    match found.verdict {
        recommend::GainVerdict::Better if found.winner == found.subject => {
            better_than(&winner, &baseline, found, by)
        }
        recommend::GainVerdict::Better => format!(
            "{}; the fastest, {winner}, is tied with it",
            better_than(&in_words(&found.subject, baseline_setup), &baseline, found, by)
        ),
        recommend::GainVerdict::BaselineTied => format!(
            "keep {baseline}: it is tied with the best, {winner}, and is safer, causes less wear or \
             is closer to the defaults"
        ),
        recommend::GainVerdict::CannotTell => format!(
            "keep {baseline}: {winner} was best in the search, but is tied with it in fresh trials"
        ),
        recommend::GainVerdict::Worse => {
            format!("keep {baseline}: {winner} was best in the search, but worse in fresh trials")
        }
        recommend::GainVerdict::NothingBeatsUntuned => {
            let safe = if found.better_but_less_safe.is_some() { " that is as safe" } else { "" };
            format!("keep {baseline}: no setup{safe} scored higher")
        }
        recommend::GainVerdict::NotConfirmed => format!(
            "keep {baseline} for now: {winner} was best in the search, but is not confirmed by \
             fresh trials yet"
        ),
    }
}

/// A setup as part of a sentence: `ext4 with fast_commit and noatime`, `default ext4`. The
/// scheduler is named if it is not that of the baseline.
fn in_words(setup: &Setup, baseline: &Setup) -> String {
    let mut parts: Vec<String> = setup.options.clone();
    if setup.scheduler != baseline.scheduler {
        parts.push(format!("the {} scheduler", setup.scheduler));
    }
    let filesystem = &setup.filesystem;
    match parts.split_last() {
        None => format!("default {filesystem}"),
        Some((only, [])) => format!("{filesystem} with {only}"),
        Some((last, first)) => format!("{filesystem} with {} and {last}", first.join(", ")),
    }
}

/// `ext4 with fast_commit is 23 % faster overall than default ext4 (95 % interval 5 to 41 %, of the
/// mean 17 to 29 %): random-write +60 %, sync-files -13 %`. The first interval is that of a single
/// measurement.
fn better_than(setup: &str, baseline: &str, found: &Recommendation, by: Criterion) -> String {
    let better = match by {
        Criterion::Throughput => "faster",
        Criterion::Latency => "better in worst latency",
        Criterion::Wear => "better in wear",
    };
    let overall = if found.gain_by_workload.is_empty() { "" } else { " overall" };
    match found.gain.as_ref().and_then(as_gain) {
        Some(gain) => format!(
            "{setup} is {:.0} % {better}{overall} than {baseline} ({} % interval {}){}",
            gain.percent_mid,
            gain.confidence_percent,
            intervals(&gain),
            by_workload(found)
        ),
        None => format!("{setup} is {better} than {baseline}"),
    }
}

fn intervals(gain: &ReportedGain) -> String {
    let mean = format!("{:.0} to {:.0} %", gain.percent_low, gain.percent_high);
    match gain.percent_seen {
        Some((low, high)) => format!("{low:.0} to {high:.0} %, of the mean {mean}"),
        None => mean,
    }
}

/// The gain of each workload, or with many workloads the largest gain and every loss:
/// `: random-write +60 %, sync-files -13 %`. A change whose interval includes 0 is marked.
fn by_workload(found: &Recommendation) -> String {
    let mut gains: Vec<&(String, Estimate)> = found.gain_by_workload.iter().collect();
    gains.sort_by(|a, b| b.1.middle.total_cmp(&a.1.middle));
    let all = gains.len() <= MOST_WORKLOADS;
    let shown: Vec<String> = gains
        .iter()
        .enumerate()
        .filter(|(at, (_, gain))| all || *at == 0 || gain.middle < 0.0)
        .map(|(_, (workload, gain))| {
            let doubt = if gain.excludes_zero() { "" } else { " (cannot tell)" };
            format!("{workload} {:+.0} %{doubt}", percent(gain.middle))
        })
        .collect();
    if shown.is_empty() { String::new() } else { format!(": {}", shown.join(", ")) }
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
        RunEnd::Search(SearchEnd::Budget) => "ended when the budget of trials was spent".to_owned(),
        RunEnd::Search(SearchEnd::Exhausted) => {
            "ended because there was nothing left to try".to_owned()
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
    let mut detail = vec![probability];
    detail.extend(super::life::sentence(&view.conclusion, found.recommended()));
    let answer = view.conclusion.answer.as_ref();
    let left = answer.and_then(|answer| match found.verdict {
        recommend::GainVerdict::Better => answer.left_to_gain,
        _ if !found.baseline_is_allowed => answer.left_to_gain,
        _ => answer.left_to_gain_over_baseline,
    });
    detail.extend(left.map(|left| super::more_time::sentence(&left)));
    let by_workload = found
        .gain_by_workload
        .iter()
        .filter_map(|(workload, gain)| Some(format!("{workload}: {}", as_gain(gain)?.describe())));
    detail.extend(by_workload);
    detail.extend(super::starts::sentences(view));
    if let Some(gain) = found.winner_gain.as_ref().and_then(as_gain) {
        detail.push(format!("The fastest, {}: {}", found.winner.label(), gain.describe()));
    }
    if found.subject != *found.recommended() && found.gain.is_some() {
        let of = format!("These gains are those of {}.", found.subject.label());
        detail.push(of);
    }
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
    use flashfit_filesystem::Scheduler;

    use super::*;

    #[test]
    fn setups_are_named_in_words() {
        let setup = |options: &[&str], scheduler: &str| Setup {
            filesystem: "ext4".to_owned(),
            options: options.iter().map(|&option| option.to_owned()).collect(),
            scheduler: Scheduler::new(scheduler),
        };
        let baseline = setup(&[], "none");
        let words = |options: &[&str], scheduler| in_words(&setup(options, scheduler), &baseline);
        assert_eq!(words(&[], "none"), "default ext4");
        assert_eq!(words(&[], "bfq"), "ext4 with the bfq scheduler");
        assert_eq!(words(&["fast_commit"], "none"), "ext4 with fast_commit");
        let all = words(&["fast_commit", "noatime"], "bfq");
        assert_eq!(all, "ext4 with fast_commit, noatime and the bfq scheduler");
    }

    #[test]
    fn what_is_said_of_other_setups_is_consistent() {
        let baseline = Setup {
            filesystem: "ext4".to_owned(),
            options: Vec::new(),
            scheduler: Scheduler::new("none"),
        };
        let riskier = Setup { options: vec!["nojournal".to_owned()], ..baseline.clone() };
        let found = |better_but_less_safe: Option<Setup>| Recommendation {
            winner: baseline.clone(),
            best_of_ties: baseline.clone(),
            baseline: baseline.clone(),
            baseline_is_allowed: true,
            verdict: recommend::GainVerdict::NothingBeatsUntuned,
            within: 1.0,
            subject: baseline.clone(),
            gain: None,
            gain_by_workload: Vec::new(),
            winner_gain: None,
            runner_up: None,
            gain_within: None,
            better_but_less_safe,
        };
        let text = |found: &Recommendation| headline(found, Criterion::Throughput);
        assert_eq!(text(&found(None)), "keep default ext4: no setup scored higher");
        let said = "keep default ext4: no setup that is as safe scored higher";
        assert_eq!(text(&found(Some(riskier.clone()))), said);

        // A runner-up whose interval contains 0 is tied, unless it is listed already.
        for (interval, is_tied) in [((-0.1, 0.2), true), ((0.01, 0.2), false)] {
            let gain = Estimate { middle: 0.1, interval: Some(interval), seen: None, count: 4 };
            let runner_up = Some((riskier.clone(), gain));
            let found = Recommendation { runner_up, ..found(None) };
            let tied = |listed: &[&Setup]| super::super::findings::tied_runner_up(&found, listed);
            assert_eq!(tied(&[]).is_some(), is_tied);
            assert_eq!(tied(&[&riskier]), None);
        }
    }
}
