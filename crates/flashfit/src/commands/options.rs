//! `flashfit options`: which options of the catalog this kernel and the installed programs take,
//! refuse, or take and ignore. Only scratch images are written to.

use std::path::Path;

use flashfit_device::Bytes;
use flashfit_filesystem::{Conditions, FileSystem, FileSystemCatalog};
use flashfit_geometry::{Geometry, QuantitySource, Sourced};
use flashfit_host::SystemRunner;
use flashfit_option_probe::{
    Cache, OptionFinding, OptionProbeTools, ProbedOptions, find_out, kernel,
};
use schemars::JsonSchema;
use serde::Serialize;

use crate::cli::OptionsArgs;
use crate::command_error::CommandError;
use crate::output::{self, note};
use crate::rendering::options as rendering;
use crate::signals;

/// A common geometry, and none of it a default of any file system.
const ERASE_BLOCK: Bytes = Bytes::mib(4);
const WRITE_UNIT: Bytes = Bytes::kib(8);

#[derive(JsonSchema, Serialize)]
pub struct OptionsDocument {
    kernel: String,
    /// Why nothing was mounted, where nothing was.
    cannot_mount: Option<String>,
    #[serde(rename = "erase_unit_bytes")]
    erase_block_bytes: u64,
    write_unit_bytes: u64,
    filesystems: Vec<FileSystemDocument>,
}

#[derive(JsonSchema, Serialize)]
struct FileSystemDocument {
    name: String,
    title: String,
    /// Whether it was found by an earlier call and is still true.
    cached: bool,
    not_mounted: Option<String>,
    options: Vec<OptionFinding>,
}

pub fn run(args: &OptionsArgs, catalog: Option<&Path>) -> Result<(), CommandError> {
    let fs_catalog = FileSystemCatalog::load(catalog)?;
    let wanted = wanted(&fs_catalog, args.filesystems.as_deref())?;
    // Before any thread: the namespace is one thread's.
    let means = OptionProbeTools::take();
    let interrupt = signals::interrupt()?;
    let runner = SystemRunner::new(interrupt);
    if let Some(reason) = means.cannot_mount() {
        let hint = means.hint().map_or_else(String::new, |hint| format!("; {hint}"));
        note(&format!("note: mount options are not tried: {reason}{hint}"));
    }
    let cache = Cache::of_user();
    let mut all = Vec::new();
    let mut not_kept = None;
    let conditions = conditions();
    for filesystem in wanted {
        let found = find_out(&runner, filesystem, &conditions, &means, &cache, args.refresh)?;
        not_kept = found.not_kept.clone().or(not_kept);
        all.push((filesystem, found));
    }
    if let Some(reason) = not_kept {
        note(&format!("note: the results are not cached: {reason}"));
    }
    if args.json { output::json(document(&all, &means)) } else { print(&all) }
}

/// The file systems that were named, each once, or all.
fn wanted<'a>(
    fs_catalog: &'a FileSystemCatalog,
    names: Option<&[String]>,
) -> Result<Vec<&'a FileSystem>, CommandError> {
    let Some(names) = names else { return Ok(fs_catalog.filesystems().iter().collect()) };
    let mut wanted: Vec<&FileSystem> = Vec::new();
    for name in names {
        let filesystem = fs_catalog.filesystem(name)?;
        if !wanted.iter().any(|known| known.name == filesystem.name) {
            wanted.push(filesystem);
        }
    }
    Ok(wanted)
}

/// A device that offers everything that an option can need.
fn conditions() -> Conditions {
    let known = |bytes| Some(Sourced::new(bytes, QuantitySource::Given));
    Conditions {
        geometry: Geometry::of_sizes(known(ERASE_BLOCK), known(WRITE_UNIT)),
        discard: true,
        volatile_cache: true,
        ..Conditions::default()
    }
}

fn document(all: &[(&FileSystem, ProbedOptions)], means: &OptionProbeTools) -> OptionsDocument {
    let of = |(filesystem, found): &(&FileSystem, ProbedOptions)| FileSystemDocument {
        name: filesystem.name.clone(),
        title: filesystem.title.clone(),
        cached: found.cached,
        not_mounted: found.findings.not_mounted.clone(),
        options: found.findings.options.clone(),
    };
    OptionsDocument {
        kernel: kernel::release(),
        cannot_mount: means.cannot_mount().map(str::to_owned),
        erase_block_bytes: ERASE_BLOCK.0,
        write_unit_bytes: WRITE_UNIT.0,
        filesystems: all.iter().map(of).collect(),
    }
}

fn print(all: &[(&FileSystem, ProbedOptions)]) -> Result<(), CommandError> {
    let width = output::width();
    let head = format!(
        "Options on Linux {}, tried on scratch images; where one uses the geometry, with an erase \
         block of {ERASE_BLOCK} and a write unit of {WRITE_UNIT}.{}",
        kernel::release(),
        if all.iter().any(|(_, found)| found.cached) {
            " Some results are cached; --refresh tests again."
        } else {
            ""
        }
    );
    let mut text = flashfit_report::text::wrap(&head, width).join("\n");
    text.push_str("\n\n");
    for (filesystem, found) in all {
        text.push_str(&rendering::file_system(&found.findings, &filesystem.title, width));
        text.push('\n');
    }
    text.push_str(&rendering::legend(all.iter().map(|(_, found)| &found.findings), width));
    output::print(&text)
}
