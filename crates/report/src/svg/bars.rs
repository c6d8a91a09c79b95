//! The bar chart: one horizontal bar per setup, with whiskers and the values in numbers.
//!
//! The length of a bar is only meaningful from zero. If all values are far from zero, the chart
//! draws dots instead and says that its scale does not start at zero.

use crate::document::SetupRole;
use crate::figure::{Bar, BarChart, ValueScale, is_drawable};
use crate::markup::Element;

use super::Drawing;
use super::axis::ValueAxis;
use super::canvas::{
    AXIS, CHARACTER_PX, GRID, TOP_PX, WIDTH_PX, count, faint, figure, label, no_data, px, rule,
    short_label, tooltip,
};

const ROW_PX: f64 = 24.0;
const MAX_NAME_CHARS: usize = 44;
/// The width of a bold character.
const BOLD_PX: f64 = 7.9;
const VALUES_PX: f64 = 200.0;

struct Plot<'a> {
    chart: &'a BarChart,
    bars: Vec<Bar>,
    axis: ValueAxis,
    left_px: f64,
    top_px: f64,
    bottom_px: f64,
}

/// The chart and its height in pixels.
pub(crate) fn draw(chart: &BarChart, drawing: &Drawing) -> (Element, f64) {
    let plot = Plot::new(chart);
    let height = plot.bottom_px + 50.0;
    let drawn = figure(&chart.title, chart.direction, drawing.simulated, height)
        .children(plot.ticks())
        .children(plot.baseline_rule())
        .children(plot.bars.iter().enumerate().map(|(index, bar)| plot.row(index, bar)))
        .child(faint(label(plot.left_px, plot.bottom_px + 38.0, "start", &plot.axis_title())))
        .child(faint(label(WIDTH_PX - 12.0, plot.top_px - 4.0, "end", &plot.values_title())))
        .children(plot.bars.is_empty().then(|| no_data(WIDTH_PX / 2.0, plot.top_px + 16.0)));
    (drawn, height)
}

/// The bars that have a value, with `low` and `high` around it.
fn drawable(chart: &BarChart) -> Vec<Bar> {
    let bars = chart.bars.iter().filter(|bar| is_drawable(bar.value));
    bars.map(|bar| Bar {
        low: if is_drawable(bar.low) { bar.low.min(bar.value) } else { bar.value },
        high: if is_drawable(bar.high) { bar.high.max(bar.value) } else { bar.value },
        ..bar.clone()
    })
    .collect()
}

fn name_px(bar: &Bar) -> f64 {
    let characters = crate::text::width(&bar.role.marked(&bar.name)).min(MAX_NAME_CHARS);
    count(characters) * if bar.role == SetupRole::Candidate { CHARACTER_PX } else { BOLD_PX }
}

impl<'a> Plot<'a> {
    fn new(chart: &'a BarChart) -> Self {
        let bars = drawable(chart);
        let left_px = 24.0 + bars.iter().map(name_px).fold(0.0, f64::max);
        let top_px = TOP_PX + 14.0;
        let ends = bars.iter().flat_map(|bar| [bar.low, bar.high]);
        let right_px = WIDTH_PX - VALUES_PX - 24.0;
        let axis = ValueAxis::new(ends, chart.unit, ValueScale::Linear, left_px, right_px);
        let bottom_px = top_px + ROW_PX * count(bars.len().max(1));
        Self { chart, bars, axis, left_px, top_px, bottom_px }
    }

    fn axis_title(&self) -> String {
        let name = self.axis.title(&self.chart.value_label);
        match self.axis.caveat() {
            Some(caveat) => format!("{name}; {caveat}"),
            None => name,
        }
    }

    fn values_title(&self) -> String {
        if self.bars.iter().all(|bar| bar.n < 2) {
            return "value, n".to_owned();
        }
        format!("value ({}), n", self.chart.spread.heading())
    }

    fn ticks(&self) -> impl Iterator<Item = Element> {
        let has_bars = !self.axis.without_zero;
        self.axis.ticks.iter().flat_map(move |(value, text)| {
            let x = self.axis.position(*value);
            let color = if has_bars && *value == 0.0 { AXIS } else { GRID };
            [
                rule(x, self.top_px, x, self.bottom_px, color),
                label(x, self.bottom_px + 16.0, "middle", text),
            ]
        })
    }

    /// A line through all rows at the value of the baseline, or else of the defaults.
    fn baseline_rule(&self) -> Option<Element> {
        let of_role = |role| self.bars.iter().find(|bar| bar.role == role);
        let baseline = of_role(SetupRole::Baseline).or_else(|| of_role(SetupRole::Defaults))?;
        let name = baseline.role.mark()?;
        let x = self.axis.position(baseline.value);
        Some(
            rule(x, self.top_px, x, self.bottom_px, "#111111")
                .attr("stroke-dasharray", "4 3")
                .child(tooltip(&format!("{name}: {}", self.chart.unit.show(baseline.value)))),
        )
    }

    fn row(&self, index: usize, bar: &Bar) -> Element {
        let middle = self.top_px + ROW_PX * (count(index) + 0.5);
        let name = bar.role.marked(&bar.name);
        let weight = if bar.role == SetupRole::Candidate { "normal" } else { "bold" };
        let row = Element::new("g")
            .child(
                short_label(self.left_px - 10.0, middle + 4.0, "end", &name, MAX_NAME_CHARS)
                    .attr("font-weight", weight),
            )
            .child(self.mark(bar, middle));
        let row = if bar.n > 1 && bar.high > bar.low {
            row.child(self.whisker(bar, middle))
        } else {
            row
        };
        row.child(label(WIDTH_PX - 12.0, middle + 4.0, "end", &self.values_text(bar)))
            .child(tooltip(&format!("{name}: {}", self.values_text(bar))))
    }

    fn mark(&self, bar: &Bar, middle: f64) -> Element {
        let color = match bar.role {
            SetupRole::Baseline | SetupRole::Defaults => "#777777",
            SetupRole::Recommended => "#009e73",
            SetupRole::Candidate => "#56b4e9",
        };
        let value = self.axis.position(bar.value);
        if self.axis.without_zero {
            return Element::new("path")
                .attr("d", "M-5 0A5 5 0 1 0 5 0A5 5 0 1 0 -5 0Z")
                .attr("transform", format!("translate({} {})", px(value), px(middle)))
                .attr("fill", color);
        }
        let zero = self.axis.position(0.0);
        Element::new("rect")
            .attr("x", px(value.min(zero)))
            .attr("y", px(middle - 7.0))
            .attr("width", px((value - zero).abs().max(0.5)))
            .attr("height", 14)
            .attr("fill", color)
    }

    fn whisker(&self, bar: &Bar, middle: f64) -> Element {
        let (low, high) = (px(self.axis.position(bar.low)), px(self.axis.position(bar.high)));
        let (top, bottom, middle) = (px(middle - 4.0), px(middle + 4.0), px(middle));
        Element::new("path")
            .attr("d", format!("M{low} {middle}H{high}M{low} {top}V{bottom}M{high} {top}V{bottom}"))
            .attr("stroke", "#222222")
            .attr("stroke-width", "1.2")
            .attr("fill", "none")
    }

    fn values_text(&self, bar: &Bar) -> String {
        let unit = self.chart.unit;
        // The noise of what was measured once is unknown.
        if bar.n < 2 || bar.low >= bar.high {
            return format!("{}, {}", unit.show(bar.value), bar.n);
        }
        let scaled = unit.scaled_for(bar.value);
        format!(
            "{} ({} to {}), {}",
            unit.show(bar.value),
            unit.digits(bar.low, scaled),
            unit.digits(bar.high, scaled),
            bar.n
        )
    }
}
