//! `flashfit probe TARGET`, `flashfit probe --import FILE`: finds out how a device is built, and
//! says how sure that is.

pub mod args;
mod chart;
mod device;
mod document;
mod elsewhere;
mod import;
mod next;
mod plot;
mod reading;
mod render;
pub mod saved;
mod subject;
mod twin;
mod watch;
mod writing;

use std::path::Path;

use flashfit_device::Bytes;
use flashfit_filesystem::FileSystemCatalog;
use flashfit_geometry::Probed;
use flashfit_geometry::flashbench::OpenBlockTable;
use flashfit_host::interrupt::Interrupt;
use flashfit_testbed::TestBedSpec;
use flashfit_twin::DeviceHints;
use flashfit_user_error::ExitClass;

use crate::command_error::CommandError;
use crate::output;
use crate::output_file::{OutputFile, OutputKind};
use args::ProbeArgs;
use document::{FittedTwin, ProbeDocument, ProbeMode, ProbeSettings};
use subject::ProbeSubject;
use watch::ProbeProgress;

/// What is known at the end, and why it is no more where something ended it.
struct Ended {
    probed: Probed,
    /// What a twin is fitted to.
    tables: Vec<OpenBlockTable>,
    hints: DeviceHints,
    failure: Option<CommandError>,
}

impl Ended {
    fn new(probed: Probed, failure: Option<CommandError>) -> Self {
        Self { probed, tables: Vec::new(), hints: DeviceHints::default(), failure }
    }
}

pub fn run(args: &ProbeArgs, catalog: Option<&Path>) -> Result<(), CommandError> {
    outputs_can_be_written(args)?;
    if args.twin.is_some() && args.target.is_some() && !args.write {
        return Err(CommandError::new(
            ExitClass::Usage,
            "a twin is fitted to how a medium takes writes, and reading does not show that",
            Some("add --write, which loses the data in the region, or --import a table"),
        ));
    }
    match &args.on {
        TestBedSpec::Here => {}
        TestBedSpec::Ssh { host } => return elsewhere::probe(args, host, catalog),
        TestBedSpec::Lab { .. } => {
            return Err(CommandError::new(
                ExitClass::Usage,
                "one medium is probed, and a lab has several",
                Some("labgrid-client -p BOARD ssh, or --on ssh:HOST"),
            ));
        }
        TestBedSpec::Vm(_) => {
            return Err(CommandError::new(
                ExitClass::Usage,
                "a probe in a virtual machine would time the machine, not the medium",
                Some("probe it here: --on here, or on a board: --on ssh:HOST"),
            ));
        }
    }
    let catalogue = FileSystemCatalog::load(catalog)?;
    let Some(name) = args.target.as_deref() else {
        let ended = import::probe(&args.import)?;
        let asked = import::asked(&args.import, args.seed);
        let mut progress = ProbeProgress::new(signals()?);
        return present(args, asked, ended, None, &catalogue, &mut progress);
    };
    let subject = ProbeSubject::look(name, catalog)?;
    let region = subject.region(args.region)?;
    if args.dry_run {
        return output::print(&match args.write {
            true => writing::announcement(args, &subject, region)?,
            false => reading::announcement(&subject, region),
        });
    }
    let asked = ProbeSettings {
        target: name.to_owned(),
        mode: if args.write { ProbeMode::Write } else { ProbeMode::Read },
        simulated: subject.is_simulated(),
        seed: args.seed,
        region: Some(region),
        medium: Some(subject.medium()),
        declared: subject.declared.clone(),
    };
    let mut progress = ProbeProgress::new(signals()?);
    let ended = if args.write {
        writing::probe(args, &subject, region, &mut progress)
    } else {
        reading::probe(args, &subject, region, &mut progress)
    };
    progress.finish();
    present(args, asked, ended?, Some(&subject), &catalogue, &mut progress)
}

fn signals() -> Result<Interrupt, CommandError> {
    Interrupt::on_signals().map_err(|error| {
        CommandError::new(ExitClass::Environment, format!("cannot catch signals: {error}"), None)
    })
}

/// Finds a file that cannot be written before the probe is made, not after.
fn outputs_can_be_written(args: &ProbeArgs) -> Result<(), CommandError> {
    args.outputs().try_for_each(|(path, kind)| {
        OutputFile::check(path, kind, args.force)?;
        Ok(())
    })
}

/// Shows and keeps what is known; what ended the probe decides the exit code.
fn present(
    args: &ProbeArgs,
    asked: ProbeSettings,
    ended: Ended,
    subject: Option<&ProbeSubject>,
    catalogue: &FileSystemCatalog,
    progress: &mut ProbeProgress,
) -> Result<(), CommandError> {
    let twin = fitted(args, &asked.target, &ended, progress);
    let interrupted =
        ended.failure.as_ref().is_some_and(|failure| failure.class() == ExitClass::Interrupted);
    let mut document = ProbeDocument::new(asked, ended.probed, interrupted);
    // The probe is shown also where no twin could be made of it.
    let no_twin = twin.map(|twin| document.twin = twin).err();
    let planned = subject.map(|subject| &subject.planned);
    document.next = next::next(&document, planned, catalogue, args.output.as_deref());
    if let Some(path) = &args.svg {
        args.write(path, OutputKind::Drawing, &chart::draw(&document))?;
    }
    if let Some(path) = &args.output {
        args.write(path, OutputKind::Geometry, &document.text())?;
    }
    if args.json {
        output::print_utf8(&document.text())?;
    } else {
        output::print(&render::text(&document, output::width()))?;
    }
    if let Some(failure) = ended.failure {
        return Err(failure);
    }
    lacking(&document).or(no_twin).map_or(Ok(()), Err)
}

/// The twin, where one was asked for and the probe came to its end.
fn fitted(
    args: &ProbeArgs,
    what: &str,
    ended: &Ended,
    progress: &mut ProbeProgress,
) -> Result<Option<FittedTwin>, CommandError> {
    let Some(path) = args.twin.as_deref().filter(|_| ended.failure.is_none()) else {
        return Ok(None);
    };
    let twin = twin::fit(&ended.tables, ended.hints, what, (path, args.force), progress);
    progress.finish();
    twin.map(Some)
}

/// A device that has less than it says is a bad verdict.
fn lacking(document: &ProbeDocument) -> Option<CommandError> {
    let real = document::bytes(&document.findings.capacity)?;
    let announced = Bytes(document.medium.as_ref()?.capacity_bytes);
    (real < announced).then(|| {
        let text = format!("{} has {real}, not {announced}: it is a fake", document.target);
        CommandError::new(ExitClass::BadVerdict, text, Some("return it; what is beyond is lost"))
    })
}

#[cfg(test)]
mod tests {
    use flashfit_device::DeclaredFacts;
    use flashfit_device::describe::DeviceKind;
    use flashfit_geometry::{GeometryFinding, QuantityValue};

    use super::document::ProbedMedium;
    use super::*;

    fn with_capacity(found: u64) -> ProbeDocument {
        let mut probed = Probed::default();
        probed.findings.capacity =
            GeometryFinding::found(QuantityValue::Bytes(found), 0.999, "marks were read");
        let medium = ProbedMedium {
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
            medium: Some(medium),
            declared: DeclaredFacts::default(),
        };
        ProbeDocument::new(asked, probed, false)
    }

    #[test]
    fn capacity_that_is_not_there_is_a_bad_verdict() {
        let failure = lacking(&with_capacity(4 << 30)).unwrap();
        assert_eq!(failure.class(), ExitClass::BadVerdict);
        assert_eq!(failure.message(), "/dev/sdz has 4 GiB, not 32 GiB: it is a fake");
        assert!(lacking(&with_capacity(32 << 30)).is_none());
    }
}
