//! Turns what was seen of a state into violations.

use crate::model::{History, Oracle, Violation};
use crate::observe::{CrashObservation, MountedView};

/// What is wrong with a state after a power cut at `position`. A file system that needs a repair is
/// judged after it; another one before it, and after it too where one was needed.
pub fn violations(
    seen: &CrashObservation,
    history: &History,
    position: u32,
    needs_fsck: bool,
) -> Vec<Violation> {
    let mut violations = Vec::new();
    if !needs_fsck {
        violations.extend(of_view(&seen.recovered, history, position));
        if let Some(damage) = &seen.damage {
            violations.push(Violation::new(Oracle::Fsck, damage.clone()));
        }
    }
    if let Some(repaired) = &seen.repaired {
        let failed = repaired.not_repaired.iter().map(|why| Violation::new(Oracle::Fsck, why));
        let later = failed.chain(of_view(&repaired.view, history, position));
        violations.extend(later.map(|mut violation| {
            violation.detail = format!("after the repair: {}", violation.detail);
            violation
        }));
    } else if needs_fsck {
        // Without a repairing program, what the kernel makes of it counts.
        violations.extend(of_view(&seen.recovered, history, position));
    }
    violations
}

fn of_view(view: &MountedView, history: &History, position: u32) -> Vec<Violation> {
    let mut violations = Vec::new();
    let mut add = |oracle, detail: &Option<String>| {
        violations.extend(detail.iter().map(|detail| Violation::new(oracle, detail.clone())));
    };
    add(Oracle::Mount, &view.not_mounted);
    add(Oracle::Read, &view.unreadable);
    add(Oracle::Writable, &view.not_writable);
    add(Oracle::KernelLog, &view.kernel_errors.first().cloned());
    if let Some(tree) = &view.tree {
        violations.extend(history.judge(position, tree));
    }
    violations
}
