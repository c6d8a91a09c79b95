//! Chooses the most informative reads: those on which two likely structures disagree.
//!
//! Two candidates are drawn by their probability. Reads then go to boundaries of only one of them,
//! of both, and of neither. Source: Thompson sampling of pairs.

use flashfit_device::random::Random;

/// Exponent on the probabilities; below 1 to include less likely candidates.
const TEMPER: f64 = 0.5;

/// Draws two different units (`None` for no structure) by their probabilities.
pub fn pair(random: &mut Random, shares: &[(Option<u64>, f64)]) -> Option<[Option<u64>; 2]> {
    let weights: Vec<f64> = shares.iter().map(|(_, share)| share.powf(TEMPER)).collect();
    let one = draw(random, &weights, None)?;
    let other = draw(random, &weights, Some(one))?;
    Some([shares[one].0, shares[other].0])
}

/// The units across whose boundaries to read to distinguish two structures; `finest` is the
/// smallest boundary of any read, all in bytes.
pub fn reads(pair: [Option<u64>; 2], finest: u64) -> Vec<u64> {
    let below = |unit: u64| {
        // Dropping the odd factor gives a non-multiple that shares all smaller powers.
        let power = 1 << unit.trailing_zeros();
        if power == unit { (unit / 2).max(finest) } else { power.max(finest) }
    };
    match pair {
        [Some(one), Some(other)] => {
            let (small, large) = (one.min(other), one.max(other));
            if large % small == 0 {
                vec![small, small, large, below(small)]
            } else {
                vec![small, large, below(small), below(large).min(small)]
            }
        }
        [Some(unit), None] | [None, Some(unit)] => vec![unit, unit, below(unit), below(unit)],
        [None, None] => Vec::new(),
    }
}

/// Draws an index by weight, other than `not`.
fn draw(random: &mut Random, weights: &[f64], not: Option<usize>) -> Option<usize> {
    let allowed = || weights.iter().enumerate().filter(|(at, _)| Some(*at) != not);
    let total: f64 = allowed().map(|(_, weight)| weight).sum();
    // A fraction in [0, 1) from 53 random bits.
    let mut left = (random.next_u64() >> 11) as f64 / (1u64 << 53) as f64 * total;
    let mut last = None;
    for (at, &weight) in allowed() {
        if weight > 0.0 {
            last = Some(at);
            left -= weight;
            if left < 0.0 {
                break;
            }
        }
    }
    last
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1 << 20;

    #[test]
    fn likely_units_are_drawn_more_often_and_never_as_both_of_a_pair() {
        let shares = [(Some(4 * MIB), 0.9), (None, 0.09), (Some(8 * MIB), 0.01), (Some(1), 0.0)];
        let mut random = Random::new(3);
        let mut first = 0;
        for _ in 0..1000 {
            let [one, other] = pair(&mut random, &shares).unwrap();
            assert_ne!(one, other);
            assert!(one != Some(1) && other != Some(1));
            first += u32::from(one == Some(4 * MIB));
        }
        assert!((500..900).contains(&first), "{first}");
        assert_eq!(pair(&mut random, &shares[..1]), None);
    }

    #[test]
    fn reads_go_where_two_structures_disagree() {
        let (four, six) = (Some(4 * MIB), Some(6 * MIB));
        assert_eq!(reads([four, None], 512), [4 * MIB, 4 * MIB, 2 * MIB, 2 * MIB]);
        assert_eq!(reads([Some(16 * MIB), four], 512), [4 * MIB, 4 * MIB, 16 * MIB, 2 * MIB]);
        assert_eq!(reads([six, four], 512), [4 * MIB, 6 * MIB, 2 * MIB, 2 * MIB]);
        assert_eq!(reads([six, None], 512), [6 * MIB, 6 * MIB, 2 * MIB, 2 * MIB]);
        assert_eq!(reads([Some(16384), None], 16384), [16384; 4]);
    }
}
