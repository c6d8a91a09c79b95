//! The dot chart: a name and its value above each dot, so that the chart is narrow.
//!
//! The area between the ends of the whiskers of the first strong row is tinted, so that the others
//! can be compared with it.

use crate::figure::{DotChart, DotEmphasis, DotRow, ValueScale, is_drawable, is_on_log_scale};
use crate::markup::Element;
use crate::text;

use super::SIMULATED;
use super::axis::ValueAxis;
use super::canvas::{
    CHARACTER_PX, GRID, characters_in, count, faint, label, no_data, px, rule, short_label, tooltip,
};

const WIDTH_PX: f64 = 400.0;
const ROW_PX: f64 = 36.0;
const LEFT_PX: f64 = 14.0;
const RIGHT_PX: f64 = WIDTH_PX - 14.0;
const LEGEND_ROW_PX: f64 = 17.0;
const STRONG_COLOR: &str = "#0072b2";
const PLAIN_COLOR: &str = "#777777";
const ODD_COLOR: &str = "#d55e00";

struct Plot<'a> {
    chart: &'a DotChart,
    rows: Vec<&'a DotRow>,
    axis: ValueAxis,
    top_px: f64,
    bottom_px: f64,
}

/// The chart as an SVG element.
pub fn draw(chart: &DotChart) -> Element {
    let is_on_scale = |value: f64| match chart.scale {
        ValueScale::Linear => is_drawable(value),
        ValueScale::Logarithmic => is_on_log_scale(value),
    };
    let rows: Vec<&DotRow> = chart.rows.iter().filter(|row| is_on_scale(row.value)).collect();
    let ends = rows.iter().flat_map(|row| {
        let (low, high) = row.range.unwrap_or((row.value, row.value));
        [row.value, low, high]
    });
    let ends = ends.filter(|value| is_on_scale(*value));
    let axis = ValueAxis::new(ends, chart.unit, chart.scale, LEFT_PX, RIGHT_PX);
    let top_px = 46.0;
    let bottom_px = top_px + ROW_PX * count(rows.len().max(1)) + 4.0;
    let plot = Plot { chart, rows, axis, top_px, bottom_px };
    let legend = plot.legend();
    let height_px = bottom_px + 42.0 + LEGEND_ROW_PX * count(legend.len());
    let notes = [chart.direction.note().to_owned(), plot.axis.caveat().unwrap_or_default().into()];
    let note = notes.into_iter().filter(|note| !note.is_empty()).collect::<Vec<_>>().join("; ");
    let marked = if chart.simulated {
        format!("{} ({SIMULATED})", chart.title)
    } else {
        chart.title.clone()
    };
    Element::new("svg")
        .attr("xmlns", "http://www.w3.org/2000/svg")
        .attr("viewBox", format!("0 0 {} {}", px(WIDTH_PX), px(height_px)))
        .attr("width", px(WIDTH_PX))
        .attr("height", px(height_px))
        .attr("role", "img")
        .attr("aria-label", &marked)
        .attr("font-family", "system-ui, 'DejaVu Sans', Arial, sans-serif")
        .attr("font-size", 12)
        .attr("fill", "#222222")
        .child(
            Element::new("rect")
                .attr("width", px(WIDTH_PX))
                .attr("height", px(height_px))
                .attr("fill", "#ffffff"),
        )
        .child(
            short_label(
                LEFT_PX,
                20.0,
                "start",
                &chart.title,
                characters_in(RIGHT_PX - LEFT_PX) - 6,
            )
            .attr("font-size", 14)
            .attr("font-weight", "bold"),
        )
        .child(faint(label(LEFT_PX, 37.0, "start", &note)))
        .children(chart.simulated.then(|| {
            label(RIGHT_PX, 37.0, "end", &SIMULATED.to_uppercase())
                .attr("fill", "#a33c00")
                .attr("font-weight", "bold")
        }))
        .children(plot.band())
        .children(plot.ticks())
        .children(plot.rows.iter().enumerate().map(|(index, row)| plot.row(index, row)))
        .child(faint(label(RIGHT_PX, bottom_px + 32.0, "end", &plot.axis.title(""))))
        .children(plot.rows.is_empty().then(|| no_data(WIDTH_PX / 2.0, top_px + 16.0)))
        .children(legend)
}

impl Plot<'_> {
    fn ticks(&self) -> impl Iterator<Item = Element> {
        self.axis.ticks.iter().flat_map(|(value, text)| {
            let x = self.axis.position(*value);
            // Labels at the ends stay inside.
            let (anchor, at) = match x {
                x if x < LEFT_PX + 10.0 => ("start", x - 4.0),
                x if x > RIGHT_PX - 10.0 => ("end", x + 8.0),
                x => ("middle", x),
            };
            [
                rule(x, self.top_px, x, self.bottom_px, GRID),
                label(at, self.bottom_px + 15.0, anchor, text),
            ]
        })
    }

    /// Behind all rows, where the first strong one may be.
    fn band(&self) -> Option<Element> {
        let strong = self.rows.iter().filter(|row| row.emphasis == DotEmphasis::Strong);
        let (low, high) = strong.filter_map(|row| row.range).next()?;
        let (low, high) = (self.axis.position(low), self.axis.position(high));
        (self.rows.len() > 1).then(|| {
            Element::new("rect")
                .attr("x", px(low))
                .attr("y", px(self.top_px))
                .attr("width", px((high - low).max(1.0)))
                .attr("height", px(self.bottom_px - self.top_px))
                .attr("fill", STRONG_COLOR)
                .attr("fill-opacity", "0.12")
        })
    }

    fn row(&self, index: usize, row: &DotRow) -> Element {
        let top = self.top_px + ROW_PX * count(index);
        let value = self.value_text(row);
        let free_px = RIGHT_PX - LEFT_PX - CHARACTER_PX * count(text::width(&value) + 1);
        // Capital letters are wider.
        let max_chars = characters_in(free_px * 0.8);
        let name = short_label(LEFT_PX, top + 14.0, "start", &row.name, max_chars);
        let name = if row.emphasis == DotEmphasis::Strong {
            name.attr("font-weight", "bold")
        } else {
            name
        };
        let middle = top + 25.0;
        Element::new("g")
            .child(name)
            .child(label(RIGHT_PX, top + 14.0, "end", &value))
            .child(rule(LEFT_PX, middle, RIGHT_PX, middle, GRID))
            .children(row.range.map(|range| self.whisker(range, middle)))
            .child(mark(row.emphasis, self.axis.position(row.value), middle))
            .child(tooltip(&format!("{}: {value}", row.name)))
    }

    fn whisker(&self, (low, high): (f64, f64), middle: f64) -> Element {
        let (low, high) = (px(self.axis.position(low)), px(self.axis.position(high)));
        let (top, bottom, middle) = (px(middle - 5.0), px(middle + 5.0), px(middle));
        Element::new("path")
            .attr("d", format!("M{low} {middle}H{high}M{low} {top}V{bottom}M{high} {top}V{bottom}"))
            .attr("stroke", "#222222")
            .attr("stroke-width", "1.6")
            .attr("fill", "none")
    }

    fn value_text(&self, row: &DotRow) -> String {
        let unit = self.chart.unit;
        let Some((low, high)) = row.range.filter(|(low, high)| low < high) else {
            return unit.show(row.value);
        };
        let scaled = unit.scaled_for(row.value);
        let digits = |value| unit.digits(value, scaled);
        format!("{} ({} to {})", unit.show(row.value), digits(low), digits(high))
    }

    /// One line for each emphasis that a row has.
    fn legend(&self) -> Vec<Element> {
        let has = |emphasis| self.rows.iter().any(|row| row.emphasis == emphasis);
        let used = self.chart.legend.iter().filter(|(emphasis, _)| has(*emphasis));
        used.enumerate()
            .map(|(index, (emphasis, meaning))| {
                let y = self.bottom_px + 48.0 + LEGEND_ROW_PX * count(index);
                Element::new("g")
                    .child(mark(*emphasis, LEFT_PX + 5.0, y - 4.0))
                    .child(faint(label(LEFT_PX + 16.0, y, "start", meaning)))
            })
            .collect()
    }
}

fn mark(emphasis: DotEmphasis, x: f64, y: f64) -> Element {
    if emphasis == DotEmphasis::Odd {
        return Element::new("path")
            .attr("d", "M0 -6L6 0L0 6L-6 0Z")
            .attr("transform", format!("translate({} {})", px(x), px(y)))
            .attr("fill", ODD_COLOR);
    }
    let dot = Element::new("circle").attr("cx", px(x)).attr("cy", px(y)).attr("r", "4.6");
    match emphasis {
        DotEmphasis::Strong => dot.attr("fill", STRONG_COLOR),
        DotEmphasis::Hollow => {
            dot.attr("fill", "#ffffff").attr("stroke", PLAIN_COLOR).attr("stroke-width", 2)
        }
        _ => dot.attr("fill", PLAIN_COLOR),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{BetterDirection, FigureUnit};

    fn row(name: &str, value: f64, range: Option<(f64, f64)>, emphasis: DotEmphasis) -> DotRow {
        DotRow { name: name.into(), value, range, emphasis }
    }

    #[test]
    fn what_has_no_interval_is_hollow_and_names_are_escaped() {
        let chart = DotChart {
            title: "Speed".into(),
            unit: FigureUnit::BytesPerSecond,
            direction: BetterDirection::HigherIsBetter,
            scale: ValueScale::Linear,
            legend: vec![
                (DotEmphasis::Strong, "highest".into()),
                (DotEmphasis::Hollow, "one card".into()),
                (DotEmphasis::Odd, "never".into()),
            ],
            simulated: false,
            rows: vec![
                row("fast", 4e6, Some((3e6, 5e6)), DotEmphasis::Strong),
                row("<script>", 2e6, None, DotEmphasis::Hollow),
                row("none", f64::NAN, None, DotEmphasis::Plain),
            ],
        };
        let svg = draw(&chart).to_string();
        assert!(svg.contains("&lt;script&gt;") && !svg.contains("<script>"), "{svg}");
        // In the row and in the legend.
        assert_eq!(svg.matches("stroke=\"#777777\"").count(), 2, "{svg}");
        assert!(svg.contains("3.815 MiB/s (2.861 to 4.768)"), "{svg}");
        assert!(!svg.contains("none:") && !svg.contains("never"), "{svg}");
        let empty = draw(&DotChart { rows: Vec::new(), simulated: true, ..chart }).to_string();
        assert!(empty.contains("no data") && empty.contains("SIMULATED"), "{empty}");
    }
}
