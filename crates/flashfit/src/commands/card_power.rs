//! `flashfit card cut` and `flashfit card power-on`: the power of a card that is being served.

use std::fmt::Write;
use std::path::Path;

use flashfit_card::cut::{AbsentFault, DamageUnit};
use flashfit_card::{CutReport, FaultClass};
use flashfit_card_client::AskError;
use flashfit_device::Bytes;
use flashfit_user_error::ExitClass;
use schemars::JsonSchema;
use serde::Serialize;

use crate::command_error::CommandError;
use crate::commands::card_args::CutArgs;
use crate::output;

/// What a cut did and left.
#[derive(Debug, JsonSchema, Serialize)]
pub struct CutDocument<'a> {
    report: &'a CutReport,
    /// Whether a device that keeps its promises would have done the same.
    honest: bool,
    powered_on: bool,
    image: Option<Image<'a>>,
}

#[derive(Debug, JsonSchema, Serialize)]
struct Image<'a> {
    #[serde(serialize_with = "flashfit_host::path_text::document::serialize")]
    #[schemars(with = "String")]
    file: &'a Path,
    /// Zeros in the image.
    unreadable_bytes: u64,
}

pub fn cut(args: &CutArgs) -> Result<(), CommandError> {
    if let Some(file) = args.image.as_ref().filter(|file| file.exists()) {
        return Err(CommandError::new(
            ExitClass::Refused,
            format!("{} already exists; the power was not cut", file.display()),
            Some("name a file that does not exist"),
        ));
    }
    if let Some(file) = args.image.as_ref().filter(|file| !has_folder(file)) {
        return Err(CommandError::new(
            ExitClass::Refused,
            format!("the directory of {} does not exist; the power was not cut", file.display()),
            Some("name a file in a directory that exists"),
        ));
    }
    let report = flashfit_card_client::cut(&args.device, &args.faults, args.seed)?;
    let afterwards = afterwards(args);
    let (powered_on, unreadable) = afterwards.as_ref().copied().unwrap_or_default();
    let file_of = |unreadable_bytes| {
        args.image.as_ref().map(|file| Image { file: file.as_path(), unreadable_bytes })
    };
    let image = unreadable.and_then(file_of);
    let honest = report.is_honest();
    let cut = CutDocument { report: &report, honest, powered_on, image };
    // What the cut did is printed even if the rest fails: it cannot be asked for again.
    if args.json { output::json(cut) } else { output::print(&text(&cut, args)) }?;
    Ok(afterwards.map(drop)?)
}

/// Whether the card was given its power back, and how much of its image could not be read.
fn afterwards(args: &CutArgs) -> Result<(bool, Option<u64>), AskError> {
    if args.power_on {
        flashfit_card_client::power_on(&args.device)?;
    }
    let image =
        args.image.as_ref().map(|file| flashfit_card_client::write_image(&args.device, file));
    Ok((args.power_on, image.transpose()?))
}

pub fn on(device: &Path) -> Result<(), CommandError> {
    Ok(flashfit_card_client::power_on(device)?)
}

fn has_folder(file: &Path) -> bool {
    file.parent().is_some_and(|folder| folder.as_os_str().is_empty() || folder.is_dir())
}

fn text(cut: &CutDocument<'_>, args: &CutArgs) -> String {
    let report = cut.report;
    let mut text = String::new();
    let mut line = |line: String| {
        writeln!(text, "{line}").expect("a string takes any text");
    };
    let (seconds, micros) = (report.at_ns / 1_000_000_000, report.at_ns / 1000 % 1_000_000);
    line(format!("cut at {seconds}.{micros:06} s of the card's time, seed {}", report.seed));
    line(format!("lost of its cache: {}", Bytes(report.lost_cache_bytes)));
    for damage in &report.happened {
        let unit = match damage.unit {
            DamageUnit::Pages => "page",
            DamageUnit::Sectors => "sector",
            DamageUnit::Cards => "card",
        };
        let plural = if damage.count == 1 { "" } else { "s" };
        line(format!("{}: {} {unit}{plural}", damage.class, damage.count));
    }
    for absent in &report.absent {
        line(format!("{}: did not happen: {}", absent.class, absent.reason));
    }
    if report.absent.iter().any(AbsentFault::needs_history) {
        let fault = args.faults.iter().find(|fault| fault.class == FaultClass::Rollback);
        let history_ms = fault.map_or(0, |fault| fault.value_or_default());
        line(format!("for a history: flashfit card serve CARD --history-ms {history_ms}"));
    }
    line(if cut.honest {
        "only what a correct device may do".to_owned()
    } else {
        "a fault of the device, not of the file system".to_owned()
    });
    if let Some(image) = &cut.image {
        let unreadable = Bytes(image.unreadable_bytes);
        line(format!("image: {}, of which {unreadable} are unreadable", image.file.display()));
    }
    if report.count(FaultClass::Brick) > 0 {
        line("the card never answers again; end it and serve a new one".to_owned());
    } else if !cut.powered_on {
        line(format!("power on: flashfit card power-on {}", args.device.display()));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_image_needs_a_folder() {
        for (file, has) in [("image", true), ("/image", true), ("/nonexistent/image", false)] {
            assert_eq!(has_folder(Path::new(file)), has, "{file}");
        }
    }
}
