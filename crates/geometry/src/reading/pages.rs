//! Checks whether longer reads reveal pages where short ones do not.
//!
//! A card that reads several pages at once (planes, dies) reads across a page as fast as within
//! one. A read of several pages that starts at a page boundary needs one page less than one that
//! starts within a page, and, if the pages read at once fit into it, one turn less. Therefore reads
//! of 32 KiB at multiples of 64 KiB are compared in pairs with reads that start slightly later,
//! close in place and time; also reads of 8 KiB, which have less noise but cover fewer pages. A
//! unit of at least four times 32 KiB whose step is the only one is then not a write unit. Limits:
//! the pages read at once must fit into a read (six planes do not); with sectors of 4 KiB, pages of
//! 4 KiB are not visible.

use flashfit_device::random::Random;

use super::places::UnreadPlaces;
use super::regions::Regions;
use super::scores::as_float;
use super::session::ReadSession;
use crate::belief::{log_student_3, log_sum_exp};
use crate::probed::{ProbeError, SamplePurpose};

use super::confirm::spread;

/// Lengths of reads, in bytes.
const LENGTHS: [usize; 2] = [8 << 10, 32 << 10];
/// Alignment of their starts, in bytes, so that none crosses a larger boundary.
const EVERY: u64 = 64 << 10;
/// The smallest unit that this distinguishes from a write unit, in bytes.
pub const MIN_UNIT: u64 = 4 * LENGTHS[1] as u64;
/// Prior probability that pages are visible to reads of a length.
const USUAL: f64 = 0.16;
/// Probability at which the result is settled.
const SURE: f64 = 0.995;
/// The fewest pairs to estimate their spread from.
const MIN_PAIRS: usize = 8;
/// The most pairs of a length.
const MAX_PAIRS: usize = 400;
/// Shortest duration of a turn in nanoseconds, and factors for the longer ones tried.
const MIN_TURN_NS: f64 = 10_000.0;
const TURNS: [f64; 6] = [1.0, 2.0, 4.0, 8.0, 16.0, 32.0];

#[derive(Debug, Default)]
pub struct Pages {
    /// By length, the extra times of reads that start within a page, in nanoseconds.
    differences: [Vec<f64>; LENGTHS.len()],
    is_exhausted: bool,
}

impl Pages {
    /// The probability that pages are visible; `None` before it was checked.
    pub fn show(&self) -> Option<f64> {
        let is_known = self.differences.iter().all(|of| of.len() >= MIN_PAIRS);
        let hidden = self.differences.iter().map(|of| 1.0 - likely(of)).product::<f64>();
        is_known.then_some(1.0 - hidden)
    }

    /// Whether more reads would hardly change the result.
    pub fn is_done(&self) -> bool {
        let is_sure = self.show().is_some_and(|show| !(1.0 - SURE..=SURE).contains(&show));
        let is_full = self.differences.iter().all(|of| of.len() >= MAX_PAIRS);
        is_sure || is_full || self.is_exhausted
    }

    /// Reads more pairs of each length in informative regions.
    ///
    /// # Errors
    /// If the device fails.
    pub fn check(
        &mut self,
        session: &mut ReadSession<'_>,
        places: &mut UnreadPlaces,
        regions: &Regions,
        random: &mut Random,
        sector: u64,
    ) -> Result<(), ProbeError> {
        let behind = 2 * sector;
        for (length, differences) in LENGTHS.into_iter().zip(&mut self.differences) {
            for _ in 0..MIN_PAIRS {
                if session.reads_left() < 2 {
                    break;
                }
                let region = regions.draw(random, EVERY, false);
                let end = places.bounds().end - length as u64 - behind;
                let mut fresh =
                    || places.fresh(random, EVERY, &region).filter(|&place| place <= end);
                let (Some(one), Some(other)) = (fresh(), fresh()) else {
                    self.is_exhausted = true;
                    break;
                };
                let mut order =
                    [(one, SamplePurpose::Read), (other + behind, SamplePurpose::ReadAcross)];
                random.shuffle(&mut order);
                let mut times = [None; 2];
                for (place, purpose) in order {
                    let slot = usize::from(purpose == SamplePurpose::ReadAcross);
                    times[slot] = session.read(place, length, purpose)?;
                }
                if let [Some(from), Some(within)] = times {
                    differences.push(as_float(within) - as_float(from));
                }
            }
        }
        Ok(())
    }
}

/// The probability that these differences contain an additional turn.
fn likely(differences: &[f64]) -> f64 {
    let scale = spread(differences).max(MIN_TURN_NS / 10.0);
    let log = |turn_ns: f64| -> f64 {
        differences.iter().map(|difference| log_student_3(difference - turn_ns, scale)).sum()
    };
    let turns = TURNS.map(|times| log(times * MIN_TURN_NS));
    let with = log_sum_exp(turns.into_iter()) - (TURNS.len() as f64).ln();
    let odds = USUAL / (1.0 - USUAL) * (with - log(0.0)).clamp(-50.0, 50.0).exp();
    odds / (1.0 + odds)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn show(turn_ns: u64) -> f64 {
        let mut random = Random::new(5);
        let noise = |random: &mut Random| as_float(random.below(60_000));
        let mut difference = |_| noise(&mut random) - noise(&mut random) + as_float(turn_ns);
        let differences: Vec<f64> = (0..60).map(&mut difference).collect();
        let flat = (0..60).map(|_| noise(&mut random) - noise(&mut random)).collect();
        let pages = Pages { differences: [flat, differences], is_exhausted: false };
        pages.show().expect("sixty pairs")
    }

    #[test]
    fn an_additional_turn_is_found_in_noise_and_noise_alone_is_not() {
        assert!(show(40_000) > 0.99);
        assert!(show(0) < 0.2);
    }
}
