//! Timed reads for a few seconds, for commands that were given no geometry.

use flashfit_check::{QUICK_READ_NS, QuickReading, SkippedReading, read_quickly};
use flashfit_geometry::Geometry;
use flashfit_host::interrupt::Interrupt;
use flashfit_target::InspectedTarget;

use super::watch::ProbeProgress;

/// The geometry that timed reads of the target show, or else the likeliest; `notes` gets what they
/// do not. A file has none.
pub fn geometry(
    name: &str,
    target: &InspectedTarget,
    interrupt: Interrupt,
    notes: &mut Vec<String>,
) -> Geometry {
    let mut progress = ProbeProgress::new(interrupt);
    let reading = read_quickly(name, target, &Geometry::default(), QUICK_READ_NS, &mut progress);
    progress.finish();
    match &reading {
        QuickReading::Skipped {
            reason: SkippedReading::CannotOpen { message } | SkippedReading::Failed { message },
        } => notes.push(format!("The device was not read to find its erase block: {message}")),
        QuickReading::Made { .. } if reading.likeliest_geometry().erase_block.is_none() => {
            notes.push(format!(
                "Reading for {} s did not show the erase block; `flashfit probe` takes longer.",
                QUICK_READ_NS as f64 / 1e9
            ));
        }
        _ => {}
    }
    reading.likeliest_geometry()
}
