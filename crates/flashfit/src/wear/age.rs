//! `flashfit wear age`: ages a simulated card by years.

use std::ffi::OsStr;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

use flashfit_card::{BlockWear, CardModel};
use flashfit_device::Bytes;
use flashfit_geometry::probed::ProbeObserver;
use flashfit_host::interrupt::Interrupt;
use flashfit_host::replaceable_file::ReplaceableFile;
use flashfit_user_error::ExitClass;
use flashfit_wear::age::{AgeEnd, AgePoint, AgeRequest, AgedCard, age};
use flashfit_wear::usage;
use schemars::JsonSchema;
use serde::Serialize;

use crate::command_error::CommandError;
use crate::output;
use crate::output_file::{OutputFile, OutputKind};
use crate::probe::watch::ProbeProgress;
use crate::rendering::wear_age::{age_text, draw};
use crate::wear::age_args::WearAgeArgs;
use crate::wear::{setup_traces, target};

/// Points of the table and of the drawing.
const POINTS: u32 = 20;

/// An aged card, as printed.
#[derive(Debug, JsonSchema, Serialize)]
pub struct AgeDocument {
    pub card: String,
    pub setup: String,
    pub usage: String,
    pub gib_a_day: f64,
    /// Of the card, with the share that is never written.
    pub capacity_bytes: u64,
    /// What the usage model never writes, which serves as spare blocks.
    pub unwritten_bytes: u64,
    pub rated_cycles: u64,
    /// Rated erase cycles of the blocks of the pSLC area, if there is one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pslc_rated_cycles: Option<u64>,
    /// The age that was reached.
    pub years: f64,
    pub end: AgeEnd,
    pub points: Vec<AgePoint>,
    /// Erase counts of good blocks at the end, in ascending order of counts.
    pub erases_by_block: Vec<u32>,
    /// Always true: no figure is measured on a device.
    pub simulated: bool,
    /// The saved card.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub saved: Option<String>,
}

pub fn run(args: &WearAgeArgs, catalog: Option<&Path>) -> Result<(), CommandError> {
    let usage = usage::load(&args.usage, catalog)?;
    let (model, size) = target::aged_model(args, &usage, catalog)?;
    let setup = setup_traces::find(&args.filesystem, &usage, catalog)?;
    let svg = args.svg.as_ref();
    let svg =
        svg.map(|path| OutputFile::check(path, OutputKind::Drawing, args.force)).transpose()?;
    if let Some(path) = &args.save {
        check_saved(path, args)?;
    }
    let request = AgeRequest {
        model: &model,
        usage: &usage,
        setup: &setup,
        years: args.years,
        points: POINTS,
        seed: args.seed,
    };
    let mut aged = watched(&request)?;
    // What took minutes is printed, whatever becomes of the files.
    let saved = args.save.as_ref().map_or(Ok(None), |path| {
        aged.card.keep_contents();
        aged.card.save_to(path)?;
        Ok::<_, CommandError>(Some(path.display().to_string()))
    });
    let document = document(&request, size, aged, saved.as_ref().ok().cloned().flatten());
    let drawn = svg.map_or(Ok(()), |svg| svg.write(&draw(&document)));
    if args.json {
        output::json(&document)?;
    } else {
        output::print(&age_text(&document, &usage, output::width()))?;
    }
    let failed = [saved.err(), drawn.err()].into_iter().flatten();
    if let Some(error) = failed.reduce(|first, next| CommandError::joined([first, next])) {
        return Err(error);
    }
    match document.end {
        AgeEnd::Interrupted => Err(CommandError::new(ExitClass::Interrupted, "interrupted", None)),
        AgeEnd::YearsOver | AgeEnd::ReadOnly => Ok(()),
    }
}

/// Refuses a file for the saved card that cannot be written, before the aging that takes minutes.
fn check_saved(path: &Path, args: &WearAgeArgs) -> Result<(), CommandError> {
    let refused =
        |message, hint: &str| Err(CommandError::new(ExitClass::Usage, message, Some(hint)));
    if path.exists() && !args.force {
        let message = format!("{} exists; it was not changed", path.display());
        return refused(message, "name another file, or replace this one with --force");
    }
    ReplaceableFile::check(path, &|_| true, args.force)?;
    if args.svg.as_ref().is_some_and(|svg| place_of(svg) == place_of(path)) {
        let message = format!("--save and --svg name the same file: {}", path.display());
        return refused(message, "name two files");
    }
    Ok(())
}

/// The same for all names of a file that may not exist yet.
fn place_of(path: &Path) -> Option<(PathBuf, &OsStr)> {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    let folder = folder.unwrap_or(Path::new(".")).canonicalize().ok()?;
    Some((folder, path.file_name()?))
}

/// Ages the card and shows how old it is.
fn watched(request: &AgeRequest<'_>) -> Result<AgedCard, CommandError> {
    let interrupt = Interrupt::on_signals().map_err(|error| {
        CommandError::new(ExitClass::Environment, format!("cannot catch signals: {error}"), None)
    })?;
    let mut progress = ProbeProgress::new(interrupt);
    let aged = age(request, |years| {
        let shown = progress.step(years / request.years, &format!("{years:.1} years old"));
        if progress.is_interrupted() { ControlFlow::Break(()) } else { shown }
    });
    progress.finish();
    Ok(aged?)
}

fn document(
    request: &AgeRequest<'_>,
    size: Bytes,
    aged: AgedCard,
    saved: Option<String>,
) -> AgeDocument {
    let CardModel { name, capacity, nand, .. } = request.model;
    let mut erases_by_block: Vec<u32> =
        aged.card.wear_by_block().iter().map(|block: &BlockWear| block.erases).collect();
    erases_by_block.sort_unstable();
    AgeDocument {
        card: name.clone(),
        setup: request.setup.name.clone(),
        usage: request.usage.name.clone(),
        gib_a_day: request.usage.gib_a_day(),
        capacity_bytes: size.0,
        unwritten_bytes: size.0 - capacity.0,
        rated_cycles: nand.endurance_cycles,
        pslc_rated_cycles: nand.pslc.as_ref().map(|pslc| pslc.endurance_cycles),
        years: aged.years,
        end: aged.end,
        points: aged.points,
        erases_by_block,
        simulated: true,
        saved,
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Debug, Parser)]
    struct Line {
        #[command(flatten)]
        args: WearAgeArgs,
    }

    #[test]
    fn a_file_that_cannot_be_written_is_noticed_before_the_aging() {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name).display().to_string();
        let check = |save: &str, more: &[&str]| {
            let line = ["age", "usd-a1-pagemap", "--fs", "ext4", "--usage", "kiosk"];
            let line = [&line[..], &["--years", "1", "--save", save], more].concat();
            let args = Line::parse_from(line).args;
            let checked = check_saved(args.save.as_ref().unwrap(), &args);
            checked.err().map(|error| error.message().to_owned()).unwrap_or_default()
        };
        assert_eq!(check(&path("x.card"), &["--svg", &path("x.svg")]), "");
        let missing = check(&path("none/x.card"), &[]);
        assert!(missing.contains("there is no directory"), "{missing}");
        let same = check(&path("x.card"), &["--svg", &path("./x.card")]);
        assert!(same.contains("the same file"), "{same}");
        std::fs::create_dir(folder.path().join("d")).unwrap();
        let directory = check(&path("d"), &["--force"]);
        assert!(directory.contains("a directory"), "{directory}");
        std::fs::write(folder.path().join("old"), "x").unwrap();
        assert!(check(&path("old"), &[]).contains("exists"));
        assert_eq!(check(&path("old"), &["--force"]), "");
    }
}
