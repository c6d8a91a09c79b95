//! Whether pages show to longer reads, where none shows to short ones.
//!
//! On a card that reads several pages at once (planes, dies) a short read across a page costs no
//! more than one within it. A read of several pages that begins with one takes a page less than one
//! that begins within one, and where what is read at once goes into it that is one turn more. So
//! reads of 32 KiB that begin at multiples of 64 KiB are compared with some that begin a little
//! behind them, in pairs, near each other in place and time; and reads of 8 KiB, which are less
//! noisy, but which more pages go into. A unit of four times 32 KiB whose step is the only one is
//! then no write unit. Limits: what is read at once must go into a read (six planes do not); with
//! sectors of 4 KiB no page of 4 KiB shows.

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
/// Where they begin, in bytes: then none crosses a larger boundary.
const EVERY: u64 = 64 << 10;
/// The smallest unit that this tells from a write unit, in bytes.
pub const LEAST_UNIT: u64 = 4 * LENGTHS[1] as u64;
/// How likely pages show to reads of a length.
const USUAL: f64 = 0.16;
/// Sure enough, either way.
const SURE: f64 = 0.995;
/// As few pairs say little of how far they differ.
const FEWEST_PAIRS: usize = 8;
/// The most pairs of a length.
const MOST_PAIRS: usize = 400;
/// What a turn takes at least, in nanoseconds, and how many times longer the others that are tried.
const LEAST_TURN_NS: f64 = 10_000.0;
const TURNS: [f64; 6] = [1.0, 2.0, 4.0, 8.0, 16.0, 32.0];

/// What is known of pages.
#[derive(Debug, Default)]
pub struct Pages {
    /// What reads of each length that begin within a page took longer, in nanoseconds.
    differences: [Vec<f64>; LENGTHS.len()],
    /// Whether there is no place left to read.
    is_exhausted: bool,
}

impl Pages {
    /// How likely pages show; `None` before that was looked at.
    pub fn show(&self) -> Option<f64> {
        let is_known = self.differences.iter().all(|of| of.len() >= FEWEST_PAIRS);
        let hidden = self.differences.iter().map(|of| 1.0 - likely(of)).product::<f64>();
        is_known.then_some(1.0 - hidden)
    }

    /// Whether more reads would hardly tell more.
    pub fn is_over(&self) -> bool {
        let is_sure = self.show().is_some_and(|show| !(1.0 - SURE..=SURE).contains(&show));
        let is_full = self.differences.iter().all(|of| of.len() >= MOST_PAIRS);
        is_sure || is_full || self.is_exhausted
    }

    /// Reads some pairs more of each length, where the flash is asked.
    ///
    /// # Errors
    /// As reads fail.
    pub fn look(
        &mut self,
        session: &mut ReadSession<'_>,
        places: &mut UnreadPlaces,
        regions: &Regions,
        random: &mut Random,
        sector: u64,
    ) -> Result<(), ProbeError> {
        let behind = 2 * sector;
        for (length, differences) in LENGTHS.into_iter().zip(&mut self.differences) {
            for _ in 0..FEWEST_PAIRS {
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

/// How likely these differences have a turn more.
fn likely(differences: &[f64]) -> f64 {
    let scale = spread(differences).max(LEAST_TURN_NS / 10.0);
    let log = |turn_ns: f64| -> f64 {
        differences.iter().map(|difference| log_student_3(difference - turn_ns, scale)).sum()
    };
    let turns = TURNS.map(|times| log(times * LEAST_TURN_NS));
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
    fn a_turn_more_shows_in_noise_and_noise_alone_is_none() {
        assert!(show(40_000) > 0.99);
        assert!(show(0) < 0.2);
    }
}
