//! Durations, percentages and weights in human-readable notation, stored as integers.
//!
//! `2h`, `90 min`, `1h30m`, `50ms`, `200us`: a duration requires a unit, because bare numbers are
//! ambiguous. `2%`, `2.5 %`: the sign of a percentage is optional. `3`, `0.5`: a weight is
//! positive. `5`, `2.5`: a number of years.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// Units of a duration with their nanoseconds; the usual spelling comes first.
const UNITS: [(&[&str], u64); 7] = [
    (&["d", "day", "days"], 86_400_000_000_000),
    (&["h", "hour", "hours"], 3_600_000_000_000),
    (&["min", "m", "minute", "minutes"], 60_000_000_000),
    (&["s", "sec", "second", "seconds"], 1_000_000_000),
    (&["ms"], 1_000_000),
    (&["us", "µs"], 1_000),
    (&["ns"], 1),
];
/// The text for no limit.
const UNLIMITED: &str = "unlimited";
/// Larger weights are probably typing mistakes.
const MOST_WEIGHT_THOUSANDTHS: u32 = 1_000_000;
const MOST_YEARS_THOUSANDTHS: u128 = 1_000_000;

/// Why a text is not a valid quantity.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{text}` is not a {what}: {reason} (write {example})")]
pub struct BadQuantity {
    text: String,
    what: &'static str,
    reason: &'static str,
    example: &'static str,
}

/// A span of time, in nanoseconds.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TimeSpan(pub u64);

/// A share, in hundredths of a percent: 0 to 10,000.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Percent(pub u32);

/// The weight of a workload, in thousandths.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Weight(pub u32);

/// A number of years, in thousandths: 1 to 1,000,000.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Years(pub u32);

impl TimeSpan {
    /// No limit, written `unlimited`.
    pub const UNLIMITED: Self = Self(u64::MAX);

    /// A number of seconds.
    pub const fn seconds(count: u64) -> Self {
        Self(count * 1_000_000_000)
    }
}

impl FromStr for TimeSpan {
    type Err = BadQuantity;

    fn from_str(text: &str) -> Result<Self, BadQuantity> {
        let bad = |reason| BadQuantity {
            text: text.to_owned(),
            what: "duration",
            reason,
            example: "2h, 90min, 1h30m, 30s or 50ms",
        };
        let mut rest = text.trim();
        if rest == UNLIMITED {
            return Ok(Self::UNLIMITED);
        }
        if rest.is_empty() {
            return Err(bad("it is empty"));
        }
        let mut total: u64 = 0;
        let mut last = u64::MAX;
        while !rest.is_empty() {
            let (thousandths, after) = number(rest).ok_or_else(|| bad("a number is missing"))?;
            let unit = after.trim_start();
            let length = unit.find(|c: char| !c.is_alphabetic()).unwrap_or(unit.len());
            let (name, after) = unit.split_at(length);
            if name.is_empty() {
                return Err(bad("its unit is missing"));
            }
            let factor = UNITS.iter().find(|(names, _)| names.contains(&name)).map(|found| found.1);
            let factor = factor.ok_or_else(|| bad("the unit is unknown"))?;
            if factor >= last {
                return Err(bad("its units do not come from the largest to the smallest"));
            }
            last = factor;
            let part = thousandths * u128::from(factor) / 1000;
            let part = u64::try_from(part).map_err(|_| bad("it is too long"))?;
            total = total.checked_add(part).ok_or_else(|| bad("it is too long"))?;
            rest = after.trim_start();
        }
        if total == 0 { Err(bad("it must be longer than 0")) } else { Ok(Self(total)) }
    }
}

impl fmt::Display for TimeSpan {
    /// In the largest units without a remainder: `1h30min`, `50ms`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if *self == Self::UNLIMITED {
            return f.pad(UNLIMITED);
        }
        let mut left = self.0;
        let mut text = String::new();
        for (names, factor) in UNITS {
            if left >= factor {
                text += &format!("{}{}", left / factor, names[0]);
                left %= factor;
            }
        }
        f.pad(if text.is_empty() { "0s" } else { &text })
    }
}

impl FromStr for Percent {
    type Err = BadQuantity;

    fn from_str(text: &str) -> Result<Self, BadQuantity> {
        let bad = |reason| BadQuantity {
            text: text.to_owned(),
            what: "percent",
            reason,
            example: "2% or 0.5%",
        };
        let trimmed = text.trim();
        let digits = trimmed.strip_suffix('%').unwrap_or(trimmed).trim_end();
        let (thousandths, rest) = number(digits).ok_or_else(|| bad("a number is missing"))?;
        if !rest.is_empty() {
            return Err(bad("the unit is unknown"));
        }
        if thousandths % 10 != 0 {
            return Err(bad("hundredths of a percent are the finest"));
        }
        match u32::try_from(thousandths / 10) {
            Ok(hundredths) if hundredths <= 10_000 => Ok(Self(hundredths)),
            _ => Err(bad("it is more than the whole")),
        }
    }
}

impl Percent {
    pub fn share(self) -> f64 {
        f64::from(self.0) / 10_000.0
    }
}

impl fmt::Display for Percent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&format!("{}%", decimal(self.0, 100)))
    }
}

impl FromStr for Weight {
    type Err = BadQuantity;

    fn from_str(text: &str) -> Result<Self, BadQuantity> {
        let bad = |reason| BadQuantity {
            text: text.to_owned(),
            what: "weight",
            reason,
            example: "3 or 0.5",
        };
        match number(text.trim()) {
            Some((thousandths, "")) => match u32::try_from(thousandths) {
                Ok(0) => Err(bad("to exclude a workload, omit it instead")),
                Ok(weight) if weight <= MOST_WEIGHT_THOUSANDTHS => Ok(Self(weight)),
                _ => Err(bad("it is too large")),
            },
            _ => Err(bad("it is not a positive number")),
        }
    }
}

impl Weight {
    pub const ONE: Self = Self(1000);

    pub fn value(self) -> f64 {
        f64::from(self.0) / 1000.0
    }
}

impl fmt::Display for Weight {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&decimal(self.0, 1000))
    }
}

impl FromStr for Years {
    type Err = BadQuantity;

    fn from_str(text: &str) -> Result<Self, BadQuantity> {
        let bad = |reason| BadQuantity {
            text: text.to_owned(),
            what: "number of years",
            reason,
            example: "5 or 2.5",
        };
        match number(text.trim()) {
            Some((0, "")) => Err(bad("it must be above 0")),
            Some((thousandths, "")) if thousandths <= MOST_YEARS_THOUSANDTHS => {
                Ok(Self(u32::try_from(thousandths).expect("it is at most a million")))
            }
            Some((_, "")) => Err(bad("it is more than 1000")),
            _ => Err(bad("it is not a positive number")),
        }
    }
}

impl Years {
    pub fn value(self) -> f64 {
        f64::from(self.0) / 1000.0
    }
}

impl fmt::Display for Years {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&decimal(self.0, 1000))
    }
}

/// The leading number of a text in thousandths, and the rest. More than 64 bits take is one more.
fn number(text: &str) -> Option<(u128, &str)> {
    let length = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let (digits, rest) = text.split_at(length);
    let (whole, fraction) = digits.split_once('.').unwrap_or((digits, ""));
    if whole.is_empty() || fraction.len() > 3 || digits.ends_with('.') || fraction.contains('.') {
        return None;
    }
    // Only digits: what cannot be parsed is too large.
    let whole = whole.parse::<u64>().map_or(1 << 64, u128::from);
    let fraction: u128 = format!("{fraction:0<3}").parse().ok()?;
    Some((whole * 1000 + fraction, rest))
}

fn decimal(value: u32, unit: u32) -> String {
    let digits = unit.ilog10() as usize;
    let text = format!("{}.{:0digits$}", value / unit, value % unit);
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

/// Serialized in human-readable notation, in the configuration file and in `run.json` alike.
macro_rules! as_text {
    ($name:ident, $expecting:literal) => {
        impl Serialize for $name {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.collect_str(self)
            }
        }

        impl<'de> Deserialize<'de> for $name {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                struct Visitor;
                impl serde::de::Visitor<'_> for Visitor {
                    type Value = $name;

                    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                        f.write_str($expecting)
                    }

                    fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<$name, E> {
                        text.parse().map_err(E::custom)
                    }

                    fn visit_u64<E: serde::de::Error>(self, number: u64) -> Result<$name, E> {
                        self.visit_str(&number.to_string())
                    }

                    fn visit_i64<E: serde::de::Error>(self, number: i64) -> Result<$name, E> {
                        self.visit_str(&number.to_string())
                    }

                    fn visit_f64<E: serde::de::Error>(self, number: f64) -> Result<$name, E> {
                        self.visit_str(&number.to_string())
                    }
                }
                deserializer.deserialize_any(Visitor)
            }
        }
    };
}

as_text!(TimeSpan, "a duration such as \"2h\" or \"50ms\"");
as_text!(Percent, "a percent such as \"2%\"");
as_text!(Weight, "a weight such as 3 or 0.5");
as_text!(Years, "a number of years such as 5 or 2.5");

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_with_their_units() {
        for (text, ns) in [
            ("2h", 7_200_000_000_000),
            ("90 min", 5_400_000_000_000),
            ("1h30m", 5_400_000_000_000),
            ("1.5h", 5_400_000_000_000),
            ("50ms", 50_000_000),
            ("0.25 ms", 250_000),
            ("1d 2 hours 3s", 93_603_000_000_000),
        ] {
            assert_eq!(text.parse(), Ok(TimeSpan(ns)), "{text}");
        }
    }

    #[test]
    fn invalid_durations_are_rejected_with_a_reason() {
        for (text, reason) in [
            ("", "empty"),
            ("2", "unit is missing"),
            ("h", "number is missing"),
            ("-2h", "number is missing"),
            ("2 fortnights", "unit is unknown"),
            ("30m1h", "largest to the smallest"),
            ("1h1h", "largest to the smallest"),
            ("0s", "longer than 0"),
            ("999999999d", "too long"),
            ("18446744073709551615s", "too long"),
            ("99999999999999999999ns", "too long"),
            ("1.2.3s", "number is missing"),
        ] {
            let error = text.parse::<TimeSpan>().unwrap_err().to_string();
            assert!(error.contains(reason), "{text}: {error}");
        }
    }

    #[test]
    fn percents_and_weights() {
        assert_eq!("2%".parse(), Ok(Percent(200)));
        assert_eq!("2.5 %".parse(), Ok(Percent(250)));
        assert_eq!("0".parse(), Ok(Percent(0)));
        for text in ["", "%", "-1%", "101%", "two", "0.005%", "2%%", "3ms"] {
            assert!(text.parse::<Percent>().is_err(), "{text}");
        }
        assert_eq!("3".parse(), Ok(Weight(3000)));
        assert_eq!("0.5".parse(), Ok(Weight(500)));
        for text in ["", "0", "-1", "x", "1e3", "99999999", ".5"] {
            assert!(text.parse::<Weight>().is_err(), "{text}");
        }
        assert_eq!("2.5".parse(), Ok(Years(2500)));
        for text in ["", "0", "-1", "x", "5y", "1000.1"] {
            assert!(text.parse::<Years>().is_err(), "{text}");
        }
    }

    #[test]
    fn formatted_quantities_parse_to_the_same_value() {
        for ns in [1, 50_000_000, 5_400_000_000_000, 93_603_000_000_000] {
            assert_eq!(TimeSpan(ns).to_string().parse(), Ok(TimeSpan(ns)));
        }
        assert_eq!(TimeSpan(5_400_000_000_000).to_string(), "1h30min");
        assert_eq!(Percent(250).to_string(), "2.5%");
        assert_eq!(Weight(3000).to_string(), "3");
        assert_eq!(serde_json::to_string(&Weight(500)).unwrap(), "\"0.5\"");
        assert_eq!(serde_json::from_str::<Weight>("0.5").unwrap(), Weight(500));
        assert_eq!(serde_json::from_str::<Percent>("2").unwrap(), Percent(200));
        assert!(serde_json::from_str::<TimeSpan>("2").is_err(), "a duration needs its unit");
    }
}
