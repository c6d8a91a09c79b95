//! Times the patterns that a twin is fitted to besides the table of open erase blocks.

use std::ops::ControlFlow;

use flashfit_device::{Bytes, Clock};
use flashfit_geometry::probed::ProbeObserver;
use flashfit_twin::fit_target::MeasuredPatterns;
use flashfit_twin::pattern::file::PatternSet;
use flashfit_twin::pattern::{MeasuredPattern, PatternPlayer};

use crate::error::ProbeRunError;
use crate::limited::{LimitedDevice, MeasurementProgress};
use crate::recorded::RecordedDevice;
use crate::twin::RateRoom;

const WHAT: &str = "patterns of file systems for the twin";
/// A pattern that has taken so long ends.
const LONGEST_PATTERN_NS: u64 = 30_000_000_000;
/// The part of the time in which the region is filled.
const FILL_TIME_DIVISOR: u64 = 4;
/// Filling ends after this time, wherever it is.
const LONGEST_FILL_NS: u64 = 90_000_000_000;
/// How much of the fill is written before the time is looked at again.
const FILL_BYTES: u64 = 8 << 20;
/// The bytes to fill what patterns need, and to write them all, in that size.
const FILLED_AND_WRITTEN: u64 = 2;
/// The most that patterns may write, in bytes, where nothing else is said.
pub const USUAL_BYTES: u64 = 1 << 30;

/// Fills the beginning of the room and measures the patterns of a set there. If the time does not
/// suffice to fill all that they need, they are folded into what was filled: what a device does
/// depends on what is there. What does not fit into the rest of the time or of the bytes is left
/// out; `None` if that is the fill, or if less than as many bytes would remain for the patterns.
///
/// # Errors
/// From the device, or if the observer interrupts.
pub fn measure(
    device: &mut RecordedDevice<'_>,
    clock: &dyn Clock,
    set: &PatternSet,
    mut room: RateRoom,
    observer: &mut dyn ProbeObserver,
    seed: u64,
) -> Result<Option<MeasuredPatterns>, ProbeRunError> {
    let span_bytes = set.span.0;
    let has_bytes = room.left_bytes >= FILLED_AND_WRITTEN * span_bytes;
    if room.region.end - room.region.start < span_bytes || !has_bytes {
        return Ok(None);
    }
    let begin_ns = clock.now_ns();
    let longest_fill_ns = room
        .left_ns(0)
        .map_or(LONGEST_FILL_NS, |left_ns| LONGEST_FILL_NS.min(left_ns / FILL_TIME_DIVISOR));
    let start_bytes = room.region.start;
    let mut player = PatternPlayer::new(start_bytes, seed);
    let (mut last_ns, mut filled_bytes) = (0, 0);
    for piece in 0..span_bytes.div_ceil(FILL_BYTES) {
        let elapsed_ns = clock.now_ns() - begin_ns;
        if elapsed_ns > longest_fill_ns {
            break;
        }
        let has_time = room.has_time_for(last_ns, elapsed_ns, observer);
        let done = piece as f64 * FILL_BYTES as f64 / span_bytes as f64;
        step(observer, done * 0.2)?;
        if !has_time {
            return Ok(None);
        }
        let length = FILL_BYTES.min(span_bytes - piece * FILL_BYTES);
        player.fill(device, piece * FILL_BYTES, length)?;
        filled_bytes += length;
        last_ns = clock.now_ns() - begin_ns - elapsed_ns;
    }
    room.left_bytes -= filled_bytes;
    let mut measured = Vec::new();
    for (at, pattern) in set.patterns.iter().enumerate() {
        let pattern = &pattern.folded_into(filled_bytes);
        if pattern.written_bytes() > room.left_bytes {
            continue;
        }
        let done = 0.2 + 0.8 * at as f64 / set.patterns.len() as f64;
        let progress = MeasurementProgress { done, what: WHAT };
        let began_ns = clock.now_ns() - begin_ns;
        // A little of each pattern tells more about a slow device than all of some.
        let patterns_left = (set.patterns.len() - at) as u64;
        let share_ns = room.left_ns(began_ns).map_or(u64::MAX, |left_ns| left_ns / patterns_left);
        let mut of = MeasuredPattern { pattern: pattern.clone(), parts_ns: Vec::new() };
        for (at, part) in pattern.parts.iter().enumerate() {
            let elapsed_ns = clock.now_ns() - begin_ns;
            let longest_ns = share_ns.min(LONGEST_PATTERN_NS).saturating_sub(elapsed_ns - began_ns);
            if longest_ns == 0 || !room.has_time_for(0, elapsed_ns, observer) {
                break;
            }
            let left_ns = room.left_ns(elapsed_ns);
            let begun = device.begin();
            let limited = LimitedDevice::new(device, clock, left_ns, observer, progress);
            let timed =
                limited.measure(|device| player.time_within_ns(device, clock, part, longest_ns))?;
            let Some((took_ns, made)) = timed else { break };
            device.end(begun);
            of.pattern.parts[at].truncate(made);
            of.parts_ns.push(took_ns);
        }
        room.left_bytes -= pattern.written_bytes();
        if !of.parts_ns.is_empty() {
            measured.push(of);
        }
    }
    Ok(Some(MeasuredPatterns { filled: Bytes(filled_bytes), measured }))
}

fn step(observer: &mut dyn ProbeObserver, done: f64) -> Result<(), ProbeRunError> {
    match observer.step(done, WHAT) {
        ControlFlow::Continue(()) => Ok(()),
        ControlFlow::Break(()) => Err(ProbeRunError::Interrupted),
    }
}

#[cfg(test)]
mod tests {
    use flashfit_card::{Card, InProcessCard, catalog};
    use flashfit_device::{BlockDev, VirtualClock};
    use flashfit_geometry::probed::NoObserver;
    use flashfit_twin::pattern::{Pattern, PatternRequest};

    use super::*;

    #[test]
    fn patterns_are_measured_if_there_are_bytes_for_them_and_not_only_for_the_fill() {
        let model = catalog::load("usd-a2-cq", None).unwrap();
        let set = PatternSet::load(None).unwrap();
        let written: u64 = set.patterns.iter().map(Pattern::written_bytes).sum();
        assert!(written <= (FILLED_AND_WRITTEN - 1) * set.span.0, "{written}");
        let run = |left_bytes| {
            let clock = VirtualClock::default();
            let mut card = InProcessCard::new(Card::counting(&model), clock.clone());
            let room = RateRoom {
                region: 0..card.describe().capacity_bytes,
                left_bytes,
                elapsed_ns: 0,
                max_time_ns: None,
                asks: false,
            };
            let card = &mut RecordedDevice::new(&mut card, &clock);
            let measured = measure(card, &clock, &set, room, &mut NoObserver, 1).unwrap();
            (measured.map(|of| of.measured.len()), clock.now_ns())
        };
        assert_eq!(run(set.span.0 * 3 / 2), (None, 0));
        assert_eq!(run(set.span.0 * 2).0, Some(set.patterns.len()));
    }

    /// Each merge takes more than a second, so that few patterns can be measured as a whole.
    #[test]
    fn a_slow_device_shows_a_little_of_every_pattern() {
        const LIMIT_NS: u64 = 200_000_000_000;
        let mut model = catalog::load("sd-c4-block", None).unwrap();
        model.nand.copy_ns = 5_000_000;
        let set = PatternSet::load(None).unwrap();
        let clock = VirtualClock::default();
        let mut card = InProcessCard::new(Card::new(&model), clock.clone());
        let room = RateRoom {
            region: 0..card.describe().capacity_bytes,
            left_bytes: USUAL_BYTES,
            elapsed_ns: 0,
            max_time_ns: Some(LIMIT_NS),
            asks: false,
        };
        let card = &mut RecordedDevice::new(&mut card, &clock);
        let measured = measure(card, &clock, &set, room, &mut NoObserver, 1).unwrap().unwrap();
        let names = |of: &[MeasuredPattern]| {
            of.iter().map(|of| of.pattern.name.clone()).collect::<Vec<_>>()
        };
        let all: Vec<String> = set.patterns.iter().map(|pattern| pattern.name.clone()).collect();
        assert_eq!(names(&measured.measured), all);
        let parts = |of: &MeasuredPattern| (of.parts_ns.len(), of.pattern.parts.len());
        assert!(measured.measured.iter().any(|of| parts(of).0 < parts(of).1), "all were whole");
        let filled = measured.filled.0;
        assert!(filled < set.span.0, "all was filled");
        let ends = measured.measured.iter().flat_map(|of| of.pattern.parts.iter().flatten());
        let end = |request: &PatternRequest| match *request {
            PatternRequest::Read { offset, length } | PatternRequest::Write { offset, length } => {
                offset + length
            }
            PatternRequest::Flush => 0,
        };
        assert!(ends.map(end).all(|end| end <= filled), "a pattern meets what was not filled");
        assert!(clock.now_ns() < LIMIT_NS * 11 / 10, "{} ns", clock.now_ns());
    }
}
