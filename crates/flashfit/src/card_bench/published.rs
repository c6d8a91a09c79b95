//! Published figures of cards like a model: `catalog/published/*.toml`, each named after its card.

use std::path::Path;

use flashfit_card::patterns::{AccessPattern, PriorState};
use flashfit_catalog::{CatalogEntry, FileMistakes, entries, read_entry};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::measure::CardFigures;
use crate::command_error::CommandError;

#[derive(Debug, Clone, Copy, PartialEq, Eq, JsonSchema, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum FigureSubject {
    /// Bytes a second in writes of 1 MiB.
    SequentialWrite,
    /// Bytes a second in reads of 1 MiB.
    SequentialRead,
    /// Writes of 4 KiB all over, in thousandths of one a second.
    RandomWrites,
    /// Reads of 4 KiB all over, in thousandths of one a second.
    RandomReads,
}

/// A figure, or the range that it lies in.
#[derive(Debug, Clone, PartialEq, Eq, JsonSchema, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PublishedFigure {
    pub what: FigureSubject,
    /// The state that comes nearest to the one it was measured in; random figures only.
    #[serde(default)]
    pub state: Option<PriorState>,
    /// How requests came; random figures only.
    #[serde(default)]
    pub way: Option<AccessPattern>,
    pub least: u64,
    /// `None` for a guarantee such as a speed class.
    #[serde(default)]
    pub most: Option<u64>,
    pub source: String,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    figure: Vec<PublishedFigure>,
}

/// A published figure and the model's.
#[derive(Debug, JsonSchema, Serialize)]
pub struct ComparedFigure {
    pub published: PublishedFigure,
    pub simulated: u64,
}

/// The published figures of a card, with those of its model.
pub fn compared(
    card: &str,
    figures: &CardFigures,
    catalog: Option<&Path>,
) -> Result<Vec<ComparedFigure>, CommandError> {
    let known = entries("published", "toml", catalog)?;
    let Some(entry) = known.iter().find(|entry| entry.name == card) else {
        return Ok(Vec::new());
    };
    let file: File = read_entry(entry)?;
    let mut all = Vec::new();
    for (at, published) in file.figure.into_iter().enumerate() {
        let simulated = simulated(&published, figures).ok_or_else(|| {
            FileMistakes::at_key(entry, &format!("figure.{at}.what"), not_measured(&published))
        })?;
        all.push(ComparedFigure { published, simulated });
    }
    Ok(all)
}

/// Whether a file has the right form; what it is compared with is not looked at.
pub fn check(entry: &CatalogEntry) -> Result<(), CommandError> {
    read_entry::<File>(entry)?;
    Ok(())
}

fn not_measured(published: &PublishedFigure) -> &'static str {
    match published {
        PublishedFigure { state: None, .. } => "what: a random figure needs `state`",
        PublishedFigure { way: None, .. } => "what: a random figure needs `way`",
        _ => "what: with this state and way, it is not measured for this card",
    }
}

fn simulated(published: &PublishedFigure, figures: &CardFigures) -> Option<u64> {
    let random = || {
        let (state, way) = (published.state?, published.way?);
        figures.random.iter().find(|random| (random.state, random.way) == (state, way))
    };
    match published.what {
        FigureSubject::SequentialWrite => Some(figures.sequential.write_bytes_per_second),
        FigureSubject::SequentialRead => Some(figures.sequential.read_bytes_per_second),
        FigureSubject::RandomWrites => random().map(|random| random.write_rate_thousandths),
        FigureSubject::RandomReads => random().map(|random| random.read_rate_thousandths),
    }
}
