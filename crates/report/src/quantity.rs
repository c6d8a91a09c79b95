//! Formats values with their units for people.
//!
//! Sizes and rates are in powers of 1024 (`12.3 MiB/s`), times in powers of 1000 (`1.20 ms`).
//! Values are rounded to the precision of a measurement; the run directory has the exact ones.

/// The unit of a value.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum FigureUnit {
    /// A bare number, such as a score.
    #[default]
    Number,
    /// A share, in percent.
    Percent,
    /// A change in percent, always with its sign.
    PercentChange,
    /// A size, in bytes.
    Bytes,
    BytesPerSecond,
    RequestsPerSecond,
    /// A time, in nanoseconds.
    Nanoseconds,
}

/// A unit with its prefix, such as MiB or µs.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Scaled {
    pub(crate) divisor: f64,
    pub(crate) name: &'static str,
}

/// Shown instead of a value that is not finite.
pub(crate) const NO_VALUE: &str = "–";

const KIB: f64 = 1024.0;
const MIB: f64 = 1_048_576.0;
const GIB: f64 = 1_073_741_824.0;

/// A probability from 0 to 1 in whole percent: `93 %`. No measurement is certain or impossible, so
/// the ends of the scale are `> 99 %` and `< 1 %`.
pub fn probability(probability: f64) -> String {
    let percent = 100.0 * probability;
    if !percent.is_finite() {
        NO_VALUE.to_owned()
    } else if percent > 99.0 {
        "> 99 %".to_owned()
    } else if percent < 1.0 {
        "< 1 %".to_owned()
    } else {
        format!("{percent:.0} %")
    }
}

impl FigureUnit {
    /// A rounded value with its unit: `12.34 MiB/s`, `+8.1 %`.
    pub fn show(self, value: f64) -> String {
        if !value.is_finite() {
            return NO_VALUE.to_owned();
        }
        let scaled = self.scaled_for(value);
        let number = self.digits(value, scaled);
        if scaled.name.is_empty() { number } else { format!("{number} {}", scaled.name) }
    }

    /// Two values with one unit, that of the second: `1.20 to 12.34 MiB/s`.
    pub fn show_range(self, low: f64, high: f64) -> String {
        let scaled = self.scaled_for(high);
        let unit = if scaled.name.is_empty() { String::new() } else { format!(" {}", scaled.name) };
        format!("{} to {}{unit}", self.digits(low, scaled), self.digits(high, scaled))
    }

    /// The unit with the prefix that suits a value of this magnitude.
    pub(crate) fn scaled_for(self, value: f64) -> Scaled {
        let steps: &[(f64, &'static str)] = match self {
            Self::Number => &[(1.0, "")],
            Self::Percent | Self::PercentChange => &[(1.0, "%")],
            Self::Bytes => &[(1.0, "B"), (KIB, "KiB"), (MIB, "MiB"), (GIB, "GiB")],
            Self::BytesPerSecond => &[(1.0, "B/s"), (KIB, "KiB/s"), (MIB, "MiB/s"), (GIB, "GiB/s")],
            Self::RequestsPerSecond => &[(1.0, "/s")],
            Self::Nanoseconds => &[(1.0, "ns"), (1e3, "µs"), (1e6, "ms"), (1e9, "s")],
        };
        let (divisor, name) = steps
            .iter()
            .rev()
            .find(|(divisor, _)| value.abs() >= *divisor)
            .unwrap_or(&steps[0])
            .to_owned();
        Scaled { divisor, name }
    }

    /// The digits of a value at a given prefix, without the name of the unit.
    pub(crate) fn digits(self, value: f64, scaled: Scaled) -> String {
        if !value.is_finite() {
            return NO_VALUE.to_owned();
        }
        let value = value / scaled.divisor;
        match self {
            Self::PercentChange => format!("{:+.1}", unsigned_zero(value, 1)),
            Self::Percent => fixed(value, 1),
            Self::Number => significant(value, 5),
            Self::Bytes if value.fract() == 0.0 => fixed(value, 0),
            _ => significant(value, 4),
        }
    }

    /// Whether the prefixes are powers of ten, so ticks at powers of ten suit all of them.
    pub(crate) fn is_decimal(self) -> bool {
        self == Self::Nanoseconds
    }
}

/// A number with `decimals` digits after the point; never `-0`.
pub(crate) fn fixed(value: f64, decimals: usize) -> String {
    format!("{:.decimals$}", unsigned_zero(value, decimals))
}

/// A percentage as part of a sentence: `23`, and `0.3` where a whole number would be 0 or 1.
pub fn whole(percent: f64) -> String {
    fixed(percent, decimals_of(percent))
}

/// The same with its sign: `+23`.
pub fn whole_change(percent: f64) -> String {
    let decimals = decimals_of(percent);
    format!("{:+.decimals$}", unsigned_zero(percent, decimals))
}

fn decimals_of(percent: f64) -> usize {
    usize::from(percent.abs() < 0.95)
}

fn unsigned_zero(value: f64, decimals: usize) -> f64 {
    let exponent = i32::try_from(decimals).expect("a handful of digits");
    if value.abs() * 10f64.powi(exponent) < 0.5 { 0.0 } else { value }
}

pub(crate) fn significant(value: f64, digits: i32) -> String {
    let before_point = exponent_of(value) + 1;
    fixed(value, usize::try_from((digits - before_point).clamp(0, digits + 2)).unwrap_or(0))
}

/// The power of ten of the first digit; 0 for zero.
pub(crate) fn exponent_of(value: f64) -> i32 {
    if value == 0.0 { 0 } else { value.abs().log10().floor() as i32 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn probabilities_never_reach_zero_or_one() {
        let shown = [0.0, 0.0099, 0.01, 0.5, 0.984, 0.99, 0.9901, 1.0].map(probability);
        let wanted = ["< 1 %", "< 1 %", "1 %", "50 %", "98 %", "99 %", "> 99 %", "> 99 %"];
        assert_eq!(shown, wanted);
        assert_eq!(probability(f64::NAN), NO_VALUE);
    }

    #[test]
    fn percentages_in_sentences_are_whole_unless_they_would_be_zero() {
        let shown = [23.4, 0.96, 0.94, -0.3, -0.04, -7.6].map(whole);
        assert_eq!(shown, ["23", "1", "0.9", "-0.3", "0.0", "-8"]);
        let shown = [23.4, -0.3, -0.04].map(whole_change);
        assert_eq!(shown, ["+23", "-0.3", "+0.0"]);
    }

    #[test]
    fn values_have_their_unit_and_few_digits() {
        for (unit, value, text) in [
            (FigureUnit::BytesPerSecond, 12_939_427.0, "12.34 MiB/s"),
            (FigureUnit::BytesPerSecond, 0.0, "0.000 B/s"),
            (FigureUnit::Bytes, 4096.0, "4 KiB"),
            (FigureUnit::Bytes, 6144.0, "6 KiB"),
            (FigureUnit::Nanoseconds, 1_204_000.0, "1.204 ms"),
            (FigureUnit::PercentChange, 8.13, "+8.1 %"),
            (FigureUnit::PercentChange, -0.01, "+0.0 %"),
            (FigureUnit::Percent, 3.0, "3.0 %"),
            (FigureUnit::Number, 102_979.0, "102979"),
            (FigureUnit::Number, 9.81234, "9.8123"),
            (FigureUnit::RequestsPerSecond, 1234.5, "1234 /s"),
            (FigureUnit::Number, f64::NAN, "–"),
            (FigureUnit::Bytes, f64::INFINITY, "–"),
        ] {
            assert_eq!(unit.show(value), text, "{unit:?} {value}");
        }
    }

    #[test]
    fn zero_has_no_sign() {
        assert_eq!(fixed(-0.04, 1), "0.0");
        assert_eq!(fixed(-0.06, 1), "-0.1");
    }
}
