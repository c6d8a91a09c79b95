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
pub use look::Looks;

use crate::figure::Chart;
use crate::markup::Element;

/// What all figures of a report have in common.
#[derive(Debug, Clone, Default)]
pub struct Drawing {
    /// Which setup has which colour, marker and number.
    pub looks: Looks,
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

    pub(crate) fn element(&self, chart: &Chart) -> Element {
        match chart {
            Chart::Lines(chart) => lines::draw(chart, self),
            Chart::Bars(chart) => bars::draw(chart, self),
        }
    }
}
