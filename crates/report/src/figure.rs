//! Figures as data: lines over block sizes or work sets, and bars with whiskers.
//!
//! A [`LineChart`] is what the CELF methodology's `gdiff` plots: one measured parameter against the
//! block size or against the work set in units of free memory, one line a setup.

use crate::document::{RangeMeaning, RankingTable, SetupRole};
use crate::quantity::FigureUnit;

/// Figures that belong together, under one heading.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct FigureGroup {
    /// The heading: a workload, or `Overview`.
    pub title: String,
    /// One sentence: what the figures show and what to conclude.
    pub explanation: String,
    /// The figures.
    pub charts: Vec<Chart>,
}

/// A figure.
#[derive(Debug, Clone, PartialEq)]
pub enum Chart {
    /// Lines, one a setup.
    Lines(LineChart),
    /// Bars with whiskers, one a setup.
    Bars(BarChart),
}

/// Which way is good.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum BetterDirection {
    /// Throughputs, merits, gains.
    #[default]
    HigherIsBetter,
    /// Latencies, wear.
    LowerIsBetter,
    /// Evidence, which is neither good nor bad.
    Neither,
}

impl BetterDirection {
    /// As words, with an arrow.
    pub fn note(self) -> &'static str {
        match self {
            Self::HigherIsBetter => "higher is better ↑",
            Self::LowerIsBetter => "lower is better ↓",
            Self::Neither => "",
        }
    }
}

/// What stands along the horizontal axis, and what the points' `x` counts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum XAxis {
    /// Labels in order; `x` is an index into them.
    Labels(Vec<String>),
    /// Sizes on a scale of powers of two; `x` is in bytes.
    Bytes,
    /// Ratios on a scale of powers of two, shown as `1/2`, `1`, `2`; `x` is the ratio.
    Ratio,
}

/// How the vertical axis runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum ValueScale {
    /// Evenly, from zero unless all values lie far from it; the figure says which.
    #[default]
    Linear,
    /// In powers of ten; values below 10^-9 are left out.
    Logarithmic,
}

/// One parameter against block size or work set, a line a setup.
#[derive(Debug, Clone, PartialEq)]
pub struct LineChart {
    /// What is shown.
    pub title: String,
    /// The horizontal axis, in words.
    pub x_label: String,
    /// The vertical axis, in words and without a unit.
    pub y_label: String,
    /// What `y`, `low` and `high` count.
    pub y_unit: FigureUnit,
    /// Which way is good.
    pub direction: BetterDirection,
    /// What the points' `x` counts.
    pub x_axis: XAxis,
    /// How the vertical axis runs.
    pub y_scale: ValueScale,
    /// What the points' `low` and `high` are.
    pub spread: RangeMeaning,
    /// The lines.
    pub series: Vec<ChartSeries>,
}

/// One line. A setup has the same colour, marker and number in all figures of a report.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct ChartSeries {
    /// The setup's name.
    pub name: String,
    /// Whether it is the untuned or the recommended one, which are drawn stronger.
    pub role: SetupRole,
    /// Its points, in any order.
    pub points: Vec<ChartPoint>,
}

/// One point of a line.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct ChartPoint {
    /// Where, as the chart's [`XAxis`] tells.
    pub x: f64,
    /// The value in the chart's unit; one that is not finite or beyond 10^18 is left out.
    pub y: f64,
    /// The lower end of the spread.
    pub low: f64,
    /// The upper end of the spread.
    pub high: f64,
    /// How many measurements it is made of.
    pub n: u32,
}

/// Setups against a value, as horizontal bars with whiskers.
#[derive(Debug, Clone, PartialEq)]
pub struct BarChart {
    /// What is shown.
    pub title: String,
    /// The value, in words and without a unit.
    pub value_label: String,
    /// What the values count.
    pub unit: FigureUnit,
    /// Which way is good.
    pub direction: BetterDirection,
    /// What `low` and `high` are.
    pub spread: RangeMeaning,
    /// The bars from the top.
    pub bars: Vec<Bar>,
}

/// One bar.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Bar {
    /// The setup's name.
    pub name: String,
    /// Whether it is the untuned or the recommended one.
    pub role: SetupRole,
    /// The value in the chart's unit; one that is not finite or beyond 10^18 is left out.
    pub value: f64,
    /// The lower end of the spread.
    pub low: f64,
    /// The upper end of the spread.
    pub high: f64,
    /// How many measurements it is made of.
    pub n: u32,
}

impl BarChart {
    /// A ranking as bars, best on top; a merit is always better when higher.
    pub fn of_ranking(ranking: &RankingTable, value_label: &str) -> Self {
        let bars = ranking
            .rows
            .iter()
            .map(|row| Bar {
                name: row.setup.clone(),
                role: row.role,
                value: row.merit,
                low: row.low,
                high: row.high,
                n: row.trials,
            })
            .collect();
        Self {
            title: ranking.title.clone(),
            value_label: value_label.to_owned(),
            unit: ranking.unit,
            direction: BetterDirection::HigherIsBetter,
            spread: ranking.spread,
            bars,
        }
    }
}

impl LineChart {
    /// The distinct places along the horizontal axis that hold a value, in order.
    pub(crate) fn places(&self) -> Vec<f64> {
        let mut places: Vec<f64> = match &self.x_axis {
            XAxis::Labels(labels) => (0u32..).take(labels.len()).map(f64::from).collect(),
            XAxis::Bytes | XAxis::Ratio => {
                self.series.iter().flat_map(|series| self.drawable(series)).map(|p| p.x).collect()
            }
        };
        places.sort_by(f64::total_cmp);
        places.dedup();
        places
    }

    /// The points of a series that can be drawn, from left to right, with an orderly spread.
    pub(crate) fn drawable(&self, series: &ChartSeries) -> Vec<ChartPoint> {
        let mut points: Vec<ChartPoint> = series
            .points
            .iter()
            .filter(|point| self.has_place(point.x) && self.has_height(point.y))
            .map(|point| ChartPoint {
                low: if self.has_height(point.low) { point.low.min(point.y) } else { point.y },
                high: if self.has_height(point.high) { point.high.max(point.y) } else { point.y },
                ..*point
            })
            .collect();
        points.sort_by(|a, b| a.x.total_cmp(&b.x));
        points
    }

    fn has_place(&self, x: f64) -> bool {
        match &self.x_axis {
            XAxis::Labels(labels) => (0u32..).take(labels.len()).any(|index| f64::from(index) == x),
            XAxis::Bytes | XAxis::Ratio => is_on_log_scale(x),
        }
    }

    fn has_height(&self, y: f64) -> bool {
        match self.y_scale {
            ValueScale::Linear => is_drawable(y),
            ValueScale::Logarithmic => is_on_log_scale(y),
        }
    }
}

/// Whether a value is one that is measured at all; beyond it, axes and their texts would break.
pub(crate) fn is_drawable(value: f64) -> bool {
    value.is_finite() && value.abs() <= 1e18
}

fn is_on_log_scale(value: f64) -> bool {
    is_drawable(value) && value >= 1e-9
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chart(x_axis: XAxis, y_scale: ValueScale, points: Vec<ChartPoint>) -> LineChart {
        LineChart {
            title: String::new(),
            x_label: String::new(),
            y_label: String::new(),
            y_unit: FigureUnit::Number,
            direction: BetterDirection::default(),
            x_axis,
            y_scale,
            spread: RangeMeaning::default(),
            series: vec![ChartSeries { points, ..ChartSeries::default() }],
        }
    }

    fn point(x: f64, y: f64) -> ChartPoint {
        ChartPoint { x, y, low: y, high: y, n: 1 }
    }

    #[test]
    fn points_without_a_place_or_a_height_are_left_out() {
        let odd = vec![
            point(2.0, 1.0),
            point(f64::NAN, 1.0),
            point(1.0, f64::INFINITY),
            point(-1.0, 1.0),
            point(1.0, 3.0),
            point(4.0, 0.0),
        ];
        let log = chart(XAxis::Bytes, ValueScale::Logarithmic, odd.clone());
        assert_eq!(log.places(), [1.0, 2.0]);
        assert_eq!(log.drawable(&log.series[0]), [point(1.0, 3.0), point(2.0, 1.0)]);
        let labelled = chart(XAxis::Labels(vec!["a".into(), "b".into()]), ValueScale::Linear, odd);
        assert_eq!(labelled.places(), [0.0, 1.0]);
        assert_eq!(labelled.drawable(&labelled.series[0]), [point(1.0, 3.0)]);
    }

    #[test]
    fn a_spread_that_is_no_number_or_upside_down_shrinks_to_the_value() {
        let odd = ChartPoint { x: 1.0, y: 5.0, low: 9.0, high: f64::NAN, n: 1 };
        let chart = chart(XAxis::Ratio, ValueScale::Linear, vec![odd]);
        assert_eq!(chart.drawable(&chart.series[0]), [point(1.0, 5.0)]);
    }
}
