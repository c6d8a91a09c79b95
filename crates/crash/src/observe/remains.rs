//! Looks at what a power cut left: mounts and checks it. If that fails, or the file system needs a
//! repair, repairs it and looks again. The order is the same for a crash state, a simulated card
//! and the device of a board.

use std::time::Duration;

use super::{CrashObservation, MountedView, RepairedView};
use crate::CrashError;

/// What one mount showed.
pub(crate) struct Look {
    pub view: MountedView,
    /// From the call of mount to its return.
    pub recovery: Duration,
}

impl Look {
    /// Nothing, because it was not mounted.
    pub(crate) fn not_mounted(why: String) -> Self {
        let view = MountedView { not_mounted: Some(why), ..MountedView::default() };
        Self { view, recovery: Duration::ZERO }
    }
}

/// A device after a power cut.
pub(crate) trait Remains {
    /// Mounts, reads everything, writes and unmounts. `input` is for a checking program.
    fn look(&mut self, input: &str) -> Result<Look, CrashError>;

    /// What the checking program finds on the unmounted device.
    fn damage(&mut self) -> Result<Option<String>, CrashError>;

    /// Repairs what the power cut left: why that failed. `None` for a file system that has no
    /// repairing program.
    fn repair(&mut self) -> Result<Option<Option<String>>, CrashError>;
}

/// Looks at what is left; with how long the first mount took. `needs_fsck`: whether the file system
/// is to be repaired before it is mounted.
pub(crate) fn observe(
    remains: &mut dyn Remains,
    needs_fsck: bool,
    input: &str,
) -> Result<(CrashObservation, Duration), CrashError> {
    let Look { view: recovered, recovery } = match needs_fsck {
        true => Look::not_mounted("it is repaired first".to_owned()),
        false => remains.look(input)?,
    };
    let damage = match recovered.not_mounted {
        Some(_) => None,
        None => remains.damage()?,
    };
    let mut repaired = None;
    if recovered.not_mounted.is_some() || damage.is_some() {
        if let Some(not_repaired) = remains.repair()? {
            let mut view = remains.look(input)?.view;
            if view.not_mounted.is_none() {
                if let Some(damage) = remains.damage()? {
                    view.unreadable = Some(format!("damaged even after the repair: {damage}"));
                }
            }
            repaired = Some(RepairedView { not_repaired, view });
        }
    }
    Ok((CrashObservation { recovered, damage, repaired }, recovery))
}
