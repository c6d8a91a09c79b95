//! The card model: the parsed content of a card file (TOML).
//!
//! A model describes how a card is built (NAND, bus, translation layer, cache), never how a
//! particular workload performs. The sections of the file are in [`nand`], [`layer`] and [`front`].
//! Limit: one kind of NAND per card, part of which may be used as pSLC.

mod checks;
pub mod fake;
pub mod front;
pub mod layer;
pub mod nand;
pub mod wear_out;

use flashfit_catalog::{FileMistake, FileMistakes, Origin, ReadToml, line_of_key, read_toml};
use flashfit_device::Bytes;
use flashfit_user_error::{ExitClass, Hint, UserError};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use checks::InvalidKey;
pub use fake::{BeyondReal, FakeModel};
pub use front::{
    BackgroundModel, BusKind, BusModel, CacheModel, CacheOrder, DiscardModel, NoiseModel,
    QueueModel,
};
pub use layer::{Collection, LayerKind, LayerModel, Replacement, ZoneModel};
pub use nand::{CellType, NandModel, PslcModel};
pub use wear_out::WearOutModel;

/// Size of an entry in a page-mapped layer's map.
const MAP_ENTRY_BYTES: u64 = 4;
/// Erase blocks for the map in addition to its current pieces.
const MAP_SPARE_UNITS: u32 = 2;

#[derive(Debug, Clone, PartialEq, Eq, JsonSchema, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CardModel {
    /// In the catalog, the file name without extension.
    pub name: String,
    /// One line for people.
    pub title: String,
    /// Source of the parameters.
    pub source: String,
    /// Name in `catalog/published/` of the table of a real card that the model is compared with.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub counterpart: Option<String>,
    /// A multiple of the erase block.
    pub capacity: Bytes,
    /// 512 or 4096.
    pub sector_bytes: u32,
    pub nand: NandModel,
    pub bus: BusModel,
    pub layer: LayerModel,
    /// The specially mapped zone at the start, for a file allocation table.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub zone: Option<ZoneModel>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cache: Option<CacheModel>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub discard: Option<DiscardModel>,
    #[serde(default)]
    pub queue: QueueModel,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub background: Option<BackgroundModel>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub noise: Option<NoiseModel>,
    /// The card has less capacity than it claims.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fake: Option<FakeModel>,
}

/// Why a file is not a valid card model.
#[derive(Debug, thiserror::Error)]
pub enum ModelError {
    /// Invalid TOML, unknown or missing keys, values of the wrong type, or several of these.
    #[error(transparent)]
    Mistakes(#[from] FileMistakes),
    /// One value contradicts another one or a limit.
    #[error("{origin}:{line}: {key}: {reason}")]
    Invalid {
        origin: Origin,
        /// Line of the key, or of its section if the key is missing; counted from 1.
        line: usize,
        /// The key with its section.
        key: &'static str,
        reason: String,
    },
}

impl UserError for ModelError {
    fn class(&self) -> ExitClass {
        ExitClass::Usage
    }

    fn hint(&self) -> Option<Hint> {
        match self {
            Self::Mistakes(found) => found.hint(),
            Self::Invalid { origin: Origin::File(path), line, .. } => {
                let path = flashfit_host::program::quote_path(path);
                Some(format!("${{EDITOR:-vi}} +{line} {path}").into())
            }
            Self::Invalid { .. } => None,
        }
    }
}

/// Default chunk: an eighth of an erase block, 512 KiB for 4 MiB.
const CHUNKS_PER_UNIT: u64 = 8;

impl CardModel {
    /// Parses and validates a card file; `origin` is for error messages.
    ///
    /// # Errors
    /// All mistakes with their lines: [`ModelError::Mistakes`] or [`ModelError::Invalid`].
    pub fn parse(text: &str, origin: &Origin) -> Result<Self, ModelError> {
        let ReadToml { value, mut mistakes } = read_toml::<Self>(text);
        let mut faults = value.as_ref().map(checks::check).unwrap_or_default();
        match value {
            Some(model) if mistakes.is_empty() && faults.is_empty() => return Ok(model),
            _ => {}
        }
        if mistakes.is_empty() && faults.len() == 1 {
            let InvalidKey { key, reason } = faults.remove(0);
            let line = line_of_key(text, key);
            return Err(ModelError::Invalid { origin: origin.clone(), line, key, reason });
        }
        mistakes.extend(faults.into_iter().map(|fault| FileMistake {
            line: line_of_key(text, fault.key),
            reason: format!("{}: {}", fault.key, fault.reason),
        }));
        Err(FileMistakes::new(origin, mistakes).into())
    }

    /// Whether hosts see a volatile cache.
    pub fn declares_cache(&self) -> bool {
        self.cache.as_ref().is_some_and(|cache| !cache.undeclared)
    }

    /// Size of an erase block.
    pub fn erase_block_bytes(&self) -> u64 {
        self.nand.erase_block.0
    }

    /// Size of a write unit: the pages of all planes, which are programmed together.
    pub fn write_unit_bytes(&self) -> u64 {
        self.nand.page.0 * u64::from(self.nand.planes)
    }

    /// Size of a mapped unit: the granularity of the translation layer.
    pub fn map_unit_bytes(&self) -> u64 {
        self.layer.map_unit.map_or_else(|| self.write_unit_bytes(), |unit| unit.0)
    }

    /// Addressable erase blocks.
    pub fn capacity_blocks(&self) -> u32 {
        count(self.capacity.0 / self.nand.erase_block.0)
    }

    /// All erase blocks, including spare, pSLC and bad ones.
    pub fn total_blocks(&self) -> u32 {
        self.capacity_blocks()
            + self.nand.spare_units
            + self.nand.pslc.as_ref().map_or(0, |pslc| pslc.units)
            + self.nand.factory_bad_units
    }

    /// Spare erase blocks without which the card cannot be written.
    pub fn needed_spare_units(&self) -> u32 {
        count(checks::needed_spare_units(self))
    }

    /// Mapped units per erase block.
    pub fn pages_per_block(&self) -> u32 {
        count(self.nand.erase_block.0 / self.map_unit_bytes())
    }

    /// Mapped units per write unit.
    pub fn pages_per_write_unit(&self) -> u32 {
        count(self.write_unit_bytes() / self.map_unit_bytes())
    }

    /// Mapping granularity of an update-log layer.
    pub fn chunk_bytes(&self) -> u64 {
        self.layer.chunk.map_or(self.nand.erase_block.0 / CHUNKS_PER_UNIT, |chunk| chunk.0)
    }

    /// Chunks per erase block.
    pub fn chunks_per_block(&self) -> u32 {
        count(self.nand.erase_block.0 / self.chunk_bytes())
    }

    /// Factory-bad erase blocks: evenly spread, in ascending order.
    pub fn factory_bad_units(&self) -> impl Iterator<Item = u32> {
        let (bad, total) = (u64::from(self.nand.factory_bad_units), u64::from(self.total_blocks()));
        (0..bad).map(move |number| count((2 * number + 1) * total / (2 * bad)))
    }

    /// All other erase blocks, in ascending order.
    pub fn good_blocks(&self) -> impl Iterator<Item = u32> {
        let mut bad = self.factory_bad_units().peekable();
        (0..self.total_blocks()).filter(move |unit| bad.next_if_eq(unit).is_none())
    }

    /// Map entries per write unit, at 4 bytes each.
    pub fn entries_per_map_piece(&self) -> u32 {
        count(self.write_unit_bytes() / MAP_ENTRY_BYTES)
    }

    /// Write units of the whole map.
    pub fn map_pieces(&self) -> u32 {
        let entries = self.capacity.0 / self.map_unit_bytes();
        count(entries.div_ceil(self.entries_per_map_piece().into()))
    }

    /// Erase blocks of the map in the NAND, including two free ones; 0 if the map is in memory.
    pub fn map_units(&self) -> u32 {
        let pieces_per_block = self.pages_per_block() / self.pages_per_write_unit();
        let cached = self.layer.map_cache.is_some();
        if cached { self.map_pieces().div_ceil(pieces_per_block) + MAP_SPARE_UNITS } else { 0 }
    }
}

fn count(number: u64) -> u32 {
    u32::try_from(number).expect("a checked model has fewer pages than 2^32")
}

#[cfg(test)]
pub(crate) mod tests;
