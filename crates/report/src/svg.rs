//! Figures as SVG that draws wherever it is opened.
//!
//! Only presentation attributes are used: a page's content security policy may drop style sheets,
//! style attributes and scripts, but not those. Colours, markers and line patterns together tell
//! about a hundred setups apart, also for colour-blind readers and in grey; each point carries its
//! figures as a tooltip. Coordinates have one decimal, so that the output is short and stable.

mod axis;
mod bars;
mod canvas;
mod lines;
mod look;
mod scale;

pub(crate) use axis::place_text;
pub use look::LineStyles;

use crate::figure::Chart;
use crate::markup::Element;

/// What all figures of a report have in common.
#[derive(Debug, Clone, Default)]
pub struct Drawing {
    /// Which setup has which colour, marker and number.
    pub looks: LineStyles,
    /// Whether the figures come from a simulated card; each figure then says so.
    pub simulated: bool,
}

/// What a figure of a simulated card says.
pub(crate) const SIMULATED: &str = "simulated card";

impl Drawing {
    /// A figure as an SVG document that can stand alone or within a page.
    pub fn draw(&self, chart: &Chart) -> String {
        self.element(chart).to_string()
    }

    /// Figures one below the other, as one SVG document.
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
            // What tells flashfit that it may replace the file.
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

    /// A figure and its height in pixels.
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
    fn stacked_figures_lie_below_one_another() {
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
