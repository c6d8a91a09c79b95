//! The comparison plots of the CELF methodology (`gdiff`): each measured value of a workload
//! against block size or working set, with one line per setup.
//!
//! Only the baseline and the best few setups of each file system are drawn, and the bare device
//! under the same jobs, where it was measured.

use std::collections::{BTreeMap, BTreeSet};

use flashfit_bench::{
    FigureKind, Figures, Parameter, PointResult, Workload, WorkloadPoint as BenchPoint,
};
use flashfit_filesystem::Setup;
use flashfit_report::quantity::FigureUnit;
use flashfit_report::{
    Bar, BarChart, BetterDirection, Chart, ChartPoint, ChartSeries, FigureGroup, LineChart,
    RangeMeaning, SetupRole, ValueScale, XAxis,
};
use flashfit_tune::{RawMeasurement, analysis};

use super::RunView;

const BEST_DRAWN: usize = 3;
/// What the line of the bare device is called.
const BARE_DEVICE: &str = "bare device, no file system";

/// Why the bare device has no line under a workload.
pub fn raw_failures(raw: &[RawMeasurement]) -> Vec<String> {
    let failure = |raw: &RawMeasurement| {
        let message = raw.message.as_ref()?;
        Some(format!("the bare device was not measured under {}: {message}", raw.workload))
    };
    raw.iter().filter_map(failure).collect()
}

/// What is plotted: a measure of a stage in one direction.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Subject {
    pub(super) stage: String,
    pub(super) direction: &'static str,
    pub(super) measure: Measure,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Measure {
    Throughput,
    Operations,
    Time,
    Latency99,
    LatencyWorst,
    Sync99,
}

impl Subject {
    pub(super) fn title(&self) -> String {
        let (stage, measure) = (&self.stage, self.measure.title());
        if stage == self.direction {
            format!("{stage}, {measure}")
        } else {
            format!("{stage}, {}, {measure}", self.direction)
        }
    }
}

impl Measure {
    pub(super) fn title(self) -> &'static str {
        match self {
            Self::Throughput => "throughput",
            Self::Operations => "operations per second",
            Self::Time => "time",
            Self::Latency99 => "99 % completion latency",
            Self::LatencyWorst => "worst latency, syncs included",
            Self::Sync99 => "99 % sync latency",
        }
    }

    pub(super) fn unit(self) -> FigureUnit {
        match self {
            Self::Throughput => FigureUnit::BytesPerSecond,
            Self::Operations => FigureUnit::RequestsPerSecond,
            Self::Time | Self::Latency99 | Self::LatencyWorst | Self::Sync99 => {
                FigureUnit::Nanoseconds
            }
        }
    }

    pub(super) fn direction(self) -> BetterDirection {
        match self {
            Self::Throughput | Self::Operations => BetterDirection::HigherIsBetter,
            Self::Time | Self::Latency99 | Self::LatencyWorst | Self::Sync99 => {
                BetterDirection::LowerIsBetter
            }
        }
    }

    pub(super) fn of(self, figures: &Figures) -> f64 {
        match self {
            Self::Throughput => figures.bytes_per_second as f64,
            Self::Operations => figures.operations_per_second_thousandths as f64 / 1000.0,
            Self::Time => figures.runtime_ns as f64,
            Self::Latency99 => figures.latency.p99_ns as f64,
            Self::LatencyWorst => figures.worst_ns() as f64,
            Self::Sync99 => figures.sync.map_or(f64::NAN, |sync| sync.p99_ns as f64),
        }
    }
}

type Values = BTreeMap<Subject, BTreeMap<Setup, BTreeMap<BenchPoint, Vec<f64>>>>;

/// Values of the bare device, by what is plotted.
type RawValues = BTreeMap<Subject, Vec<ChartPoint>>;

/// The plots of each workload; `raw` is what is known of the bare device.
pub fn figures(view: &RunView<'_>, raw: &[RawMeasurement]) -> Vec<FigureGroup> {
    let drawn = drawn(view);
    let of_workload =
        |workload: &Workload| raw_values(raw.iter().filter(|raw| raw.workload == workload.name));
    let groups = view.workloads.iter();
    groups.filter_map(|workload| group(view, workload, &drawn, &of_workload(workload))).collect()
}

/// All measurements of one workload.
fn raw_values<'a>(raw: impl Iterator<Item = &'a RawMeasurement>) -> RawValues {
    let mut values: BTreeMap<Subject, BTreeMap<BenchPoint, Vec<f64>>> = BTreeMap::new();
    for (subject, point, value) in raw.flat_map(|raw| measured(&raw.points)) {
        values.entry(subject).or_default().entry(point).or_default().push(value);
    }
    let drawn = |points: BTreeMap<BenchPoint, Vec<f64>>| {
        points.into_iter().map(|(point, values)| plotted(point, &values)).collect()
    };
    values.into_iter().map(|(subject, points)| (subject, drawn(points))).collect()
}

/// What is plotted of measured points.
pub(super) fn measured(points: &[PointResult]) -> Vec<(Subject, BenchPoint, f64)> {
    let mut all = Vec::new();
    for point in points {
        for stage in &point.stages {
            for (direction, figures) in [("read", &stage.read), ("write", &stage.write)] {
                let Some(figures) = figures else { continue };
                all.extend(measures(stage.kind, figures).into_iter().map(|measure| {
                    let subject = Subject { stage: stage.name.clone(), direction, measure };
                    (subject, point.point, measure.of(figures))
                }));
            }
        }
    }
    all
}

fn drawn(view: &RunView<'_>) -> Vec<Setup> {
    let filesystems: Vec<String> =
        view.space.choices.iter().map(|choices| choices.filesystem.name.clone()).collect();
    let mut drawn = Vec::new();
    for ranking in analysis::rankings(&view.results, &filesystems, view.header.spec.by) {
        if ranking.workload.is_some() {
            continue;
        }
        for (index, row) in ranking.rows.iter().enumerate() {
            if index < BEST_DRAWN || view.role(&row.setup) != SetupRole::Candidate {
                drawn.push(row.setup.clone());
            }
        }
    }
    drawn
}

fn group(
    view: &RunView<'_>,
    workload: &Workload,
    drawn: &[Setup],
    raw: &RawValues,
) -> Option<FigureGroup> {
    let mut values = Values::new();
    for trial in &view.levelled {
        let of_interest = trial.key.length.is_full()
            && trial.key.workload == workload.name
            && drawn.contains(&trial.key.setup);
        let Some(points) = trial.points().filter(|_| of_interest) else { continue };
        for (subject, point, value) in measured(points) {
            let by_setup = values.entry(subject).or_default();
            let by_point = by_setup.entry(trial.key.setup.clone()).or_default();
            by_point.entry(point).or_default().push(value);
        }
    }
    if values.is_empty() {
        return None;
    }
    let charts = values.iter().map(|(subject, by_setup)| {
        let mut chart = chart(view, workload, subject, by_setup);
        if let Some(points) = raw.get(subject) {
            add_raw(&mut chart, points);
        }
        chart
    });
    let charts = charts.collect();
    Some(FigureGroup {
        title: workload.name.clone(),
        explanation: workload.explanation.clone(),
        charts,
    })
}

pub(super) fn measures(kind: FigureKind, figures: &Figures) -> Vec<Measure> {
    let rate = match kind {
        FigureKind::Throughput => Measure::Throughput,
        FigureKind::Operations => Measure::Operations,
        // One run has no other latency.
        FigureKind::Time => return vec![Measure::Time],
    };
    let mut measures = vec![rate, Measure::Latency99, Measure::LatencyWorst];
    measures.extend(figures.sync.map(|_| Measure::Sync99));
    measures
}

fn chart(
    view: &RunView<'_>,
    workload: &Workload,
    subject: &Subject,
    by_setup: &BTreeMap<Setup, BTreeMap<BenchPoint, Vec<f64>>>,
) -> Chart {
    let title = subject.title();
    if workload.parameter == Parameter::None || has_one_point(by_setup) {
        return Chart::Bars(bars(view, title, subject.measure, by_setup));
    }
    Chart::Lines(LineChart {
        title,
        x_label: match workload.parameter {
            Parameter::BlockSize => "block size".to_owned(),
            Parameter::WorkSet => "working set / memory".to_owned(),
            Parameter::None => unreachable!("drawn as bars"),
        },
        y_label: subject.measure.title().to_owned(),
        y_unit: subject.measure.unit(),
        direction: subject.measure.direction(),
        x_axis: match workload.parameter {
            Parameter::WorkSet => XAxis::Ratio,
            Parameter::BlockSize | Parameter::None => XAxis::Bytes,
        },
        y_scale: ValueScale::Logarithmic,
        spread: RangeMeaning::MinMax,
        series: by_setup
            .iter()
            .map(|(setup, points)| ChartSeries {
                name: setup.label(),
                role: view.role(setup),
                points: points.iter().map(|(point, values)| plotted(*point, values)).collect(),
            })
            .collect(),
    })
}

/// Adds the bare device to a chart of setups.
fn add_raw(chart: &mut Chart, points: &[ChartPoint]) {
    let (name, role) = (BARE_DEVICE.to_owned(), SetupRole::Candidate);
    match chart {
        Chart::Lines(lines) => {
            lines.series.push(ChartSeries { name, role, points: points.to_vec() });
        }
        Chart::Bars(bars) => bars.bars.extend(points.iter().map(|point| {
            let ChartPoint { y, low, high, n, .. } = *point;
            Bar { name: name.clone(), role, value: y, low, high, n }
        })),
    }
}

/// Whether all setups were measured at the same single point, of which a line shows nothing.
fn has_one_point(by_setup: &BTreeMap<Setup, BTreeMap<BenchPoint, Vec<f64>>>) -> bool {
    let points: BTreeSet<&BenchPoint> = by_setup.values().flat_map(BTreeMap::keys).collect();
    points.len() <= 1
}

/// A workload without a parameter has one point, so each setup gets a bar.
fn bars(
    view: &RunView<'_>,
    title: String,
    measure: Measure,
    by_setup: &BTreeMap<Setup, BTreeMap<BenchPoint, Vec<f64>>>,
) -> BarChart {
    let bars = by_setup.iter().flat_map(|(setup, points)| {
        points.iter().map(|(point, values)| {
            let ChartPoint { y, low, high, n, .. } = plotted(*point, values);
            Bar { name: setup.label(), role: view.role(setup), value: y, low, high, n }
        })
    });
    BarChart {
        title,
        value_label: measure.title().to_owned(),
        unit: measure.unit(),
        direction: measure.direction(),
        spread: RangeMeaning::MinMax,
        bars: bars.collect(),
    }
}

pub(super) fn plotted(point: BenchPoint, values: &[f64]) -> ChartPoint {
    let x = match point {
        BenchPoint::BlockSize(bytes) => bytes as f64,
        BenchPoint::WorkSet(hundredths) => hundredths as f64 / 100.0,
        BenchPoint::Only => 0.0,
    };
    let fold = |pick: fn(f64, f64) -> f64| values.iter().copied().reduce(pick).unwrap_or(f64::NAN);
    ChartPoint {
        x,
        y: flashfit_tune::stats::median(values).unwrap_or(f64::NAN),
        low: fold(f64::min),
        high: fold(f64::max),
        n: u32::try_from(values.len()).unwrap_or(u32::MAX),
    }
}
