//! The line chart: one line per setup, with whiskers, tooltips and a number at its end.
//!
//! The points of different setups at one `x` are drawn slightly apart, so that their whiskers do
//! not overlap. The numbers at the right ends refer to the legend below.

use crate::figure::{ChartPoint, ChartSeries, LineChart};
use crate::markup::Element;

use super::Drawing;
use super::axis::{CategoryAxis, ValueAxis, x_text};
use super::canvas::{
    AXIS, GRID, TOP_PX, WIDTH_PX, characters_in, count, faint, figure, label, no_data, px, rule,
    short_label, tooltip,
};
use super::style::LineStyle;

const LEFT_PX: f64 = 74.0;
const RIGHT_PX: f64 = WIDTH_PX - 46.0;
const LEGEND_ROW_PX: f64 = 19.0;
/// The smallest distance between two numbers at the right ends.
const NUMBER_PX: f64 = 11.0;

struct Plot<'a> {
    chart: &'a LineChart,
    values: ValueAxis,
    categories: CategoryAxis,
    bottom_px: f64,
    /// The lines that have points.
    lines: Vec<Line<'a>>,
}

struct Line<'a> {
    series: &'a ChartSeries,
    style: LineStyle,
    points: Vec<ChartPoint>,
    shift_px: f64,
}

/// The chart and its height in pixels.
pub(crate) fn draw(chart: &LineChart, drawing: &Drawing) -> (Element, f64) {
    let plot = Plot::new(chart, drawing);
    let (columns, rows) = plot.legend_shape();
    let height = plot.bottom_px + 58.0 + LEGEND_ROW_PX * count(rows);
    let drawn = figure(&chart.title, chart.direction, drawing.simulated, height)
        .children(plot.value_ticks())
        .children(plot.category_ticks())
        .child(faint(label(12.0, TOP_PX + 4.0, "start", &plot.value_title())))
        .child(faint(label(
            f64::midpoint(LEFT_PX, RIGHT_PX),
            plot.bottom_px + 36.0,
            "middle",
            &chart.x_label,
        )))
        .children(plot.lines.iter().map(|line| plot.line(line)))
        .children(plot.end_numbers())
        .children(plot.legend(columns));
    (drawn, height)
}

impl<'a> Plot<'a> {
    fn new(chart: &'a LineChart, drawing: &Drawing) -> Self {
        let drawn: Vec<(&ChartSeries, Vec<ChartPoint>)> = chart
            .series
            .iter()
            .map(|series| (series, chart.drawable(series)))
            .filter(|(_, points)| !points.is_empty())
            .collect();
        let bottom_px = TOP_PX + 14.0 + (NUMBER_PX * count(drawn.len())).max(290.0);
        let heights =
            drawn.iter().flat_map(|(_, points)| points).flat_map(|point| [point.low, point.high]);
        let values = ValueAxis::new(heights, chart.y_unit, chart.y_scale, bottom_px, TOP_PX + 14.0);
        let categories =
            CategoryAxis::new(&chart.x_axis, &chart.x_values(), LEFT_PX, RIGHT_PX - 18.0);
        let step_px = (categories.spacing_px * 0.5 / count(drawn.len().max(1))).min(4.0);
        let middle = (count(drawn.len()) - 1.0) / 2.0;
        let mut lines: Vec<Line> = drawn
            .into_iter()
            .enumerate()
            .map(|(index, (series, points))| {
                let style = drawing.styles.style(&series.name, series.role, index);
                Line { series, style, points, shift_px: 0.0 }
            })
            .collect();
        lines.sort_by_key(|line| line.style.number);
        for (index, line) in lines.iter_mut().enumerate() {
            line.shift_px = (count(index) - middle) * step_px;
        }
        Self { chart, values, categories, bottom_px, lines }
    }

    fn value_title(&self) -> String {
        let name = self.values.title(&self.chart.y_label);
        match self.values.caveat() {
            Some(caveat) => format!("{name}; {caveat}"),
            None => name,
        }
    }

    fn value_ticks(&self) -> impl Iterator<Item = Element> {
        self.values.ticks.iter().flat_map(|(value, text)| {
            let y = self.values.position(*value);
            [rule(LEFT_PX, y, RIGHT_PX - 18.0, y, GRID), label(LEFT_PX - 7.0, y + 4.0, "end", text)]
        })
    }

    fn category_ticks(&self) -> impl Iterator<Item = Element> {
        let axis = rule(LEFT_PX, self.bottom_px, RIGHT_PX - 18.0, self.bottom_px, AXIS);
        let ticks = self.categories.ticks.iter().flat_map(|(x, text)| {
            let x = self.categories.position(*x);
            let mark = rule(x, self.bottom_px, x, self.bottom_px + 5.0, AXIS);
            let text = text.as_deref().map(|text| label(x, self.bottom_px + 19.0, "middle", text));
            std::iter::once(mark).chain(text)
        });
        let empty = self.lines.is_empty().then(|| {
            no_data(f64::midpoint(LEFT_PX, RIGHT_PX), f64::midpoint(TOP_PX, self.bottom_px))
        });
        std::iter::once(axis).chain(ticks).chain(empty)
    }

    fn line(&self, line: &Line) -> Element {
        let path = line
            .points
            .iter()
            .enumerate()
            .map(|(index, point)| {
                let (x, y) = self.position(line, point);
                format!("{}{} {}", if index == 0 { "M" } else { "L" }, px(x), px(y))
            })
            .collect::<String>();
        let mut stroke = Element::new("path")
            .attr("d", path)
            .attr("fill", "none")
            .attr("stroke-width", line.style.stroke_px);
        if line.style.dash != "none" {
            stroke = stroke.attr("stroke-dasharray", line.style.dash);
        }
        Element::new("g")
            .attr("stroke", line.style.color)
            .child(stroke.child(tooltip(&line.series.role.marked(&line.series.name))))
            .children(line.points.iter().map(|point| self.point(line, point)))
    }

    fn point(&self, line: &Line, point: &ChartPoint) -> Element {
        let (x, y) = self.position(line, point);
        let mut drawn = Element::new("g");
        if point.high > point.low {
            let ends = (self.values.position(point.low), self.values.position(point.high));
            drawn = drawn.child(
                Element::new("path").attr("d", format!("M{} {}V{}", px(x), px(ends.0), px(ends.1))),
            );
        }
        drawn
            .child(
                Element::new("path")
                    .attr("d", line.style.marker_path())
                    .attr("transform", line.style.marker_transform(x, y))
                    .attr("fill", line.style.marker_fill())
                    .attr("stroke-width", "1.4"),
            )
            .child(tooltip(&self.point_text(line, point)))
    }

    fn position(&self, line: &Line, point: &ChartPoint) -> (f64, f64) {
        (self.categories.position(point.x) + line.shift_px, self.values.position(point.y))
    }

    fn point_text(&self, line: &Line, point: &ChartPoint) -> String {
        let unit = self.chart.y_unit;
        format!(
            "{}, {}: {} ({} {} to {}, n = {})",
            line.series.role.marked(&line.series.name),
            x_text(&self.chart.x_axis, point.x),
            unit.show(point.y),
            self.chart.spread.heading(),
            unit.show(point.low),
            unit.show(point.high),
            point.n,
        )
    }

    /// The numbers at the right ends, moved apart if lines end close together.
    fn end_numbers(&self) -> impl Iterator<Item = Element> {
        let mut ends: Vec<(f64, f64, &Line)> = self
            .lines
            .iter()
            .filter_map(|line| {
                let (x, y) = self.position(line, line.points.last()?);
                Some((x, y, line))
            })
            .collect();
        ends.sort_by(|a, b| a.1.total_cmp(&b.1).then(a.2.style.number.cmp(&b.2.style.number)));
        let desired: Vec<f64> = ends.iter().map(|end| end.1).collect();
        let heights = spread_apart(&desired, NUMBER_PX, TOP_PX + 14.0, self.bottom_px);
        ends.into_iter().zip(heights).flat_map(|((x, y, line), height)| {
            let color = line.style.color;
            [
                rule(x + 5.0, y, RIGHT_PX - 2.0, height, color).attr("stroke-width", "0.6"),
                label(RIGHT_PX, height + 4.0, "start", &line.style.number.to_string())
                    .attr("fill", color)
                    .attr("font-size", 11)
                    .attr("font-weight", "bold"),
            ]
        })
    }

    /// Columns and rows of the legend. Long names get fewer columns, unless the legend would become
    /// higher than the plot.
    fn legend_shape(&self) -> (usize, usize) {
        let names = self.lines.iter().map(|line| line.series.role.marked(&line.series.name));
        let longest = names.map(|name| crate::text::width(&name)).max().unwrap_or(0);
        let fits = |columns: usize| longest <= legend_chars(columns);
        let columns = match self.lines.len() {
            _ if fits(3) => 3,
            9.. => 2,
            _ if fits(2) => 2,
            _ => 1,
        };
        (columns, self.lines.len().div_ceil(columns))
    }

    fn legend(&self, columns: usize) -> impl Iterator<Item = Element> {
        let rows = self.lines.len().div_ceil(columns).max(1);
        let column_px = (WIDTH_PX - 24.0) / count(columns);
        let max_chars = legend_chars(columns);
        let top = self.bottom_px + 62.0;
        self.lines.iter().enumerate().map(move |(index, line)| {
            let x = 12.0 + column_px * count(index / rows);
            legend_entry(line, x, top + LEGEND_ROW_PX * count(index % rows), max_chars)
        })
    }
}

/// The characters of a name that fit into a column of the legend.
fn legend_chars(columns: usize) -> usize {
    characters_in((WIDTH_PX - 24.0) / count(columns) - 76.0)
}

fn legend_entry(line: &Line, x: f64, y: f64, max_chars: usize) -> Element {
    let style = &line.style;
    let mut sample = rule(x + 24.0, y - 4.0, x + 52.0, y - 4.0, style.color)
        .attr("stroke-width", style.stroke_px);
    if style.dash != "none" {
        sample = sample.attr("stroke-dasharray", style.dash);
    }
    let marker = Element::new("path")
        .attr("d", style.marker_path())
        .attr("transform", style.marker_transform(x + 38.0, y - 4.0))
        .attr("fill", style.marker_fill())
        .attr("stroke", style.color)
        .attr("stroke-width", "1.4");
    let number = label(x + 18.0, y, "end", &style.number.to_string())
        .attr("fill", style.color)
        .attr("font-weight", "bold");
    let name = line.series.role.marked(&line.series.name);
    let name = short_label(x + 60.0, y, "start", &name, max_chars);
    Element::new("g").children([number, sample, marker, name])
}

/// Heights near the `desired` ones, which are in ascending order, at least `gap` apart and within
/// the bounds; if there is not enough space, the gap shrinks. Heights that would be too close form
/// a group, which is spread evenly around the mean of its desired heights.
fn spread_apart(desired: &[f64], gap: f64, low: f64, high: f64) -> Vec<f64> {
    let gap = gap.min((high - low) / count(desired.len().max(2) - 1));
    let extent = |members: usize| gap * (count(members) - 1.0);
    let mut groups: Vec<(f64, usize)> = Vec::new();
    for &height in desired {
        let mut group = (height.clamp(low, high), 1);
        while let Some(&(middle, members)) = groups.last() {
            let needed = (extent(members) + extent(group.1)) / 2.0 + gap;
            if group.0 - middle >= needed {
                break;
            }
            groups.pop();
            let all = members + group.1;
            let mean = (middle * count(members) + group.0 * count(group.1)) / count(all);
            let half = extent(all) / 2.0;
            group = (mean.max(low + half).min(high - half), all);
        }
        groups.push(group);
    }
    let spread = |(middle, members): (f64, usize)| {
        (0..members).map(move |index| middle - extent(members) / 2.0 + gap * count(index))
    };
    groups.into_iter().flat_map(spread).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn end_numbers_keep_apart_and_within_the_bounds() {
        let heights = spread_apart(&[10.0, 10.0, 11.0, 99.0, 100.0], 11.0, 0.0, 100.0);
        assert!(heights.windows(2).all(|pair| pair[1] - pair[0] >= 10.999), "{heights:?}");
        assert!(heights.iter().all(|height| (0.0..=100.0).contains(height)));
        let crowd = spread_apart(&[50.0; 30], 11.0, 0.0, 100.0);
        assert!(crowd.iter().all(|height| (-0.001..=100.001).contains(height)), "{crowd:?}");
        assert_eq!(spread_apart(&[7.0], 11.0, 0.0, 100.0), [7.0]);
    }
}
