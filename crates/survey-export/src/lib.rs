//! A survey as Parquet files, partitioned by product, for programs that read many of them.
//!
//! `cards/product=.../part-0.parquet` has a row for each card, `results/` a row for each figure.
//! The names are those of Hive, which DuckDB and Spark read; docs/survey.md has the columns. The
//! directory is written under another name, synced and then renamed, so it is complete or absent.

mod error;
mod partition;
mod table;

use std::collections::BTreeMap;
use std::path::Path;

use flashfit_host::durable;
use flashfit_host::new_folder::NewFolder;
use flashfit_survey::database::{ResultTable, StoredSource};
use flashfit_survey::query::ListedCard;
use flashfit_survey::record::SourceKind;

pub use error::SurveyExportError;
use table::ExportColumnKind::{Is, Number, Text, Whole};
use table::{ExportColumnKind, TableFile};

/// Of both tables, as is the product, which is the name of the directory.
const CARD_COLUMNS: &[(&str, ExportColumnKind)] = &[
    ("card", Text),
    ("kind", Text),
    ("manufacturer", Text),
    ("oem", Text),
    ("revision", Text),
    ("manufactured", Text),
    ("capacity_bytes", Whole),
    ("name", Text),
    ("individual", Is),
    ("simulated", Is),
    ("bundled", Is),
];

const COUNT_COLUMNS: &[(&str, ExportColumnKind)] = &[
    ("erase_block_bytes", Whole),
    ("write_unit_bytes", Whole),
    ("real_capacity_bytes", Whole),
    ("runs", Whole),
    ("probes", Whole),
    ("wear_readings", Whole),
    ("power_cut_campaigns", Whole),
];

const RESULT_COLUMNS: &[(&str, ExportColumnKind)] = &[
    ("source_kind", Text),
    ("address", Text),
    ("created_unix_s", Whole),
    ("tool_version", Text),
    ("kernel", Text),
    ("machine", Text),
    ("test_bed", Text),
    ("firmware", Text),
    ("conditions", Text),
    ("filesystem", Text),
    ("options", Text),
    ("scheduler", Text),
    ("metric", Text),
    ("unit", Text),
    ("workload", Text),
    ("point", Text),
    ("stage", Text),
    ("direction", Text),
    ("length", Text),
    ("value", Number),
    ("low", Number),
    ("high", Number),
    ("count", Whole),
    ("confidence", Number),
];

/// What was written.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct SurveyExport {
    pub products: u64,
    pub cards: u64,
    pub results: u64,
    pub bytes: u64,
}

/// Writes cards and their results to the new directory `dir`.
///
/// # Errors
/// If there is such a directory, or it cannot be written.
pub fn export(
    cards: &[ListedCard],
    results: &ResultTable,
    dir: &Path,
) -> Result<SurveyExport, SurveyExportError> {
    let folder = NewFolder::begin(dir)?;
    let written = write(cards, results, &folder.content())?;
    folder.finish()?;
    Ok(written)
}

fn write(
    cards: &[ListedCard],
    results: &ResultTable,
    dir: &Path,
) -> Result<SurveyExport, SurveyExportError> {
    let mut products: BTreeMap<String, Vec<&ListedCard>> = BTreeMap::new();
    for card in cards {
        products.entry(partition::value(&card.card.product)).or_default().push(card);
    }
    let mut written = SurveyExport { products: products.len() as u64, ..Default::default() };
    for (product, cards) in &products {
        let mut table =
            TableFile::create(&dir.join("cards"), product, &[CARD_COLUMNS, COUNT_COLUMNS])?;
        for listed in cards {
            card_row(&mut table, listed);
            count_row(&mut table, listed);
            table.end_row()?;
            written.cards += 1;
        }
        written.bytes += table.finish()?;
        let mut table =
            TableFile::create(&dir.join("results"), product, &[CARD_COLUMNS, RESULT_COLUMNS])?;
        for listed in cards {
            for source in &listed.card.sources {
                written.results += result_rows(&mut table, listed, source, results)?;
            }
        }
        written.bytes += table.finish()?;
    }
    for folder in ["cards", "results"] {
        let folder = dir.join(folder);
        if folder.is_dir() {
            durable::sync_folder(&folder)
                .map_err(|source| SurveyExportError::write(&folder, source))?;
        }
    }
    Ok(written)
}

fn card_row(table: &mut TableFile, listed: &ListedCard) {
    let card = &listed.card;
    table.text(card.keys.first().map_or("", String::as_str));
    table.text(&card.kind);
    table.text(&card.manufacturer);
    table.text(&card.oem);
    table.text(&card.revision);
    table.text(&card.manufactured);
    table.whole(card.capacity_bytes);
    table.text(&card.name);
    table.is(card.is_individual);
    table.is(card.is_simulated);
    table.is(listed.is_bundled());
}

fn count_row(table: &mut TableFile, listed: &ListedCard) {
    table.whole(listed.erase_blocks.first().copied());
    table.whole(listed.write_units.first().copied());
    table.whole(listed.real_capacity);
    table.whole(Some(listed.count(SourceKind::Run) as u64));
    table.whole(Some(listed.count(SourceKind::Probe) as u64));
    table.whole(Some(listed.count(SourceKind::WearReading) as u64));
    table.whole(Some(listed.count(SourceKind::PowerCuts) as u64));
}

/// A row for each result of a source; returns their number.
fn result_rows(
    table: &mut TableFile,
    listed: &ListedCard,
    source: &StoredSource,
    results: &ResultTable,
) -> Result<u64, SurveyExportError> {
    let rows = results.of_source(source.id);
    for row in rows {
        let (setup, measure) = (&results.setups[row.setup], &results.measures[row.measure]);
        card_row(table, listed);
        table.text(&source.kind);
        table.text(&source.address);
        table.whole(source.created_unix_s);
        for text in [
            &source.tool_version,
            &source.kernel,
            &source.machine,
            &source.test_bed,
            &source.firmware,
            &source.conditions,
            &setup.filesystem,
            &setup.options,
            &setup.scheduler,
            &measure.metric,
            &measure.unit,
            &measure.workload,
            &measure.point,
            &measure.stage,
            &measure.direction,
            &measure.length,
        ] {
            table.text(text);
        }
        table.number(Some(row.value.value));
        table.number(row.value.low);
        table.number(row.value.high);
        table.whole(Some(u64::from(row.value.count)));
        table.number(row.value.confidence);
        table.end_row()?;
    }
    Ok(rows.len() as u64)
}
