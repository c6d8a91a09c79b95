//! Findings in addition to the verdict, as tables: ties, effects of options, Pareto front, and
//! excluded setups.

use flashfit_filesystem::{Durability, Setup};
use flashfit_report::{
    Bar, BarChart, BetterDirection, Chart, ColumnKind, FigureGroup, FigureUnit, RangeMeaning,
    ReportFinding, SetupRole,
};
use flashfit_search::{Answer, CandidateIndex, Observation};
use flashfit_tune::recommend::percent;
use flashfit_tune::stats::Estimate;
use flashfit_tune::{Conclusion, Criterion, Percent, Recommendation};

use super::RunView;
use super::rankings::WEAR_FIGURE;

/// Rows that the terminal shows.
const TERMINAL_TIES: usize = 5;
const TERMINAL_EFFECTS: usize = 6;
const TERMINAL_FRONT: usize = 5;

/// All findings that have rows.
pub fn findings(view: &RunView<'_>) -> Vec<ReportFinding> {
    let conclusion = &view.conclusion;
    let mut all = vec![super::devices::finding(view)];
    if let Some(answer) = &conclusion.answer {
        let within = Percent(view.header.spec.limits.within_hundredths);
        all.push(ties(conclusion, answer, within));
        let left = conclusion.recommendation.as_ref().and_then(|found| found.left_to_gain);
        if left.as_ref().is_none_or(super::more_time::is_figure) {
            all.push(effects(conclusion, answer, view.header.spec.by));
            all.push(interactions(conclusion, answer));
        }
    }
    all.push(super::starts::finding(view));
    all.push(super::life::finding(conclusion));
    all.extend([super::noise::two_modes(conclusion), pareto_front(conclusion)]);
    let limit_ns = view.header.spec.p99_write_max_ns;
    all.push(super::constraint::violations(conclusion, limit_ns));
    all.push(super::excluded::finding(view));
    all.extend([super::noise::finding(view), super::processors::finding(view)]);
    all.into_iter().filter(|finding| !finding.rows.is_empty()).collect()
}

/// Setups that may be better than the winner.
fn ties(conclusion: &Conclusion, answer: &Answer, within: Percent) -> ReportFinding {
    let near = format!("within {within}");
    let mut finding = ReportFinding::new(
        "May be as good as the best",
        &format!(
            "Setups that are better than the winner with a probability of at least 10 %; the \
             difference from it as estimated from all trials, and the probability that a setup is \
             that close to the best. Only measured setups are listed{}.",
            match answer.untried_ties {
                0 => String::new(),
                count =>
                    format!("; {count} without a trial may be as good according to their options"),
            }
        ),
        [
            ("setup", ColumnKind::Name),
            ("difference", ColumnKind::Number),
            (&near, ColumnKind::Number),
            ("trials", ColumnKind::Number),
            ("at a power cut", ColumnKind::Remark),
            ("note", ColumnKind::Remark),
        ],
        TERMINAL_TIES,
    );
    if conclusion.recommendation.as_ref().is_some_and(|found| !found.is_compared) {
        return finding;
    }
    for tie in &answer.ties {
        let setup = &conclusion.problem.setups[tie.candidate];
        let mut notes = Vec::new();
        if tie.candidate == answer.winner {
            notes.push("best");
        }
        if conclusion.recommendation.as_ref().is_some_and(|found| found.recommended() == setup) {
            notes.push("recommended");
        }
        finding.rows.push(vec![
            setup.label(),
            change(tie.difference),
            flashfit_report::probability(tie.within),
            tie.trials.to_string(),
            safety(conclusion.problem.space.candidates[tie.candidate].safety).to_owned(),
            notes.join(", "),
        ]);
    }
    let listed: Vec<&Setup> =
        answer.ties.iter().map(|tie| &conclusion.problem.setups[tie.candidate]).collect();
    if let Some((setup, gain)) =
        conclusion.recommendation.as_ref().and_then(|found| tied_runner_up(found, &listed))
    {
        let candidate = conclusion.problem.candidate(setup);
        let safety_of = |index: usize| safety(conclusion.problem.space.candidates[index].safety);
        finding.rows.push(vec![
            setup.label(),
            change(-gain.middle),
            "–".to_owned(),
            candidate.map_or(0, |of| measured_trials(conclusion, of)).to_string(),
            candidate.map_or("", safety_of).to_owned(),
            format!("runner-up; not shown to be slower in {} fresh rounds", gain.count),
        ]);
    }
    finding
}

fn measured_trials(conclusion: &Conclusion, candidate: CandidateIndex) -> usize {
    let of_it =
        |trial: &&Observation| trial.proposal.candidate == candidate && trial.log_merit().is_some();
    conclusion.history.iter().filter(of_it).count()
}

/// The runner-up if fresh trials do not distinguish it from the winner, and it is not listed.
pub(super) fn tied_runner_up<'a>(
    found: &'a Recommendation,
    listed: &[&Setup],
) -> Option<(&'a Setup, &'a Estimate)> {
    let (setup, gain) = found.runner_up.as_ref()?;
    (!gain.is_above(0.0) && !listed.contains(&setup)).then_some((setup, gain))
}

/// The effect of each option, the strongest first.
fn effects(conclusion: &Conclusion, answer: &Answer, by: Criterion) -> ReportFinding {
    let mut finding = ReportFinding::new(
        "Effect of each option on this device",
        &format!(
            "{} If the interval contains 0, the effect is not shown. Options with fewer than \
             three trials, or without one under a workload, are not listed.",
            effect_note(by)
        ),
        [
            ("option", ColumnKind::Name),
            ("change", ColumnKind::Number),
            ("95 % interval", ColumnKind::Number),
            ("trials", ColumnKind::Number),
            ("note", ColumnKind::Remark),
        ],
        TERMINAL_EFFECTS,
    );
    // The report draws the same numbers.
    finding.is_drawn = true;
    for effect in sorted_effects(answer) {
        let (low, high) = effect.interval;
        let note = if low <= 0.0 && high >= 0.0 { "cannot tell" } else { "" };
        finding.rows.push(vec![
            level_name(conclusion, effect.factor, effect.level),
            change(effect.mean),
            format!("{} to {}", change(low), change(high)),
            effect.trials.to_string(),
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

/// What the model estimates the change of, which is not the score of the rankings.
fn figure_name(by: Criterion) -> &'static str {
    match by {
        Criterion::Throughput => "rate",
        Criterion::Latency => "1 / worst latency",
        Criterion::Wear => "wear figure",
    }
}

fn effect_note(by: Criterion) -> String {
    let wear = match by {
        Criterion::Throughput | Criterion::Latency => String::new(),
        Criterion::Wear => format!(" The wear figure: {WEAR_FIGURE}."),
    };
    format!(
        "The change of the {} by one option, averaged over the others, with its 95 % interval, as \
         estimated from all trials, short ones included; + is better.{wear}",
        figure_name(by)
    )
}

/// The effects as a chart; `None` without any.
pub fn effects_figure(view: &RunView<'_>) -> Option<FigureGroup> {
    let (conclusion, by) = (&view.conclusion, view.header.spec.by);
    let answer = conclusion.answer.as_ref()?;
    let bars: Vec<Bar> = sorted_effects(answer)
        .iter()
        .map(|effect| Bar {
            name: level_name(conclusion, effect.factor, effect.level),
            role: SetupRole::Candidate,
            value: percent(effect.mean),
            low: percent(effect.interval.0),
            high: percent(effect.interval.1),
            n: u32::try_from(effect.trials).unwrap_or(u32::MAX),
        })
        .collect();
    (!bars.is_empty()).then(|| FigureGroup {
        title: "Effect of each option".to_owned(),
        explanation: format!("{} n: the trials with the option.", effect_note(by)),
        charts: vec![Chart::Bars(BarChart {
            title: format!("Change of the {}", figure_name(by)),
            value_label: "change".to_owned(),
            unit: FigureUnit::PercentChange,
            direction: BetterDirection::HigherIsBetter,
            spread: RangeMeaning::Interval(95),
            bars,
        })],
    })
}

/// Options whose effects depend on each other.
fn interactions(conclusion: &Conclusion, answer: &Answer) -> ReportFinding {
    let mut finding = ReportFinding::new(
        "Options that depend on each other",
        "The effect of two options together in addition to their separate effects. Only those \
         whose 95 % interval does not contain 0 are listed.",
        [
            ("options", ColumnKind::Name),
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

/// Setups that no other beats in every respect.
fn pareto_front(conclusion: &Conclusion) -> ReportFinding {
    let mut finding = ReportFinding::new(
        "Pareto front of throughput, latency, wear and safety (changes: + is better)",
        &format!(
            "No other measured setup is at least as good in every respect and better in one; \
             values are rounded to steps of 2 % before. Values are changes against the baseline \
             in all full-length trials, so they can differ from the gain above, which is of fresh \
             trials. Throughput; latency: 1 / 99th percentile; wear: {WEAR_FIGURE}."
        ),
        [
            ("setup", ColumnKind::Name),
            ("throughput", ColumnKind::Number),
            ("latency", ColumnKind::Number),
            ("wear", ColumnKind::Number),
            ("trials", ColumnKind::Number),
            ("at a power cut", ColumnKind::Remark),
        ],
        TERMINAL_FRONT,
    );
    // Where years are known, they are compared instead of wear.
    if conclusion.lives.is_some() {
        finding.columns[3] = ("years".to_owned(), ColumnKind::Number);
        finding.explanation += " Years are simulated, with their 90 % interval.";
    }
    for profile in conclusion.profiles.iter().filter(|profile| profile.on_front) {
        let shown = |figure: Option<f64>| figure.map_or_else(|| "–".to_owned(), change);
        finding.rows.push(vec![
            profile.setup.label(),
            change(profile.throughput),
            shown(profile.latency),
            profile.life.as_ref().map_or_else(|| shown(profile.wear), super::life::cell),
            profile.trials.to_string(),
            safety(profile.safety).to_owned(),
        ]);
    }
    finding
}

/// A logarithm of a ratio as a change in percent.
fn change(log: f64) -> String {
    FigureUnit::PercentChange.show(percent(log))
}

/// The name of a level of safety at a power cut.
pub(super) fn safety(level: u8) -> &'static str {
    let scale = [
        Durability::Safe,
        Durability::LosesRecent,
        Durability::BreaksPromise,
        Durability::MayCorrupt,
    ];
    scale.get(usize::from(level)).map_or("unknown", |step| step.name())
}
