//! The two axes: values with round ticks, and the points at which setups were measured.

use flashfit_device::Bytes;

use crate::figure::{ValueScale, XAxis};
use crate::quantity::{FigureUnit, Scaled, exponent_of, fixed};
use crate::text;

use super::canvas::characters_in;
use super::scale::{Scale, Ticks, linear_ticks, log_ticks};

/// Values are "far from zero" if the smallest is at least this share of the largest.
const FAR_FROM_ZERO: f64 = 0.6;

#[derive(Debug, Clone, PartialEq)]
pub(crate) struct ValueAxis {
    scale: Scale,
    logarithmic: bool,
    pub(crate) ticks: Vec<(f64, String)>,
    /// The unit after the name of the axis; empty if each tick has its own.
    pub(crate) unit_name: &'static str,
    /// Whether the axis does not include zero.
    pub(crate) without_zero: bool,
}

impl ValueAxis {
    /// An axis around `values`, which are finite, and positive where the scale is logarithmic.
    pub(crate) fn new(
        values: impl Iterator<Item = f64> + Clone,
        unit: FigureUnit,
        scale: ValueScale,
        low_px: f64,
        high_px: f64,
    ) -> Self {
        let largest = values.clone().fold(f64::NEG_INFINITY, f64::max);
        let smallest = values.fold(f64::INFINITY, f64::min);
        let pixels = (low_px, high_px);
        match (smallest.is_finite(), scale) {
            (false, _) => Self::linear(0.0, 1.0, unit, pixels),
            (true, ValueScale::Linear) => Self::linear(smallest, largest, unit, pixels),
            (true, ValueScale::Logarithmic) => Self::logarithmic(smallest, largest, unit, pixels),
        }
    }

    fn linear(
        smallest: f64,
        largest: f64,
        unit: FigureUnit,
        (low_px, high_px): (f64, f64),
    ) -> Self {
        let without_zero = smallest > 0.0 && smallest >= FAR_FROM_ZERO * largest;
        let below_zero = largest < 0.0 && largest <= FAR_FROM_ZERO * smallest;
        let low = if without_zero { smallest } else { smallest.min(0.0) };
        let high = if below_zero { largest } else { largest.max(0.0) };
        let scaled = unit.scaled_for(low.abs().max(high.abs()));
        let Ticks { values, decimals } =
            linear_ticks(low / scaled.divisor, high / scaled.divisor, 5);
        let values: Vec<f64> = values.into_iter().map(|tick| tick * scaled.divisor).collect();
        let text = |tick: f64| fixed(tick / scaled.divisor, decimals);
        Self {
            scale: Scale {
                low: *values.first().expect("there are at least two ticks"),
                high: *values.last().expect("there are at least two ticks"),
                low_px,
                high_px,
            },
            logarithmic: false,
            ticks: values.iter().map(|&tick| (tick, text(tick))).collect(),
            unit_name: scaled.name,
            without_zero: without_zero || below_zero,
        }
    }

    fn logarithmic(
        smallest: f64,
        largest: f64,
        unit: FigureUnit,
        (low_px, high_px): (f64, f64),
    ) -> Self {
        let base = Scaled { divisor: 1.0, name: "" };
        let scaled = if unit.is_decimal() { base } else { unit.scaled_for(largest) };
        let values = log_ticks(smallest / scaled.divisor, largest / scaled.divisor).values;
        let text = |tick: f64| {
            let own = if unit.is_decimal() { unit.scaled_for(tick * 1.000_001) } else { base };
            let decimals = usize::try_from(-exponent_of(tick / own.divisor * 1.000_001));
            let digits = fixed(tick / own.divisor, decimals.unwrap_or(0));
            if own.name.is_empty() { digits } else { format!("{digits} {}", own.name) }
        };
        let low = values.first().expect("there are at least two ticks") * scaled.divisor;
        let high = values.last().expect("there are at least two ticks") * scaled.divisor;
        Self {
            scale: Scale { low: low.log10(), high: high.log10(), low_px, high_px },
            logarithmic: true,
            ticks: values.iter().map(|&tick| (tick * scaled.divisor, text(tick))).collect(),
            unit_name: scaled.name,
            without_zero: true,
        }
    }

    pub(crate) fn position(&self, value: f64) -> f64 {
        self.scale.position(if self.logarithmic { value.log10() } else { value })
    }

    /// The name of the axis with its unit.
    pub(crate) fn title(&self, name: &str) -> String {
        match (self.unit_name, name) {
            ("", _) => name.to_owned(),
            (unit, "") => unit.to_owned(),
            (unit, _) => format!("{name} ({unit})"),
        }
    }

    /// Warns that lengths on this axis are not proportional to values.
    pub(crate) fn caveat(&self) -> Option<&'static str> {
        match (self.logarithmic, self.without_zero) {
            (true, _) => Some("logarithmic scale"),
            (false, true) => Some("the scale does not start at zero"),
            (false, false) => None,
        }
    }
}

/// The horizontal axis of a line chart.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct CategoryAxis {
    scale: Scale,
    powers_of_two: bool,
    /// The smallest distance between adjacent ticks.
    pub(crate) spacing_px: f64,
    /// Values and labels; crowded ticks have no label.
    pub(crate) ticks: Vec<(f64, Option<String>)>,
}

impl CategoryAxis {
    pub(crate) fn new(kind: &XAxis, values: &[f64], low_px: f64, high_px: f64) -> Self {
        let powers_of_two = !matches!(kind, XAxis::Labels(_));
        let positions: Vec<f64> =
            values.iter().map(|&x| if powers_of_two { x.log2() } else { x }).collect();
        let low = positions.first().copied().unwrap_or(0.0) - 0.5;
        let high = positions.last().copied().unwrap_or(0.0) + 0.5;
        let scale = Scale { low, high, low_px, high_px };
        let nearest = positions.windows(2).map(|pair| pair[1] - pair[0]).fold(high - low, f64::min);
        let mut axis = Self {
            scale,
            powers_of_two,
            spacing_px: nearest / (high - low) * (high_px - low_px),
            ticks: Vec::new(),
        };
        axis.ticks = axis.labeled_ticks(kind, values);
        axis
    }

    fn labeled_ticks(&self, kind: &XAxis, values: &[f64]) -> Vec<(f64, Option<String>)> {
        let max_chars = characters_in(self.spacing_px - 6.0).max(3);
        let texts: Vec<String> = match kind {
            XAxis::Labels(_) => {
                values.iter().map(|&x| text::shorten_end(&x_text(kind, x), max_chars)).collect()
            }
            _ => values.iter().map(|&x| x_text(kind, x)).collect(),
        };
        let longest = texts.iter().map(|text| text::width(text)).max().unwrap_or(0);
        let every = longest.div_ceil(max_chars).max(1);
        let texts = texts.into_iter().enumerate();
        let texts = texts.map(|(index, text)| (index % every == 0).then_some(text));
        values.iter().copied().zip(texts).collect()
    }

    pub(crate) fn position(&self, x: f64) -> f64 {
        self.scale.position(if self.powers_of_two { x.log2() } else { x })
    }
}

/// The text of a tick: a label, a size, or a ratio as a fraction.
pub(crate) fn x_text(kind: &XAxis, x: f64) -> String {
    let whole =
        |value: f64| (value.fract() == 0.0 && (0.0..1e15).contains(&value)).then_some(value);
    match kind {
        XAxis::Labels(labels) => whole(x)
            .and_then(|index| labels.get(index as usize))
            .map_or_else(|| fixed(x, 1), |label| text::plain(label)),
        XAxis::Bytes => whole(x)
            .map_or_else(|| FigureUnit::Bytes.show(x), |bytes| Bytes(bytes as u64).to_string()),
        XAxis::Ratio => match (whole(x), whole(1.0 / x)) {
            (Some(times), _) => fixed(times, 0),
            (None, Some(part)) => format!("1/{}", fixed(part, 0)),
            (None, None) => fixed(x, 2),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn marks(axis: &ValueAxis) -> Vec<&str> {
        axis.ticks.iter().map(|(_, text)| text.as_str()).collect()
    }

    #[test]
    fn throughputs_are_marked_in_one_unit() {
        let values = [1_000_000.0, 9_000_000.0];
        let axis = ValueAxis::new(
            values.into_iter(),
            FigureUnit::BytesPerSecond,
            ValueScale::Linear,
            100.0,
            0.0,
        );
        assert_eq!(marks(&axis), ["0", "2", "4", "6", "8", "10"]);
        assert_eq!(axis.title("throughput"), "throughput (MiB/s)");
        assert_eq!(axis.caveat(), None);
        assert_eq!(axis.position(0.0), 100.0);
    }

    #[test]
    fn times_on_a_log_axis_have_a_unit_at_each_tick() {
        let values = [30_000.0, 40_000_000.0];
        let axis = ValueAxis::new(
            values.into_iter(),
            FigureUnit::Nanoseconds,
            ValueScale::Logarithmic,
            100.0,
            0.0,
        );
        assert_eq!(marks(&axis), ["10 µs", "100 µs", "1 ms", "10 ms", "100 ms"]);
        assert_eq!(axis.caveat(), Some("logarithmic scale"));
    }

    #[test]
    fn an_axis_of_values_far_from_zero_leaves_it_out_and_warns() {
        let values = [9.70, 9.84];
        let axis =
            ValueAxis::new(values.into_iter(), FigureUnit::Number, ValueScale::Linear, 0.0, 100.0);
        assert_eq!(marks(&axis), ["9.70", "9.75", "9.80", "9.85"]);
        assert!(axis.caveat().is_some());
        let changes = [-3.0, 12.0];
        let axis = ValueAxis::new(
            changes.into_iter(),
            FigureUnit::PercentChange,
            ValueScale::Linear,
            0.0,
            1.0,
        );
        assert_eq!(marks(&axis), ["-5", "0", "5", "10", "15"]);
    }

    #[test]
    fn an_axis_without_values_has_ticks() {
        let none = std::iter::empty();
        let axis = ValueAxis::new(none, FigureUnit::Number, ValueScale::Logarithmic, 0.0, 100.0);
        assert_eq!(marks(&axis).len(), 6);
    }

    #[test]
    fn ticks_have_readable_labels() {
        assert_eq!(x_text(&XAxis::Bytes, 1_048_576.0), "1 MiB");
        assert_eq!(x_text(&XAxis::Ratio, 0.5), "1/2");
        assert_eq!(x_text(&XAxis::Ratio, 2.0), "2");
        assert_eq!(x_text(&XAxis::Ratio, 1.5), "1.50");
        let labels = XAxis::Labels(vec!["cold".into(), "warm".into()]);
        assert_eq!(x_text(&labels, 1.0), "warm");
        assert_eq!(x_text(&labels, 7.0), "7.0");
    }

    #[test]
    fn crowded_ticks_are_not_all_labeled() {
        let values: Vec<f64> = (12..32).map(|power| 2f64.powi(power)).collect();
        let axis = CategoryAxis::new(&XAxis::Bytes, &values, 0.0, 600.0);
        let labeled = axis.ticks.iter().filter(|(_, text)| text.is_some()).count();
        assert!((5..15).contains(&labeled), "{labeled}");
    }
}
