//! Converts times to normal scores, so that a stall of a thousand times a read weighs no more than
//! any other long read, and the distribution of times does not matter.
//!
//! Regions differ (different flash, never-written areas) and devices drift, so each group of reads,
//! made in one region within moments, has its own base, which is subtracted first. Differences
//! between kinds of reads within groups are excluded from the base, so that a group with many slow
//! reads does not appear as a slow group. Source: van der Waerden scores on aligned ranks.

use std::collections::BTreeMap;

use crate::belief::median;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BoundaryRead {
    /// The center of the read, in bytes from the start of the device.
    pub center: u64,
    /// The group of reads that it is compared with.
    pub group: u32,
    pub elapsed_ns: u64,
}

/// The indices of the reads of each group.
pub fn groups(crossings: &[BoundaryRead]) -> BTreeMap<u32, Vec<usize>> {
    let mut groups: BTreeMap<u32, Vec<usize>> = BTreeMap::new();
    for (at, crossing) in crossings.iter().enumerate() {
        groups.entry(crossing.group).or_default().push(at);
    }
    groups
}

/// The normal score of each read after subtracting the base of its group. Reads of the same kind in
/// `kinds` have the same expected cost.
pub fn scores(crossings: &[BoundaryRead], kinds: &[usize]) -> Vec<f64> {
    let groups = groups(crossings);
    let mut times: Vec<f64> = crossings.iter().map(|read| as_float(read.elapsed_ns)).collect();
    let effects = effects(&times, &groups, kinds);
    for members in groups.values() {
        let plain: Vec<f64> = members.iter().map(|&at| times[at] - effects[kinds[at]]).collect();
        let base = median(&plain);
        for &at in members {
            times[at] -= base;
        }
    }
    normal_scores(&times)
}

/// The extra time of each kind relative to the most common one, in nanoseconds: the median over the
/// groups with both, weighted by the number of reads.
fn effects(times: &[f64], groups: &BTreeMap<u32, Vec<usize>>, kinds: &[usize]) -> Vec<f64> {
    let count = kinds.iter().max().map_or(0, |kind| kind + 1);
    let how_many = |kind: &usize| kinds.iter().filter(|&other| other == kind).count();
    let Some(commonest) = (0..count).max_by_key(how_many) else { return Vec::new() };
    let of_kind = |members: &[usize], kind: usize| -> Vec<f64> {
        members.iter().filter(|&&at| kinds[at] == kind).map(|&at| times[at]).collect()
    };
    let effect = |kind: usize| {
        let mut differences = Vec::new();
        for members in groups.values() {
            let (these, usual) = (of_kind(members, kind), of_kind(members, commonest));
            let weight = these.len().min(usual.len());
            differences.extend(vec![median(&these) - median(&usual); weight]);
        }
        if differences.is_empty() { 0.0 } else { median(&differences) }
    };
    (0..count).map(|kind| if kind == commonest { 0.0 } else { effect(kind) }).collect()
}

/// The normal quantile of each value's rank; equal values have equal scores.
pub fn normal_scores(values: &[f64]) -> Vec<f64> {
    let mut order: Vec<usize> = (0..values.len()).collect();
    order.sort_by(|&one, &other| values[one].total_cmp(&values[other]));
    let mut scores = vec![0.0; values.len()];
    let mut first = 0;
    while first < order.len() {
        let alike = |&&at: &&usize| values[at] <= values[order[first]];
        let end = first + order[first..].iter().take_while(alike).count();
        let rank = f64::midpoint(first as f64, (end - 1) as f64);
        let score = normal_quantile((rank + 0.5) / values.len() as f64);
        for &at in &order[first..end] {
            scores[at] = score;
        }
        first = end;
    }
    scores
}

/// The standard normal quantile for `0 < p < 1`, accurate to 1 part in 10^9. Source: P. J. Acklam's
/// rational approximation.
pub fn normal_quantile(p: f64) -> f64 {
    const A: [f64; 6] = [
        -3.969_683_028_665_376e1,
        2.209_460_984_245_205e2,
        -2.759_285_104_469_687e2,
        1.383_577_518_672_69e2,
        -3.066_479_806_614_716e1,
        2.506_628_277_459_239,
    ];
    const B: [f64; 5] = [
        -5.447_609_879_822_406e1,
        1.615_858_368_580_409e2,
        -1.556_989_798_598_866e2,
        6.680_131_188_771_972e1,
        -1.328_068_155_288_572e1,
    ];
    const C: [f64; 6] = [
        -7.784_894_002_430_293e-3,
        -3.223_964_580_411_365e-1,
        -2.400_758_277_161_838,
        -2.549_732_539_343_734,
        4.374_664_141_464_968,
        2.938_163_982_698_783,
    ];
    const D: [f64; 4] = [
        7.784_695_709_041_462e-3,
        3.224_671_290_700_398e-1,
        2.445_134_137_142_996,
        3.754_408_661_907_416,
    ];
    const TAIL: f64 = 0.02425;
    let polynomial = |of: &[f64], x: f64| of.iter().fold(0.0, |sum, term| sum * x + term);
    let tail = |p: f64| {
        let q = (-2.0 * p.ln()).sqrt();
        polynomial(&C, q) / (polynomial(&D, q) * q + 1.0)
    };
    if p < TAIL {
        tail(p)
    } else if p > 1.0 - TAIL {
        -tail(1.0 - p)
    } else {
        let q = p - 0.5;
        let r = q * q;
        polynomial(&A, r) * q / (polynomial(&B, r) * r + 1.0)
    }
}

/// Exact below 2^53 ns (104 days).
pub fn as_float(time_ns: u64) -> f64 {
    time_ns as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_match_known_values() {
        let known =
            [(0.5, 0.0), (0.975, 1.959_963_985), (0.001, -3.090_232_306), (0.9, 1.281_551_566)];
        for (p, quantile) in known {
            assert!((normal_quantile(p) - quantile).abs() < 1e-7, "{p}");
        }
    }

    #[test]
    fn scores_keep_the_order_and_are_equal_for_equal_values() {
        let scores = normal_scores(&[5.0, 1.0, 1e9, 5.0, 2.0]);
        assert!(scores[1] < scores[4] && scores[4] < scores[0] && scores[0] < scores[2]);
        assert_eq!(scores[0], scores[3]);
        assert!(scores[2] < 2.0, "a stall is only the longest");
        assert_eq!(normal_scores(&[7.0; 4]), [0.0; 4]);
    }

    #[test]
    fn a_group_with_many_slow_reads_is_not_a_slow_group() {
        let of = |group, elapsed_ns| BoundaryRead { center: 0, group, elapsed_ns };
        let cheap =
            [of(0, 10), of(0, 10), of(0, 10), of(0, 13), of(7, 110), of(7, 113), of(7, 113)];
        let kinds = [0, 0, 0, 1, 0, 1, 1];
        let scores = scores(&cheap, &kinds);
        let (low, high) = (scores[0], scores[3]);
        assert!(low < high);
        assert_eq!(scores, [low, low, low, high, low, high, high]);
    }
}
