//! The card model: what a card file says.
//!
//! The file is TOML. A model says how a card is built (NAND, bus, translation layer, cache), never
//! how a particular workload runs on it. The sections of the file are the modules [`nand`],
//! [`layer`] and [`front`]. Limits: one kind of NAND per card, with a part of it used with one bit
//! per cell.

mod checks;
pub mod front;
pub mod layer;
pub mod nand;
mod place;

use flashfit_catalog::Origin;
use flashfit_device::Bytes;
use flashfit_user_error::{ExitClass, UserError};
use serde::{Deserialize, Serialize};

pub use front::{
    BackgroundModel, BusKind, BusModel, CacheModel, CacheOrder, DiscardModel, NoiseModel,
    QueueModel,
};
pub use layer::{Collection, LayerKind, LayerModel, ZoneModel};
pub use nand::{CellType, NandModel, PslcModel};

/// What an entry of a page-mapped layer's map takes.
const MAP_ENTRY_BYTES: u64 = 4;
/// Erase blocks that the map has beyond what its current pieces fill.
const MAP_SPARE_UNITS: u32 = 2;

/// The parameters of a simulated card.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CardModel {
    /// The name by which it is called; in the catalog, the file's name without its ending.
    pub name: String,
    /// One line on what it is.
    pub title: String,
    /// Where its figures come from.
    pub source: String,
    /// The published table of a real card that it is checked against, by its name in
    /// `catalog/published/`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub counterpart: Option<String>,
    /// What the host can address: a whole number of erase blocks.
    pub capacity: Bytes,
    /// The smallest unit of access, in bytes: 512 or 4096.
    pub sector_bytes: u32,
    /// The flash itself.
    pub nand: NandModel,
    /// The way between host and card.
    pub bus: BusModel,
    /// How logical addresses are kept in the NAND.
    pub layer: LayerModel,
    /// The specially mapped zone at the start, for a file allocation table, where there is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub zone: Option<ZoneModel>,
    /// The volatile write cache, where it has one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cache: Option<CacheModel>,
    /// How it takes discards, where it does.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub discard: Option<DiscardModel>,
    /// Its command queue.
    #[serde(default)]
    pub queue: QueueModel,
    /// What it does in idle time, where it does something.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub background: Option<BackgroundModel>,
    /// How its times vary, where they do.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub noise: Option<NoiseModel>,
}

/// Why a file is not a card model.
#[derive(Debug, thiserror::Error)]
pub enum ModelError {
    /// Not TOML, a key that does not exist, one that is missing, or a value of the wrong type.
    #[error("{origin}: line {line}: {reason}")]
    Syntax {
        /// The file.
        origin: Origin,
        /// The line, from 1.
        line: usize,
        /// What is wrong there.
        reason: String,
    },
    /// No card can be built like that.
    #[error("{origin}: line {line}: {key}: {reason}")]
    Impossible {
        /// The file.
        origin: Origin,
        /// The line of the key or, where it is missing, of its section; from 1.
        line: usize,
        /// The key, with its section.
        key: &'static str,
        /// Why it cannot be.
        reason: String,
    },
}

impl UserError for ModelError {
    fn class(&self) -> ExitClass {
        ExitClass::Usage
    }
}

/// Where a model does not say; 512 KiB of a usual erase block.
const CHUNKS_PER_UNIT: u64 = 8;

impl CardModel {
    /// Reads a card file; `origin` is only for the messages.
    ///
    /// # Errors
    /// [`ModelError::Syntax`] or [`ModelError::Impossible`], both with the line.
    pub fn parse(text: &str, origin: &Origin) -> Result<Self, ModelError> {
        let model: Self = toml::from_str(text).map_err(|error| ModelError::Syntax {
            origin: origin.clone(),
            line: place::line_of(text, error.span().map_or(0, |span| span.start)),
            reason: error.message().to_owned(),
        })?;
        checks::check(&model).map_err(|fault| ModelError::Impossible {
            origin: origin.clone(),
            line: place::line_of_key(text, fault.key),
            key: fault.key,
            reason: fault.reason,
        })?;
        Ok(model)
    }

    /// Whether hosts are told of a volatile cache.
    pub fn declares_cache(&self) -> bool {
        self.cache.as_ref().is_some_and(|cache| !cache.undeclared)
    }

    /// The size of an erase block, in bytes.
    pub fn erase_unit_bytes(&self) -> u64 {
        self.nand.erase_unit.0
    }

    /// The size of a write unit, the pages of all planes written together, in bytes.
    pub fn write_unit_bytes(&self) -> u64 {
        self.nand.page.0 * u64::from(self.nand.planes)
    }

    /// The size of a mapped unit, in bytes: what a translation layer keeps track of.
    pub fn map_unit_bytes(&self) -> u64 {
        self.layer.map_unit.map_or_else(|| self.write_unit_bytes(), |unit| unit.0)
    }

    /// Erase blocks that the host can address.
    pub fn capacity_units(&self) -> u32 {
        count(self.capacity.0 / self.nand.erase_unit.0)
    }

    /// All erase blocks: spare ones, those of the pSLC area and bad ones included.
    pub fn total_units(&self) -> u32 {
        self.capacity_units()
            + self.nand.spare_units
            + self.nand.pslc.as_ref().map_or(0, |pslc| pslc.units)
            + self.nand.factory_bad_units
    }

    /// Mapped units in an erase block.
    pub fn pages_per_unit(&self) -> u32 {
        count(self.nand.erase_unit.0 / self.map_unit_bytes())
    }

    /// Mapped units in a write unit.
    pub fn pages_per_write_unit(&self) -> u32 {
        count(self.write_unit_bytes() / self.map_unit_bytes())
    }

    /// The size of what an update-log layer maps by itself, in bytes.
    pub fn chunk_bytes(&self) -> u64 {
        self.layer.chunk.map_or(self.nand.erase_unit.0 / CHUNKS_PER_UNIT, |chunk| chunk.0)
    }

    /// Such chunks in an erase block.
    pub fn chunks_per_unit(&self) -> u32 {
        count(self.nand.erase_unit.0 / self.chunk_bytes())
    }

    /// The erase blocks that were bad from the beginning: evenly spread, in ascending order.
    pub fn factory_bad_units(&self) -> impl Iterator<Item = u32> {
        let (bad, total) = (u64::from(self.nand.factory_bad_units), u64::from(self.total_units()));
        (0..bad).map(move |number| count((2 * number + 1) * total / (2 * bad)))
    }

    /// All other erase blocks, in ascending order.
    pub fn good_units(&self) -> impl Iterator<Item = u32> {
        let mut bad = self.factory_bad_units().peekable();
        (0..self.total_units()).filter(move |unit| bad.next_if_eq(unit).is_none())
    }

    /// Entries of the map in a write unit, at 4 bytes each.
    pub fn entries_per_map_piece(&self) -> u32 {
        count(self.write_unit_bytes() / MAP_ENTRY_BYTES)
    }

    /// Write units that the whole map takes.
    pub fn map_pieces(&self) -> u32 {
        let entries = self.capacity.0 / self.map_unit_bytes();
        count(entries.div_ceil(self.entries_per_map_piece().into()))
    }

    /// Erase blocks that the map takes in the NAND: two more than it needs, to write into. None
    /// where all of it is in memory.
    pub fn map_units(&self) -> u32 {
        let pieces_per_unit = self.pages_per_unit() / self.pages_per_write_unit();
        let cached = self.layer.map_cache.is_some();
        if cached { self.map_pieces().div_ceil(pieces_per_unit) + MAP_SPARE_UNITS } else { 0 }
    }
}

fn count(number: u64) -> u32 {
    u32::try_from(number).expect("a checked model has fewer pages than 2^32")
}

#[cfg(test)]
pub(crate) mod tests;
