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

/// What a power cut left, shown to a virtual machine.
pub(crate) trait ShownToMachine {
    /// Looks once; a machine that hangs or ends is dead when this returns.
    fn look_once(&mut self, input: &str) -> Result<Look, CrashError>;

    /// Whether what was shown may have ended the machine.
    fn is_end(&self, error: &CrashError) -> bool;

    /// Shows again what was there before the machine wrote to it.
    fn show_again(&mut self) -> Result<(), CrashError>;
}

/// Looks at what is left in a virtual machine, and in a second one if the first ends: what ends
/// both cannot be mounted.
pub(crate) fn look_in_machine(
    shown: &mut dyn ShownToMachine,
    input: &str,
) -> Result<Look, CrashError> {
    match shown.look_once(input) {
        Err(error) if shown.is_end(&error) => {}
        result => return result,
    }
    shown.show_again()?;
    match shown.look_once(input) {
        Err(error) if shown.is_end(&error) => Ok(Look::not_mounted(error.to_string())),
        result => result,
    }
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

#[cfg(test)]
mod tests {
    use super::*;

    /// Whether machines end halfway through the recovery, which writes.
    struct Shown {
        ends: Vec<bool>,
        is_recovered: bool,
    }

    impl ShownToMachine for Shown {
        fn look_once(&mut self, _input: &str) -> Result<Look, CrashError> {
            let found = Look::not_mounted(format!("recovered: {}", self.is_recovered));
            self.is_recovered = true;
            match self.ends.pop() {
                Some(true) => Err(CrashError::GuestEnded { console: "panic".to_owned() }),
                _ => Ok(found),
            }
        }

        fn is_end(&self, error: &CrashError) -> bool {
            matches!(error, CrashError::GuestEnded { .. })
        }

        fn show_again(&mut self) -> Result<(), CrashError> {
            self.is_recovered = false;
            Ok(())
        }
    }

    #[test]
    fn a_second_machine_sees_what_the_first_one_saw() {
        let look = |ends: &[bool]| {
            let mut shown = Shown { ends: ends.to_vec(), is_recovered: false };
            look_in_machine(&mut shown, "").unwrap().view.not_mounted.unwrap()
        };
        assert_eq!(look(&[]), "recovered: false");
        assert_eq!(look(&[true]), "recovered: false");
        assert_eq!(look(&[true, true]), "the virtual machine ended: panic");
    }
}
