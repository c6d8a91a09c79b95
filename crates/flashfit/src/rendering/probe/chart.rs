//! The evidence as one SVG drawing for a page.

use flashfit_geometry::probed::PlotSeries;
use flashfit_probe::ProbeDocument;
use flashfit_report::document::{RangeMeaning, SetupRole};
use flashfit_report::figure::{self, BetterDirection, FigureGroup, LineChart, ValueScale, XAxis};
use flashfit_report::svg::{Drawing, LineStyles};
use flashfit_report::{Chart, FigureUnit};

/// Everything that was measured, a figure a pair of units, one below the other.
pub fn draw(document: &ProbeDocument) -> String {
    let charts = charts(document);
    let groups = [FigureGroup { charts, ..FigureGroup::default() }];
    let drawing = Drawing { simulated: document.simulated, styles: LineStyles::of(&groups) };
    drawing.stack(&groups[0].charts)
}

/// Series with like axes share a figure.
fn charts(document: &ProbeDocument) -> Vec<Chart> {
    let mut charts: Vec<((&str, &str), Vec<&PlotSeries>)> = Vec::new();
    for series in &document.evidence.series {
        let axes = (series.x_unit.as_str(), series.y_unit.as_str());
        match charts.iter_mut().find(|(known, _)| *known == axes) {
            Some((_, together)) => together.push(series),
            None => charts.push((axes, vec![series])),
        }
    }
    let charts = charts.iter().map(|(axes, series)| {
        let title = match series.as_slice() {
            [one] => format!("{}: {}", document.target, one.name),
            _ => format!("{}: {} against {}", document.target, word(axes.1), word(axes.0)),
        };
        chart(title, *axes, series)
    });
    charts.collect()
}

fn chart(title: String, (x_unit, y_unit): (&str, &str), series: &[&PlotSeries]) -> Chart {
    let unit = match y_unit {
        "ns" => FigureUnit::Nanoseconds,
        "bytes/s" => FigureUnit::BytesPerSecond,
        "bytes" => FigureUnit::Bytes,
        _ => FigureUnit::Number,
    };
    let x_axis = if x_unit == "bytes" { XAxis::Bytes } else { labels(series) };
    let place = |x: f64| match &x_axis {
        XAxis::Labels(labels) => {
            let index = labels.iter().position(|label| *label == label_of(x));
            index.and_then(|index| u32::try_from(index).ok()).map_or(f64::NAN, f64::from)
        }
        // A logarithmic axis has no zero: the first place is next to it.
        _ => x.max(1.0),
    };
    let lines = series.iter().map(|series| figure::ChartSeries {
        name: series.name.clone(),
        role: SetupRole::Candidate,
        points: series
            .points
            .iter()
            .map(|p| figure::ChartPoint { x: place(p.x), y: p.y, low: p.low, high: p.high, n: 1 })
            .collect(),
    });
    Chart::Lines(LineChart {
        title,
        x_label: word(x_unit).to_owned(),
        y_label: word(y_unit).to_owned(),
        y_unit: unit,
        direction: BetterDirection::Neither,
        x_axis: x_axis.clone(),
        y_scale: ValueScale::Linear,
        spread: RangeMeaning::Interval(95),
        series: lines.collect(),
    })
}

/// All places of the series in order, as labels.
fn labels(series: &[&PlotSeries]) -> XAxis {
    let mut places: Vec<f64> =
        series.iter().flat_map(|series| series.points.iter().map(|point| point.x)).collect();
    places.retain(|place| place.is_finite());
    places.sort_by(f64::total_cmp);
    places.dedup();
    XAxis::Labels(places.into_iter().map(label_of).collect())
}

fn label_of(place: f64) -> String {
    format!("{place}")
}

/// What a unit measures, as an axis is named.
fn word(unit: &str) -> &str {
    match unit {
        "bytes" => "size",
        "count" => "number",
        "ns" => "time",
        "bytes/s" => "rate",
        other => other,
    }
}
