//! The verdict in one sentence.

use flashfit_filesystem::Setup;
use flashfit_report::quantity::{whole, whole_change};
use flashfit_search::MIN_ROUNDS;
use flashfit_tune::recommend::{self, percent};
use flashfit_tune::stats::Estimate;
use flashfit_tune::{Criterion, Recommendation};

use super::verdict::as_gain;

/// With more workloads, the headline names only the largest gain and the losses.
const MOST_WORKLOADS: usize = 3;

pub fn headline(found: &Recommendation, by: Criterion) -> String {
    let baseline_setup = &found.baseline;
    let winner = in_words(&found.winner, baseline_setup);
    let recommended = in_words(found.recommended(), baseline_setup);
    let baseline = in_words(baseline_setup, baseline_setup);
    let is_better =
        matches!(found.verdict, recommend::GainVerdict::Better | recommend::GainVerdict::Likely);
    if !found.baseline_is_listed && !is_better {
        return format!(
            "use {recommended}: {baseline} is not among the setups to choose from (no measured {})",
            gain(by)
        );
    }
    if !found.baseline_is_allowed && !is_better {
        let does_not = if found.baseline_violates { "does not" } else { "is not known to" };
        return format!(
            "use {recommended}: it meets the constraints, and {baseline} {does_not} (no measured {})",
            gain(by)
        );
    }
    let is_unconfirmed = found.verdict == recommend::GainVerdict::NotConfirmed;
    let undecided = found.better_but_undecided.as_ref().filter(|_| found.winner == found.baseline);
    if let Some(best) = undecided.filter(|_| is_unconfirmed) {
        let best = in_words(best, baseline_setup);
        return format!(
            "keep {baseline} for now: {best} was best in the search, but is not known to meet the \
             constraints"
        );
    }
    match found.verdict {
        recommend::GainVerdict::Better if found.winner == found.subject => {
            better_than(&winner, &baseline, found, by)
        }
        recommend::GainVerdict::Better => format!(
            "{}; the best in the search, {winner}, is tied with it",
            better_than(&in_words(&found.subject, baseline_setup), &baseline, found, by)
        ),
        recommend::GainVerdict::Likely => likely(&recommended, &baseline, found, by),
        recommend::GainVerdict::BaselineTied => format!(
            "keep {baseline}: it is tied with the best, {winner}, and is safer, causes less wear or \
             is closer to the defaults"
        ),
        recommend::GainVerdict::CannotTell => format!(
            "keep {baseline}: {winner} was best in the search, but fresh trials do not show a gain"
        ),
        recommend::GainVerdict::Worse => {
            format!("keep {baseline}: {winner} was best in the search, but worse in fresh trials")
        }
        recommend::GainVerdict::NothingBeatsUntuned => {
            let safe = if found.better_but_less_safe.is_some() { " that is as safe" } else { "" };
            format!("keep {baseline}: no setup{safe} is expected to be better")
        }
        recommend::GainVerdict::NotConfirmed
            if found.winner == found.baseline || !found.is_compared =>
        {
            format!(
                "keep {baseline} for now: too little was measured to tell whether another setup is \
                 better"
            )
        }
        recommend::GainVerdict::NotConfirmed => format!(
            "keep {baseline} for now: {winner} was best in the search, but is not confirmed by \
             fresh trials yet"
        ),
    }
}

/// A setup as part of a sentence: `ext4 with fast_commit and noatime`, `default ext4`. The
/// scheduler is named if it is not that of the baseline.
pub fn in_words(setup: &Setup, baseline: &Setup) -> String {
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
    let better = better(by);
    let overall = if found.gain_by_workload.is_empty() { "" } else { " overall" };
    let gain = found.gain.as_ref().and_then(as_gain);
    if let Some(times) = gain.and_then(|gain| gain.no_figure()) {
        // That the gain is shown does not mean that its size is.
        let by_workload = by_workload(found);
        return format!("{setup} is {better}{overall} than {baseline} ({times}){by_workload}");
    }
    match gain {
        Some(gain) => format!(
            "{setup} is {} % {better}{overall} than {baseline} ({} % interval {}){}",
            whole(gain.percent_mid),
            gain.confidence_percent,
            gain.intervals(),
            by_workload(found)
        ),
        None => format!("{setup} is {better} than {baseline}"),
    }
}

pub fn better(by: Criterion) -> &'static str {
    match by {
        Criterion::Throughput => "faster",
        Criterion::Latency => "better in worst latency",
        Criterion::Wear => "better in wear",
    }
}

/// What is not measured where nothing is better.
fn gain(by: Criterion) -> &'static str {
    match by {
        Criterion::Throughput => "speed-up",
        Criterion::Latency | Criterion::Wear => "gain",
    }
}

pub fn worse(by: Criterion) -> &'static str {
    match by {
        Criterion::Throughput => "slower",
        Criterion::Latency => "worse in worst latency",
        Criterion::Wear => "worse in wear",
    }
}

/// `use ext4 with fast_commit: it is likely faster than default ext4, by about 14 % according to
/// all trials, although fresh trials do not show it yet: random-write +20 % (cannot tell)`.
fn likely(setup: &str, baseline: &str, found: &Recommendation, by: Criterion) -> String {
    let about = found.likely.map_or(String::new(), |likely| {
        format!(", by about {} % according to all trials", whole(percent(likely.mean)))
    });
    format!(
        "use {setup}: it is likely {} than {baseline}{about}, although fresh trials do not show it \
         yet{}",
        better(by),
        by_workload(found)
    )
}

/// The gain of each workload, or with many workloads the largest gain and every loss:
/// `: random-write +60 %, sync-files -13 %`. A change of too few rounds, or whose interval includes
/// 0, is marked.
fn by_workload(found: &Recommendation) -> String {
    let mut gains: Vec<&(String, Estimate)> = found.gain_by_workload.iter().collect();
    gains.sort_by(|a, b| b.1.middle.total_cmp(&a.1.middle));
    let all = gains.len() <= MOST_WORKLOADS;
    let shown: Vec<String> = gains
        .iter()
        .enumerate()
        .filter(|(at, (_, gain))| all || *at == 0 || gain.middle < 0.0)
        .map(|(_, (workload, gain))| {
            let is_known = gain.excludes_zero() && gain.count >= MIN_ROUNDS;
            let doubt = if is_known { "" } else { " (cannot tell)" };
            format!("{workload} {} %{doubt}", whole_change(percent(gain.middle)))
        })
        .collect();
    if shown.is_empty() { String::new() } else { format!(": {}", shown.join(", ")) }
}

#[cfg(test)]
mod tests {
    use flashfit_filesystem::Scheduler;
    use flashfit_search::LikelyGain;

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
            baseline_is_listed: true,
            is_compared: true,
            baseline_is_allowed: true,
            baseline_violates: false,
            verdict: recommend::GainVerdict::NothingBeatsUntuned,
            within: 1.0,
            left_to_gain: None,
            likely: None,
            subject: baseline.clone(),
            gain: None,
            gain_by_workload: Vec::new(),
            winner_gain: None,
            runner_up: None,
            gain_within: None,
            better_but_less_safe,
            better_but_undecided: None,
        };
        let text = |found: &Recommendation| headline(found, Criterion::Throughput);
        assert_eq!(text(&found(None)), "keep default ext4: no setup is expected to be better");
        let said = "keep default ext4: no setup that is as safe is expected to be better";
        assert_eq!(text(&found(Some(riskier.clone()))), said);

        // Nor is it said if a setup that was better may meet the constraints.
        let undecided = found(None).with_better_but_undecided(&riskier);
        let said = "keep default ext4 for now: ext4 with nojournal was best in the search, but is not \
            known to meet the constraints";
        assert_eq!(text(&undecided), said);

        let likely = Recommendation {
            best_of_ties: Setup { options: vec!["fast_commit".to_owned()], ..baseline.clone() },
            verdict: recommend::GainVerdict::Likely,
            likely: Some(LikelyGain { mean: 0.131, probability: 0.995 }),
            ..found(None)
        };
        let said = "use ext4 with fast_commit: it is likely faster than default ext4, by about 14 % \
            according to all trials, although fresh trials do not show it yet";
        assert_eq!(text(&likely), said);

        // A constraint may be undecided.
        for (baseline_violates, verb) in [(true, "does not"), (false, "is not known to")] {
            let best_of_ties = likely.best_of_ties.clone();
            let baseline_is_allowed = false;
            let only = Recommendation {
                best_of_ties,
                baseline_is_allowed,
                baseline_violates,
                ..found(None)
            };
            let said = format!(
                "use ext4 with fast_commit: it meets the constraints, and default ext4 {verb} (no \
                 measured speed-up)"
            );
            assert_eq!(text(&only), said);
        }

        let unlisted = Recommendation {
            best_of_ties: likely.best_of_ties.clone(),
            baseline_is_listed: false,
            baseline_is_allowed: false,
            ..found(None)
        };
        let said = "use ext4 with fast_commit: default ext4 is not among the setups to choose from \
            (no measured speed-up)";
        assert_eq!(text(&unlisted), said);
        // What is ranked by wear is not about speed.
        assert!(headline(&unlisted, Criterion::Wear).ends_with("(no measured gain)"));
        let said = text(&Recommendation { baseline_is_allowed: false, ..likely.clone() });
        assert!(said.starts_with("use ext4 with fast_commit: it is likely faster than"), "{said}");

        // The size of a gain that is shown can be unknown.
        let shown = |low: f64, high: f64| {
            let interval = Some((low.ln(), high.ln()));
            let gain = Estimate { middle: 1.5_f64.ln(), interval, seen: None, count: 8 };
            let verdict = recommend::GainVerdict::Better;
            text(&Recommendation { verdict, gain: Some(gain), ..likely.clone() })
        };
        let said = "default ext4 is 50 % faster than default ext4 (95 % interval 20 to 80 %)";
        assert_eq!(shown(1.2, 1.8), said);
        let said = "default ext4 is faster than default ext4 (1.1 to 10 times)";
        assert_eq!(shown(1.1, 10.0), said);

        // The best in the search is estimated, and not by speed if that is not what counts.
        let interval = Some((0.1, 0.2));
        let gain = Some(Estimate { middle: 0.15, interval, seen: None, count: 8 });
        let (winner, verdict) = (riskier.clone(), recommend::GainVerdict::Better);
        let said =
            headline(&Recommendation { winner, verdict, gain, ..likely.clone() }, Criterion::Wear);
        let end = "; the best in the search, ext4 with nojournal, is tied with it";
        assert!(said.ends_with(end) && !said.contains("fast"), "{said}");

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
