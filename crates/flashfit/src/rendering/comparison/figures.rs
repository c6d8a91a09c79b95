//! The plots of a comparison: the changes by workload, and each workload with the lines of all runs
//! on the same axes (`gdiff` of the CELF methodology).

use std::collections::BTreeMap;

use flashfit_bench::WorkloadPoint;
use flashfit_filesystem::Setup;
use flashfit_report::{
    Bar, BarChart, BetterDirection, Chart, ChartSeries, FigureGroup, FigureUnit, LineChart,
    RangeMeaning, SetupRole, ValueScale, XAxis,
};
use flashfit_tune::compare::CONFIDENCE;
use flashfit_tune::recommend::percent;

use super::{ComparisonView, letter};
use crate::rendering::figures::{Measure, Subject, measures, plotted};

/// More setups, each once a run, cannot be told apart.
const MOST_SETUPS: usize = 3;

/// What is plotted: run and setup, with the values of each point.
type Lines = BTreeMap<(usize, Setup), BTreeMap<WorkloadPoint, Vec<f64>>>;

pub(super) fn figures(view: &ComparisonView<'_>) -> Vec<FigureGroup> {
    let mut groups = vec![FigureGroup {
        title: "Changes".to_owned(),
        explanation: "The mean change of the common setups from the first run, with 95 % \
                      intervals."
            .to_owned(),
        charts: vec![Chart::Bars(changes(view))],
    }];
    let mut setups = view.comparison.common_setups();
    setups.truncate(MOST_SETUPS);
    let names = view.comparison.pairs.iter().flat_map(|pair| &pair.workloads);
    let names: std::collections::BTreeSet<&str> =
        names.map(|workload| workload.workload.as_str()).collect();
    groups.extend(names.into_iter().filter_map(|name| group(view, name, &setups)));
    groups
}

fn changes(view: &ComparisonView<'_>) -> BarChart {
    let mut bars = Vec::new();
    for pair in &view.comparison.pairs {
        let overall = pair.overall.iter().map(|found| ("all workloads", found));
        let workloads = pair.workloads.iter();
        let workloads = workloads
            .filter_map(|found| Some((found.workload.as_str(), found.difference.as_ref()?)));
        for (name, found) in overall.chain(workloads) {
            let (low, high) = found.interval(CONFIDENCE).unwrap_or((f64::NAN, f64::NAN));
            bars.push(Bar {
                name: format!("{} {name}", letter(pair.run)),
                role: SetupRole::Candidate,
                value: percent(found.log),
                low: percent(low),
                high: percent(high),
                n: u32::try_from(found.trials[0].min(found.trials[1])).unwrap_or(u32::MAX),
            });
        }
    }
    BarChart {
        title: "Change from A".to_owned(),
        value_label: "change".to_owned(),
        unit: FigureUnit::PercentChange,
        direction: BetterDirection::HigherIsBetter,
        spread: RangeMeaning::Interval(95),
        bars,
    }
}

fn group(view: &ComparisonView<'_>, workload: &str, setups: &[Setup]) -> Option<FigureGroup> {
    let mut subjects: BTreeMap<Subject, Lines> = BTreeMap::new();
    for (index, run) in view.comparison.runs.iter().enumerate() {
        for trial in &run.trials {
            let key = &trial.key;
            let is_drawn =
                key.workload == workload && key.length.is_full() && setups.contains(&key.setup);
            for point in trial.points().filter(|_| is_drawn).into_iter().flatten() {
                for stage in &point.stages {
                    for (direction, figures) in [("read", &stage.read), ("write", &stage.write)] {
                        let Some(figures) = figures else { continue };
                        for measure in measures(stage.kind, figures) {
                            let subject = Subject { stage: stage.name.clone(), direction, measure };
                            let lines = subjects.entry(subject).or_default();
                            let line = lines.entry((index, key.setup.clone())).or_default();
                            line.entry(point.point).or_default().push(measure.of(figures));
                        }
                    }
                }
            }
        }
    }
    let is_shown = |measure: Measure| measure != Measure::LatencyWorst;
    let shown = subjects.iter().filter(|(subject, _)| is_shown(subject.measure));
    let charts: Vec<Chart> = shown.map(|(subject, lines)| chart(subject, lines)).collect();
    let explanation = match setups {
        [only] => format!("The setup {} in every run, on the same axes.", only.label()),
        _ => format!(
            "The best {} setups of A that every run measured, on the same axes.",
            setups.len()
        ),
    };
    let title = workload.to_owned();
    (!charts.is_empty()).then_some(FigureGroup { title, explanation, charts })
}

fn chart(subject: &Subject, lines: &Lines) -> Chart {
    let measure = subject.measure;
    let name = |run: usize, setup: &Setup| format!("{} {}", letter(run), setup.label());
    let points = || lines.values().flat_map(BTreeMap::keys);
    let is_single = points().all(|point| *point == WorkloadPoint::Only);
    if is_single {
        let bars = lines.iter().flat_map(|((run, setup), points)| {
            points.iter().map(|(point, values)| {
                let point = plotted(*point, values);
                Bar {
                    name: name(*run, setup),
                    role: SetupRole::Candidate,
                    value: point.y,
                    low: point.low,
                    high: point.high,
                    n: point.n,
                }
            })
        });
        return Chart::Bars(BarChart {
            title: subject.title(),
            value_label: measure.title().to_owned(),
            unit: measure.unit(),
            direction: measure.direction(),
            spread: RangeMeaning::MinMax,
            bars: bars.collect(),
        });
    }
    let is_block = points().any(|point| matches!(point, WorkloadPoint::BlockSize(_)));
    let series = lines.iter().map(|((run, setup), points)| ChartSeries {
        name: name(*run, setup),
        role: SetupRole::Candidate,
        points: points.iter().map(|(point, values)| plotted(*point, values)).collect(),
    });
    Chart::Lines(LineChart {
        title: subject.title(),
        x_label: if is_block { "block size" } else { "working set / memory" }.to_owned(),
        y_label: measure.title().to_owned(),
        y_unit: measure.unit(),
        direction: measure.direction(),
        x_axis: if is_block { XAxis::Bytes } else { XAxis::Ratio },
        y_scale: ValueScale::Logarithmic,
        spread: RangeMeaning::MinMax,
        series: series.collect(),
    })
}
