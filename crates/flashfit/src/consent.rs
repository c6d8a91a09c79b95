//! Asking the user for a device's data. Only here is anybody asked.

use std::io::{IsTerminal, Write};
use std::os::fd::AsFd;

use flashfit_device::{ConsentMethod, Device, Refusal, SystemRoots, WriteConsent};
use flashfit_host::interrupt::Interrupt;
use flashfit_host::{Runner, path_text::to_text, waiting};
use flashfit_testbed::TrialError;

use crate::output::note;

/// Asks for the data of a device that may be elsewhere, where `guard` looks at it; the typed name.
pub fn agreed(
    device: &Device,
    confirm: Option<&str>,
    guard: &mut dyn FnMut(&ConsentMethod) -> Result<(), TrialError>,
) -> Result<String, TrialError> {
    agreed_to(device, confirm, Some(&what_is_lost(device)), guard)
}

/// The same with this text before the question; `None` if the user was shown what is lost.
pub fn agreed_to(
    device: &Device,
    confirm: Option<&str>,
    lost: Option<&str>,
    guard: &mut dyn FnMut(&ConsentMethod) -> Result<(), TrialError>,
) -> Result<String, TrialError> {
    match guard(&ConsentMethod::NotAsked) {
        Ok(()) | Err(TrialError::NotAgreed { .. }) => {}
        Err(error) => return Err(error),
    }
    let given = agreement(device, confirm, lost);
    guard(&given)?;
    match given {
        ConsentMethod::Named(name) => Ok(name),
        ConsentMethod::NotAsked | ConsentMethod::Interrupted => {
            unreachable!("the guard refuses without a confirmation")
        }
    }
}

/// Asks for the data of a device after the user was shown what is on it. Nobody is asked for one
/// that somebody uses: no answer would change that.
pub fn for_shown(
    device: &Device,
    confirm: Option<&str>,
    runner: &dyn Runner,
) -> Result<WriteConsent, Refusal> {
    let system = SystemRoots::default();
    match WriteConsent::ask(&system, runner, device, &ConsentMethod::NotAsked) {
        Err(Refusal::NotConfirmed { .. }) => {}
        other => return other,
    }
    WriteConsent::ask(&system, runner, device, &agreement(device, confirm, None))
}

/// Asks whether the settings of a device may be changed. The guard gives its consent for a device
/// that nobody uses; one in use is not written to.
pub fn for_settings(
    device: &Device,
    confirm: Option<&str>,
    is_exclusive: bool,
) -> Result<Option<WriteConsent>, Refusal> {
    let name = device.short_name();
    let (system, runner) = (SystemRoots::default(), flashfit_host::SystemRunner::default());
    let agreement = agreement(device, confirm, None);
    match &agreement {
        ConsentMethod::NotAsked => {
            Err(Refusal::ChangeNotConfirmed { path: device.path.clone(), name })
        }
        ConsentMethod::Interrupted => Err(Refusal::Interrupted { path: device.path.clone() }),
        ConsentMethod::Named(_) if is_exclusive => {
            WriteConsent::ask(&system, &runner, device, &agreement).map(Some)
        }
        ConsentMethod::Named(given) if device.is_named_by(given) => Ok(None),
        ConsentMethod::Named(given) => Err(Refusal::WrongName { given: given.clone(), name }),
    }
}

/// Asks whether files may be written to the free space of a device, which may be in use.
pub fn for_free_space(device: &Device, confirm: Option<&str>) -> Result<(), Refusal> {
    let name = device.short_name();
    match agreement(device, confirm, None) {
        ConsentMethod::Named(given) if device.is_named_by(&given) => Ok(()),
        ConsentMethod::Named(given) => Err(Refusal::WrongName { given, name }),
        ConsentMethod::NotAsked => {
            Err(Refusal::WriteNotConfirmed { path: device.path.clone(), name })
        }
        ConsentMethod::Interrupted => Err(Refusal::Interrupted { path: device.path.clone() }),
    }
}

/// The user's agreement that all data on `device` will be lost: what `--confirm` gave, or what is
/// typed at the terminal. Without either nobody was asked, and the guard will refuse.
fn agreement(device: &Device, confirm: Option<&str>, lost: Option<&str>) -> ConsentMethod {
    if let Some(given) = confirm {
        return ConsentMethod::Named(given.to_owned());
    }
    if !std::io::stdin().is_terminal() || !std::io::stderr().is_terminal() {
        return ConsentMethod::NotAsked;
    }
    // Before the question: an answer to it must not be missed.
    let Ok(interrupt) = Interrupt::on_signals() else { return ConsentMethod::NotAsked };
    lost.inspect(|lost| note(lost));
    let mut err = anstream::stderr().lock();
    let _ = write!(err, "Type its name ({}) to continue: ", device.short_name());
    let _ = err.flush();
    drop(err);
    let typed = waiting::line(std::io::stdin().as_fd(), &interrupt).ok().flatten();
    match typed {
        Some(typed) => ConsentMethod::Named(typed.trim().to_owned()),
        None => {
            let _ = writeln!(anstream::stderr().lock());
            match interrupt.is_raised() {
                true => ConsentMethod::Interrupted,
                false => ConsentMethod::NotAsked,
            }
        }
    }
}

/// What a dry run says first of a device that the guard would refuse.
pub fn would_be_refused(device: &Device) -> Option<String> {
    let refusal = flashfit_device::guard::refusal_before_consent(&SystemRoots::default(), device)?;
    Some(format!("This device would be refused: {refusal}."))
}

/// Refuses a device before anything else is said of it: without this, a user is told to become
/// root, or to install a program, for a device that is refused anyway.
pub fn refuse_early(device: &Device) -> Result<(), Refusal> {
    flashfit_device::guard::refusal_before_consent(&SystemRoots::default(), device)
        .map_or(Ok(()), Err)
}

/// What a user should see before agreeing.
pub fn what_is_lost(device: &Device) -> String {
    let mut lines = vec![format!(
        "All data on {} will be lost: {}, {}, {} ({}).",
        to_text(&device.path),
        device.kind,
        flashfit_report::text::plain(&device.identity.summary()),
        device.capacity,
        device.capacity.si()
    )];
    for partition in &device.partitions {
        lines.push(format!("  {} of {}", partition.name, partition.size));
    }
    lines.join("\n")
}
