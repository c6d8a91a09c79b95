//! The evidence as a plot of plain characters, for a terminal: a bar for each place where there are
//! few, columns over the whole width where there are many.

use std::fmt::Write;

use flashfit_device::Bytes;
use flashfit_geometry::probed::{PlotPoint, PlotSeries};
use flashfit_report::FigureUnit;
use flashfit_report::text::plain;

/// More places than this do not get a bar each.
const MOST_BARS: usize = 40;
/// How high columns are.
const ROWS: usize = 10;

/// A plot of a series, at most `width` columns wide.
pub fn draw(series: &PlotSeries, width: usize) -> String {
    let points: Vec<PlotPoint> =
        series.points.iter().copied().filter(|p| p.x.is_finite() && p.y.is_finite()).collect();
    let mut text = format!("{}\n", plain(&series.name));
    if points.is_empty() {
        text.push_str("  no data\n");
    } else if points.len() <= MOST_BARS {
        bars(&mut text, series, &points, width);
    } else {
        columns(&mut text, series, &points, width);
    }
    text
}

/// A value of an axis with its unit.
fn shown(value: f64, unit: &str) -> String {
    match unit {
        "bytes" if value >= 0.0 && value.fract() == 0.0 => whole_bytes(value),
        "bytes" => FigureUnit::Bytes.show(value),
        "ns" => FigureUnit::Nanoseconds.show(value),
        "bytes/s" => FigureUnit::BytesPerSecond.show(value),
        "count" => format!("{value:.0}"),
        other => format!("{} {}", FigureUnit::Number.show(value), plain(other)),
    }
}

fn whole_bytes(value: f64) -> String {
    Bytes(value as u64).to_string()
}

/// The length of a bar in characters, between 0 and `room`.
fn length(share: f64, room: usize) -> usize {
    (share.clamp(0.0, 1.0) * room as f64).round() as usize
}

fn bars(text: &mut String, series: &PlotSeries, points: &[PlotPoint], width: usize) {
    let names: Vec<String> = points.iter().map(|p| shown(p.x, &series.x_unit)).collect();
    let values: Vec<String> = points.iter().map(|p| shown(p.y, &series.y_unit)).collect();
    let widest = |texts: &[String]| texts.iter().map(|t| t.chars().count()).max().unwrap_or(0);
    let (name_columns, value_columns) = (widest(&names), widest(&values));
    let room = width.saturating_sub(name_columns + value_columns + 6).max(8);
    let most = points.iter().map(|p| p.y.max(upper(p))).fold(0.0, f64::max);
    for ((name, value), point) in names.iter().zip(&values).zip(points) {
        let share = |y: f64| if most > 0.0 { y / most } else { 0.0 };
        let (low, middle, high) = (
            length(share(lower(point)), room),
            length(share(point.y), room),
            length(share(upper(point)), room),
        );
        let mut bar: String = "=".repeat(middle);
        // The interval: what is surely there as `#`, what may be as `-`.
        bar.replace_range(..low.min(middle), &"#".repeat(low.min(middle)));
        bar.push_str(&"-".repeat(high.saturating_sub(middle)));
        let line = format!("  {name:>name_columns$}  {value:>value_columns$}  {bar}");
        writeln!(text, "{}", line.trim_end()).expect("a string takes any text");
    }
}

fn lower(point: &PlotPoint) -> f64 {
    if point.low.is_finite() { point.low.min(point.y) } else { point.y }
}

fn upper(point: &PlotPoint) -> f64 {
    if point.high.is_finite() { point.high.max(point.y) } else { point.y }
}

/// The largest value in each column's stretch of places, so that no stall is missed.
fn columns(text: &mut String, series: &PlotSeries, points: &[PlotPoint], width: usize) {
    let most = points.iter().map(|p| p.y).fold(f64::MIN_POSITIVE, f64::max);
    let (first, last) = (points[0].x, points[points.len() - 1].x);
    let label = shown(most, &series.y_unit);
    let label_columns = label.chars().count().max(shown(0.0, &series.y_unit).chars().count());
    let room = width.saturating_sub(label_columns + 5).max(16);
    let span = (last - first).max(f64::MIN_POSITIVE);
    let mut heights = vec![0usize; room];
    for point in points {
        let column = length((point.x - first) / span, room - 1);
        heights[column] = heights[column].max(length(point.y / most, ROWS));
    }
    for row in (1..=ROWS).rev() {
        let name = if row == ROWS { label.as_str() } else { "" };
        let line: String =
            heights.iter().map(|height| if *height >= row { '#' } else { ' ' }).collect();
        let line = format!("  {name:>label_columns$} |{line}");
        writeln!(text, "{}", line.trim_end()).expect("a string takes any text");
    }
    let (from, to) = (shown(first, &series.x_unit), shown(last, &series.x_unit));
    let zero = shown(0.0, &series.y_unit);
    writeln!(text, "  {zero:>label_columns$} +{}", "-".repeat(room)).expect("a string");
    let pad = room.saturating_sub(from.chars().count() + to.chars().count());
    let indent = " ".repeat(label_columns + 4);
    writeln!(text, "{indent}{from}{}{to}", " ".repeat(pad)).expect("a string");
}

#[cfg(test)]
mod tests {
    use super::*;

    fn series(points: Vec<PlotPoint>) -> PlotSeries {
        let (x_unit, y_unit) = ("bytes".to_owned(), "ns".to_owned());
        PlotSeries { name: "what a boundary costs".into(), x_unit, y_unit, points }
    }

    fn point(x: f64, y: f64) -> PlotPoint {
        PlotPoint { x, y, low: y * 0.5, high: y * 1.5 }
    }

    #[test]
    fn a_few_places_get_a_bar_each_with_its_interval() {
        let text = draw(&series(vec![point(4096.0, 1e6), point(8192.0, 2e6)]), 40);
        let expected = "what a boundary costs\n  \
                        4 KiB  1.000 ms  ####===----\n  \
                        8 KiB  2.000 ms  #######=======-------\n";
        assert_eq!(text, expected);
    }

    #[test]
    fn many_places_share_columns_and_the_highest_shows() {
        let mut points: Vec<PlotPoint> =
            (0..1000).map(|i| point(f64::from(i) * 65536.0, 1e6)).collect();
        points[500].y = 1e8;
        let text = draw(&series(points), 60);
        assert!(text.lines().all(|line| line.chars().count() <= 60), "{text}");
        let top = text.lines().nth(1).unwrap();
        assert_eq!(top.matches('#').count(), 1, "{text}");
        assert_eq!(text.lines().count(), ROWS + 3);
    }

    #[test]
    fn what_is_no_number_is_left_out() {
        let text = draw(&series(vec![point(f64::NAN, 1.0), point(1.0, f64::INFINITY)]), 60);
        assert!(text.contains("no data"));
        let text =
            draw(&series(vec![PlotPoint { x: 512.0, y: -5.0, low: f64::NAN, high: 0.0 }]), 60);
        assert!(text.lines().count() == 2, "{text}");
    }
}
