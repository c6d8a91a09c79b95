//! Distinguishes the lines of setups by color, marker, pattern and number.
//!
//! The colors are the palette of Okabe and Ito for color-blind readers. Its yellow, which is faint
//! on paper, and its black, which is used for text, are replaced by a dark red and a gray.

use crate::document::SetupRole;
use crate::figure::{Chart, FigureGroup};

use super::canvas::px;

const COLORS: [&str; 8] =
    ["#0072b2", "#d55e00", "#009e73", "#cc79a7", "#b98100", "#56b4e9", "#882255", "#777777"];
const DASHES: [&str; 3] = ["none", "6 3", "2 3"];
const CANDIDATE_PX: &str = "1.5";
const BASELINE_COLOR: &str = "#111111";

/// Assigns each setup a number, which determines its style in all charts of a report.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct LineStyles {
    names: Vec<String>,
}

/// The style of one line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct LineStyle {
    pub(crate) number: usize,
    pub(crate) color: &'static str,
    pub(crate) dash: &'static str,
    pub(crate) stroke_px: &'static str,
    marker: usize,
}

impl LineStyles {
    /// Numbers all setups that have a line, in order of appearance.
    pub fn of(groups: &[FigureGroup]) -> Self {
        let mut names: Vec<String> = Vec::new();
        for chart in groups.iter().flat_map(|group| &group.charts) {
            let Chart::Lines(chart) = chart else { continue };
            for series in &chart.series {
                if !names.contains(&series.name) {
                    names.push(series.name.clone());
                }
            }
        }
        Self { names }
    }

    /// The style of the line at `index` of a chart. A setup without a number gets one after all
    /// others.
    pub(crate) fn style(&self, name: &str, role: SetupRole, index: usize) -> LineStyle {
        let known = self.names.iter().position(|known| known == name);
        let rank = known.unwrap_or(self.names.len() + index);
        let is_baseline = matches!(role, SetupRole::Baseline | SetupRole::Defaults);
        LineStyle {
            number: rank + 1,
            color: if is_baseline { BASELINE_COLOR } else { COLORS[rank % COLORS.len()] },
            dash: if is_baseline { "9 4" } else { DASHES[rank / COLORS.len() % DASHES.len()] },
            stroke_px: match role {
                SetupRole::Baseline | SetupRole::Defaults => "2.2",
                SetupRole::Recommended => "3.2",
                SetupRole::Candidate => CANDIDATE_PX,
            },
            marker: rank % 7,
        }
    }
}

impl LineStyle {
    /// The outline of the marker, centered at the origin.
    pub(crate) fn marker_path(&self) -> &'static str {
        match self.marker {
            0 => "M-4 0A4 4 0 1 0 4 0A4 4 0 1 0 -4 0Z",
            1 => "M-3.6 -3.6H3.6V3.6H-3.6Z",
            2 => "M0 -4.6L4.4 3.4H-4.4Z",
            3 => "M0 -5L5 0L0 5L-5 0Z",
            4 => "M0 4.6L4.4 -3.4H-4.4Z",
            5 => "M-5 0H5M0 -5V5",
            _ => "M-4 -4L4 4M-4 4L4 -4",
        }
    }

    /// The transformation to a position; markers of thick lines are larger.
    pub(crate) fn marker_transform(&self, x: f64, y: f64) -> String {
        let size = if self.stroke_px == CANDIDATE_PX { "" } else { " scale(1.3)" };
        format!("translate({} {}){size}", px(x), px(y))
    }

    /// Every second round of colors has hollow markers.
    pub(crate) fn marker_fill(&self) -> &'static str {
        if (self.number - 1) / COLORS.len() % 2 == 0 { self.color } else { "#ffffff" }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn the_first_160_setups_have_different_styles() {
        let styles = LineStyles::default();
        let seen: HashSet<_> = (0..160)
            .map(|index| styles.style("x", SetupRole::Candidate, index))
            .map(|style| (style.color, style.dash, style.marker, style.marker_fill()))
            .collect();
        assert_eq!(seen.len(), 160);
    }
}
