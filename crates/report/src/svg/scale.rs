//! Maps values to pixels and chooses round values for ticks.

use crate::quantity::exponent_of;

/// A linear scale from a range of values to a range of pixels.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Scale {
    pub(crate) low: f64,
    pub(crate) high: f64,
    pub(crate) low_px: f64,
    pub(crate) high_px: f64,
}

impl Scale {
    pub(crate) fn position(&self, value: f64) -> f64 {
        let share = if self.high > self.low {
            ((value - self.low) / (self.high - self.low)).clamp(0.0, 1.0)
        } else {
            0.5
        };
        self.low_px + share * (self.high_px - self.low_px)
    }
}

/// Round values that enclose a range.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Ticks {
    pub(crate) values: Vec<f64>,
    /// The decimals that distinguish adjacent values; unused on logarithmic scales.
    pub(crate) decimals: usize,
}

/// About `about` evenly spaced ticks around a range, at multiples of 1, 2 or 5 times a power of
/// ten.
pub(crate) fn linear_ticks(low: f64, high: f64, about: u32) -> Ticks {
    let (low, high) = non_empty_range(low, high);
    let step = round_step((high - low) / f64::from(about.max(1)));
    let first = (low / step + 1e-9).floor();
    let count = ((high / step - 1e-9).ceil() - first).max(1.0);
    let values = (0u32..=100)
        .map(f64::from)
        .take_while(|&index| index <= count)
        .map(|index| (first + index) * step)
        .collect();
    let decimals = usize::try_from(-exponent_of(step * 1.000_001)).unwrap_or(0);
    Ticks { values, decimals }
}

fn non_empty_range(low: f64, high: f64) -> (f64, f64) {
    if high > low {
        (low, high)
    } else if low == 0.0 {
        (0.0, 1.0)
    } else {
        (low - low.abs() * 0.1, low + low.abs() * 0.1)
    }
}

fn round_step(rough: f64) -> f64 {
    let power = 10f64.powi(exponent_of(rough));
    let mantissa = rough / power;
    let round = [1.0, 2.0, 5.0].into_iter().find(|&m| mantissa <= m * 1.000_001).unwrap_or(10.0);
    round * power
}

/// Ticks around a range of positive values on a logarithmic scale: powers of ten; for a short range
/// also 2 and 5 times those, for a long one only some of them.
pub(crate) fn log_ticks(low: f64, high: f64) -> Ticks {
    let decades = exponent_of(high) - exponent_of(low);
    let mantissas: &[f64] = if decades <= 2 { &[1.0, 2.0, 5.0] } else { &[1.0] };
    let every = usize::try_from(decades / 8 + 1).unwrap_or(1);
    let step = decades / 8 + 1;
    let all: Vec<f64> = (exponent_of(low) - step..=exponent_of(high) + step)
        .step_by(every)
        .flat_map(|exponent| mantissas.iter().map(move |m| m * 10f64.powi(exponent)))
        .collect();
    let below = all.iter().rposition(|&tick| tick <= low * 1.000_001).unwrap_or(0);
    let above = all.iter().position(|&tick| tick >= high * 0.999_999).unwrap_or(all.len() - 1);
    let above = above.max(below + 1).min(all.len() - 1);
    Ticks { values: all[below..=above].to_vec(), decimals: 0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn linear_ticks_enclose_the_range_with_round_values() {
        for (low, high, values, decimals) in [
            (0.0, 9.7, vec![0.0, 2.0, 4.0, 6.0, 8.0, 10.0], 0),
            (-3.0, 16.0, vec![-5.0, 0.0, 5.0, 10.0, 15.0, 20.0], 0),
            (9.70, 9.84, vec![9.70, 9.75, 9.80, 9.85], 2),
            (0.0, 0.0, vec![0.0, 0.2, 0.4, 0.6, 0.8, 1.0], 1),
            (50.0, 50.0, vec![44.0, 46.0, 48.0, 50.0, 52.0, 54.0, 56.0], 0),
        ] {
            let ticks = linear_ticks(low, high, 5);
            assert_eq!(ticks.decimals, decimals, "{low} {high}");
            assert_eq!(ticks.values.len(), values.len(), "{:?}", ticks.values);
            assert!(ticks.values.iter().zip(&values).all(|(a, b)| (a - b).abs() < 1e-9));
        }
    }

    #[test]
    fn log_ticks_enclose_the_range() {
        assert_eq!(log_ticks(3.0, 40.0).values, [2.0, 5.0, 10.0, 20.0, 50.0]);
        assert_eq!(log_ticks(30.0, 40_000.0).values, [10.0, 100.0, 1e3, 1e4, 1e5]);
        assert_eq!(log_ticks(1.0, 1.0).values, [1.0, 2.0]);
        let wide = log_ticks(2e-9, 3e17).values;
        assert!(wide.len() < 10 && wide[0] <= 2e-9 && wide[wide.len() - 1] >= 3e17, "{wide:?}");
    }

    #[test]
    fn an_empty_range_maps_to_the_middle() {
        let scale = Scale { low: 1.0, high: 1.0, low_px: 0.0, high_px: 10.0 };
        assert_eq!(scale.position(1.0), 5.0);
        assert_eq!(Scale { high: 3.0, ..scale }.position(2.0), 5.0);
    }
}
