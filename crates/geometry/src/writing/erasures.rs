//! The erase unit of a page-mapped layer, told by the erasures that writing needs.
//!
//! Such a layer appends whatever is written to one unit after the other and has to erase one for
//! each that it fills, once it has no fresh ones left. So every so many bytes written, wherever
//! they go, one write takes longer: the distance is the erase unit, and it says nothing of logical
//! boundaries. Writes go to a small part of the medium, in a mixed order: then what is collected
//! holds nothing worth copying, all of the map that is needed is in memory, and nothing that
//! depends on addresses can look regular. Small units with one bit per cell that are written first
//! show at the distance of what they hold. Limits: a card that was never full erases nothing until
//! its spare units are used up, so about its whole capacity must be written first; where the budget
//! does not reach so far, nothing is found.

use std::ops::Range;

use super::meter::{LARGEST_REQUEST, Meter, Stop};
use super::period::Classes;
use crate::belief::{ANSWERS, Belief, Structure, log_sum_exp};
use crate::probed::Purpose;

/// Times that are kept, the last ones.
const MOST_TIMES: usize = 1 << 17;
/// Times after which is looked first, and by how much more the next time.
const FIRST_LOOK: usize = 1024;
const LOOKS: f64 = 1.3;
/// How much likelier than nothing the distance must be, as a logarithm.
const CLEAR: f64 = 14.0;
/// The posterior among distances at which no more is written.
const ENOUGH: f64 = 0.999;
/// The part of the medium that is written again and again has at least so many places.
const PLACES: u64 = 24;

/// What the times of writes say of the distance of erasures.
#[derive(Debug, Clone)]
pub struct Distances {
    /// The size of each write, in bytes.
    pub write_bytes: u64,
    /// For each size of an erase unit, the log-evidence against nothing.
    pub gains: Vec<(u64, f64)>,
    /// The likeliest unit.
    pub unit: u64,
    /// How much likelier it is than nothing, as a logarithm.
    pub gain: f64,
    /// How likely it is among all units.
    pub probability: f64,
}

impl Distances {
    fn is_clear(&self) -> bool {
        self.gain > CLEAR && self.probability > ENOUGH
    }
}

/// Writes to a part of the window until erasures show at a regular distance, or the budget is
/// spent; `None` then, if nothing shows.
pub fn find(
    meter: &mut Meter<'_>,
    window: &Range<u64>,
    write_bytes: u64,
    belief: &Belief,
    bits: &[u64],
    most_bytes: u64,
) -> Result<Option<Distances>, Stop> {
    let area = area(window, write_bytes);
    let mut order: Vec<u64> = (0..(area.end - area.start) / write_bytes).collect();
    let mut times: Vec<f32> = Vec::new();
    let mut taken = 0_usize;
    let mut look = FIRST_LOOK;
    let mut clear: Option<Distances> = None;
    let until = meter.probed.written_bytes.saturating_add(most_bytes);
    loop {
        meter.random.shuffle(&mut order);
        for place in order.clone() {
            let at = area.start + place * write_bytes;
            match meter.write(Purpose::WriteRandom, at, write_bytes) {
                Ok(time_ns) => times.push(time_ns as f32),
                Err(Stop::Spent) => return Ok(clear),
                Err(failed) => return Err(failed),
            }
            taken += 1;
        }
        if times.len() > 2 * MOST_TIMES {
            times.drain(..MOST_TIMES);
        }
        if taken >= look {
            look = (taken as f64 * LOOKS) as usize;
            let found = distances(&times, write_bytes, belief, bits);
            let agreed =
                matches!((&clear, &found), (Some(one), Some(other)) if one.unit == other.unit);
            clear = found.filter(Distances::is_clear);
            if agreed && clear.is_some() {
                return Ok(clear);
            }
        }
        if meter.probed.written_bytes >= until {
            return Ok(clear);
        }
    }
}

/// A part of the window that a piece of any layer's map covers.
fn area(window: &Range<u64>, write_bytes: u64) -> Range<u64> {
    let length = LARGEST_REQUEST.max(PLACES * write_bytes) / write_bytes * write_bytes;
    let middle = (window.start + window.end) / 2;
    // Aligned to what any write unit and many map pieces divide.
    let start = middle.next_multiple_of(12 << 20).min(middle.next_multiple_of(write_bytes));
    let start = start.max(window.start).min(window.end.saturating_sub(length));
    let start = start.next_multiple_of(write_bytes);
    let start = if start + length > window.end { start - write_bytes } else { start };
    start..start + length
}

/// What the last of the times say; erasures may have begun only lately.
fn distances(times: &[f32], write_bytes: u64, belief: &Belief, bits: &[u64]) -> Option<Distances> {
    let mut best: Option<Distances> = None;
    let mut from = times.len().saturating_sub(MOST_TIMES);
    while times.len() - from >= FIRST_LOOK {
        let found = distances_in(&times[from..], write_bytes, belief, bits);
        if found.as_ref().is_some_and(|found| best.as_ref().is_none_or(|b| found.gain > b.gain)) {
            best = found;
        }
        from += (times.len() - from).div_ceil(2);
    }
    best
}

fn distances_in(
    times: &[f32],
    write_bytes: u64,
    belief: &Belief,
    bits: &[u64],
) -> Option<Distances> {
    let classes = Classes::of(times);
    let nothing = classes.log_nothing();
    let units: Vec<u64> = belief
        .candidates()
        .filter_map(Structure::bytes)
        .filter(|unit| ANSWERS.contains(unit))
        .collect();
    let mut gains = Vec::new();
    for unit in units {
        let logs: Vec<f64> = bits
            .iter()
            .filter_map(|bits| {
                // Of several bits a cell, only whole write units are used with one.
                let held = unit / write_bytes / bits * write_bytes;
                Some(classes.log_of(held as f64 / write_bytes as f64)? - nothing)
            })
            .collect();
        if !logs.is_empty() {
            let gain = log_sum_exp(logs.iter().copied()) - (bits.len() as f64).ln();
            gains.push((unit, gain));
        }
    }
    let prior = |unit: u64| belief.probability(Structure::Unit(unit)).max(1e-12).ln();
    let weights: Vec<f64> = gains.iter().map(|&(unit, gain)| gain + prior(unit)).collect();
    let total = log_sum_exp(weights.iter().copied());
    let best = (0..gains.len()).max_by(|&a, &b| weights[a].total_cmp(&weights[b]))?;
    Some(Distances {
        write_bytes,
        unit: gains[best].0,
        gain: gains[best].1,
        probability: (weights[best] - total).exp(),
        gains,
    })
}
