//! Finds the size of a fast area from the period of folding.
//!
//! A block of the area is opened every so many requests. Opening one needs the oldest one, which is
//! erased if all of its data is obsolete, and copied (folded) before that if it is valid. So one
//! request in a period takes longer, a little at first, and much longer once the block that was
//! open when valid data began is the oldest: as many periods later as the area has blocks. Each
//! period, phase and number of blocks is weighed by how well three levels of times fit (background,
//! erased, folded), as logarithms, because folding may also wait for the device to make room.
//! Limits: requests must be written one after the other; the area is folded block by block, in the
//! order of writing.

use crate::belief::median;

/// The shortest period, in requests: five whole ones, of which the fit may give a little less.
const LEAST_PERIOD: f64 = 4.5;
/// The shortest period that is tried, because multiples of a shorter one fit, too.
const LEAST_TRIED: f64 = 2.5;
/// The fewest folds.
const LEAST_FOLDS: usize = 3;
/// The most blocks.
const MOST_BLOCKS: usize = 64;
/// The share of the rise from which on a request counts as folding.
const BORDER: f64 = 0.4;
/// How far a tooth may be off after all periods, in requests.
const OFF: f64 = 0.4;
/// The largest share of teeth that are assumed to be on the wrong side.
const MOST_WRONG: f64 = 0.4;
/// Times beyond this factor of a typical one do not count more.
const MOST: f32 = 2000.0;
/// The smallest factor of folding and erasing, as a logarithm.
const LEAST_RISE: f64 = 0.2;
/// The smallest deviation that is assumed, as a logarithm.
const LEAST_SPREAD: f64 = 0.02;

/// A fitted area.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct FoldPeriod {
    /// Requests that a block holds.
    pub period: f64,
    pub blocks: usize,
    /// How much longer a request takes on average because of folding, in typical times. Stalls for
    /// other reasons count little.
    pub rise: f64,
    /// Evidence against times without a period, less that of trying them all, as a logarithm.
    pub log: f64,
}

/// Fits times relative to typical ones, of which those from `first_valid` on leave valid data.
pub fn fit(times: &[f32], first_valid: usize) -> Option<FoldPeriod> {
    let count = times.len();
    let logs: Vec<f64> = times.iter().map(|time| f64::from(time.clamp(0.5, MOST).ln())).collect();
    let sum: f64 = logs.iter().sum();
    let squares: f64 = logs.iter().map(|log| log * log).sum();
    let whole = squares - sum * sum / count as f64;
    let least = LEAST_SPREAD * LEAST_SPREAD * count as f64;
    let most = (count - first_valid) as f64 / (LEAST_FOLDS + 2) as f64;
    let (mut best, mut tried) = (None, 0usize);
    let mut best_rest = f64::INFINITY;
    let mut period = LEAST_TRIED;
    let mut teeth = Vec::new();
    while period <= most {
        let mut phase = 0.0;
        while phase < period {
            teeth.clear();
            let mut at = phase;
            while at < count as f64 {
                teeth.push(logs[at as usize]);
                at += period;
            }
            tried += teeth.len();
            // The block that is open when valid data begins, and the share of it that is valid.
            let place = (first_valid as f64 - phase) / period;
            if place >= 0.0 {
                let levels = Levels { sum, squares, count };
                let open = (place as usize, 1.0 - place.fract());
                if let Some(rest) = levels.best(&teeth, open) {
                    if rest < best_rest {
                        best_rest = rest;
                        best = Some((period, phase));
                    }
                }
            }
            phase += 1.0;
        }
        period += OFF * period / count as f64;
    }
    let (period, phase) = best?;
    let gain = count as f64 / 2.0 * ((whole + least) / (best_rest + least)).ln();
    let log = gain - (tried.max(2) as f64).ln();
    let (blocks, fold) = blocks(&logs, period, phase, first_valid)?;
    let rise = fold / period;
    (log > 0.0 && period >= LEAST_PERIOD).then_some(FoldPeriod { period, blocks, rise, log })
}

/// The number of blocks, by where folds begin, and the time of a fold. They may take longer later,
/// when the device must make room for what is folded.
fn blocks(logs: &[f64], period: f64, phase: f64, first_valid: usize) -> Option<(usize, f64)> {
    let mut teeth = Vec::new();
    let mut at = phase;
    while at < logs.len() as f64 {
        teeth.push(logs[at as usize]);
        at += period;
    }
    let place = (first_valid as f64 - phase) / period;
    let open = place as usize;
    let low = median(&teeth[..=open.min(teeth.len() - 1)]);
    let later = teeth.get(open + 1..)?;
    let high = median(later.get(later.len() - later.len() / 3 - 1..)?);
    let border = low + BORDER * (high - low);
    if high < low + LEAST_RISE {
        return None;
    }
    // How likely a stall is at a tooth, by the other requests, and a fold beside one, by the last.
    let is_high = |tooth: &&f64| **tooth > border;
    let share = |count: usize, of: usize| ((count as f64 + 0.5) / (of + 1) as f64).min(MOST_WRONG);
    let count_high = |of: &[f64]| of.iter().filter(is_high).count();
    let stalls = share(count_high(logs) - count_high(&teeth), logs.len() - teeth.len());
    let last = &later[later.len() - later.len() / 3 - 1..];
    let missed = share(last.len() - count_high(last), last.len());
    let log = |wrong: usize, of: usize, likely: f64| {
        wrong as f64 * likely.ln() + (of - wrong) as f64 * (1.0 - likely).ln()
    };
    let wrong = |first: usize| {
        let (early, late) = later.split_at(first);
        [count_high(early), late.len() - count_high(late)]
    };
    let log_likelihood = |first: usize| {
        let [early, late] = wrong(first);
        log(early, first, stalls) + log(late, later.len() - first, missed)
    };
    let better = |one: &usize, other: &usize| {
        log_likelihood(*one).total_cmp(&log_likelihood(*other)).then(other.cmp(one))
    };
    let first = (0..later.len()).max_by(better)?;
    // The first block is only partly valid, so less of it is copied.
    let valid = 1.0 - place.fract();
    let partly = (low.exp() + valid * (high.exp() - low.exp())).ln();
    let blocks = if partly > border { first + 1 } else { first };
    let is_clear = blocks >= 1 && 4 * wrong(first).iter().sum::<usize>() <= later.len();
    is_clear.then_some((blocks, high.exp() - low.exp()))
}

/// Sums of all times.
struct Levels {
    sum: f64,
    squares: f64,
    count: usize,
}

impl Levels {
    /// The least remaining sum of squares, over all numbers of blocks.
    fn best(&self, teeth: &[f64], (open, valid): (usize, f64)) -> Option<f64> {
        let all = teeth.len();
        let total: f64 = teeth.iter().sum();
        let outside = self.count - all;
        let background = (self.sum - total) / outside as f64;
        let mut before: f64 = teeth[..(open + 1).min(all)].iter().sum();
        let mut best: Option<f64> = None;
        for blocks in 1..=MOST_BLOCKS {
            let first = open + blocks;
            if first + LEAST_FOLDS > all {
                break;
            }
            // The first block is only partly valid, so less of it is copied.
            let (low, high) = (first, all - first - 1);
            let low_mean = before / low as f64;
            let first_fold = teeth[first];
            let high_mean = (total - before - first_fold) / high as f64;
            before += first_fold;
            if high_mean < low_mean.max(background) + LEAST_RISE || first_fold < background {
                continue;
            }
            let explained = outside as f64 * background * background
                + low as f64 * low_mean * low_mean
                + high as f64 * high_mean * high_mean
                + first_fold * first_fold;
            let (least, most) = (low_mean.max(background).exp(), high_mean.exp());
            let expected = (least + valid * (most - least)).ln();
            let rest = (self.squares - explained).max(0.0) + (first_fold - expected).powi(2);
            best = Some(best.map_or(rest, |least| least.min(rest)));
        }
        best
    }
}

#[cfg(test)]
mod tests {
    use flashfit_device::random::Random;

    use super::*;

    /// Times of an area of so many blocks of `period` requests: valid data begins at 200 of 700.
    fn times(period: f64, blocks: usize, shift: f64, stalls: u64) -> Vec<f32> {
        let mut random = Random::new(11);
        let block = |at: usize| ((at as f64 + shift) / period) as usize;
        let first = block(200);
        let time = |at: usize| {
            let stall = if random.below(1000) < stalls { random.below(40) as f32 } else { 0.0 };
            let fold = if at == 0 || block(at) == block(at - 1) {
                0.0
            } else if block(at) < first + blocks {
                0.5
            } else {
                let is_first = block(at) == first + blocks;
                let valid = 1.0 - ((200.0 + shift) / period).fract() as f32;
                (20 + random.below(8)) as f32 * if is_first { valid } else { 1.0 }
            };
            1.0 + random.below(200) as f32 / 1000.0 + stall + fold
        };
        (0..700).map(time).collect()
    }

    #[test]
    fn the_period_and_the_number_of_blocks_are_found() {
        for (period, blocks) in [(8.0, 5), (10.5, 12), (22.0, 7), (42.7, 4), (64.0, 2)] {
            for (shift, stalls) in [(0.0, 0), (3.4, 0), (1.7, 20), (5.0, 50)] {
                let found = fit(&times(period, blocks, shift, stalls), 200).unwrap();
                assert!((found.period / period - 1.0).abs() < 0.01, "{period} {shift}: {found:?}");
                assert_eq!(found.blocks, blocks, "{period} {shift}: {found:?}");
                assert!(found.log > 20.0, "{found:?}");
                // A fold takes 24 typical times, also where others stall for as long.
                let rise = found.rise * period;
                assert!((18.0..32.0).contains(&rise), "{period} {shift}: {found:?}");
            }
        }
    }

    #[test]
    fn stalls_beside_folds_are_not_taken_for_folds() {
        // Ten blocks of 21 requests, erased in 4 ms and folded in 12 to 20, with valid data from
        // 320 of 960 on. Three of the stalls of 43 ms coincide with the last erasures before folds.
        let mut random = Random::new(7);
        let mut time = |at: usize| match at {
            335 | 440 | 482 => 43.0,
            _ if random.below(20) == 0 => 43.0,
            _ if at % 21 != 20 => 1.9_f32,
            0..524 => 4.2,
            _ if at % 2 == 0 => 12.0,
            _ => 20.0,
        };
        let times: Vec<f32> = (0..960).map(|at| time(at) / 1.9).collect();
        let found = fit(&times, 320).unwrap();
        assert_eq!(found.blocks, 10, "{found:?}");
    }

    #[test]
    fn stalls_at_random_have_no_period() {
        for stalls in [0, 20, 100] {
            let found = fit(&times(1000.0, 5, 0.0, stalls), 200);
            assert!(found.is_none_or(|found| found.log < 20.0), "{stalls}: {found:?}");
        }
    }
}
