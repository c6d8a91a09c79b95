//! What is kept of a measured thing: where it was measured, on which card, and the results.

use std::borrow::Cow;

use crate::identity::CardIdentity;

/// The longest text that is kept in a field, in bytes; longer ones are cut.
pub const MOST_TEXT_BYTES: usize = 256;
/// The most results that are kept of one source.
pub const MOST_RESULTS: usize = 100_000;

/// No device of the next decades is larger, in bytes.
pub(crate) const MOST_BYTES: u64 = 1 << 60;
/// The end of the year 9999, in seconds since 1970.
pub(crate) const LAST_SECOND: u64 = 253_402_300_799;
pub(crate) const MOST_PROCESSORS: u64 = 1 << 20;

/// What was added.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum SourceKind {
    /// A run directory.
    Run,
    /// The document of a probe.
    Probe,
    /// What the counters of a device reported at one time.
    WearReading,
    /// What a command cost a device, by its counters.
    WearMeasurement,
    /// A campaign of power cuts.
    PowerCuts,
}

impl SourceKind {
    pub const ALL: [Self; 5] =
        [Self::Run, Self::Probe, Self::WearReading, Self::WearMeasurement, Self::PowerCuts];

    /// As it is stored and shown.
    pub fn name(self) -> &'static str {
        match self {
            Self::Run => "run",
            Self::Probe => "probe",
            Self::WearReading => "wear-reading",
            Self::WearMeasurement => "wear-measurement",
            Self::PowerCuts => "power-cuts",
        }
    }

    pub fn of_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.name() == name)
    }
}

/// Where and how it was measured. Empty texts are unknown.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SourceFacts {
    pub created_unix_s: Option<u64>,
    pub tool_version: String,
    pub kernel: String,
    pub machine: String,
    pub processors: Option<u64>,
    /// The kind of test bed.
    pub test_bed: String,
    /// Firmware of the device at that time.
    pub firmware: String,
    /// What decides whether figures mean the same: amount of data, memory, times, starting state.
    pub conditions: String,
}

/// What a probe found, in bytes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ProbedConstruction {
    pub erase_block: Option<u64>,
    pub write_unit: Option<u64>,
    /// What the device keeps of what is written to it.
    pub capacity: Option<u64>,
}

/// A file system with its options and scheduler; empty where none was used.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct MeasuredSetup {
    pub filesystem: String,
    /// Joined with `+`.
    pub options: String,
    pub scheduler: String,
}

/// What was measured, apart from the setup. Empty texts do not apply.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SurveyMeasure {
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

/// A figure with its number of repeats and its 95 % interval.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct SurveyValue {
    pub value: f64,
    pub low: Option<f64>,
    pub high: Option<f64>,
    /// Repeats.
    pub count: u32,
    /// Probability of an inferred value.
    pub confidence: Option<f64>,
}

#[derive(Debug, Clone, PartialEq)]
pub struct SurveyResult {
    pub setup: MeasuredSetup,
    pub measure: SurveyMeasure,
    pub value: SurveyValue,
}

/// A run, a probe or another document, as it is kept.
#[derive(Debug, Clone, PartialEq)]
pub struct SurveySource {
    /// SHA-256 of the content, in hexadecimal.
    pub address: String,
    /// The same for all states of a run that continues: only the latest is kept.
    pub origin: String,
    /// Its origin in surveys of earlier versions, if it was another one.
    pub former_origin: Option<String>,
    /// Grows while a run continues.
    pub rank: u64,
    pub kind: SourceKind,
    pub is_simulated: bool,
    pub card: CardIdentity,
    pub facts: SourceFacts,
    pub construction: ProbedConstruction,
    /// No two have the same setup and measure.
    pub results: Vec<SurveyResult>,
    /// What was left out and why, for the user.
    pub notes: Vec<String>,
}

impl SurveySource {
    /// The same without numbers that no device or machine has: they are unknown.
    pub(crate) fn within_limits(&self) -> Cow<'_, Self> {
        let facts = &self.facts;
        let (card, found) = (self.card.capacity, self.construction);
        let capacity = up_to(card, MOST_BYTES);
        let created_unix_s = up_to(facts.created_unix_s, LAST_SECOND);
        let processors = up_to(facts.processors, MOST_PROCESSORS);
        let construction = ProbedConstruction {
            erase_block: up_to(found.erase_block, MOST_BYTES),
            write_unit: up_to(found.write_unit, MOST_BYTES),
            capacity: up_to(found.capacity, MOST_BYTES),
        };
        let is_same = (capacity, construction) == (card, found)
            && (created_unix_s, processors) == (facts.created_unix_s, facts.processors);
        if is_same {
            return Cow::Borrowed(self);
        }
        let mut limited = self.clone();
        limited.card.capacity = capacity;
        limited.facts.created_unix_s = created_unix_s;
        limited.facts.processors = processors;
        limited.construction = construction;
        Cow::Owned(limited)
    }
}

/// The number, unless it is larger than `most`.
pub(crate) fn up_to(number: Option<u64>, most: u64) -> Option<u64> {
    number.filter(|number| *number <= most)
}

/// The kind of a test bed, without the host or the tags that may follow it.
pub fn test_bed_kind(test_bed: &str) -> &str {
    test_bed.split(':').next().unwrap_or_default()
}

/// A text of at most [`MOST_TEXT_BYTES`], without control characters and spaces at its ends.
pub fn stored_text(text: &str) -> String {
    let clean: String = text.chars().filter(|letter| !letter.is_control()).collect();
    let mut kept = String::new();
    for letter in clean.trim().chars() {
        if kept.len() + letter.len_utf8() > MOST_TEXT_BYTES {
            break;
        }
        kept.push(letter);
    }
    kept
}
