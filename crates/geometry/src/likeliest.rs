//! The geometry that a plan is made for where findings are not certain.
//!
//! A plan needs numbers, and a wrong one costs little: what is aligned to a larger power of two is
//! aligned to the smaller ones too. So it takes the likeliest value where the evidence prefers it
//! clearly, and names its probability. Limits: a device that shows nothing has no likeliest value.

use flashfit_device::Bytes;

use crate::findings::{CandidateValue, GeometryFinding, GeometryFindings, QuantityValue};
use crate::geometry::{Geometry, QuantitySource, Sourced};

/// An erase block has to be likelier than everything else together.
const LIKELY: f64 = 0.5;
/// A write unit has to be so many times as likely as any other size. There is always one, visible
/// or not, so that there may be none to see does not count.
const TIMES_THE_NEXT: f64 = 3.0;
/// A size below this probability is one of many.
const LEAST: f64 = 0.02;

impl GeometryFindings {
    /// The sizes that were found with certainty.
    pub fn geometry(&self) -> Geometry {
        Geometry::of_sizes(found(&self.erase_block), found(&self.write_unit))
    }

    /// The sizes that were found, or else are the likeliest.
    pub fn likeliest_geometry(&self) -> Geometry {
        let likely = likeliest(&self.erase_block).filter(|one| one.probability >= LIKELY);
        let preferred = likeliest(&self.write_unit).filter(|one| {
            let others = self.write_unit.candidates.iter().filter(|other| other.value != one.value);
            let next = others.map(|other| other.probability).fold(0.0, f64::max);
            one.probability >= LEAST.max(TIMES_THE_NEXT * next)
        });
        self.geometry().or(Geometry::of_sizes(
            likely.and_then(|one| uncertain(&one)),
            preferred.and_then(|one| uncertain(&one)),
        ))
    }
}

fn likeliest(finding: &GeometryFinding) -> Option<CandidateValue> {
    let all = finding.candidates.iter();
    all.max_by(|one, other| one.probability.total_cmp(&other.probability)).copied()
}

fn found(finding: &GeometryFinding) -> Option<Sourced> {
    size(finding.value?).map(|bytes| Sourced::new(bytes, QuantitySource::Probed))
}

fn uncertain(candidate: &CandidateValue) -> Option<Sourced> {
    let percent = (candidate.probability.clamp(0.0, 1.0) * 100.0).round() as u8;
    size(candidate.value).map(|bytes| Sourced::new(bytes, QuantitySource::Likeliest { percent }))
}

fn size(value: QuantityValue) -> Option<Bytes> {
    match value {
        QuantityValue::Bytes(bytes) if bytes > 0 => Some(Bytes(bytes)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn inconclusive(candidates: &[(u64, f64)]) -> GeometryFinding {
        let candidates = candidates.iter().map(|&(bytes, probability)| CandidateValue {
            value: QuantityValue::Bytes(bytes),
            probability,
        });
        GeometryFinding::inconclusive("too much noise", candidates.collect())
    }

    fn likeliest(erase_block: &[(u64, f64)], write_unit: &[(u64, f64)]) -> [Option<Sourced>; 2] {
        let findings = GeometryFindings {
            erase_block: inconclusive(erase_block),
            write_unit: inconclusive(write_unit),
            ..GeometryFindings::default()
        };
        assert!(findings.geometry().is_unknown());
        let Geometry { erase_block, write_unit, .. } = findings.likeliest_geometry();
        [erase_block, write_unit]
    }

    fn with(bytes: Bytes, percent: u8) -> Option<Sourced> {
        Some(Sourced::new(bytes, QuantitySource::Likeliest { percent }))
    }

    #[test]
    fn an_erase_block_is_taken_if_it_is_likelier_than_the_rest() {
        assert_eq!(
            likeliest(&[(4 << 20, 0.82), (12 << 20, 0.02)], &[])[0],
            with(Bytes::mib(4), 82)
        );
        assert_eq!(likeliest(&[(4 << 20, 0.26), (2 << 20, 0.06)], &[])[0], None);
    }

    #[test]
    fn a_write_unit_is_taken_if_no_other_size_comes_near() {
        assert_eq!(
            likeliest(&[], &[(8 << 10, 0.06), (16 << 10, 0.005)])[1],
            with(Bytes::kib(8), 6)
        );
        assert_eq!(likeliest(&[], &[(8 << 10, 0.45), (16 << 10, 0.4)])[1], None);
        assert_eq!(likeliest(&[], &[(8 << 10, 0.01)])[1], None);
    }

    #[test]
    fn what_was_found_comes_first() {
        let findings = GeometryFindings {
            erase_block: GeometryFinding::found(QuantityValue::Bytes(8 << 20), 0.97, "a step"),
            ..GeometryFindings::default()
        };
        let known = findings.likeliest_geometry().erase_block.unwrap();
        assert_eq!((known.bytes, known.source), (Bytes::mib(8), QuantitySource::Probed));
    }
}
