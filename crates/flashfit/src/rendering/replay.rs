//! The result of a search on recorded runs, as text and as JSON.

use flashfit_filesystem::Setup;
use flashfit_host::path_text;
use flashfit_report::FigureUnit;
use flashfit_report::terminal::SIMULATED_BANNER;
use flashfit_report::text::{count_of, wrap};
use flashfit_search::{CandidateIndex, SearchEnd, TrialLength};
use flashfit_tune::budget::BudgetReached;
use flashfit_tune::recommend::percent;
use flashfit_tune::replay::{Recording, Replayed, UnrankedReason};
use flashfit_tune::{Conclusion, Criterion, DriverRules, RunEnd};
use schemars::JsonSchema;
use serde::Serialize;

use super::answer::{AnswerParts, Change, hundredths, rounded};
use super::{headline, life, verdict};

/// A replay and its context.
pub struct ReplayView<'a> {
    pub recording: &'a Recording,
    pub replayed: &'a Replayed,
    pub conclusion: &'a Conclusion,
    pub rules: &'a DriverRules,
    pub by: Criterion,
    /// The constraint on the 99th percentile of write latencies.
    pub limit_ns: Option<u64>,
}

#[derive(JsonSchema, Serialize)]
pub struct ReplayDocument {
    runs: Vec<String>,
    simulated: bool,
    strategy: flashfit_tune::StrategyKind,
    seed: u64,
    by: Criterion,
    /// Recorded setups that can be chosen (those with every workload), and all recorded setups.
    setups: usize,
    setups_recorded: usize,
    workloads: Vec<String>,
    stop: StopPart,
    trials: Trials,
    /// The best setup of the search.
    choice: Option<RecordedSetup>,
    /// The baseline, unless a gain was shown or is likely.
    recommended: Option<RecordedSetup>,
    /// The best setup of the whole record.
    best: Option<RecordedSetup>,
    #[serde(rename = "untuned")]
    baseline: RecordedSetup,
    verdict: Option<&'static str>,
    /// The gain in the confirming trials that the search drew.
    gain: Option<Change>,
    #[serde(flatten)]
    answer: AnswerParts,
    /// Setups that lack a full-length trial under some workload.
    incomplete: Vec<Setup>,
    /// Setups of which a trial failed.
    failed: Vec<Setup>,
}

#[derive(JsonSchema, Serialize)]
struct StopPart {
    reason: &'static str,
    probability: Option<f64>,
}

#[derive(JsonSchema, Serialize)]
struct Trials {
    made: usize,
    full: usize,
    short: usize,
    /// Short ones counted by what they cost, in thousandths.
    full_length_thousandths: i64,
    /// Draws that repeated a recorded trial.
    drawn_again: u64,
}

/// A setup and its rank in the whole record.
#[derive(JsonSchema, Serialize)]
struct RecordedSetup {
    setup: Setup,
    label: String,
    /// From 1, among the setups that can be chosen.
    rank: Option<usize>,
    /// How far below the best, in hundredths of a percent.
    regret_percent_hundredths: Option<i64>,
    /// Over the baseline, in hundredths of a percent.
    recorded_gain_percent_hundredths: Option<i64>,
}

pub fn document(shown: &ReplayView<'_>) -> ReplayDocument {
    let ReplayView { recording, replayed, conclusion, rules, by, .. } = shown;
    let setups = |indices: &[CandidateIndex]| {
        indices.iter().map(|&index| replayed.problem.setups[index].clone()).collect()
    };
    let found = conclusion.recommendation.as_ref();
    let index = |setup: &Setup| replayed.problem.candidate(setup);
    ReplayDocument {
        runs: recording.paths.iter().map(|path| path_text::to_text(path)).collect(),
        simulated: recording.simulated,
        strategy: rules.strategy,
        seed: rules.seed,
        by: *by,
        setups: replayed.recorded.iter().flatten().count(),
        setups_recorded: recording.setups().len(),
        workloads: replayed.problem.workloads.clone(),
        stop: stop(replayed),
        trials: trials(replayed),
        choice: found.and_then(|found| index(&found.winner)).map(|at| recorded_setup(replayed, at)),
        recommended: found
            .and_then(|found| index(found.recommended()))
            .map(|at| recorded_setup(replayed, at)),
        best: replayed.best().map(|at| recorded_setup(replayed, at)),
        baseline: recorded_setup(replayed, replayed.problem.space.baseline),
        verdict: found.map(|found| verdict::outcome(found.verdict).label()),
        gain: found.and_then(|found| found.gain.as_ref()).map(Change::from),
        answer: AnswerParts::of(conclusion),
        incomplete: setups(&replayed.incomplete),
        failed: setups(&replayed.failed),
    }
}

fn stop(replayed: &Replayed) -> StopPart {
    let (reason, probability) = match replayed.ended {
        // The search took repeats for new trials.
        RunEnd::Search(SearchEnd::Confident { probability }) => {
            ("sure-enough", Some(probability).filter(|_| replayed.drawn_again == 0))
        }
        RunEnd::Search(SearchEnd::Budget) => ("budget", None),
        RunEnd::Search(SearchEnd::Exhausted) => ("exhausted", None),
        RunEnd::Search(SearchEnd::AllFailed { .. }) => ("all-failed", None),
        RunEnd::Limit(BudgetReached::Budget) => ("time", None),
        RunEnd::Limit(BudgetReached::MaxWrite) => ("max-write", None),
    };
    StopPart { reason, probability }
}

fn trials(replayed: &Replayed) -> Trials {
    let made = replayed.history.iter().filter(|observation| is_made(observation)).count();
    let short = replayed
        .history
        .iter()
        .filter(|observation| {
            is_made(observation) && observation.proposal.length == TrialLength::Short
        })
        .count();
    let full = made - short;
    Trials {
        made,
        full,
        short,
        full_length_thousandths: rounded(replayed.full_length_trials() * 1000.0),
        drawn_again: replayed.drawn_again,
    }
}

fn is_made(observation: &flashfit_search::Observation) -> bool {
    observation.outcome != flashfit_search::TrialOutcome::Missing
}

fn recorded_setup(replayed: &Replayed, candidate: CandidateIndex) -> RecordedSetup {
    let setup = replayed.problem.setups[candidate].clone();
    RecordedSetup {
        label: setup.label(),
        setup,
        rank: replayed.rank(candidate).map(|(rank, _)| rank),
        regret_percent_hundredths: replayed
            .regret(candidate)
            .map(|log| rounded(below(log) * 100.0)),
        recorded_gain_percent_hundredths: replayed.gain(candidate).map(hundredths),
    }
}

/// How far below something is, in percent, by the logarithm of the ratio.
fn below(log: f64) -> f64 {
    // Adding 0 makes a 0 of -0.
    (-percent(-log)).max(0.0) + 0.0
}

pub fn text(shown: &ReplayView<'_>, width: usize) -> String {
    let ReplayView { recording, replayed, conclusion, rules, by, limit_ns } = shown;
    let mut lines = Vec::new();
    if recording.simulated {
        lines.push(SIMULATED_BANNER.to_owned());
        lines.push(String::new());
    }
    let counted = trials(replayed);
    lines.push(format!(
        "Replayed {}: {} of {} recorded setups can be chosen, in {}, by {by}.",
        recording.paths.iter().map(|p| p.display().to_string()).collect::<Vec<_>>().join(", "),
        replayed.recorded.iter().flatten().count(),
        recording.setups().len(),
        replayed.problem.workloads.join(", "),
    ));
    lines.push(format!(
        "{}, seed {}: {} ({} short; equal to {:.1} full-length trials), {}.",
        verdict::strategy_name(rules.strategy),
        rules.seed,
        count_of(counted.made, "trial"),
        counted.short,
        replayed.full_length_trials(),
        ended(replayed),
    ));
    lines.push(String::new());
    let Some(found) = &conclusion.recommendation else {
        let reason = verdict::no_result(conclusion, *limit_ns);
        lines.push(reason.map_or_else(
            || "No setup that can be chosen was measured.".to_owned(),
            |text| format!("No result: {text}."),
        ));
        return wrapped(&lines, width);
    };
    lines.push(format!(
        "{}: {}",
        verdict::outcome(found.verdict).label(),
        headline::headline(found, *by)
    ));
    if let Some(gain) = found.gain.as_ref().and_then(verdict::as_gain) {
        lines.push(format!("Gain over the baseline: {}", gain.describe()));
    }
    lines.extend(life::sentence(conclusion, found.recommended()));
    lines.push(String::new());
    lines.push("In the whole record:".to_owned());
    let chosen = replayed.problem.candidate(&found.winner);
    let named = [
        ("chosen", chosen),
        ("recommended", replayed.problem.candidate(found.recommended())),
        ("best", replayed.best()),
        ("baseline", Some(replayed.problem.space.baseline)),
    ];
    for (name, candidate) in named {
        lines.extend(candidate.map(|candidate| recorded_line(shown, name, candidate)));
    }
    if counted.drawn_again > 0 {
        lines.push(String::new());
        lines.push(format!(
            "{} repeated a recorded trial, because the record has no others. Repeats are no \
             evidence of a gain; the search took them for new trials.",
            count_of(usize::try_from(counted.drawn_again).unwrap_or(usize::MAX), "draw")
        ));
    }
    let is_short = |index: &usize| replayed.only_short.contains(index);
    let lacking = replayed.incomplete.iter().copied().filter(|index| !is_short(index)).collect();
    for (one, several, setups) in [
        ("lacks a workload", "lack a workload", &lacking),
        (
            "has only short trials under a workload",
            "have only short trials under a workload",
            &replayed.only_short,
        ),
        ("has a trial that failed", "have a trial that failed", &replayed.failed),
    ] {
        if !setups.is_empty() {
            let labels: Vec<String> = setups
                .iter()
                .take(5)
                .map(|&index| replayed.problem.setups[index].label())
                .collect();
            let more = if setups.len() > 5 { ", ..." } else { "" };
            lines.push(String::new());
            let excluded = match setups.len() {
                1 => format!("1 setup {one} and is excluded"),
                count => format!("{count} setups {several} and are excluded"),
            };
            lines.push(format!("{excluded}: {}{more}", labels.join(", ")));
        }
    }
    wrapped(&lines, width)
}

fn ended(replayed: &Replayed) -> String {
    let sure = matches!(replayed.ended, RunEnd::Search(SearchEnd::Confident { .. }));
    if sure && replayed.drawn_again > 0 {
        return "ended when its choice was close enough to the best, if repeats were new trials"
            .to_owned();
    }
    let prior = replayed.problem.prior.as_ref();
    verdict::ended(replayed.ended, prior.map(|prior| super::prior::assumption(prior.is_twin())))
}

fn recorded_line(shown: &ReplayView<'_>, name: &str, candidate: CandidateIndex) -> String {
    let replayed = shown.replayed;
    let label = replayed.problem.setups[candidate].label();
    let ranks = replayed.rank(candidate).zip(replayed.regret(candidate));
    let Some(((rank, of), regret)) = ranks else {
        return format!("  {name}: {label}: not ranked: it {}", unranked(shown, candidate));
    };
    let gain = match replayed.gain(candidate) {
        Some(gain) => format!("{:+.1} % over the baseline", percent(gain)),
        None => format!(
            "gain not known: the baseline {}",
            unranked(shown, replayed.problem.space.baseline)
        ),
    };
    format!("  {name}: {label}: rank {rank} of {of}, {:.1} % below the best, {gain}", below(regret))
}

/// Why a setup has no rank, as the rest of a sentence.
fn unranked(shown: &ReplayView<'_>, candidate: CandidateIndex) -> String {
    match shown.replayed.recorded[candidate] {
        Ok(_) | Err(UnrankedReason::LacksWorkload) => {
            "lacks a full-length trial under a workload".to_owned()
        }
        Err(UnrankedReason::NotAllowed) => "is not among the setups to choose from".to_owned(),
        Err(UnrankedReason::Failed) => "has a trial that failed".to_owned(),
        Err(UnrankedReason::SlowWrites) => {
            let limit = FigureUnit::Nanoseconds.show(shown.limit_ns.unwrap_or_default() as f64);
            format!("exceeds {limit} (median of its 99th percentiles of write latencies)")
        }
        Err(UnrankedReason::ShortLived) => {
            let lives = shown.conclusion.lives.as_ref();
            let least = lives.and_then(|lives| lives.min_years()).unwrap_or_default();
            format!("probably lasts less than {least} years")
        }
    }
}

fn wrapped(lines: &[String], width: usize) -> String {
    let mut text = String::new();
    for line in lines {
        let indent = if line.starts_with("  ") { 4 } else { 0 };
        for (index, part) in
            wrap(line.trim_start(), width.saturating_sub(indent)).iter().enumerate()
        {
            let before = match (indent, index) {
                (0, _) => String::new(),
                (_, 0) => "  ".to_owned(),
                (indent, _) => " ".repeat(indent),
            };
            text.push_str(&format!("{before}{part}\n"));
        }
        if line.is_empty() {
            text.push('\n');
        }
    }
    text
}
