//! `flashfit catalog`: everything that flashfit knows by name.

use std::fmt::Write;
use std::path::Path;

use flashfit_bench::Workloads;
use flashfit_card::CardModel;
use flashfit_filesystem::{Catalogue, FileSystem};
use flashfit_report::{Column, Shorten, Table};
use serde::Serialize;

use crate::cli::CatalogArgs;
use crate::failure::Failure;
use crate::output;

#[derive(Serialize)]
struct Names {
    filesystems: Vec<FileSystemNames>,
    workloads: Vec<Titled>,
    cards: Vec<Titled>,
}

#[derive(Serialize)]
struct FileSystemNames {
    name: String,
    title: String,
    options: Vec<OptionNames>,
}

#[derive(Serialize)]
struct OptionNames {
    name: String,
    title: String,
    durability: String,
    risk: String,
    excludes: Vec<String>,
    source: String,
}

#[derive(Serialize)]
struct Titled {
    name: String,
    title: String,
}

pub fn run(args: &CatalogArgs, catalog: Option<&Path>) -> Result<(), Failure> {
    let filesystems = Catalogue::load(catalog)?;
    let workloads = Workloads::load(catalog)?;
    let cards = flashfit_card::catalogue::all(catalog)?;
    let names = Names {
        filesystems: filesystems.filesystems().iter().map(filesystem).collect(),
        workloads: workloads
            .all()
            .iter()
            .map(|found| Titled { name: found.name.clone(), title: found.title.clone() })
            .collect(),
        cards: cards.iter().map(card).collect(),
    };
    if args.json { output::json("catalog", names) } else { output::print(&text(&names)) }
}

fn filesystem(found: &FileSystem) -> FileSystemNames {
    let option = |option: &flashfit_filesystem::FsOption| OptionNames {
        name: option.name.clone(),
        title: option.title.clone(),
        durability: option.durability.to_string(),
        risk: option.risk.clone(),
        excludes: option.excludes.clone(),
        source: option.source.clone(),
    };
    FileSystemNames {
        name: found.name.clone(),
        title: found.title.clone(),
        options: found.options.iter().map(option).collect(),
    }
}

fn card(model: &CardModel) -> Titled {
    Titled { name: model.name.clone(), title: model.title.clone() }
}

fn text(names: &Names) -> String {
    let width = output::width();
    let mut text = String::new();
    for filesystem in &names.filesystems {
        writeln!(text, "file system {} ({})", filesystem.name, filesystem.title)
            .expect("a string takes any text");
        let mut table = Table::new([
            Column::text("  OPTION"),
            Column::text("AT A POWER CUT"),
            Column::text("WHAT IT DOES").shorten(Shorten::End),
        ]);
        for option in &filesystem.options {
            table.row([&format!("  {}", option.name), &option.durability, &option.title]);
        }
        text.push_str(&table.render(width));
        text.push('\n');
    }
    text.push_str(&titled("WORKLOAD", &names.workloads, width));
    text.push('\n');
    text.push_str(&titled("CARD", &names.cards, width));
    text
}

fn titled(heading: &str, entries: &[Titled], width: usize) -> String {
    let mut table =
        Table::new([Column::text(heading), Column::text("WHAT IT IS").shorten(Shorten::End)]);
    for entry in entries {
        table.row([&entry.name, &entry.title]);
    }
    table.render(width)
}
