//! Checks that the units whose step was found start at every multiple of their size.
//!
//! If units start elsewhere (a partition at an unknown position of the device), only some multiples
//! of a size that divides the shift are boundaries; if only multiples of twice the size have a
//! step, it belongs to a larger unit. These cases are compared with "all multiples have it" by the
//! likelihood of the times of reads across. The step and the variation are estimated from adjacent
//! reads, separately for written and never-written areas, where steps may differ. Limits: needs
//! adjacent reads in the same group; a shift that leaves nearly all multiples boundaries is not
//! detected.

use super::confirm::spread;
use super::regions::RegionKind;
use super::scores::{BoundaryRead, as_float, groups};
use crate::belief::{log_student_3, log_sum_exp, median};

/// Prior probability that units start elsewhere or have another size; the posterior has left few
/// such cases.
const ELSEWHERE: f64 = 0.02;
/// Shares of the multiples that are boundaries.
const SHARES: [f64; 5] = [0.25, 1.0 / 3.0, 0.5, 2.0 / 3.0, 0.75];
/// Factors of a larger unit.
const FACTORS: [u64; 2] = [2, 3];
/// Number of steps tried.
const STEPS: usize = 24;
/// Factors on the spread of reads across: jitter grows with the time, and few adjacent reads
/// underestimate it.
const WIDER: [f64; 2] = [1.0, 1.2];
/// Share of reads that stall, and their spread relative to the time of a read.
const STALLS: f64 = 0.05;
const STALL_SPREAD: f64 = 2.0;
/// The smallest step, as a share of a read.
const FINEST: f64 = 0.002;

/// The multiples of a size that have the step.
#[derive(Debug, Clone, Copy)]
enum Which {
    All,
    Share(f64),
    /// Multiples of this many times the size.
    Larger(u64),
    NotLarger(u64),
}

/// The probability that all multiples of a unit have its step. `reads` are tagged with the kind of
/// their region; `levels` are all sizes with steps, in bytes.
pub fn all_multiples_probability(
    reads: &[(RegionKind, BoundaryRead)],
    levels: &[u64],
    unit: u64,
) -> f64 {
    let all: Vec<Which> = [Which::All]
        .into_iter()
        .chain(SHARES.map(Which::Share))
        .chain(FACTORS.map(Which::Larger))
        .chain(FACTORS.map(Which::NotLarger))
        .collect();
    let samples: Vec<Sample> = [RegionKind::Informative, RegionKind::Uninformative]
        .into_iter()
        .filter_map(|kind| {
            let of_kind = reads.iter().filter(|(of, _)| *of == kind).map(|&(_, read)| read);
            Sample::of(&of_kind.collect::<Vec<_>>(), levels, unit)
        })
        .collect();
    let each = (ELSEWHERE / (all.len() - 1) as f64).ln();
    let mut logs = vec![each; all.len()];
    logs[0] = (1.0 - ELSEWHERE).ln();
    for sample in samples {
        for (log, more) in logs.iter_mut().zip(sample.logs(&all)) {
            *log += more;
        }
    }
    (logs[0] - log_sum_exp(logs.iter().copied())).exp()
}

/// Times of reads across and adjacent, minus the base of their group.
struct Sample {
    /// Multiple of the unit, and time.
    across: Vec<(u64, f64)>,
    beside: Vec<f64>,
    /// Spread of equivalent reads, in nanoseconds.
    scale: f64,
    /// Usual time of a read, in nanoseconds.
    base: f64,
}

impl Sample {
    /// `None` if nothing can be compared.
    fn of(reads: &[BoundaryRead], levels: &[u64], unit: u64) -> Option<Self> {
        // The reads must differ only in this step: all cross smaller units, none crosses larger
        // ones.
        let other = levels.iter().copied().filter(|&level| level != unit);
        let (smaller, larger): (Vec<u64>, Vec<u64>) = other.partition(|level| unit % level == 0);
        let like: Vec<BoundaryRead> = reads
            .iter()
            .copied()
            .filter(|read| smaller.iter().all(|level| read.center % level == 0))
            .filter(|read| larger.iter().all(|level| read.center % level != 0))
            .collect();
        let times = |of: &[BoundaryRead]| -> Vec<f64> {
            of.iter().map(|read| as_float(read.elapsed_ns)).collect()
        };
        let mut pairs: Vec<(Vec<BoundaryRead>, Vec<BoundaryRead>)> = Vec::new();
        for members in groups(&like).values() {
            let members = members.iter().map(|&at| like[at]);
            let (on, off): (Vec<BoundaryRead>, Vec<BoundaryRead>) =
                members.partition(|read| read.center % unit == 0);
            if on.is_empty() || off.is_empty() {
                continue;
            }
            pairs.push((on, off));
        }
        let differences: Vec<f64> = pairs
            .iter()
            .flat_map(|(on, off)| {
                vec![median(&times(on)) - median(&times(off)); on.len().min(off.len())]
            })
            .collect();
        let step = median(&differences);
        let (mut across, mut beside, mut bases) = (Vec::new(), Vec::new(), Vec::new());
        for (on, off) in &pairs {
            let without = times(on).into_iter().map(|time| time - step);
            let base = median(&without.chain(times(off)).collect::<Vec<f64>>());
            bases.push(base);
            beside.extend(times(off).into_iter().map(|time| time - base));
            let less = |read: &BoundaryRead| (read.center / unit, as_float(read.elapsed_ns) - base);
            across.extend(on.iter().map(less));
        }
        let base = median(&bases);
        let scale = spread(&beside).max(FINEST * base);
        (!across.is_empty()).then_some(Self { across, beside, scale, base })
    }

    /// The log-likelihood of the times of reads across in each of these cases.
    fn logs(&self, all: &[Which]) -> Vec<f64> {
        let mut logs = vec![Vec::new(); all.len()];
        for wider in WIDER {
            let densities = |step: f64| -> Vec<f64> {
                self.across.iter().map(|&(_, time)| self.density(time - step, wider)).collect()
            };
            let without = densities(0.0);
            for step in self.steps() {
                let with = densities(step);
                for (logs, which) in logs.iter_mut().zip(all) {
                    logs.push(self.log(*which, &with, &without));
                }
            }
        }
        logs.into_iter().map(|logs| log_sum_exp(logs.into_iter())).collect()
    }

    /// The steps to try: quantiles of the times of reads across.
    fn steps(&self) -> Vec<f64> {
        let mut times: Vec<f64> = self.across.iter().map(|&(_, time)| time).collect();
        times.sort_by(f64::total_cmp);
        let count = times.len().min(STEPS);
        (0..count).map(|at| times[(2 * at + 1) * times.len() / (2 * count)]).collect()
    }

    /// The log-likelihood for one step; `with` and `without` are the log-densities of each read's
    /// time with and without the step.
    fn log(&self, which: Which, with: &[f64], without: &[f64]) -> f64 {
        let log = |((&(multiple, _), &with), &without): ((&(u64, f64), &f64), &f64)| {
            let has = |has: bool| if has { with } else { without };
            match which {
                Which::All => with,
                Which::Share(share) => {
                    log_sum_exp([share.ln() + with, (1.0 - share).ln() + without].into_iter())
                }
                Which::Larger(factor) => has(multiple % factor == 0),
                Which::NotLarger(factor) => has(multiple % factor != 0),
            }
        };
        self.across.iter().zip(with).zip(without).map(log).sum()
    }

    /// The log-density of a deviation: the distribution of the adjacent reads, plus rare stalls.
    fn density(&self, deviation: f64, wider: f64) -> f64 {
        let count = self.beside.len() as f64;
        let width = wider * self.scale * count.powf(-0.2);
        // The sum of densities without logarithms, since there are many reads of each kind.
        let shares = self.beside.iter().map(|of| {
            let scaled = (deviation - wider * of) / width;
            (1.0 + scaled * scaled / 3.0).powi(-2)
        });
        let near = log_student_3(0.0, width) + (shares.sum::<f64>() / count).ln();
        let far = log_student_3(deviation, STALL_SPREAD * self.base);
        log_sum_exp([(1.0 - STALLS).ln() + near, STALLS.ln() + far].into_iter())
    }
}

#[cfg(test)]
mod tests {
    use flashfit_device::random::Random;

    use super::*;

    const UNIT: u64 = 1 << 20;
    const STEP_NS: u64 = 60_000;

    /// Reads across and next to multiples of a unit. Those that `has` selects have the step; one in
    /// `stalls` stalls.
    fn reads(stalls: u64, has: impl Fn(u64) -> bool) -> Vec<(RegionKind, BoundaryRead)> {
        let mut random = Random::new(11);
        let mut reads = Vec::new();
        for number in 0..80 {
            let multiple = random.below(1000);
            let is_across = number % 2 == 0;
            let center = multiple * UNIT + if is_across { 0 } else { UNIT / 2 };
            let step_ns = if is_across && has(multiple) { STEP_NS } else { 0 };
            let stall_ns = if random.below(stalls) == 0 { 20_000_000 } else { 0 };
            let elapsed_ns = 500_000 + random.below(40_000) + step_ns + stall_ns;
            reads.push((
                RegionKind::Informative,
                BoundaryRead { center, group: number / 8, elapsed_ns },
            ));
        }
        reads
    }

    #[test]
    fn units_at_every_multiple_are_confirmed_despite_stalls() {
        for stalls in [u64::MAX, 15] {
            let sure = all_multiples_probability(&reads(stalls, |_| true), &[UNIT], UNIT);
            assert!(sure > 0.95, "{stalls}: {sure}");
        }
    }

    #[test]
    fn a_step_at_some_multiples_is_rejected() {
        let at_half = |multiple: u64| multiple * 0x9e37_79b9 % 1021 < 510;
        let of_larger = |multiple: u64| multiple % 2 == 0;
        for reads in [reads(u64::MAX, at_half), reads(u64::MAX, of_larger), reads(15, of_larger)] {
            let sure = all_multiples_probability(&reads, &[UNIT], UNIT);
            assert!(sure < 0.05, "{sure}");
        }
    }
}
