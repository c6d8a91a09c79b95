//! The finding about the erase block: the size that reads and rates suggest together, with a reason
//! that names only evidence for this size.

use flashfit_device::Bytes;

use super::WITHOUT_STEP;
use super::align_step::{StepEvidence, TwoSteps};
use super::cliff::CopyLikelihood;
use crate::belief::{DeviceStructure, GeometryBelief};
use crate::findings::{GeometryFinding, QuantityValue};

/// Evidence suggests a size if no other is more likely by more than this factor.
const NEARLY: f64 = 2.0;
/// The probability from which on a reason names three times the size of a small step.
const NOT_RULED_OUT: f64 = 0.005;

/// All evidence about the erase block, and that of each kind.
pub(super) struct SizeEvidence {
    capacity_bytes: u64,
    pub belief: GeometryBelief,
    reads: Option<(StepEvidence, GeometryBelief)>,
    rates: Option<GeometryBelief>,
}

impl SizeEvidence {
    /// Evidence from reads, if there is any. The capacity is in bytes.
    pub(super) fn new(capacity_bytes: u64, steps: Option<StepEvidence>) -> Self {
        let prior = GeometryBelief::new(capacity_bytes, &[]);
        let reads = steps.map(|steps| {
            let mut belief = prior.clone();
            steps.update(&mut belief);
            (steps, belief)
        });
        let belief = reads.as_ref().map_or(prior, |(_, belief)| belief.clone());
        Self { capacity_bytes, belief, reads, rates: None }
    }

    /// Adds evidence from rates beyond the open erase blocks.
    pub(super) fn add_rates(&mut self, likelihood: &CopyLikelihood) {
        let prior = || GeometryBelief::new(self.capacity_bytes, &[]);
        let rates = self.rates.get_or_insert_with(prior);
        for belief in [rates, &mut self.belief] {
            belief.update(|structure| likelihood.log_likelihood(structure));
        }
    }

    pub(super) fn finding(&self) -> GeometryFinding {
        let steps = self.reads.as_ref().map(|(steps, _)| steps);
        if let Some(two) = steps.and_then(|steps| steps.two_steps(&self.belief)) {
            return self.either_of(two);
        }
        let lacking = match (steps, &self.rates) {
            (None, None) => {
                return GeometryFinding::not_measured(
                    "requires an alignment table of at least six rows, or an open-unit table with \
                     a steep cliff",
                );
            }
            (Some(steps), _) => gap(steps, &self.belief).map(rows_lack),
            (None, Some(_)) => Some("several unit sizes explain the rates beyond the cliff".into()),
        };
        let lacking = lacking.unwrap_or_else(|| WITHOUT_STEP.to_owned());
        self.belief.finding(|bytes| self.reason(bytes) + &self.or_three_times(bytes), &lacking)
    }

    /// What suggests this size, in bytes, and what suggests another one.
    fn reason(&self, bytes: u64) -> String {
        let longer_from =
            |size| format!("reads across boundaries take longer from {} on", Bytes(size));
        let by_reads = self.reads.as_ref().and_then(|(_, belief)| suggested(belief, bytes));
        let by_rates = self.rates.as_ref().and_then(|belief| suggested(belief, bytes));
        let missing = self.reads.as_ref().and_then(|(steps, belief)| gap(steps, belief));
        let read = match missing.filter(|sizes| sizes.contains(&bytes)) {
            Some(sizes) => rows_lack(sizes),
            None => longer_from(bytes),
        };
        let copied =
            |size| format!("beyond the open erase blocks writes copy a unit of {}", Bytes(size));
        match (by_reads, by_rates) {
            (Some(reads), Some(rates)) if reads == bytes && rates == bytes => {
                format!("{read}, and beyond the open erase blocks writes copy a unit of this size")
            }
            (Some(reads), Some(rates)) if reads == bytes => format!(
                "{read}, although the rates beyond the open erase blocks suggest {}",
                Bytes(rates)
            ),
            (Some(reads), None) if reads == bytes => read,
            (Some(reads), Some(rates)) if rates == bytes => {
                format!("{}, although {}", copied(bytes), longer_from(reads))
            }
            (Some(_), _) => {
                "reads and rates suggest other sizes, but only this one together".into()
            }
            (None, _) => copied(bytes),
        }
    }

    /// What a reason adds where reads do not rule out three times this size, in bytes.
    fn or_three_times(&self, bytes: u64) -> String {
        let steps = self.reads.as_ref().map(|(steps, _)| steps);
        let rise = steps.and_then(|steps| steps.may_be_a_third(bytes));
        let is_open = |bytes| self.belief.probability(DeviceStructure::Unit(bytes)) > NOT_RULED_OUT;
        match rise.filter(|_| is_open(3 * bytes)) {
            Some(rise) => format!(
                "; the step is only {:.0} % of a read, so erase blocks may also have three times \
                 that size, {}",
                100.0 * rise,
                Bytes(3 * bytes)
            ),
            None => String::new(),
        }
    }

    /// What begins at the larger of two sizes also begins at the smaller one.
    fn either_of(&self, steps: TwoSteps) -> GeometryFinding {
        let TwoSteps { smaller, larger, probability } = steps;
        let reason = format!(
            "reads across boundaries take longer from {smaller} on, and longer still from {larger} \
             on: erase blocks are of either size, and what is aligned to {larger} is aligned to \
             both{}",
            self.or_three_times(larger.0)
        );
        let found = GeometryFinding::found(QuantityValue::Bytes(larger.0), probability, reason);
        GeometryFinding { candidates: self.belief.shown(), ..found }
    }
}

/// This size, in bytes, if it is the likeliest or nearly so, and otherwise the likeliest.
fn suggested(belief: &GeometryBelief, bytes: u64) -> Option<u64> {
    let (likeliest, probability) = belief.likeliest();
    let is_it = NEARLY * belief.probability(DeviceStructure::Unit(bytes)) >= probability;
    if is_it { Some(bytes) } else { likeliest.bytes() }
}

/// The sizes that a step may have because of missing rows.
fn gap<'a>(steps: &'a StepEvidence, belief: &GeometryBelief) -> Option<&'a [u64]> {
    steps.gap(|bytes| belief.probability(DeviceStructure::Unit(bytes)))
}

/// Why a step is of none of these sizes for sure. Only the last one has a row.
pub(super) fn rows_lack(sizes: &[u64]) -> String {
    let (last, missing) = sizes.split_last().expect("a gap is of at least two sizes");
    let missing: Vec<String> = missing.iter().map(|&size| Bytes(size).to_string()).collect();
    let (last, missing) = (Bytes(*last), missing.join(", "));
    format!(
        "reads across boundaries take longer from {last} on, or from a smaller size for which the \
         table has no row: {missing}"
    )
}
