//! How the lines of setups are told apart: colour, marker, pattern and number.
//!
//! The colours are those of Okabe and Ito's palette for colour-blind readers, with its yellow and
//! black, which are lost on paper or taken for text, replaced by a wine red and a grey.

use crate::document::SetupRole;
use crate::figure::{Chart, FigureGroup};

use super::canvas::px;

const COLOURS: [&str; 8] =
    ["#0072b2", "#d55e00", "#009e73", "#cc79a7", "#b98100", "#56b4e9", "#882255", "#777777"];
const DASHES: [&str; 3] = ["none", "6 3", "2 3"];
const CANDIDATE_PX: &str = "1.5";
const UNTUNED: &str = "#111111";

/// The number of each setup, from which its look follows; the same in all figures of a report.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct LineStyles {
    names: Vec<String>,
}

/// The look of one setup's line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct LineStyle {
    /// From 1.
    pub(crate) number: usize,
    pub(crate) colour: &'static str,
    pub(crate) dash: &'static str,
    pub(crate) stroke_px: &'static str,
    marker: usize,
}

impl LineStyles {
    /// Numbers for all setups that have a line, in order of appearance.
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

    /// The look of a setup in a chart, of which it is the line at `index`: a setup that was not
    /// numbered takes one after all that were.
    pub(crate) fn look(&self, name: &str, role: SetupRole, index: usize) -> LineStyle {
        let known = self.names.iter().position(|known| known == name);
        let rank = known.unwrap_or(self.names.len() + index);
        let untuned = role == SetupRole::Untuned;
        LineStyle {
            number: rank + 1,
            colour: if untuned { UNTUNED } else { COLOURS[rank % COLOURS.len()] },
            dash: if untuned { "9 4" } else { DASHES[rank / COLOURS.len() % DASHES.len()] },
            stroke_px: match role {
                SetupRole::Untuned => "2.2",
                SetupRole::Recommended => "3.2",
                SetupRole::Candidate => CANDIDATE_PX,
            },
            marker: rank % 7,
        }
    }
}

impl LineStyle {
    /// The marker's outline, for a path at the origin.
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

    /// Where the marker stands; those of the thicker lines are larger.
    pub(crate) fn marker_place(&self, x: f64, y: f64) -> String {
        let size = if self.stroke_px == CANDIDATE_PX { "" } else { " scale(1.3)" };
        format!("translate({} {}){size}", px(x), px(y))
    }

    /// What fills the marker: every second round of colours is hollow.
    pub(crate) fn marker_fill(&self) -> &'static str {
        if (self.number - 1) / COLOURS.len() % 2 == 0 { self.colour } else { "#ffffff" }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn the_first_hundred_and_sixty_setups_look_different() {
        let looks = LineStyles::default();
        let seen: HashSet<_> = (0..160)
            .map(|index| looks.look("x", SetupRole::Candidate, index))
            .map(|look| (look.colour, look.dash, look.marker, look.marker_fill()))
            .collect();
        assert_eq!(seen.len(), 160);
    }
}
