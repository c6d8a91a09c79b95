//! `flashfit wear age`: ages a simulated card by years.

use std::ops::ControlFlow;
use std::path::Path;

use flashfit_card::{BlockWear, CardModel, SnapshotError};
use flashfit_device::Bytes;
use flashfit_geometry::probed::ProbeObserver;
use flashfit_host::program::quote_path;
use flashfit_user_error::ExitClass;
use flashfit_wear::age::{AgeEnd, AgePoint, AgeRequest, AgedCard, age};
use flashfit_wear::mix::ModeledUsage;
use flashfit_wear::usage;
use schemars::JsonSchema;
use serde::Serialize;

use crate::command_error::CommandError;
use crate::output;
use crate::output_file::{OutputFile, OutputKind};
use crate::probe::watch::ProbeProgress;
use crate::rendering::wear_age::{age_text, draw};
use crate::signals;
use crate::wear::age_args::WearAgeArgs;
use crate::wear::saved_card::{check_saved, serve_command};
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
    pub modeled: ModeledUsage,
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
        aged.card.save_to(path).map_err(|error| not_saved(error, path))?;
        Ok::<_, CommandError>(Some(path.display().to_string()))
    });
    let document = document(&request, size, aged, saved.as_ref().ok().cloned().flatten());
    let drawn = svg.map_or(Ok(()), |svg| svg.write(&draw(&document)));
    if args.json {
        output::json(&document)?;
    } else {
        let serve = document.saved.as_ref().and_then(|_| serve_command(args, catalog));
        output::print(&age_text(&document, &usage, serve.as_deref(), output::width()))?;
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

fn not_saved(error: SnapshotError, path: &Path) -> CommandError {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    let folder = quote_path(folder.unwrap_or(Path::new(".")));
    CommandError::from(error).with_hint(&format!(
        "make room there (df -h {folder}) or name a file elsewhere with --save; the same command \
         ages the same card again"
    ))
}

/// Ages the card and shows how old it is.
fn watched(request: &AgeRequest<'_>) -> Result<AgedCard, CommandError> {
    let interrupt = signals::interrupt()?;
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
        modeled: aged.modeled,
        points: aged.points,
        erases_by_block,
        simulated: true,
        saved,
    }
}
