//! The cards of a survey, and what was added to it.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::Path;

use flashfit_host::path_text;
use flashfit_report::text::plain;
use flashfit_report::{Column, Shorten, TextTable};
use flashfit_survey::bundle::CheckedBundle;
use flashfit_survey::database::BundleAddition;
use flashfit_survey::query::ListedCard;
use flashfit_survey::{Addition, SourceKind, SurveySource};
use schemars::JsonSchema;
use serde::Serialize;

use super::{figure, size};

/// That of `survey add`.
#[derive(Debug, JsonSchema, Serialize)]
pub struct AddedDocument {
    /// The file of the survey.
    pub database: String,
    pub results: Vec<AddedSource>,
    /// Files in directories that are nothing for a survey.
    pub ignored_files: usize,
    /// In the survey now.
    pub cards: u64,
    pub sources: u64,
}

#[derive(Debug, JsonSchema, Serialize)]
pub struct AddedSource {
    path: String,
    /// `added`, `replaced` (it continues a run that was there), `present`, `older` (a later state
    /// of the run is there) or `refused`.
    state: &'static str,
    /// `run`, `probe`, `wear-reading`, `wear-measurement`, `power-cuts` or `bundle`; null if it was
    /// refused.
    kind: Option<&'static str>,
    /// SHA-256 of the content; null for a bundle.
    address: Option<String>,
    /// Null for a bundle.
    simulated: Option<bool>,
    /// Figures, each of several repeats.
    figures: usize,
    /// What was left out, or why it was refused.
    notes: Vec<String>,
}

impl AddedSource {
    pub fn new(path: &Path, source: &SurveySource, addition: Addition) -> Self {
        Self {
            path: path_text::to_text(path),
            state: match addition {
                Addition::Added => "added",
                Addition::Replaced => "replaced",
                Addition::Present => "present",
                Addition::Older => "older",
            },
            kind: Some(source.kind.name()),
            address: Some(source.address.clone()),
            simulated: Some(source.is_simulated),
            figures: source.results.len(),
            notes: source.notes.clone(),
        }
    }

    /// A bundle, of which all is added, some, or nothing new.
    pub fn bundle(path: &Path, bundle: &CheckedBundle, addition: &BundleAddition) -> Self {
        let mut note = format!(
            "measured by others: {} of {}",
            counted(addition.sources, "new source"),
            counted(bundle.bundle().cards.len() as u64, "card"),
        );
        if addition.present > 0 {
            note += &format!(", {} there already", addition.present);
        }
        Self {
            path: path_text::to_text(path),
            state: if addition.sources > 0 { "added" } else { "present" },
            kind: Some("bundle"),
            address: None,
            simulated: None,
            figures: usize::try_from(addition.figures).unwrap_or(usize::MAX),
            notes: vec![note],
        }
    }

    pub fn refused(path: &Path, reason: &str) -> Self {
        Self {
            path: path_text::to_text(path),
            state: "refused",
            kind: None,
            address: None,
            simulated: None,
            figures: 0,
            notes: vec![reason.to_owned()],
        }
    }
}

/// What happened, in total, and what is worth a line of its own.
pub fn added_text(document: &AddedDocument, width: usize) -> String {
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    let mut text = String::new();
    for added in &document.results {
        *counts.entry(added.state).or_default() += 1;
        if added.state != "refused" {
            for note in &added.notes {
                writeln!(text, "{}: {}", plain(&added.path), plain(note)).expect("a string");
            }
        }
    }
    let count = |state: &str| counts.get(state).copied().unwrap_or(0);
    let mut parts = vec![format!("{} added", count("added"))];
    for (state, words) in [
        ("replaced", "continued and replaced"),
        ("present", "there already"),
        ("older", "there with more trials"),
        ("refused", "refused"),
    ] {
        if count(state) > 0 {
            parts.push(format!("{} {words}", count(state)));
        }
    }
    if document.ignored_files > 0 {
        parts.push(format!("{} other files ignored", document.ignored_files));
    }
    let total = format!(
        "{}. The survey has {} of {} ({}).",
        parts.join(", "),
        counted(document.sources, "source"),
        counted(document.cards, "card"),
        plain(&document.database),
    );
    for line in flashfit_report::text::wrap(&total, width) {
        writeln!(text, "{line}").expect("a string");
    }
    text
}

/// That of `survey merge`.
#[derive(Debug, JsonSchema, Serialize)]
pub struct MergedDocument {
    /// The file of the survey.
    pub database: String,
    pub other: String,
    /// Sources that were added.
    pub added: u64,
    /// Runs of which the other survey had more trials.
    pub replaced: u64,
    /// Sources that were there already, in this or a later state.
    pub present: u64,
    /// In the survey now.
    pub cards: u64,
    pub sources: u64,
}

pub fn merged_text(document: &MergedDocument, width: usize) -> String {
    let text = format!(
        "{} added, {} continued and replaced, {} there already. The survey has {} of {} ({}).",
        document.added,
        document.replaced,
        document.present,
        counted(document.sources, "source"),
        counted(document.cards, "card"),
        plain(&document.database),
    );
    flashfit_report::text::wrap(&text, width).join("\n") + "\n"
}

pub fn counted(count: u64, what: &str) -> String {
    if count == 1 { format!("{count} {what}") } else { format!("{count} {what}s") }
}

/// That of `survey list`.
#[derive(Debug, JsonSchema, Serialize)]
pub struct CardsDocument {
    /// The file of the survey.
    pub database: String,
    pub results: Vec<CardRow>,
}

/// A card, or all unidentified cards of a product.
#[derive(Debug, Default, JsonSchema, Serialize)]
pub struct CardRow {
    /// The beginning of its key.
    pub card: String,
    pub kind: String,
    pub manufacturer: String,
    pub oem: String,
    pub product: String,
    pub revision: String,
    pub manufactured: String,
    pub capacity_bytes: Option<u64>,
    pub name: String,
    /// Only if it was kept.
    pub serial: Option<String>,
    /// False for all cards of a product that have no serial number and no name.
    pub individual: bool,
    pub simulated: bool,
    /// Whether others measured it, and a bundle brought it.
    pub bundled: bool,
    /// The least of those that probes found.
    pub erase_block_bytes: Option<u64>,
    pub write_unit_bytes: Option<u64>,
    pub real_capacity_bytes: Option<u64>,
    pub runs: usize,
    pub probes: usize,
    pub wear_readings: usize,
    pub power_cut_campaigns: usize,
    /// Of the latest reading, according to the device.
    pub life_used_percent: Option<f64>,
    /// Seconds since 1970.
    pub last_unix_s: Option<u64>,
    /// What does not fit together, a sentence each, separated by `; `.
    pub doubts: String,
}

impl CardRow {
    pub fn new(listed: &ListedCard) -> Self {
        let card = &listed.card;
        Self {
            card: listed.short_key().to_owned(),
            kind: card.kind.clone(),
            manufacturer: card.manufacturer.clone(),
            oem: card.oem.clone(),
            product: card.product.clone(),
            revision: card.revision.clone(),
            manufactured: card.manufactured.clone(),
            capacity_bytes: card.capacity_bytes,
            name: card.name.clone(),
            serial: card.serial.clone(),
            individual: card.is_individual,
            simulated: card.is_simulated,
            bundled: listed.is_bundled(),
            erase_block_bytes: listed.erase_blocks.first().copied(),
            write_unit_bytes: listed.write_units.first().copied(),
            real_capacity_bytes: listed.real_capacity,
            runs: listed.count(SourceKind::Run),
            probes: listed.count(SourceKind::Probe),
            wear_readings: listed.count(SourceKind::WearReading),
            power_cut_campaigns: listed.count(SourceKind::PowerCuts),
            life_used_percent: listed.life_used,
            last_unix_s: card.sources.iter().filter_map(|source| source.created_unix_s).max(),
            doubts: listed.doubts().join("; "),
        }
    }
}

impl CardsDocument {
    pub fn new(database: String, cards: &[ListedCard]) -> Self {
        Self { database, results: cards.iter().map(CardRow::new).collect() }
    }
}

/// A line for each card, then what does not fit together.
pub fn cards_text(document: &CardsDocument, width: usize) -> String {
    if document.results.is_empty() {
        return "no cards\n".to_owned();
    }
    let mut columns = vec![
        Column::text("CARD"),
        Column::text("KIND"),
        Column::text("PRODUCT").shorten(Shorten::Middle),
        Column::text("MADE"),
        Column::number("SIZE"),
        Column::number("ERASE BLOCK"),
        Column::number("RUNS"),
        Column::number("PROBES"),
    ];
    let rows = &document.results;
    let have_life = rows.iter().any(|row| row.life_used_percent.is_some());
    if have_life {
        columns.push(Column::number("WORN"));
    }
    let are_named = rows.iter().any(|row| !row.name.is_empty());
    if are_named {
        columns.push(Column::text("NAME").shorten(Shorten::Middle));
    }
    let mut table = TextTable::new(columns);
    let or_dash = |text: &str| if text.is_empty() { "-".to_owned() } else { plain(text) };
    let is_group = |row: &CardRow| !row.individual && !row.simulated;
    for row in rows {
        let marks = [(is_group(row), "*"), (row.bundled, "+"), (!row.doubts.is_empty(), "!")];
        let marks: String = marks.iter().filter(|(is, _)| *is).map(|(_, mark)| *mark).collect();
        let mut cells = vec![
            format!("{}{marks}", row.card),
            row.kind.clone(),
            or_dash(format!("{} {}", row.manufacturer, row.product).trim()),
            or_dash(&row.manufactured),
            size(row.capacity_bytes),
            size(row.erase_block_bytes),
            row.runs.to_string(),
            row.probes.to_string(),
        ];
        if have_life {
            let life = row.life_used_percent.map(|percent| figure(percent, "percent"));
            cells.push(life.unwrap_or_else(|| "-".to_owned()));
        }
        if are_named {
            cells.push(or_dash(&row.name));
        }
        table.row(cells);
    }
    let mut text = table.render(width);
    if rows.iter().any(is_group) {
        text.push_str("* any number of cards, which have neither a serial number nor a name\n");
    }
    if rows.iter().any(|row| row.bundled) {
        text.push_str("+ measured by others, from a bundle\n");
    }
    for row in rows.iter().filter(|row| !row.doubts.is_empty()) {
        let line = format!("! {}: {}", row.card, plain(&row.doubts));
        for part in flashfit_report::text::wrap(&line, width) {
            writeln!(text, "{part}").expect("a string");
        }
    }
    text
}
