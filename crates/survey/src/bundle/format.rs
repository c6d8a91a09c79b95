//! The document of a bundle. Texts that are unknown or do not apply are empty.

use std::fmt::Write;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::record::{MeasuredSetup, SurveyMeasure};

#[derive(Debug, Clone, PartialEq, JsonSchema, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SurveyBundle {
    pub schema: String,
    pub schema_version: u32,
    /// The version of flashfit.
    pub tool_version: String,
    /// A pseudonym of the survey: 64 hexadecimal digits, the same in all its bundles.
    pub survey: String,
    /// Setups of figures, which refer to them by index.
    pub setups: Vec<BundleSetup>,
    /// What was measured; figures refer to it by index.
    pub measures: Vec<BundleMeasure>,
    pub cards: Vec<BundleCard>,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, JsonSchema, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BundleSetup {
    pub filesystem: String,
    /// Joined with `+`.
    pub options: String,
    pub scheduler: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, JsonSchema, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BundleMeasure {
    pub metric: String,
    pub unit: String,
    pub workload: String,
    pub point: String,
    pub stage: String,
    /// `read`, `write` or empty.
    pub direction: String,
    /// `short` for a trial that was cut short on purpose.
    pub length: String,
}

/// A card, or all cards of a product that cannot be distinguished.
#[derive(Debug, Clone, PartialEq, JsonSchema, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BundleCard {
    /// A pseudonym: 64 hexadecimal digits, the same in all bundles of the survey.
    pub card: String,
    pub kind: String,
    pub manufacturer: String,
    pub oem: String,
    pub product: String,
    pub revision: String,
    /// Year and month.
    pub manufactured: String,
    pub capacity_bytes: Option<u64>,
    /// False for cards that cannot be distinguished.
    pub individual: bool,
    pub simulated: bool,
    /// What its owner calls it; only if asked for.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub name: String,
    pub sources: Vec<BundleSource>,
}

/// A run, a probe or another document.
#[derive(Debug, Clone, PartialEq, JsonSchema, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BundleSource {
    /// A pseudonym: 64 hexadecimal digits, the same in all bundles of the survey.
    pub source: String,
    /// Another one, the same for all states of a run that was continued.
    pub run: String,
    /// `run`, `probe`, `wear-reading`, `wear-measurement` or `power-cuts`.
    pub kind: String,
    /// The beginning of the day (UTC), in seconds since 1970.
    pub day_unix_s: Option<u64>,
    pub tool_version: String,
    pub kernel: String,
    pub machine: String,
    pub processors: Option<u64>,
    /// The kind of test bed.
    pub test_bed: String,
    pub firmware: String,
    pub conditions: String,
    /// What a probe found.
    pub erase_block_bytes: Option<u64>,
    pub write_unit_bytes: Option<u64>,
    pub real_capacity_bytes: Option<u64>,
    pub figures: Vec<BundleFigure>,
}

#[derive(Debug, Clone, Copy, PartialEq, JsonSchema, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BundleFigure {
    /// An index of `setups`.
    pub setup: usize,
    /// An index of `measures`.
    pub measure: usize,
    pub value: f64,
    /// 95 % interval.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub low: Option<f64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub high: Option<f64>,
    /// Repeats.
    pub count: u32,
    /// Probability of an inferred value.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub confidence: Option<f64>,
}

impl From<&BundleSetup> for MeasuredSetup {
    fn from(of: &BundleSetup) -> Self {
        Self {
            filesystem: of.filesystem.clone(),
            options: of.options.clone(),
            scheduler: of.scheduler.clone(),
        }
    }
}

impl From<&BundleMeasure> for SurveyMeasure {
    fn from(of: &BundleMeasure) -> Self {
        Self {
            metric: of.metric.clone(),
            unit: of.unit.clone(),
            workload: of.workload.clone(),
            point: of.point.clone(),
            stage: of.stage.clone(),
            direction: of.direction.clone(),
            length: of.length.clone(),
        }
    }
}

impl SurveyBundle {
    /// The document as text, with a line for each setup, measure and source, so that it can be
    /// read before it is sent.
    pub fn text(&self) -> String {
        let mut text = String::from("{\n");
        let plain = |value: &str| json(&value);
        let head = [
            ("schema", plain(&self.schema)),
            ("schema_version", self.schema_version.to_string()),
            ("tool_version", plain(&self.tool_version)),
            ("survey", plain(&self.survey)),
        ];
        for (key, value) in head {
            let _ = writeln!(text, "  \"{key}\": {value},");
        }
        lines(&mut text, "  ", "setups", &self.setups);
        text.push_str(",\n");
        lines(&mut text, "  ", "measures", &self.measures);
        text.push_str(",\n  \"cards\": [");
        for (index, card) in self.cards.iter().enumerate() {
            text.push_str(if index == 0 { "\n" } else { ",\n" });
            let head = json(&card.without_sources());
            // Its sources come last.
            let head = head.strip_suffix("\"sources\":[]}").expect("the order of the keys");
            let _ = writeln!(text, "    {head}");
            lines(&mut text, "      ", "sources", &card.sources);
            text.push('}');
        }
        text.push_str("\n  ]\n}\n");
        text
    }
}

impl BundleCard {
    fn without_sources(&self) -> Self {
        Self {
            card: self.card.clone(),
            kind: self.kind.clone(),
            manufacturer: self.manufacturer.clone(),
            oem: self.oem.clone(),
            product: self.product.clone(),
            revision: self.revision.clone(),
            manufactured: self.manufactured.clone(),
            capacity_bytes: self.capacity_bytes,
            individual: self.individual,
            simulated: self.simulated,
            name: self.name.clone(),
            sources: Vec::new(),
        }
    }
}

fn json<T: Serialize>(value: &T) -> String {
    serde_json::to_string(value).expect("plain data")
}

/// A list with a line for each item.
fn lines<T: Serialize>(text: &mut String, indent: &str, name: &str, items: &[T]) {
    let _ = write!(text, "{indent}\"{name}\": [");
    for (index, item) in items.iter().enumerate() {
        text.push_str(if index == 0 { "\n" } else { ",\n" });
        let _ = write!(text, "{indent}  {}", json(item));
    }
    let _ = write!(text, "\n{indent}]");
}
