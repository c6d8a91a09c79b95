//! Differences between runs, as text and as a page.

mod assumptions;
mod document;
mod figures;
mod tables;

use flashfit_report::terminal::{SIMULATED_BANNER, render_finding};
use flashfit_report::text::{count_of, plain, wrap};
use flashfit_report::{ComparisonPage, FigureUnit};
use flashfit_tune::compare::{
    CONFIDENCE, ComparedRun, RunComparison, RunDifference, RunPair, RunVerdict, Slowdown,
    SlowdownCheck, UntestedReason, UntestedRun,
};
use flashfit_tune::recommend::percent;
use flashfit_tune::{Criterion, Percent};

pub use document::{ComparisonDocument, document};

/// What to know about the intervals.
const NOTE: &str = "Each run is one session: its trials are not paired with those of the other \
    run, and what differs between sessions besides the device (temperature, what was written \
    before) is part of a difference, not of its interval. Slower, faster: in these two runs. \
    Sessions of three simulated cards without any change differed by up to 3 % (standard \
    deviation, beyond noise), of one on a busy machine by 10 %; --fail-if-slower allows for \
    --session-spread. No difference: the whole interval lies within 5 %, or without an interval, \
    the figures are the same; cannot tell: it includes 0 and larger differences, too. n: trials of \
    the first and of the other run; setups that were measured once count only together.";

/// Larger changes are not shown in full.
const MOST_PERCENT: f64 = 9999.0;

/// A comparison with what was asked of it.
pub struct ComparisonView<'a> {
    pub comparison: &'a RunComparison,
    pub check: &'a SlowdownCheck,
    /// Which slowdown is an error.
    pub limit: Option<Percent>,
    /// What two sessions without any change differ by in the tests for slowdowns.
    pub session_spread: Percent,
}

impl ComparisonView<'_> {
    fn is_simulated(&self) -> bool {
        self.comparison.runs.iter().any(ComparedRun::is_simulated)
    }
}

/// The letter of a run: A, B, …
fn letter(run: usize) -> String {
    let letters = u32::try_from(run).ok().and_then(|run| char::from_u32('A' as u32 + run));
    letters.filter(char::is_ascii_uppercase).map_or_else(|| (run + 1).to_string(), String::from)
}

fn verdict(difference: &RunDifference, by: Criterion) -> &'static str {
    match (difference.verdict(CONFIDENCE), by) {
        (RunVerdict::Better, Criterion::Wear) => "less wear",
        (RunVerdict::Worse, Criterion::Wear) => "more wear",
        (RunVerdict::Better, _) => "faster",
        (RunVerdict::Worse, _) => "slower",
        (RunVerdict::NoDifference, _) if difference.is_equivalent(CONFIDENCE) => "no difference",
        (RunVerdict::NoDifference, _) => "cannot tell",
        (RunVerdict::Unknown, _) => "too few repeats",
    }
}

fn change(log: f64) -> String {
    let percent = percent(log);
    let most = MOST_PERCENT;
    if percent > most { format!("> +{most} %") } else { FigureUnit::PercentChange.show(percent) }
}

/// `-21.3 to -18.9 %`; a dash without an interval.
fn interval(difference: &RunDifference) -> String {
    let Some((low, high)) = difference.interval(CONFIDENCE) else { return "–".to_owned() };
    let low = change(low);
    format!("{} to {}", low.trim_end_matches([' ', '%']), change(high))
}

/// The result of each pair in a sentence, and what weakens it.
fn summary(view: &ComparisonView<'_>) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for pair in &view.comparison.pairs {
        lines.push(sentence(view, pair));
        let others: Vec<&str> = pair.other_measurements().collect();
        if !others.is_empty() {
            lines.push(format!(
                "Not comparable: A and {} differ in what they measured ({}), so a difference may \
                 come from that.",
                letter(pair.run),
                others.join(", ")
            ));
        }
        let points: Vec<&str> = pair
            .workloads
            .iter()
            .filter(|workload| !workload.has_same_points)
            .map(|workload| workload.workload.as_str())
            .collect();
        if !points.is_empty() {
            lines.push(format!(
                "Not comparable: A and {} measured other points or stages of {}.",
                letter(pair.run),
                points.join(", ")
            ));
        }
    }
    if let (Some(limit), None) = (view.limit, slower(view)) {
        if view.check.tests > 0 {
            lines.push(format!(
                "No slowdown of more than {limit} is sure ({} differences tested together with \
                 95 %; sessions without any change are taken to differ by {}).",
                view.check.tests, view.session_spread
            ));
        }
    }
    lines.extend(untested(view).map(|text| format!("Not tested for a slowdown: {text}.")));
    lines
}

fn sentence(view: &ComparisonView<'_>, pair: &RunPair) -> String {
    let runs = &view.comparison.runs;
    let (first, run) = (&runs[0], &runs[pair.run]);
    let name = letter(pair.run);
    if let Some(empty) = [first, run].into_iter().find(|run| run.completed() == 0) {
        return format!("{name} compared with A: {} has no completed trial.", empty.path.display());
    }
    let Some(found) = &pair.overall else {
        let has_any = pair.workloads.iter().any(|workload| workload.difference.is_some());
        return match has_any {
            true => format!("{name} compared with A: no workload was measured at the same points."),
            false => format!(
                "{name} compared with A: no setup was measured under the same workload by both."
            ),
        };
    };
    let same = same_trials(first, run);
    let setups = match found.setups {
        1 => "1 common setup".to_owned(),
        count => format!("{count} common setups"),
    };
    if found.verdict(CONFIDENCE) == RunVerdict::Unknown {
        return format!(
            "{name} compared with A: {setups}: {}, with too few repeats for an interval.{same}",
            change(found.log)
        );
    }
    let interval = match found.error {
        Some(_) => format!(" (95 % interval {})", interval(found)),
        None => String::new(),
    };
    format!(
        "{name} compared with A: {} over all workloads and {setups}: {}{interval}.{same}",
        verdict(found, view.comparison.by),
        change(found.log),
    )
}

/// What makes two runs dependent, after a space; usually nothing.
fn same_trials(first: &ComparedRun, run: &ComparedRun) -> String {
    if run.is_same_run(first) {
        return " They are the same run.".to_owned();
    }
    if run.has_same_trials(first) {
        return " They have the same trials.".to_owned();
    }
    match run.shared_trials(first) {
        0 => String::new(),
        shared => format!(
            " They have {} in common, so they are not independent: the difference is too small.",
            count_of(shared, "trial")
        ),
    }
}

/// The comparison for a terminal.
pub fn text(view: &ComparisonView<'_>, width: usize) -> String {
    let mut text = String::new();
    let mut paragraph = |line: &str| {
        for line in wrap(line, width) {
            text.push_str(&line);
            text.push('\n');
        }
    };
    if view.is_simulated() {
        paragraph(SIMULATED_BANNER);
        paragraph("");
    }
    for line in summary(view) {
        paragraph(&line);
    }
    let findings = tables::findings(view);
    for finding in &findings {
        let shown = render_finding(finding, width);
        if !shown.is_empty() {
            text.push('\n');
            text.push_str(&shown);
        }
    }
    let has_years = findings.iter().any(|finding| finding.title == tables::YEARS);
    let basis = if has_years { assumptions::lines(view.comparison) } else { Vec::new() };
    text.push('\n');
    for line in basis.iter().map(|line| plain(line)).chain([NOTE.to_owned()]) {
        for line in wrap(&line, width) {
            text.push_str(&line);
            text.push('\n');
        }
    }
    text
}

/// The comparison as a page with plots.
pub fn page(view: &ComparisonView<'_>) -> ComparisonPage {
    let runs = &view.comparison.runs;
    let names: Vec<String> = runs.iter().map(|run| run.path.display().to_string()).collect();
    ComparisonPage {
        title: format!("{}, by {}", names.join(" and "), view.comparison.by),
        simulated: view.is_simulated(),
        summary: summary(view),
        findings: tables::findings(view),
        figures: figures::figures(view),
        note: NOTE.to_owned(),
    }
}

/// The sure slowdowns in one sentence, the worst ones named; `None` without any.
pub fn slower(view: &ComparisonView<'_>) -> Option<String> {
    const MOST_NAMED: usize = 3;
    let limit = view.limit?;
    let all = &view.check.slowdowns;
    let named: Vec<String> = all.iter().take(MOST_NAMED).map(|found| named(view, found)).collect();
    let more = all.len().saturating_sub(MOST_NAMED);
    let more = if more > 0 { format!("; {more} more") } else { String::new() };
    let text = format!("slower by more than {limit}: {}{more}", named.join("; "));
    (!all.is_empty()).then_some(text)
}

/// The runs that were not tested for a slowdown, each with the reason; `None` if all were, or none
/// had to be.
pub fn untested(view: &ComparisonView<'_>) -> Option<String> {
    let runs = &view.comparison.runs;
    let first = runs[0].path.display();
    let reason = |found: &UntestedRun| match found.reason {
        UntestedReason::NoTrial => "no completed trial".to_owned(),
        UntestedReason::OtherMeasurement => {
            let pairs = view.comparison.pairs.iter().filter(|pair| pair.run == found.run);
            let differing = pairs.flat_map(RunPair::other_measurements).collect::<Vec<_>>();
            format!("not comparable with {first}, other {}", differing.join(", "))
        }
        UntestedReason::NothingInCommon => {
            format!("no setup in common with {first} under the same workload")
        }
        UntestedReason::OtherPoints => format!("other points or stages than {first}"),
        UntestedReason::NoInterval => "too few repeats for an interval".to_owned(),
    };
    let named =
        |found: &UntestedRun| format!("{} ({})", runs[found.run].path.display(), reason(found));
    let all: Vec<String> = view.check.untested.iter().map(named).collect();
    (view.limit.is_some() && !all.is_empty()).then(|| all.join("; "))
}

fn named(view: &ComparisonView<'_>, found: &Slowdown) -> String {
    let what = match (&found.setup, &found.workload) {
        (Some(setup), Some(workload)) => format!(", {} under {workload}", setup.label()),
        (Some(setup), None) => format!(", {}", setup.label()),
        (None, Some(workload)) => format!(", {workload}"),
        (None, None) => String::new(),
    };
    let run = view.comparison.runs[found.run].path.display();
    format!("{run}{what}: {}", change(found.difference.log))
}
