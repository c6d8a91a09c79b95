//! The document of a probe, which plans and runs read again.
//!
//! Unlike other documents its data are at the top: each quantity is a key.

use std::path::{Path, PathBuf};

use flashfit_device::describe::DeviceKind;
use flashfit_device::identity::DeviceIdentity;
use flashfit_device::{Bytes, DeclaredFacts};
use flashfit_geometry::flashbench::CellGroup;
use flashfit_geometry::probed::{FailedRequest, ProbeEvidence, Probed};
use flashfit_geometry::{
    EraseBlockGrid, Geometry, GeometryFinding, GeometryFindings, QuantityValue,
};
use flashfit_host::input_file::{DOCUMENT_BYTES, read_text};
use flashfit_twin::pattern::PatternRatio;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize, Serializer};

use crate::error::ProbeFileError;
use crate::quantities::WrongQuantity;

/// The name of the document.
pub(crate) const SCHEMA: &str = "flashfit.probe";
pub(crate) const SCHEMA_VERSION: u32 = 1;

/// How it was found out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, JsonSchema, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ProbeMode {
    /// By reading alone.
    Read,
    /// By writing, and reading.
    Write,
    /// From tables of another program.
    Import,
}

/// What the probe cost.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, JsonSchema, Serialize, Deserialize)]
pub struct ProbeCost {
    /// How many reads were asked for.
    pub reads: u64,
    /// How many bytes they asked for.
    pub read_bytes: u64,
    /// How many bytes were written.
    pub written_bytes: u64,
    /// How long it took, in nanoseconds of the probe's clock; of a simulated card, its time.
    pub elapsed_ns: u64,
}

/// The device that was probed, as far as it must be known again.
#[derive(Debug, Clone, PartialEq, Eq, JsonSchema, Serialize, Deserialize)]
pub struct ProbedDevice {
    /// What kind it is.
    pub kind: DeviceKind,
    /// Who it is.
    pub identity: DeviceIdentity,
    /// Its size, in bytes; of the partition where the target is one.
    pub capacity_bytes: u64,
    /// Its logical sector, in bytes.
    pub sector_bytes: u64,
    /// Where it starts on its disk, in bytes, where the target is a partition.
    pub partition_start_bytes: Option<u64>,
}

/// What to do next.
#[derive(Debug, Clone, Default, PartialEq, Eq, JsonSchema, Serialize, Deserialize)]
pub struct NextCommand {
    /// Where a partition should start, in bytes.
    pub partition_start_bytes: Option<u64>,
    /// The command that makes a file system, as the planner has it; with ssh for a board.
    pub mkfs: Option<String>,
    /// What to type.
    pub commands: Vec<String>,
    /// What a plan does where declared and probed values disagree, and the like. A sentence each.
    pub remarks: Vec<String>,
}

/// A card model that was fitted to what was measured.
#[derive(Debug, Clone, PartialEq, Eq, JsonSchema, Serialize, Deserialize)]
pub struct FittedTwin {
    #[serde(serialize_with = "lossy")]
    pub file: PathBuf,
    /// The bytes of that name where it is not UTF-8: `file` then has U+FFFD in it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub file_bytes: Option<Vec<u8>>,
    /// How many rates it was fitted to.
    pub rates: usize,
    /// Half of its rates are off by no more than this ratio, in thousandths: 1000 is not an error.
    pub median_error_thousandths: u64,
    /// Nine in ten are off by no more than this, in thousandths.
    pub ninth_decile_error_thousandths: u64,
    /// The same by the kind of writes.
    #[serde(default)]
    pub groups: Vec<CellGroup>,
    /// The writes that it reproduces.
    #[serde(default)]
    pub good_for: Vec<String>,
    /// The writes that it does not.
    #[serde(default)]
    pub not_for: Vec<String>,
    /// How long patterns of file systems take on the device and on the twin.
    #[serde(default)]
    pub patterns: Vec<PatternRatio>,
    /// Other kinds of layers that explain the measurements as well.
    #[serde(default)]
    pub alike: Vec<String>,
}

fn lossy<S: Serializer>(path: &Path, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(&path.to_string_lossy())
}

#[derive(Debug, Clone, PartialEq, JsonSchema, Serialize, Deserialize)]
pub struct ProbeDocument {
    pub schema: String,
    /// Counted up when a key changes its meaning.
    pub schema_version: u32,
    /// The version of flashfit.
    pub tool_version: String,
    /// When it was made, in seconds since 1970; absent for simulated cards, tables and documents of
    /// earlier versions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub created_unix_s: Option<u64>,
    /// The device as the user named it; the files where tables were read.
    pub target: String,
    /// How it was found out.
    pub mode: ProbeMode,
    /// Whether the device is a simulated card.
    pub simulated: bool,
    /// Whether it was ended before it was done.
    pub interrupted: bool,
    /// The seed of every random choice.
    pub seed: u64,
    /// The part of the device that was probed: start and length, in bytes; absent for tables.
    pub region: Option<[u64; 2]>,
    /// The device; absent for tables.
    #[serde(rename = "medium")]
    pub device: Option<ProbedDevice>,
    /// A verdict for each quantity.
    #[serde(flatten)]
    pub findings: GeometryFindings,
    /// What the device, the kernel or a card model says.
    pub declared: DeclaredFacts,
    pub cost: ProbeCost,
    pub errors: Vec<FailedRequest>,
    /// How it was measured, where that matters. A sentence each.
    pub notes: Vec<String>,
    /// What to do next.
    pub next: NextCommand,
    /// The twin, where one was asked for.
    pub twin: Option<FittedTwin>,
    pub evidence: ProbeEvidence,
}

/// What a probe was asked for.
#[derive(Debug, Clone)]
pub struct ProbeSettings {
    /// The device or the files, as named.
    pub target: String,
    pub mode: ProbeMode,
    /// Whether it is a simulated card.
    pub simulated: bool,
    pub seed: u64,
    /// Start and length, in bytes.
    pub region: Option<[u64; 2]>,
    pub device: Option<ProbedDevice>,
    /// What is declared of it.
    pub declared: DeclaredFacts,
    /// When it is made, in seconds since 1970.
    pub created_unix_s: Option<u64>,
}

impl ProbeDocument {
    /// The document of what was asked for and found.
    pub fn new(asked: ProbeSettings, probed: Probed, interrupted: bool) -> Self {
        Self {
            schema: SCHEMA.to_owned(),
            schema_version: SCHEMA_VERSION,
            tool_version: env!("CARGO_PKG_VERSION").to_owned(),
            created_unix_s: asked.created_unix_s,
            target: asked.target,
            mode: asked.mode,
            simulated: asked.simulated,
            interrupted,
            seed: asked.seed,
            region: asked.region,
            device: asked.device,
            declared: asked.declared,
            cost: ProbeCost {
                reads: probed.reads,
                read_bytes: probed.read_bytes,
                written_bytes: probed.written_bytes,
                elapsed_ns: probed.elapsed_ns,
            },
            findings: probed.findings,
            errors: probed.errors,
            notes: probed.notes,
            next: NextCommand::default(),
            twin: None,
            evidence: probed.evidence,
        }
    }

    pub fn text(&self) -> String {
        serde_json::to_string_pretty(self).expect("documents are plain data") + "\n"
    }

    /// Reads a document from a file.
    ///
    /// # Errors
    /// If it cannot be read, or is something else.
    pub fn read(path: &Path) -> Result<Self, ProbeFileError> {
        let text = read_text(path, DOCUMENT_BYTES)?;
        let path = path.to_owned();
        let found: Self = match serde_json::from_slice(text.as_bytes()) {
            Ok(found) => found,
            Err(error) => {
                return Err(match WrongQuantity::in_text(&text) {
                    Some(wrong) => ProbeFileError::Quantity { path, wrong },
                    None => ProbeFileError::Invalid { path, error },
                });
            }
        };
        if found.schema != SCHEMA || found.schema_version != SCHEMA_VERSION {
            let (schema, version) = (found.schema, found.schema_version);
            return Err(ProbeFileError::OtherSchema { path, schema, version });
        }
        match WrongQuantity::of(&found).or_else(|| WrongQuantity::absent(&text)) {
            Some(wrong) => Err(ProbeFileError::Quantity { path, wrong }),
            None => Ok(found),
        }
    }

    /// What was found of the geometry of the disk.
    pub fn geometry(&self) -> Geometry {
        self.on_disk(self.findings.geometry())
    }

    /// What was found of the geometry of the disk, or else is the likeliest.
    pub fn likeliest_geometry(&self) -> Geometry {
        self.on_disk(self.findings.likeliest_geometry())
    }

    /// Adds where the first whole erase block of the disk starts, if that was found. The finding
    /// counts from the start of the target, which can be a partition.
    fn on_disk(&self, sizes: Geometry) -> Geometry {
        let target = self.device.as_ref().and_then(|device| device.partition_start_bytes);
        let found = found_bytes(&self.findings.erase_block_offset);
        let start = found.and_then(|offset| offset.0.checked_add(target.unwrap_or(0)));
        let block = sizes.erase_block.as_ref().map(|known| known.bytes.0);
        let grid = start.zip(block).and_then(|(start, block)| EraseBlockGrid::new(block, start));
        Geometry { erase_block_offset: Bytes(grid.map_or(0, EraseBlockGrid::first_bytes)), ..sizes }
    }
}

/// The size of a quantity that was found.
pub fn found_bytes(finding: &GeometryFinding) -> Option<Bytes> {
    match finding.value {
        Some(QuantityValue::Bytes(bytes)) => Some(Bytes(bytes)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use flashfit_geometry::QuantitySource;
    use flashfit_user_error::{ExitClass, UserError};

    use super::*;

    fn document() -> ProbeDocument {
        let mut probed = Probed::default();
        probed.findings.erase_block =
            GeometryFinding::found(QuantityValue::Bytes(12 << 20), 0.99, "a step");
        probed.findings.open_erase_blocks_linear =
            GeometryFinding::found(QuantityValue::Count(5), 0.98, "a cliff");
        let asked = ProbeSettings {
            target: "card.img".into(),
            mode: ProbeMode::Write,
            simulated: false,
            seed: 7,
            region: Some([0, 1 << 30]),
            device: None,
            declared: DeclaredFacts::default(),
            created_unix_s: None,
        };
        ProbeDocument::new(asked, probed, false)
    }

    #[test]
    fn each_quantity_is_a_key_at_the_top() {
        let json: serde_json::Value = serde_json::from_str(&document().text()).unwrap();
        assert_eq!(json["schema"], SCHEMA);
        assert_eq!(json["erase_unit"]["verdict"], "found");
        assert_eq!(json["erase_unit"]["bytes"], 12 << 20);
        assert_eq!(json["open_units_linear"]["count"], 5);
        assert_eq!(json["page"]["verdict"], "not measured");
        assert_eq!(json["mode"], "write");
    }

    #[test]
    fn it_is_read_again_as_it_was() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("geometry.json");
        std::fs::write(&path, document().text()).unwrap();
        let read = ProbeDocument::read(&path).unwrap();
        assert_eq!(read, document());
        let erase_block = read.geometry().erase_block.unwrap();
        assert_eq!(
            (erase_block.bytes, erase_block.source),
            (Bytes::mib(12), QuantitySource::Probed)
        );
    }

    #[test]
    fn the_first_erase_block_counts_from_the_start_of_the_disk() {
        let first = |partition_start_bytes, offset| {
            let mut document = document();
            document.findings.erase_block =
                GeometryFinding::found(QuantityValue::Bytes(4 << 20), 0.99, "a step");
            document.findings.erase_block_offset =
                GeometryFinding::found(QuantityValue::Bytes(offset), 0.99, "merges");
            document.device = Some(ProbedDevice {
                kind: DeviceKind::SdCard,
                identity: DeviceIdentity::default(),
                capacity_bytes: 1 << 30,
                sector_bytes: 512,
                partition_start_bytes,
            });
            assert_eq!(document.geometry(), document.likeliest_geometry());
            document.geometry().erase_block_offset.0
        };
        assert_eq!(first(None, 3 << 20), 3 << 20);
        assert_eq!(first(None, 0), 0);
        assert_eq!(first(Some(1 << 20), 3 << 20), 0);
        assert_eq!(first(Some(1 << 20), 1 << 20), 2 << 20);
        assert_eq!(first(Some(u64::MAX), 1 << 20), 0);
    }

    #[test]
    fn another_document_is_refused_by_its_name() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("other.json");
        let read = |text: &str| {
            std::fs::write(&path, text).unwrap();
            ProbeDocument::read(&path).unwrap_err()
        };
        let other = document().text().replace("flashfit.probe", "flashfit.plan");
        assert!(read(&other).to_string().contains("`flashfit.plan`"));
        assert_eq!(read("{}").class(), ExitClass::Usage);
        assert_eq!(read("").class(), ExitClass::Usage);
    }
}
