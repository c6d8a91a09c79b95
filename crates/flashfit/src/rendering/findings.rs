//! What was found beside the verdict, as tables: setups that is tied with the best, what
//! options do, the front, what was measured how, and setups that are out.

use std::collections::BTreeMap;

use flashfit_bench::SteadyState;
use flashfit_filesystem::{Durability, Setup};
use flashfit_report::{
    Bar, BarChart, BetterDirection, Chart, ColumnKind, FigureGroup, FigureUnit, RangeMeaning,
    ReportFinding, SetupRole,
};
use flashfit_search::Answer;
use flashfit_tune::recommend::percent;
use flashfit_tune::{Conclusion, Percent, RecordedOutcome, TrialPurpose};

use super::RunView;

/// How many ties the terminal shows.
const BRIEF_TIES: usize = 5;
/// How many effects the terminal shows.
const BRIEF_EFFECTS: usize = 6;
/// How many setups of the front the terminal shows.
const BRIEF_FRONT: usize = 5;

/// All that there are rows for.
pub fn findings(view: &RunView<'_>) -> Vec<ReportFinding> {
    let conclusion = &view.conclusion;
    let mut all = vec![super::devices::finding(view)];
    if let Some(answer) = &conclusion.answer {
        let within = Percent(view.header.spec.limits.within_hundredths);
        all.push(ties(conclusion, answer, within));
        all.push(effects(conclusion, answer));
        all.push(interactions(conclusion, answer));
    }
    all.extend([front(conclusion), demands(conclusion), out(view)]);
    all.extend([measuring(view), super::processors::finding(view)]);
    all.into_iter().filter(|finding| !finding.rows.is_empty()).collect()
}

/// Setups that is tied with the winner.
fn ties(conclusion: &Conclusion, answer: &Answer, within: Percent) -> ReportFinding {
    let near = format!("within {within}");
    let mut finding = ReportFinding::new(
        "Setups that cannot be told from the best",
        "What all trials together say: the difference from the winner as the search believes it, \
         and the chance to be that near to the winner. Setups without a trial are judged by their \
         options alone.",
        [
            ("setup", ColumnKind::Name),
            ("difference", ColumnKind::Number),
            (&near, ColumnKind::Number),
            ("at a power cut", ColumnKind::Remark),
            ("note", ColumnKind::Remark),
        ],
        BRIEF_TIES,
    );
    for tie in &answer.ties {
        let setup = &conclusion.problem.setups[tie.candidate];
        let mut notes = Vec::new();
        if tie.candidate == answer.winner {
            notes.push("came first");
        }
        if conclusion.recommendation.as_ref().is_some_and(|found| found.recommended() == setup) {
            notes.push("recommended");
        }
        if !tie.measured {
            notes.push("no trial");
        }
        finding.rows.push(vec![
            setup.label(),
            change(tie.difference),
            flashfit_report::probability(tie.within),
            safety(conclusion.problem.space.candidates[tie.candidate].safety).to_owned(),
            notes.join(", "),
        ]);
    }
    finding
}

/// What each option does, the strongest first.
fn effects(conclusion: &Conclusion, answer: &Answer) -> ReportFinding {
    let mut finding = ReportFinding::new(
        "What each option did on this medium",
        "The change of the merit by one option, averaged over the others, with its 95 % interval, \
         as the search believes it by all trials. An interval that holds 0 tells nothing.",
        [
            ("option", ColumnKind::Name),
            ("change", ColumnKind::Number),
            ("95 % interval", ColumnKind::Number),
            ("note", ColumnKind::Remark),
        ],
        BRIEF_EFFECTS,
    );
    for effect in sorted_effects(answer) {
        let (low, high) = effect.interval;
        let note = if low <= 0.0 && high >= 0.0 { "cannot tell" } else { "" };
        finding.rows.push(vec![
            level_name(conclusion, effect.factor, effect.level),
            change(effect.mean),
            format!("{} to {}", change(low), change(high)),
            note.to_owned(),
        ]);
    }
    finding
}

fn sorted_effects(answer: &Answer) -> Vec<flashfit_search::Effect> {
    let mut effects = answer.effects.clone();
    effects.sort_by(|a, b| b.mean.abs().total_cmp(&a.mean.abs()));
    effects
}

/// The effects as a figure; `None` without any.
pub fn effects_figure(conclusion: &Conclusion) -> Option<FigureGroup> {
    let answer = conclusion.answer.as_ref()?;
    let trials = u32::try_from(conclusion.history.len()).unwrap_or(u32::MAX);
    let bars: Vec<Bar> = sorted_effects(answer)
        .iter()
        .map(|effect| Bar {
            name: level_name(conclusion, effect.factor, effect.level),
            role: SetupRole::Candidate,
            value: percent(effect.mean),
            low: percent(effect.interval.0),
            high: percent(effect.interval.1),
            n: trials,
        })
        .collect();
    (!bars.is_empty()).then(|| FigureGroup {
        title: "What each option did".to_owned(),
        explanation: "The change of the merit by one option, averaged over the others, with its \
                      95 % interval, as the search believes it by all n trials."
            .to_owned(),
        charts: vec![Chart::Bars(BarChart {
            title: "Change of the merit".to_owned(),
            value_label: "change".to_owned(),
            unit: FigureUnit::PercentChange,
            direction: BetterDirection::HigherIsBetter,
            spread: RangeMeaning::Interval(95),
            bars,
        })],
    })
}

/// Options that do together what neither does alone.
fn interactions(conclusion: &Conclusion, answer: &Answer) -> ReportFinding {
    let mut finding = ReportFinding::new(
        "Options that depend on each other",
        "What two choices do together beyond what each does, where that is sure: the 95 % interval \
         does not hold 0.",
        [
            ("choices", ColumnKind::Name),
            ("change", ColumnKind::Number),
            ("95 % interval", ColumnKind::Number),
        ],
        3,
    );
    for found in &answer.interactions {
        let names = [(found.factors.0, found.levels.0), (found.factors.1, found.levels.1)]
            .map(|(factor, level)| level_name(conclusion, factor, level));
        finding.rows.push(vec![
            names.join(" with "),
            change(found.mean),
            format!("{} to {}", change(found.interval.0), change(found.interval.1)),
        ]);
    }
    finding
}

/// A level of a factor in words: `ext4 noatime`, `scheduler bfq`, `without ext4 noatime`.
fn level_name(conclusion: &Conclusion, factor: usize, level: u16) -> String {
    let factor = &conclusion.problem.space.factors[factor];
    let level = factor.levels.get(usize::from(level)).map_or("?", String::as_str);
    let name = factor.name.replacen('/', " ", 1);
    match (factor.role, level) {
        (flashfit_search::FactorRole::Choice, "on") => name,
        (flashfit_search::FactorRole::Choice, _) => format!("without {name}"),
        _ => format!("{name} {level}"),
    }
}

/// Setups that no other beats in everything.
fn front(conclusion: &Conclusion) -> ReportFinding {
    let mut finding = ReportFinding::new(
        "The front of throughput, latency, wear and safety",
        "No other measured setup is at least as good in everything and better in something, where \
         less than 2 % is no difference. Figures of whole trials beside the untuned setup, more \
         being better: throughput; the reciprocal of the time that 99 of 100 operations take; \
         what was written by what that cost the medium.",
        [
            ("setup", ColumnKind::Name),
            ("throughput", ColumnKind::Number),
            ("latency", ColumnKind::Number),
            ("wear", ColumnKind::Number),
            ("trials", ColumnKind::Number),
            ("at a power cut", ColumnKind::Remark),
        ],
        BRIEF_FRONT,
    );
    for profile in conclusion.profiles.iter().filter(|profile| profile.on_front) {
        let shown = |figure: Option<f64>| figure.map_or_else(|| "–".to_owned(), change);
        finding.rows.push(vec![
            profile.setup.label(),
            change(profile.throughput),
            shown(profile.latency),
            shown(profile.wear),
            profile.trials.to_string(),
            safety(profile.safety).to_owned(),
        ]);
    }
    finding
}

/// Setups that break the demand.
fn demands(conclusion: &Conclusion) -> ReportFinding {
    let mut finding = ReportFinding::new(
        "Slower than was demanded",
        "99 of 100 writes take longer than they may under some workload, beyond the noise.",
        [("setup", ColumnKind::Name), ("beyond the demand", ColumnKind::Number)],
        3,
    );
    for (candidate, excess) in &conclusion.broken {
        let label = conclusion.problem.setups[*candidate].label();
        finding.rows.push(vec![label, change(*excess)]);
    }
    finding
}

/// A logarithm of a ratio as a change in percent.
fn change(log: f64) -> String {
    FigureUnit::PercentChange.show(percent(log))
}

/// A place on the scale of safety by its name.
pub(super) fn safety(place: u8) -> &'static str {
    let scale = [
        Durability::Safe,
        Durability::LosesRecent,
        Durability::BreaksPromise,
        Durability::MayCorrupt,
    ];
    scale.get(usize::from(place)).map_or("not known", |step| step.name())
}

/// Setups that failed: they are out of the race.
fn out(view: &RunView<'_>) -> ReportFinding {
    let mut finding = ReportFinding::new(
        "Out of the race",
        "A trial of these setups failed; no more were made of them.",
        [
            ("setup", ColumnKind::Name),
            ("workload", ColumnKind::Name),
            ("what it said", ColumnKind::Remark),
        ],
        0,
    );
    for trial in view.trials {
        if let RecordedOutcome::Failed { message } = &trial.outcome {
            finding.rows.push(vec![
                trial.key.setup.label(),
                trial.key.workload.clone(),
                message.clone(),
            ]);
        }
    }
    finding
}

/// What is known of the measuring, workload by workload.
fn measuring(view: &RunView<'_>) -> ReportFinding {
    let mut finding = ReportFinding::new(
        "Noise and steadiness",
        "The spread of whole trials of one setup under one workload (standard deviation), and how \
         many of the stages that were long enough were in a steady state, by fio's criterion \
         (bandwidth within 10 % of its mean) and by the SNIA's (range 20 %, slope 10 % over five \
         seconds).",
        [
            ("workload", ColumnKind::Name),
            ("whole trials", ColumnKind::Number),
            ("short trials", ColumnKind::Number),
            ("spread", ColumnKind::Number),
            ("steady (fio)", ColumnKind::Number),
            ("steady (SNIA)", ColumnKind::Number),
        ],
        0,
    );
    for workload in view.results.workloads() {
        let of_it: Vec<_> =
            view.trials.iter().filter(|trial| trial.key.workload == *workload).collect();
        let whole = of_it.iter().filter(|trial| trial.key.length.is_full()).count();
        let stages = of_it
            .iter()
            .filter_map(|trial| trial.points())
            .flatten()
            .flat_map(|point| &point.stages)
            .filter_map(|stage| stage.steady);
        let steady: Vec<SteadyState> = stages.collect();
        let told: Vec<bool> = steady.iter().filter_map(|steady| steady.snia).collect();
        let share = |yes: usize, of: usize| match of {
            0 => String::new(),
            _ => format!("{yes} of {of}"),
        };
        finding.rows.push(vec![
            workload.clone(),
            whole.to_string(),
            (of_it.len() - whole).to_string(),
            spread(view, workload).map_or_else(String::new, |sd| format!("{:.1} %", 100.0 * sd)),
            share(steady.iter().filter(|steady| steady.fio).count(), steady.len()),
            share(told.iter().filter(|yes| **yes).count(), told.len()),
        ]);
    }
    finding
}

/// The standard deviation of the logarithms of repeats, pooled over setups.
fn spread(view: &RunView<'_>, workload: &str) -> Option<f64> {
    let judge = view.header.spec.judge();
    let mut by_setup: BTreeMap<(&Setup, bool), Vec<f64>> = BTreeMap::new();
    for trial in &view.levelled {
        let key = &trial.key;
        if key.workload != workload || !key.length.is_full() {
            continue;
        }
        if let Ok(flashfit_search::TrialOutcome::Measured { log_merit, .. }) = judge.outcome(trial)
        {
            let confirms = key.purpose == TrialPurpose::Confirm;
            by_setup.entry((&key.setup, confirms)).or_default().push(log_merit);
        }
    }
    let mut squares = 0.0;
    let mut freedom = 0usize;
    for logs in by_setup.values().filter(|logs| logs.len() > 1) {
        let mean = flashfit_tune::stats::mean(logs);
        squares += logs.iter().map(|log| (log - mean).powi(2)).sum::<f64>();
        freedom += logs.len() - 1;
    }
    let variance = squares / freedom as f64;
    (freedom > 0).then(|| variance.sqrt())
}
