//! Charts as SVG.
//!
//! Only presentation attributes are used: a content security policy can block style sheets, style
//! attributes and scripts, but not those. Colors, markers and line patterns together distinguish
//! about a hundred setups, for color-blind readers and in grayscale too. Each point has its values
//! as a tooltip. Coordinates have one decimal to keep the output short and stable.

mod axis;
mod bars;
mod canvas;
mod dots;
mod lines;
mod scale;
mod style;

pub(crate) use axis::x_text;
pub use dots::draw as draw_dots;
pub use style::LineStyles;

use crate::figure::Chart;
use crate::markup::Element;

/// What all charts of a report have in common.
#[derive(Debug, Clone, Default)]
pub struct Drawing {
    /// The color, marker and number of each setup.
    pub styles: LineStyles,
    /// Whether the values come from a simulated card; each chart then says so.
    pub simulated: bool,
}

pub(crate) const SIMULATED: &str = "simulated card";

impl Drawing {
    /// A chart as an SVG document, for a file or a page.
    pub fn draw(&self, chart: &Chart) -> String {
        self.element(chart).to_string()
    }

    /// Charts one below the other, as one SVG document.
    pub fn stack(&self, charts: &[Chart]) -> String {
        let mut drawn = Vec::new();
        let mut bottom_px = 0.0;
        for chart in charts {
            let (element, height_px) = self.sized(chart);
            drawn.push(element.attr("y", canvas::px(bottom_px)));
            bottom_px += height_px;
        }
        let (width, height) = (canvas::px(canvas::WIDTH_PX), canvas::px(bottom_px));
        Element::new("svg")
            .attr("xmlns", "http://www.w3.org/2000/svg")
            // flashfit replaces only files with this mark.
            .attr("class", "flashfit-drawing")
            .attr("viewBox", format!("0 0 {width} {height}"))
            .attr("width", width)
            .attr("height", height)
            .children(drawn)
            .to_string()
    }

    pub(crate) fn element(&self, chart: &Chart) -> Element {
        self.sized(chart).0
    }

    /// A chart and its height in pixels.
    fn sized(&self, chart: &Chart) -> (Element, f64) {
        match chart {
            Chart::Lines(chart) => lines::draw(chart, self),
            Chart::Bars(chart) => bars::draw(chart, self),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::figure::{BarChart, BetterDirection, LineChart, ValueScale, XAxis};
    use crate::{FigureUnit, RangeMeaning};

    #[test]
    fn stacked_charts_are_below_one_another() {
        let lines = Chart::Lines(LineChart {
            title: "lines".into(),
            x_label: String::new(),
            y_label: String::new(),
            y_unit: FigureUnit::Nanoseconds,
            direction: BetterDirection::Neither,
            x_axis: XAxis::Bytes,
            y_scale: ValueScale::Linear,
            spread: RangeMeaning::default(),
            series: Vec::new(),
        });
        let bars = Chart::Bars(BarChart {
            title: "bars".into(),
            value_label: String::new(),
            unit: FigureUnit::Number,
            direction: BetterDirection::default(),
            spread: RangeMeaning::default(),
            bars: Vec::new(),
        });
        let drawing = Drawing::default();
        let stacked = drawing.stack(&[lines.clone(), bars.clone()]);
        let heights = [drawing.sized(&lines).1, drawing.sized(&bars).1];
        assert!(stacked.contains(&format!(" y=\"{}\"", canvas::px(heights[0]))), "{stacked}");
        assert!(stacked.contains(&format!("height=\"{}\"", canvas::px(heights[0] + heights[1]))));
        assert_eq!(stacked.matches("<svg").count(), 3);
        assert!(!stacked.contains("better ↓"), "evidence is neither good nor bad");
    }
}
