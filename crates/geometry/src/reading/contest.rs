//! Which reads tell more: those about which two likely structures disagree.
//!
//! Two candidates are drawn by their probability, and reads are asked for on the boundaries of one
//! that are not the other's, of both, and of neither; so reads go where the doubt is. Source:
//! Thompson's sampling, of pairs.

use flashfit_device::random::Random;

/// How much the likelier is preferred: below 1, so that what seems unlikely is looked at too.
const TEMPER: f64 = 0.5;

/// Draws two different units, `None` for no structure, from sizes and their probabilities.
pub fn pair(random: &mut Random, shares: &[(Option<u64>, f64)]) -> Option<[Option<u64>; 2]> {
    let weights: Vec<f64> = shares.iter().map(|(_, share)| share.powf(TEMPER)).collect();
    let one = draw(random, &weights, None)?;
    let other = draw(random, &weights, Some(one))?;
    Some([shares[one].0, shares[other].0])
}

/// The units across whose boundaries to read to tell two structures apart; `finest` is the smallest
/// boundary that reads lie on, all in bytes.
pub fn reads(pair: [Option<u64>; 2], finest: u64) -> Vec<u64> {
    let below = |unit: u64| {
        // The odd factor goes first: what is left is no multiple, and shares all smaller powers.
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

/// Draws a place in a list by weight, other than `not`.
fn draw(random: &mut Random, weights: &[f64], not: Option<usize>) -> Option<usize> {
    let allowed = || weights.iter().enumerate().filter(|(at, _)| Some(*at) != not);
    let total: f64 = allowed().map(|(_, weight)| weight).sum();
    // 53 random bits are a fraction below 1.
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
    fn the_likelier_is_drawn_more_often_and_never_against_itself() {
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
    fn reads_lie_where_two_structures_disagree() {
        let (four, six) = (Some(4 * MIB), Some(6 * MIB));
        assert_eq!(reads([four, None], 512), [4 * MIB, 4 * MIB, 2 * MIB, 2 * MIB]);
        assert_eq!(reads([Some(16 * MIB), four], 512), [4 * MIB, 4 * MIB, 16 * MIB, 2 * MIB]);
        assert_eq!(reads([six, four], 512), [4 * MIB, 6 * MIB, 2 * MIB, 2 * MIB]);
        assert_eq!(reads([six, None], 512), [6 * MIB, 6 * MIB, 2 * MIB, 2 * MIB]);
        assert_eq!(reads([Some(16384), None], 16384), [16384; 4]);
    }
}
