//! Everything in the catalog, as a document and as tables.

use std::fmt::Write;

use flashfit_bench::{Workload, Workloads};
use flashfit_card::CardModel;
use flashfit_catalog::Origin;
use flashfit_filesystem::{
    Durability, FileSystem, FileSystemCatalog, FsOption, Variable, Versions,
};
use flashfit_report::text::wrap;
use flashfit_report::{Column, Shorten, TextTable};
use schemars::JsonSchema;
use serde::Serialize;

use super::plan::exception_of_safe;

#[derive(JsonSchema, Serialize)]
pub struct Names {
    filesystems: Vec<FileSystemNames>,
    knobs: Vec<OptionNames>,
    workloads: Vec<WorkloadNames>,
    cards: Vec<Titled>,
}

#[derive(JsonSchema, Serialize)]
struct FileSystemNames {
    name: String,
    title: String,
    /// The file it comes from.
    origin: String,
    /// Whether that is the user's own.
    own: bool,
    tried: bool,
    plan_only: Option<String>,
    durability: String,
    risk: String,
    /// Whether crash tests found what the risk describes.
    #[serde(skip)]
    #[schemars(skip)]
    is_tested_risk: bool,
    options: Vec<OptionNames>,
}

#[derive(JsonSchema, Serialize)]
struct OptionNames {
    name: String,
    title: String,
    durability: String,
    risk: String,
    tried: bool,
    needs: Vec<String>,
    excludes: Vec<String>,
    implies: Vec<String>,
    quantities: Vec<&'static str>,
    since: Versions,
    until: Versions,
    note: Option<String>,
    source: String,
    origin: String,
    own: bool,
}

#[derive(JsonSchema, Serialize)]
struct WorkloadNames {
    name: String,
    title: String,
    origin: String,
    own: bool,
    /// Whether it is measured only if it is named.
    extra: bool,
    /// The user's commands that it runs.
    commands: Vec<String>,
}

#[derive(JsonSchema, Serialize)]
struct Titled {
    name: String,
    title: String,
}

impl Names {
    pub fn new(
        filesystems: &FileSystemCatalog,
        workloads: &Workloads,
        cards: &[CardModel],
    ) -> Self {
        Self {
            filesystems: filesystems.filesystems().iter().map(filesystem).collect(),
            knobs: knobs(filesystems),
            workloads: workloads.all().iter().map(workload).collect(),
            cards: cards.iter().map(card).collect(),
        }
    }
}

fn filesystem(found: &FileSystem) -> FileSystemNames {
    let its_own = found.options.iter().filter(|option| option.origin == found.origin);
    FileSystemNames {
        name: found.name.clone(),
        title: found.title.clone(),
        origin: found.origin.to_string(),
        own: is_own(&found.origin),
        tried: found.tried,
        plan_only: found.plan_only.clone(),
        durability: found.durability.to_string(),
        risk: found.risk.clone(),
        is_tested_risk: !found.promises.exceptions.is_empty(),
        options: its_own.map(option).collect(),
    }
}

fn option(option: &FsOption) -> OptionNames {
    OptionNames {
        name: option.name.clone(),
        title: option.title.clone(),
        durability: option.durability.to_string(),
        risk: option.risk.clone(),
        tried: option.tried,
        needs: option.needs.iter().map(ToString::to_string).collect(),
        excludes: option.excludes.clone(),
        implies: option.implies.clone(),
        quantities: option.quantities().into_iter().map(Variable::name).collect(),
        since: option.since.clone(),
        until: option.until.clone(),
        note: option.note.clone(),
        source: option.source.clone(),
        origin: option.origin.to_string(),
        own: is_own(&option.origin),
    }
}

/// The options of the machine, which every file system has.
fn knobs(found: &FileSystemCatalog) -> Vec<OptionNames> {
    let any = found.filesystems().first();
    let shared =
        any.iter().flat_map(|any| any.options.iter().filter(|option| option.origin != any.origin));
    shared.map(option).collect()
}

fn is_own(origin: &Origin) -> bool {
    matches!(origin, Origin::File(_))
}

fn workload(found: &Workload) -> WorkloadNames {
    WorkloadNames {
        name: found.name.clone(),
        title: found.title.clone(),
        origin: found.origin.to_string(),
        own: is_own(&found.origin),
        extra: found.extra,
        commands: found.commands().map(str::to_owned).collect(),
    }
}

fn card(model: &CardModel) -> Titled {
    Titled { name: model.name.clone(), title: model.title.clone() }
}

pub fn text(names: &Names, width: usize) -> String {
    let mut text = String::new();
    for filesystem in &names.filesystems {
        text.push_str(&heading(filesystem, width));
        text.push_str(&options(&filesystem.options, width));
        text.push('\n');
    }
    for of_file in names.knobs.chunk_by(|one, other| one.origin == other.origin) {
        text.push_str("the machine, with any file system");
        if let Some(own) = of_file.first().filter(|option| option.own) {
            write!(text, ", from {}", own.origin).expect("a string takes any text");
        }
        text.push('\n');
        text.push_str(&options(of_file, width));
        text.push('\n');
    }
    text.push_str("* tried only with `include` in a configuration file\n");
    text.push_str("ADDED RISK: what the option adds to the risk of a power cut\n");
    text.push_str("Full descriptions: flashfit catalog --json\n\n");
    text.push_str(&titled("WORKLOAD", names.workloads.iter().map(marked), width));
    text.push_str("* measured only with --workload NAME or --workload all\n");
    text.push_str("** runs commands, and only with --workload NAME\n");
    text.push('\n');
    let cards = names.cards.iter().map(|card| (card.name.clone(), card.title.as_str()));
    text.push_str(&titled("CARD", cards, width));
    text
}

fn heading(filesystem: &FileSystemNames, width: usize) -> String {
    let mut text = format!("file system {} ({})", filesystem.name, filesystem.title);
    if filesystem.own {
        write!(text, ", from {}", filesystem.origin).expect("a string takes any text");
    }
    text.push('\n');
    if filesystem.durability != Durability::Safe.name() {
        writeln!(text, "  {} at a power cut, whatever the options", filesystem.durability)
            .expect("a string takes any text");
    } else if !filesystem.risk.is_empty() {
        let exception = exception_of_safe(filesystem.is_tested_risk);
        let exception = format!("safe at a power cut, {exception}: {}", filesystem.risk);
        for line in wrap(&exception, width.saturating_sub(2)) {
            writeln!(text, "  {line}").expect("a string takes any text");
        }
    }
    if let Some(reason) = &filesystem.plan_only {
        for line in wrap(&format!("planned, but not tried: {reason}"), width.saturating_sub(2)) {
            writeln!(text, "  {line}").expect("a string takes any text");
        }
    } else if !filesystem.tried {
        text.push_str("  tried only when named with --fs\n");
    }
    text
}

fn options(options: &[OptionNames], width: usize) -> String {
    let mut table = TextTable::new([
        Column::text("  OPTION"),
        Column::text("ADDED RISK"),
        Column::text("WHAT IT DOES").shorten(Shorten::End),
    ]);
    for option in options {
        let mark = if option.tried { "" } else { "*" };
        let is_safe = option.durability == Durability::Safe.name();
        let risk = if is_safe { "none" } else { &option.durability };
        table.row([&format!("  {}{mark}", option.name), risk, &option.title]);
    }
    table.render(width)
}

/// The name with a mark for when it is measured.
fn marked(workload: &WorkloadNames) -> (String, &str) {
    let mark = match (workload.commands.is_empty(), workload.extra) {
        (false, _) => "**",
        (true, true) => "*",
        (true, false) => "",
    };
    (format!("{}{mark}", workload.name), &workload.title)
}

fn titled<'a>(
    heading: &str,
    entries: impl Iterator<Item = (String, &'a str)>,
    width: usize,
) -> String {
    let mut table =
        TextTable::new([Column::text(heading), Column::text("WHAT IT IS").shorten(Shorten::End)]);
    for (name, title) in entries {
        table.row([name.as_str(), title]);
    }
    table.render(width)
}
