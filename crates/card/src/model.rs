//! The card model: what a card file says.
//!
//! The file is TOML. A model says how a card is built (NAND, bus, translation layer, cache), never
//! how a particular workload runs on it. Limits: one kind of NAND per card, one chip, queue depth
//! 1.

use flashfit_catalogue::Origin;
use flashfit_host::{ExitClass, Explain};
use flashfit_medium::Bytes;
use serde::{Deserialize, Serialize};

use crate::model_checks;

/// The parameters of a simulated card.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CardModel {
    /// The name by which it is called; in the catalogue, the file's name without its ending.
    pub name: String,
    /// One line on what it is.
    pub title: String,
    /// Where its figures come from.
    pub source: String,
    /// What the host can address: a whole number of erase units.
    pub capacity: Bytes,
    /// The smallest unit of access, in bytes: 512 or 4096.
    pub sector_bytes: u32,
    /// The flash itself.
    pub nand: NandModel,
    /// The way between host and card.
    pub bus: BusModel,
    /// How logical addresses are kept in the NAND.
    pub layer: LayerModel,
    /// The volatile write cache, where it has one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cache: Option<CacheModel>,
    /// How it takes discards, where it does.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub discard: Option<DiscardModel>,
    /// Its command queue.
    #[serde(default)]
    pub queue: QueueModel,
}

/// The flash of a card.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NandModel {
    /// The pages written together (page times planes): the write unit.
    pub page: Bytes,
    /// The erase unit: a whole number of pages, not necessarily a power of two.
    pub erase_unit: Bytes,
    /// Time to read a page, in nanoseconds.
    pub read_ns: u64,
    /// Time to program a page, in nanoseconds.
    pub program_ns: u64,
    /// Time to erase an erase unit, in nanoseconds.
    pub erase_ns: u64,
    /// How many erasures an erase unit is rated for.
    pub endurance_cycles: u64,
    /// Erase units beyond the capacity.
    pub spare_units: u32,
}

/// The bus of a card.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BusModel {
    /// What every request costs, in nanoseconds.
    pub command_ns: u64,
    /// How fast data passes, in bytes per second.
    pub bytes_per_second: u64,
}

/// The translation layer of a card.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LayerModel {
    /// Which one.
    pub kind: LayerKind,
    /// How many erase units can be open at once; block-mapped layers only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub open_units: Option<u32>,
}

/// The kinds of translation layer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum LayerKind {
    /// Whole erase units are mapped; see [`crate::layer::BlockMapped`].
    BlockMapped,
    /// Each page is mapped; see [`crate::layer::PageMapped`].
    PageMapped,
}

/// The volatile write cache of a card.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CacheModel {
    /// How much unwritten data it holds.
    pub bytes: Bytes,
}

/// How a card takes discards.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DiscardModel {
    /// Only whole units of this size change the mapping.
    pub granularity: Bytes,
}

/// The command queue of a card.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct QueueModel {
    /// How many requests it works on at once; this version knows only 1.
    pub depth: u32,
}

impl Default for QueueModel {
    fn default() -> Self {
        Self { depth: 1 }
    }
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
    #[error("{origin}: {key}: {reason}")]
    Impossible {
        /// The file.
        origin: Origin,
        /// The key, with its section.
        key: &'static str,
        /// Why it cannot be.
        reason: String,
    },
}

impl Explain for ModelError {
    fn class(&self) -> ExitClass {
        ExitClass::Usage
    }
}

impl CardModel {
    /// Reads a card file; `origin` is only for the messages.
    ///
    /// # Errors
    /// [`ModelError::Syntax`] with the line, or [`ModelError::Impossible`] with the key.
    pub fn parse(text: &str, origin: &Origin) -> Result<Self, ModelError> {
        let model: Self = toml::from_str(text).map_err(|error| ModelError::Syntax {
            origin: origin.clone(),
            line: line_of(text, error.span().map_or(0, |span| span.start)),
            reason: error.message().to_owned(),
        })?;
        model_checks::check(&model).map_err(|fault| ModelError::Impossible {
            origin: origin.clone(),
            key: fault.key,
            reason: fault.reason,
        })?;
        Ok(model)
    }

    /// The size of an erase unit, in bytes.
    pub fn erase_unit_bytes(&self) -> u64 {
        self.nand.erase_unit.0
    }

    /// The size of a write unit, in bytes.
    pub fn write_unit_bytes(&self) -> u64 {
        self.nand.page.0
    }

    /// Erase units that the host can address.
    pub fn capacity_units(&self) -> u32 {
        count(self.capacity.0 / self.nand.erase_unit.0)
    }

    /// All erase units, spare ones included.
    pub fn total_units(&self) -> u32 {
        self.capacity_units() + self.nand.spare_units
    }

    /// Pages in an erase unit.
    pub fn pages_per_unit(&self) -> u32 {
        count(self.nand.erase_unit.0 / self.nand.page.0)
    }
}

fn count(number: u64) -> u32 {
    u32::try_from(number).expect("a checked model has fewer pages than 2^32")
}

fn line_of(text: &str, offset: usize) -> usize {
    1 + text.bytes().take(offset).filter(|&byte| byte == b'\n').count()
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    pub(crate) const SMALL: &str = r#"
name = "small"
title = "a card for tests"
source = "none"
capacity = "1MiB"
sector_bytes = 512
[nand]
page = "4KiB"
erase_unit = "64KiB"
read_ns = 50
program_ns = 700
erase_ns = 3000
endurance_cycles = 1000
spare_units = 4
[bus]
command_ns = 10
bytes_per_second = 1_000_000_000
[layer]
kind = "page-mapped"
[discard]
granularity = "4KiB"
"#;

    pub(crate) fn parse(text: &str) -> Result<CardModel, ModelError> {
        CardModel::parse(text, &Origin::File("test.toml".into()))
    }

    /// The small card with `from` replaced by `to`.
    pub(crate) fn small_but(changes: &[(&str, &str)]) -> Result<CardModel, ModelError> {
        let mut text = SMALL.to_owned();
        for (from, to) in changes {
            assert!(text.contains(from), "{from}");
            text = text.replace(from, to);
        }
        parse(&text)
    }

    #[test]
    fn a_model_says_its_geometry() {
        let model = parse(SMALL).unwrap();
        assert_eq!(model.erase_unit_bytes(), 65536);
        assert_eq!(model.write_unit_bytes(), 4096);
        assert_eq!((model.capacity_units(), model.total_units()), (16, 20));
        assert_eq!(model.pages_per_unit(), 16);
        assert_eq!(model.queue.depth, 1);
    }

    #[test]
    fn a_model_survives_being_written_and_read() {
        let model = parse(SMALL).unwrap();
        assert_eq!(parse(&toml::to_string(&model).unwrap()).unwrap(), model);
    }

    #[test]
    fn an_unknown_key_is_refused_with_file_and_line() {
        let error = small_but(&[("read_ns = 50", "raed_ns = 50")]).unwrap_err();
        let text = error.to_string();
        assert!(text.starts_with("test.toml: line 10: "), "{text}");
        assert!(text.contains("raed_ns"), "{text}");
        assert_eq!(error.class(), ExitClass::Usage);
    }

    #[test]
    fn broken_toml_is_refused_with_its_line() {
        let text = small_but(&[("[bus]", "[bus")]).unwrap_err().to_string();
        assert!(text.starts_with("test.toml: line 15: "), "{text}");
    }
}
