//! The posterior of the erase block size, combined from all evidence over one list of candidates.
//!
//! Reads, write stalls and published tables each contribute a log-likelihood for every candidate,
//! including "no visible structure"; different kinds of evidence are treated as independent. The
//! candidates are 2^k, 3 x 2^k and, with a low prior, 5, 7 and 9 x 2^k bytes, plus any other size
//! that the evidence suggests and that divides the capacity. Limits: one erase block size for the
//! whole device. Sizes outside 64 KiB to 64 MiB are candidates, so that evidence can favor them,
//! but never answers.

use std::ops::RangeInclusive;

use flashfit_device::Bytes;

use crate::findings::{CandidateValue, GeometryFinding, QuantityValue, SURE};

/// The sizes that can be an answer: the smallest NAND with 2 KiB pages has erase blocks of 128 KiB,
/// and the largest allocation unit that SD cards declare is 64 MiB.
pub const ANSWERS: RangeInclusive<u64> = (64 << 10)..=(64 << 20);

/// Exponents of the candidates, 512 B to 256 MiB.
const EXPONENTS: RangeInclusive<u32> = 9..=28;

/// Prior of a size by its odd factor, relative to a power of two. Nearly all cards use powers of
/// two; TLC has three pages per word line, which makes 3 x 2^k the next most common. The rest
/// allows for inference errors.
const ODD_FACTORS: [(u64, f64); 5] = [(1, 1.0), (3, 0.2), (5, 0.01), (7, 0.01), (9, 0.01)];
/// The same for a divisor of the capacity that the evidence suggests.
const SUGGESTED_PRIOR: f64 = 0.003;
/// Prior probability of no visible structure.
const NO_STRUCTURE: f64 = 0.5;
/// Share of devices whose erase blocks are visible to a kind of measurement that many devices hide
/// from.
const VISIBLE: f64 = 0.5;
/// Probability that a visible structure has another cause.
const OUTLIER: f64 = 5e-4;
/// Most candidates that a finding lists.
const MAX_LISTED: usize = 5;
/// Smallest probability of a listed candidate.
const MIN_LISTED: f64 = 0.001;

/// A hypothesis about a device.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum DeviceStructure {
    Nothing,
    /// Units of this many bytes.
    Unit(u64),
}

impl DeviceStructure {
    pub fn bytes(self) -> Option<u64> {
        match self {
            Self::Nothing => None,
            Self::Unit(bytes) => Some(bytes),
        }
    }
}

#[derive(Debug, Clone, PartialEq)]
pub struct GeometryBelief {
    /// Candidates with unnormalized log-probabilities.
    weights: Vec<(DeviceStructure, f64)>,
    /// Prior log-probabilities in the same order.
    priors: Vec<f64>,
}

impl GeometryBelief {
    /// The prior for a device of this capacity. `suggested` are sizes that the evidence suggests;
    /// those that divide the capacity become candidates.
    pub fn new(capacity_bytes: u64, suggested: &[u64]) -> Self {
        // At least two units must fit, or there is no boundary.
        let fits = |bytes: u64| bytes <= capacity_bytes / 2;
        let mut units: Vec<(u64, f64)> = Vec::new();
        for (factor, prior) in ODD_FACTORS {
            let of_factor = EXPONENTS.map(|exponent| factor << exponent);
            let within = of_factor.filter(|&bytes| bytes <= 1 << EXPONENTS.end() && fits(bytes));
            units.extend(within.map(|bytes| (bytes, prior)));
        }
        for &bytes in suggested {
            let known = units.iter().any(|&(unit, _)| unit == bytes);
            if bytes > 0 && capacity_bytes % bytes == 0 && fits(bytes) && !known {
                units.push((bytes, SUGGESTED_PRIOR));
            }
        }
        let total: f64 = units.iter().map(|(_, prior)| prior).sum();
        let mut weights = vec![(DeviceStructure::Nothing, NO_STRUCTURE.ln())];
        weights.extend(units.into_iter().map(|(bytes, prior)| {
            (DeviceStructure::Unit(bytes), ((1.0 - NO_STRUCTURE) * prior / total).ln())
        }));
        weights.sort_by_key(|&(structure, _)| structure);
        let priors = weights.iter().map(|&(_, prior)| prior).collect();
        Self { weights, priors }
    }

    /// The posterior if the evidence so far is of a kind that many devices do not show: any unit
    /// may be hidden, and what is visible may, rarely, have another cause.
    pub fn as_hints(&self) -> Self {
        let gains =
            self.weights.iter().zip(&self.priors).map(|((_, weight), prior)| weight - prior);
        let best = gains.clone().fold(f64::NEG_INFINITY, f64::max);
        let hidden = self.weights.iter().zip(gains.clone());
        let hidden = hidden.filter(|((structure, _), _)| *structure == DeviceStructure::Nothing);
        let hidden = hidden.map(|(_, gain)| gain).fold(f64::NEG_INFINITY, f64::max);
        let mixed = gains.map(|gain| {
            let causes = [VISIBLE.ln() + gain, (1.0 - VISIBLE).ln() + hidden, OUTLIER.ln() + best];
            log_sum_exp(causes.into_iter())
        });
        let weights = self.weights.iter().zip(mixed).zip(&self.priors);
        let weights =
            weights.map(|(((structure, _), mixed), prior)| (*structure, prior + mixed)).collect();
        Self { weights, priors: self.priors.clone() }
    }

    /// Adds another belief, possibly over fewer candidates, [as hints](Self::as_hints).
    pub fn update_from_hints(&mut self, other: &Self) {
        let hints = other.as_hints();
        let gains = hints.weights.iter().zip(&hints.priors);
        let gains: Vec<(DeviceStructure, f64)> =
            gains.map(|((structure, weight), prior)| (*structure, weight - prior)).collect();
        let of = |wanted| gains.iter().find(|(structure, _)| *structure == wanted);
        let hidden = of(DeviceStructure::Nothing).map_or(0.0, |(_, gain)| *gain);
        self.update(|structure| of(structure).map_or(hidden, |(_, gain)| *gain));
    }

    /// The candidates: no structure first, then by size.
    pub fn candidates(&self) -> impl Iterator<Item = DeviceStructure> + '_ {
        self.weights.iter().map(|&(structure, _)| structure)
    }

    /// Adds evidence: the log-likelihood of each candidate, up to a common constant.
    ///
    /// If a log-likelihood is NaN or positive infinity.
    pub fn update(&mut self, mut log_likelihood: impl FnMut(DeviceStructure) -> f64) {
        for (structure, weight) in &mut self.weights {
            let log = log_likelihood(*structure);
            assert!(log < f64::INFINITY, "a log-likelihood of {log} for {structure:?}");
            *weight += log;
        }
    }

    /// The probability of each candidate, most likely first.
    pub fn posterior(&self) -> Vec<(DeviceStructure, f64)> {
        let logs = self.weights.iter().map(|&(_, weight)| weight);
        let total = log_sum_exp(logs);
        let mut posterior: Vec<(DeviceStructure, f64)> = self
            .weights
            .iter()
            .map(|&(structure, weight)| (structure, (weight - total).exp()))
            .collect();
        // A stable sort keeps equal candidates ordered by size.
        posterior.sort_by(|one, other| other.1.total_cmp(&one.1));
        posterior
    }

    /// The probability of a candidate; 0 for others.
    pub fn probability(&self, structure: DeviceStructure) -> f64 {
        let posterior = self.posterior();
        posterior.iter().find(|(found, _)| *found == structure).map_or(0.0, |&(_, p)| p)
    }

    /// The most likely candidate and its probability.
    pub fn likeliest(&self) -> (DeviceStructure, f64) {
        *self.posterior().first().expect("nothing is always a candidate")
    }

    /// The size whose probability is at least [`SURE`], with its probability.
    pub fn answer(&self) -> Option<(u64, f64)> {
        let (structure, probability) = self.likeliest();
        let bytes = structure.bytes().filter(|bytes| ANSWERS.contains(bytes))?;
        (probability >= SURE).then_some((bytes, probability))
    }

    /// The most likely sizes for a [`GeometryFinding`].
    pub fn shown(&self) -> Vec<CandidateValue> {
        let posterior = self.posterior();
        let units = posterior.iter().filter_map(|&(structure, probability)| {
            let value = QuantityValue::Bytes(structure.bytes()?);
            (probability >= MIN_LISTED).then_some(CandidateValue { value, probability })
        });
        units.take(MAX_LISTED).collect()
    }

    /// The finding: the answer with the reason from `seen`, or inconclusive with the reason
    /// `lacking`.
    pub fn finding(&self, seen: impl FnOnce(u64) -> String, lacking: &str) -> GeometryFinding {
        if let Some((bytes, probability)) = self.answer() {
            let found =
                GeometryFinding::found(QuantityValue::Bytes(bytes), probability, seen(bytes));
            return GeometryFinding { candidates: self.shown(), ..found };
        }
        let (structure, probability) = self.likeliest();
        let outside = structure.bytes().filter(|_| probability >= SURE);
        let reason = outside.map_or_else(
            || lacking.to_owned(),
            |bytes| {
                format!(
                    "the device has a structure of {}, which is outside the sizes of erase blocks",
                    Bytes(bytes)
                )
            },
        );
        GeometryFinding::inconclusive(reason, self.shown())
    }
}

/// The logarithm of the sum of exponentials; negative infinity without terms.
pub fn log_sum_exp(logs: impl Iterator<Item = f64> + Clone) -> f64 {
    let greatest = logs.clone().fold(f64::NEG_INFINITY, f64::max);
    if greatest == f64::NEG_INFINITY {
        return greatest;
    }
    greatest + logs.map(|log| (log - greatest).exp()).sum::<f64>().ln()
}

/// The log-density of Student's t distribution with 3 degrees of freedom at `deviation`, both in
/// units of `scale`. Suits times that are mostly similar with occasional outliers.
pub fn log_student_3(deviation: f64, scale: f64) -> f64 {
    // Gamma(2) / (sqrt(3 pi) Gamma(3/2)) = 2 / (pi sqrt(3)).
    let peak = (2.0 / (std::f64::consts::PI * 3f64.sqrt())).ln();
    peak - scale.ln() - 2.0 * (1.0 + (deviation / scale).powi(2) / 3.0).ln()
}

/// The median; `NaN` without values.
pub fn median(values: &[f64]) -> f64 {
    flashfit_numbers::median(values).unwrap_or(f64::NAN)
}

#[cfg(test)]
mod tests {
    use super::*;

    const GIB: u64 = 1 << 30;

    #[test]
    fn the_prior_favors_powers_of_two_and_gives_no_answer() {
        let belief = GeometryBelief::new(4 * GIB, &[]);
        let of = |bytes| belief.probability(DeviceStructure::Unit(bytes));
        assert!(of(4 << 20) > of(6 << 20) && of(6 << 20) > of(5 << 20));
        let total: f64 = belief.posterior().iter().map(|(_, p)| p).sum();
        assert!((total - 1.0).abs() < 1e-9);
        assert_eq!(belief.answer(), None);
    }

    #[test]
    fn evidence_adds_up_to_an_answer() {
        let mut belief = GeometryBelief::new(4 * GIB, &[]);
        let peak = |structure| if structure == DeviceStructure::Unit(12 << 20) { 5.0 } else { 0.0 };
        belief.update(peak);
        assert_eq!(belief.answer(), None);
        belief.update(peak);
        assert_eq!(belief.answer().unwrap().0, 12 << 20);
        let finding = belief.finding(|bytes| format!("{bytes}"), "none");
        assert_eq!(finding.value, Some(QuantityValue::Bytes(12 << 20)));
        assert_eq!(finding.candidates[0].value, QuantityValue::Bytes(12 << 20));
    }

    #[test]
    fn hints_of_no_structure_do_not_rule_out_any_size() {
        let mut belief = GeometryBelief::new(4 * GIB, &[]);
        belief.update(|structure| if structure == DeviceStructure::Nothing { 90.0 } else { 0.0 });
        let mut hints = belief.as_hints();
        assert!(belief.probability(DeviceStructure::Unit(4 << 20)) < 1e-9);
        assert!(hints.probability(DeviceStructure::Unit(4 << 20)) > 0.01);
        hints.update(
            |structure| if structure == DeviceStructure::Unit(4 << 20) { 10.0 } else { 0.0 },
        );
        assert_eq!(hints.answer().unwrap().0, 4 << 20);
    }

    #[test]
    fn clear_hints_give_an_answer_until_stronger_evidence_replaces_it() {
        let mut belief = GeometryBelief::new(4 * GIB, &[]);
        belief.update(
            |structure| if structure == DeviceStructure::Unit(4 << 20) { 90.0 } else { 0.0 },
        );
        let mut hints = belief.as_hints();
        assert_eq!(hints.answer().unwrap().0, 4 << 20);
        hints.update(
            |structure| if structure == DeviceStructure::Unit(1 << 20) { 20.0 } else { 0.0 },
        );
        assert_eq!(hints.answer().unwrap().0, 1 << 20);
    }

    #[test]
    fn sizes_outside_the_range_are_never_an_answer() {
        for bytes in [16 << 10, 128 << 20] {
            let mut belief = GeometryBelief::new(4 * GIB, &[]);
            belief.update(
                |structure| if structure == DeviceStructure::Unit(bytes) { 50.0 } else { 0.0 },
            );
            assert!(belief.likeliest().1 > 0.999);
            assert_eq!(belief.answer(), None);
            let finding = belief.finding(|_| String::new(), "nothing shows");
            assert!(finding.reason.contains("sizes of erase blocks"), "{}", finding.reason);
        }
    }

    #[test]
    fn a_small_device_has_few_candidates_and_accepts_a_suggested_divisor() {
        let belief = GeometryBelief::new(11 << 20, &[11 << 18, 13 << 18]);
        assert!(belief.candidates().all(|s| s.bytes().is_none_or(|bytes| bytes <= 11 << 19)));
        assert!(belief.probability(DeviceStructure::Unit(11 << 18)) > 0.0);
        assert_eq!(belief.probability(DeviceStructure::Unit(13 << 18)), 0.0);
    }

    #[test]
    fn the_density_is_a_density() {
        let sum: f64 =
            (-200_000..200_000).map(|i| log_student_3(f64::from(i) * 0.01, 2.0).exp()).sum();
        assert!((sum * 0.01 - 1.0).abs() < 1e-3, "{sum}");
        assert_eq!(log_sum_exp([].into_iter()), f64::NEG_INFINITY);
        assert!((log_sum_exp([-1000.0, -1000.0].into_iter()) + 1000.0 - 2f64.ln()).abs() < 1e-9);
    }

    #[test]
    fn the_median_is_in_the_middle() {
        assert_eq!(median(&[3.0, 1.0, 2.0]), 2.0);
        assert_eq!(median(&[4.0, 1.0, 2.0, 3.0]), 2.5);
        assert!(median(&[]).is_nan());
    }
}
