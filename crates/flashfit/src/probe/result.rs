//! Shows and keeps what a probe found; what ended it decides the exit code.

use std::path::PathBuf;

use flashfit_device::Bytes;
use flashfit_filesystem::FileSystemCatalog;
use flashfit_probe::{ProbeDocument, ProbeOutcome, ProbeSettings, found_bytes};
use flashfit_target::InspectedTarget;
use flashfit_user_error::{ExitClass, UserError};

use super::args::ProbeArgs;
use super::next;
use super::twin::fitted;
use super::watch::ProbeProgress;
use crate::command_error::CommandError;
use crate::output;
use crate::output_file::OutputKind;
use crate::rendering::probe as rendering;
use crate::survey;

pub fn present(
    args: &ProbeArgs,
    settings: ProbeSettings,
    outcome: ProbeOutcome,
    target: Option<&InspectedTarget>,
    fs_catalog: &FileSystemCatalog,
    progress: &mut ProbeProgress,
) -> Result<(), CommandError> {
    let twin = fitted(args, &settings.target, &outcome, progress);
    let ProbeOutcome { probed, failure, .. } = outcome;
    // The guard ends a probe that writes as an interruption does.
    let interrupted = failure.as_ref().is_some_and(|failure| {
        matches!(failure.class(), ExitClass::Interrupted | ExitClass::Refused)
    });
    let mut document = ProbeDocument::new(settings, probed, interrupted);
    // The probe is shown also where no twin could be made of it.
    let no_twin = twin.map(|twin| document.twin = twin).err();
    let board = args.client.reached_as.as_deref();
    document.next = next::next(&document, target, fs_catalog, (args.saved_as(), board));
    // A probe that wrote cannot be repeated for free: no failure stops the other outputs.
    let shown = match args.json {
        true => output::whole_document(&document.text()),
        false => output::print(&rendering::text(&document, output::width())),
    };
    let write = |path: &Option<PathBuf>, kind, text: &dyn Fn() -> String| {
        path.as_ref().map_or(Ok(()), |path| args.write(path, kind, &text()))
    };
    let saved = write(&args.output, OutputKind::Geometry, &|| document.text());
    let drawn = write(&args.svg, OutputKind::Drawing, &|| rendering::chart::draw(&document));
    // The user's survey is on the client's machine.
    let mentioned = if board.is_some() { Ok(()) } else { mention(args, &document) };
    let failure = failure.map(CommandError::from);
    let verdict = failure.or_else(|| lacking(&document)).or(no_twin);
    let lost = [shown, saved, drawn, mentioned].into_iter().filter_map(Result::err);
    all_or_none(verdict.into_iter().chain(lost))
}

/// Notes what the survey has of the probed device.
pub fn mention(args: &ProbeArgs, document: &ProbeDocument) -> Result<(), CommandError> {
    let Some(device) = document.device.as_ref().filter(|_| !document.simulated) else {
        return Ok(());
    };
    let place = (device.capacity_bytes, device.partition_start_bytes.is_some());
    survey::mention(&args.survey, device.kind, &device.identity, &document.declared, place)
}

/// All errors as one, whose exit code is that of the first.
pub fn all_or_none(errors: impl Iterator<Item = CommandError>) -> Result<(), CommandError> {
    let errors: Vec<_> = errors.collect();
    if errors.is_empty() { Ok(()) } else { Err(CommandError::joined(errors)) }
}

/// A device that has less than it says is a bad verdict.
pub fn lacking(document: &ProbeDocument) -> Option<CommandError> {
    let real = found_bytes(&document.findings.capacity)?;
    let device = document.device.as_ref()?;
    let announced = Bytes(device.capacity_bytes);
    // An image can end within a sector, which cannot be read.
    let is_missing = announced.0.saturating_sub(real.0) >= device.sector_bytes;
    is_missing.then(|| {
        let text = format!("{} has {real}, not {announced}: it is a fake", document.target);
        CommandError::new(
            ExitClass::BadVerdict,
            text,
            Some("return it; data beyond its real size is lost"),
        )
    })
}

#[cfg(test)]
mod tests {
    use flashfit_device::DeclaredFacts;
    use flashfit_device::describe::DeviceKind;
    use flashfit_geometry::{GeometryFinding, Probed, QuantityValue};
    use flashfit_probe::{ProbeMode, ProbedDevice};

    use super::*;

    fn with_capacity(found: u64) -> ProbeDocument {
        let mut probed = Probed::default();
        probed.findings.capacity =
            GeometryFinding::found(QuantityValue::Bytes(found), 0.999, "marks were read");
        let device = ProbedDevice {
            kind: DeviceKind::Usb,
            identity: Default::default(),
            capacity_bytes: 32 << 30,
            sector_bytes: 512,
            partition_start_bytes: None,
        };
        let asked = ProbeSettings {
            target: "/dev/sdz".into(),
            mode: ProbeMode::Write,
            simulated: false,
            seed: 1,
            region: Some([0, 32 << 30]),
            device: Some(device),
            declared: DeclaredFacts::default(),
            created_unix_s: None,
        };
        ProbeDocument::new(asked, probed, false)
    }

    #[test]
    fn capacity_that_is_not_there_is_a_bad_verdict() {
        let failure = lacking(&with_capacity(4 << 30)).unwrap();
        assert_eq!(failure.class(), ExitClass::BadVerdict);
        assert_eq!(failure.message(), "/dev/sdz has 4 GiB, not 32 GiB: it is a fake");
        assert!(lacking(&with_capacity(32 << 30)).is_none());
        assert!(lacking(&with_capacity((32 << 30) - 511)).is_none(), "less than a sector");
    }
}
