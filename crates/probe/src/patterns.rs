//! Times the patterns that a twin is fitted to besides the table of open erase blocks.

use std::ops::ControlFlow;

use flashfit_device::{BlockDev, Clock};
use flashfit_geometry::probed::ProbeObserver;
use flashfit_twin::fit_target::MeasuredPatterns;
use flashfit_twin::pattern::file::PatternSet;
use flashfit_twin::pattern::{MeasuredPattern, PatternPlayer};

use crate::error::ProbeRunError;
use crate::limited::{LimitedDevice, MeasurementProgress};
use crate::twin::RateRoom;

const WHAT: &str = "patterns of file systems for the twin";
/// A pattern that has taken so long ends with its part.
const LONGEST_PATTERN_NS: u64 = 30_000_000_000;
/// Filling ends after this time, wherever it is.
const LONGEST_FILL_NS: u64 = 90_000_000_000;
/// How much of the fill is written before the time is looked at again.
const FILL_BYTES: u64 = 8 << 20;
/// The most that patterns may write, in bytes, where nothing else is said.
pub const USUAL_BYTES: u64 = 1 << 30;

/// Fills the beginning of the room and measures the patterns of a set there. What does not fit
/// into the rest of the time or of the bytes is left out; `None` if that is the fill.
///
/// # Errors
/// From the device, or if the observer interrupts.
pub fn measure(
    device: &mut dyn BlockDev,
    clock: &dyn Clock,
    set: &PatternSet,
    mut room: RateRoom,
    observer: &mut dyn ProbeObserver,
    seed: u64,
) -> Result<Option<MeasuredPatterns>, ProbeRunError> {
    let span_bytes = set.span.0;
    if room.region.end - room.region.start < span_bytes || room.left_bytes < span_bytes {
        return Ok(None);
    }
    let begin_ns = clock.now_ns();
    let start_bytes = room.region.start;
    let mut player = PatternPlayer::new(start_bytes, seed);
    let mut last_ns = 0;
    for piece in 0..span_bytes.div_ceil(FILL_BYTES) {
        let elapsed_ns = clock.now_ns() - begin_ns;
        if elapsed_ns > LONGEST_FILL_NS {
            break;
        }
        if !room.has_time_for(last_ns, elapsed_ns, observer) {
            return Ok(None);
        }
        let done = piece as f64 * FILL_BYTES as f64 / span_bytes as f64;
        step(observer, done * 0.2)?;
        let length = FILL_BYTES.min(span_bytes - piece * FILL_BYTES);
        player.fill(device, piece * FILL_BYTES, length)?;
        last_ns = clock.now_ns() - begin_ns - elapsed_ns;
    }
    room.left_bytes -= span_bytes;
    let mut measured = Vec::new();
    for (at, pattern) in set.patterns.iter().enumerate() {
        if pattern.written_bytes() > room.left_bytes {
            continue;
        }
        let done = 0.2 + 0.8 * at as f64 / set.patterns.len() as f64;
        let progress = MeasurementProgress { done, what: WHAT };
        let mut parts_ns: Vec<u64> = Vec::new();
        for part in &pattern.parts {
            let took_ns: u64 = parts_ns.iter().sum();
            let expected_ns = parts_ns.last().copied().unwrap_or(0);
            let elapsed_ns = clock.now_ns() - begin_ns;
            if took_ns > LONGEST_PATTERN_NS || !room.has_time_for(expected_ns, elapsed_ns, observer)
            {
                break;
            }
            let left_ns = room.left_ns(elapsed_ns);
            let limited = LimitedDevice::new(device, clock, left_ns, observer, progress);
            match limited.measure(|device| player.time_ns(device, clock, part))? {
                Some(took_ns) => parts_ns.push(took_ns),
                None => break,
            }
        }
        room.left_bytes -= pattern.written_bytes();
        if !parts_ns.is_empty() {
            measured.push(MeasuredPattern { pattern: pattern.clone(), parts_ns });
        }
    }
    Ok(Some(MeasuredPatterns { span: set.span, measured }))
}

fn step(observer: &mut dyn ProbeObserver, done: f64) -> Result<(), ProbeRunError> {
    match observer.step(done, WHAT) {
        ControlFlow::Continue(()) => Ok(()),
        ControlFlow::Break(()) => Err(ProbeRunError::Interrupted),
    }
}
