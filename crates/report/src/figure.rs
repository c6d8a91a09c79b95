//! Charts as data: lines over block size or working set, and bars with whiskers.
//!
//! A [`LineChart`] corresponds to the plots of `gdiff` in the CELF methodology: one measured value
//! against the block size or the working set in units of free memory, with one line per setup.

use crate::document::{RangeMeaning, RankingTable, SetupRole};
use crate::quantity::FigureUnit;

/// Charts under one heading.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct FigureGroup {
    /// A workload, or `Overview`.
    pub title: String,
    /// One sentence: what the charts show and what to conclude.
    pub explanation: String,
    pub charts: Vec<Chart>,
}

#[derive(Debug, Clone, PartialEq)]
pub enum Chart {
    /// Lines, one a setup.
    Lines(LineChart),
    /// Bars with whiskers, one a setup.
    Bars(BarChart),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum BetterDirection {
    #[default]
    HigherIsBetter,
    LowerIsBetter,
    /// Evidence, which is neither good nor bad.
    Neither,
}

impl BetterDirection {
    pub fn note(self) -> &'static str {
        match self {
            Self::HigherIsBetter => "higher is better ↑",
            Self::LowerIsBetter => "lower is better ↓",
            Self::Neither => "",
        }
    }
}

/// The kind of horizontal axis, which defines what `x` of a point means.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum XAxis {
    /// `x` is an index into these labels.
    Labels(Vec<String>),
    /// A logarithmic scale of powers of two; `x` is in bytes.
    Bytes,
    /// A logarithmic scale of powers of two, shown as `1/2`, `1`, `2`; `x` is the ratio.
    Ratio,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum ValueScale {
    /// From zero, unless all values are far from it; the chart then says so.
    #[default]
    Linear,
    /// Powers of ten; values below 10^-9 are left out.
    Logarithmic,
}

#[derive(Debug, Clone, PartialEq)]
pub struct LineChart {
    pub title: String,
    pub x_label: String,
    pub y_label: String,
    /// The unit of `y`, `low` and `high`.
    pub y_unit: FigureUnit,
    /// Which way is good.
    pub direction: BetterDirection,
    pub x_axis: XAxis,
    /// How the vertical axis runs.
    pub y_scale: ValueScale,
    pub spread: RangeMeaning,
    pub series: Vec<ChartSeries>,
}

/// One line. A setup has the same color, marker and number in all charts of a report.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct ChartSeries {
    pub name: String,
    /// The baseline and the recommended setup are drawn with thicker lines.
    pub role: SetupRole,
    pub points: Vec<ChartPoint>,
}

#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct ChartPoint {
    pub x: f64,
    /// In the unit of the chart; values that are not finite or beyond 10^18 are left out.
    pub y: f64,
    pub low: f64,
    pub high: f64,
    /// The number of measurements.
    pub n: u32,
}

/// One value for each setup, as horizontal bars with whiskers.
#[derive(Debug, Clone, PartialEq)]
pub struct BarChart {
    pub title: String,
    pub value_label: String,
    pub unit: FigureUnit,
    /// Which way is good.
    pub direction: BetterDirection,
    pub spread: RangeMeaning,
    pub bars: Vec<Bar>,
}

#[derive(Debug, Clone, PartialEq, Default)]
pub struct Bar {
    pub name: String,
    pub role: SetupRole,
    /// In the unit of the chart; values that are not finite or beyond 10^18 are left out.
    pub value: f64,
    pub low: f64,
    pub high: f64,
    /// The number of measurements.
    pub n: u32,
}

/// One value of each of several things, such as products, as dots with whiskers, one below the
/// other. It is narrow enough for a telephone.
#[derive(Debug, Clone, PartialEq)]
pub struct DotChart {
    pub title: String,
    pub unit: FigureUnit,
    pub direction: BetterDirection,
    pub scale: ValueScale,
    /// What the emphases mean; those that no row has are left out.
    pub legend: Vec<(DotEmphasis, String)>,
    pub simulated: bool,
    pub rows: Vec<DotRow>,
}

#[derive(Debug, Clone, PartialEq, Default)]
pub struct DotRow {
    pub name: String,
    /// In the unit of the chart; values that are not finite or beyond 10^18 are left out.
    pub value: f64,
    /// The ends of the whiskers; `None` where the noise is unknown.
    pub range: Option<(f64, f64)>,
    pub emphasis: DotEmphasis,
}

/// How a dot is drawn.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum DotEmphasis {
    /// Filled and colored.
    Strong,
    /// Filled, without a color.
    #[default]
    Plain,
    /// Hollow: nothing is known about the noise.
    Hollow,
    /// A colored diamond.
    Odd,
}

impl BarChart {
    /// A ranking as bars, best on top; higher scores are better.
    pub fn of_ranking(ranking: &RankingTable, value_label: &str) -> Self {
        let bars = ranking
            .rows
            .iter()
            .map(|row| Bar {
                name: row.setup.clone(),
                role: row.role,
                value: row.score,
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
    /// All labels, or the distinct `x` that have a value, in order.
    pub(crate) fn x_values(&self) -> Vec<f64> {
        let mut values: Vec<f64> = match &self.x_axis {
            XAxis::Labels(labels) => (0u32..).take(labels.len()).map(f64::from).collect(),
            XAxis::Bytes | XAxis::Ratio => {
                self.series.iter().flat_map(|series| self.drawable(series)).map(|p| p.x).collect()
            }
        };
        values.sort_by(f64::total_cmp);
        values.dedup();
        values
    }

    /// The points that can be drawn, from left to right, with `low` and `high` around the value.
    pub(crate) fn drawable(&self, series: &ChartSeries) -> Vec<ChartPoint> {
        let mut points: Vec<ChartPoint> = series
            .points
            .iter()
            .filter(|point| self.is_on_x_axis(point.x) && self.is_on_y_axis(point.y))
            .map(|point| ChartPoint {
                low: if self.is_on_y_axis(point.low) { point.low.min(point.y) } else { point.y },
                high: if self.is_on_y_axis(point.high) { point.high.max(point.y) } else { point.y },
                ..*point
            })
            .collect();
        points.sort_by(|a, b| a.x.total_cmp(&b.x));
        points
    }

    fn is_on_x_axis(&self, x: f64) -> bool {
        match &self.x_axis {
            XAxis::Labels(labels) => (0u32..).take(labels.len()).any(|index| f64::from(index) == x),
            XAxis::Bytes | XAxis::Ratio => is_on_log_scale(x),
        }
    }

    fn is_on_y_axis(&self, y: f64) -> bool {
        match self.y_scale {
            ValueScale::Linear => is_drawable(y),
            ValueScale::Logarithmic => is_on_log_scale(y),
        }
    }
}

/// Whether axes and their labels can represent the value.
pub(crate) fn is_drawable(value: f64) -> bool {
    value.is_finite() && value.abs() <= 1e18
}

pub(crate) fn is_on_log_scale(value: f64) -> bool {
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
    fn points_off_the_axes_are_left_out() {
        let odd = vec![
            point(2.0, 1.0),
            point(f64::NAN, 1.0),
            point(1.0, f64::INFINITY),
            point(-1.0, 1.0),
            point(1.0, 3.0),
            point(4.0, 0.0),
        ];
        let log = chart(XAxis::Bytes, ValueScale::Logarithmic, odd.clone());
        assert_eq!(log.x_values(), [1.0, 2.0]);
        assert_eq!(log.drawable(&log.series[0]), [point(1.0, 3.0), point(2.0, 1.0)]);
        let labeled = chart(XAxis::Labels(vec!["a".into(), "b".into()]), ValueScale::Linear, odd);
        assert_eq!(labeled.x_values(), [0.0, 1.0]);
        assert_eq!(labeled.drawable(&labeled.series[0]), [point(1.0, 3.0)]);
    }

    #[test]
    fn an_invalid_range_shrinks_to_the_value() {
        let odd = ChartPoint { x: 1.0, y: 5.0, low: 9.0, high: f64::NAN, n: 1 };
        let chart = chart(XAxis::Ratio, ValueScale::Linear, vec![odd]);
        assert_eq!(chart.drawable(&chart.series[0]), [point(1.0, 5.0)]);
    }
}
