//! The charts that a reader with two minutes needs: the best setups of all file systems on one
//! axis, the recommended setup under each workload, and the effect of each option.

use flashfit_report::{
    Bar, BarChart, BetterDirection, Chart, FigureGroup, FigureUnit, RangeMeaning, SetupRole,
};
use flashfit_tune::recommend::percent;

use super::{RunView, findings, matrix, rankings};

/// Setups in the first chart, besides the baselines.
const BEST_DRAWN: usize = 6;

/// The charts that can be drawn of a run, in this order.
pub fn highlights(view: &RunView<'_>) -> Vec<FigureGroup> {
    [best(view), by_workload(view), findings::effects_figure(view)].into_iter().flatten().collect()
}

fn best(view: &RunView<'_>) -> Option<FigureGroup> {
    let by = view.header.spec.by;
    let single = || {
        let mut all = rankings::shown_rankings(view, by, BEST_DRAWN).into_iter();
        all.find(|shown| shown.ranking.workload.is_none())
    };
    let shown = rankings::overall(view, by, BEST_DRAWN).or_else(single)?;
    let mut chart = BarChart::of_ranking(&shown.table, "score");
    for bar in &mut chart.bars {
        // Drawn like a baseline, and here all file systems have the same one.
        if bar.role == SetupRole::Defaults {
            bar.role = SetupRole::Candidate;
        }
    }
    chart.title = "Score of the best setups, all workloads together".to_owned();
    Some(FigureGroup {
        title: "Best setups".to_owned(),
        explanation: format!(
            "{} Setups whose intervals overlap are not distinguished.",
            shown.table.scale_note
        ),
        charts: vec![Chart::Bars(chart)],
    })
}

/// The gain of the setup that the verdict is about, under each workload: from fresh trials, or
/// without any from the search.
fn by_workload(view: &RunView<'_>) -> Option<FigureGroup> {
    let found = view.recommendation()?;
    if view.workloads.len() < 2 {
        return None;
    }
    let (setup, bars, origin) = if found.gain_by_workload.is_empty() {
        (&found.winner, searched(view), "from the trials of the search, which chose it")
    } else {
        let bars = found.gain_by_workload.iter().map(|(workload, gain)| {
            let (low, high) = gain.interval.unwrap_or((gain.middle, gain.middle));
            Bar {
                name: workload.clone(),
                role: SetupRole::Candidate,
                value: percent(gain.middle),
                low: percent(low),
                high: percent(high),
                n: u32::try_from(gain.count).unwrap_or(u32::MAX),
            }
        });
        (&found.subject, bars.collect(), "from fresh trials")
    };
    if bars.is_empty() || *setup == found.baseline {
        return None;
    }
    let title = format!("Change from the baseline by {}", setup.label());
    Some(FigureGroup {
        title: "By workload".to_owned(),
        explanation: format!("{} against the baseline, {origin}.", setup.label()),
        charts: vec![Chart::Bars(BarChart {
            title,
            value_label: "change".to_owned(),
            unit: FigureUnit::PercentChange,
            direction: BetterDirection::HigherIsBetter,
            spread: RangeMeaning::Interval(95),
            bars,
        })],
    })
}

fn searched(view: &RunView<'_>) -> Vec<Bar> {
    let Some(found) = view.recommendation() else { return Vec::new() };
    let by = view.header.spec.by;
    let bar = |workload: &flashfit_bench::Workload| {
        let growth = matrix::growth(view, &found.winner, Some(&workload.name), by)?;
        let value = percent(growth);
        let trials = view.results.logs(&found.winner, &workload.name, by).len();
        // The interval of a difference between two setups is not known without fresh trials.
        Some(Bar {
            name: workload.name.clone(),
            role: SetupRole::Candidate,
            value,
            low: f64::NAN,
            high: f64::NAN,
            n: u32::try_from(trials).unwrap_or(u32::MAX),
        })
    };
    view.workloads.iter().filter_map(bar).collect()
}
