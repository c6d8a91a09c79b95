//! What to do after a probe: where a partition starts, the mkfs line as the planner has it, and
//! what to type.

use std::path::{Path, PathBuf};

use flashfit_device::Bytes;
use flashfit_filesystem::plan::{EXAMPLE_NODE, Plan, PlanRequest, StripeWidth, choose, units};
use flashfit_filesystem::{Durability, FileSystemCatalog, Scheduler};
use flashfit_geometry::{Geometry, Sourced};
use flashfit_host::program::quote;

use super::document::{NextCommand, ProbeDocument, ProbeMode};
use crate::command_error::CommandError;
use crate::commands::plan::PlanSubject;

/// The file system whose line is shown: what distributions put on cards.
const USUAL_FILESYSTEM: &str = "ext4";

/// What to do next, for a device that is there or for tables of one that is not.
pub fn next(
    document: &ProbeDocument,
    subject: Option<&PlanSubject>,
    catalogue: &FileSystemCatalog,
    saved: Option<&Path>,
) -> NextCommand {
    let mut next = NextCommand::default();
    let probed = document.geometry();
    let target = match document.mode {
        ProbeMode::Import => EXAMPLE_NODE.to_owned(),
        _ => quote(&document.target),
    };
    if let (Some(subject), false) = (subject, probed.is_unknown()) {
        let (_, disagreements) = units::combine(&probed, &subject.declared);
        next.remarks.extend(disagreements);
    }
    next.remarks.extend(offset_remark(document));
    match subject.map(|subject| planned(subject, &probed, catalogue)) {
        Some(Ok(plan)) => {
            next.partition_start_bytes = plan.partitions.first().map(|part| part.start_bytes);
            let mkfs = plan.commands.iter().find(|command| command.program.starts_with("mkfs"));
            next.mkfs = mkfs.map(|command| {
                let words = std::iter::once(&command.program).chain(&command.args);
                words.map(|word| quote(word)).collect::<Vec<_>>().join(" ")
            });
        }
        Some(Err(failure)) => next.remarks.push(failure.message().to_owned()),
        None => {
            next.partition_start_bytes = probed.erase_unit.as_ref().map(|known| known.bytes.0);
        }
    }
    if document.mode == ProbeMode::Read && probed.erase_unit.is_none() {
        next.commands.push(format!("flashfit probe {target} --write"));
    }
    next.commands.push(plan_command(&target, &probed, saved));
    if let Some(twin) = &document.twin {
        let place = twin.file.display().to_string();
        let path = if place.contains('/') { place } else { format!("./{place}") };
        next.commands
            .push(format!("flashfit tune {} --profile quick", quote(&format!("sim:{path}"))));
    }
    next
}

fn plan_command(target: &str, probed: &Geometry, saved: Option<&Path>) -> String {
    let mut command = format!("flashfit plan {target}");
    let mut flag = |name: &str, known: Option<&Sourced>| {
        if let Some(known) = known {
            command.push_str(&format!(" --{name} {}", typed(known.bytes)));
        }
    };
    match saved {
        Some(path) if !probed.is_unknown() => {
            command.push_str(&format!(" --geometry {}", quote(&path.display().to_string())));
        }
        _ => {
            flag("erase-block", probed.erase_unit.as_ref());
            flag("write-unit", probed.write_unit.as_ref());
        }
    }
    command
}

/// The plan of the usual file system, with what was probed.
fn planned(
    subject: &PlanSubject,
    probed: &Geometry,
    catalogue: &FileSystemCatalog,
) -> Result<Plan, CommandError> {
    let filesystem = catalogue.filesystem(USUAL_FILESYSTEM)?;
    let wish = PlanRequest {
        table: None,
        start_bytes: None,
        options: None,
        scheduler: Scheduler::new(subject.scheduler.as_deref().unwrap_or("none")),
        stripe_width: StripeWidth::Blocks,
        recipe: None,
        mount_point: PathBuf::from("/mnt/flash"),
        allow: Durability::Safe,
    };
    let (medium, declared) = (subject.medium.clone(), subject.declared.clone());
    let inputs = choose(filesystem, medium, probed.clone(), declared, &wish)?;
    Ok(Plan::of(catalogue, &inputs)?)
}

/// Erase blocks that do not start with the device ask for a partition that starts with one of them.
pub fn offset_remark(document: &ProbeDocument) -> Option<String> {
    let offset = document.erase_unit_offset().filter(|offset| *offset > 0)?;
    let unit = document.geometry().erase_unit?.bytes.0;
    let start = if offset >= unit { offset } else { offset + unit };
    Some(format!(
        "the first erase unit starts at {offset} bytes, not where the medium starts: a partition \
         fits that starts there or whole erase units later, as with --start {start}"
    ))
}

/// A size as it can be typed.
pub fn typed(bytes: Bytes) -> String {
    let units = [(30, "GiB"), (20, "MiB"), (10, "KiB")];
    let whole = units.into_iter().find(|(shift, _)| bytes.0 > 0 && bytes.0 % (1 << shift) == 0);
    whole.map_or_else(|| bytes.0.to_string(), |(shift, unit)| format!("{}{unit}", bytes.0 >> shift))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_typed_as_they_are_read() {
        for bytes in [512, 4096, 12 << 20, 3 << 30, 1_000_000] {
            let text = typed(Bytes(bytes));
            assert_eq!(text.parse::<Bytes>().unwrap(), Bytes(bytes), "{text}");
        }
        assert_eq!(typed(Bytes::mib(12)), "12MiB");
    }
}
