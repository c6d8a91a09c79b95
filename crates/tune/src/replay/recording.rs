//! Recorded runs as input of a replay.
//!
//! Only `schema` and `schema_version` of `run.json` are required. Runs are only mixed if everything
//! that both record about device, test bed and measurement is the same. Limit: devices without an
//! identity are only distinguished by size and the other properties.

use std::collections::BTreeMap;
use std::ops::Range;
use std::path::{Path, PathBuf};

use flashfit_catalog::CatalogEntryError;
use flashfit_device::Bytes;
use flashfit_filesystem::{Durability, Scheduler, Setup};
use flashfit_user_error::{ExitClass, Hint, UserError};
use serde::Deserialize;
use serde_json::Value;

use flashfit_run_format::RunLife;

use crate::choice::Criterion;
use crate::driver;
use crate::objective::{NoFigures, Objective};
use crate::problem::ProblemError;
use crate::record::{TrialDevice, TrialRecord};
use crate::run_dir::{self, RunDirError};
use crate::spec::CatalogUsed;
use crate::spread::DeviceEffects;

#[derive(Debug, thiserror::Error)]
pub enum ReplayError {
    #[error(transparent)]
    Dir(#[from] RunDirError),
    /// Two runs differ in device, test bed or measurement.
    #[error(
        "cannot mix {} and {}: they differ in {what} ({one} and {other})",
        first.display(),
        second.display()
    )]
    Differ { first: PathBuf, second: PathBuf, what: &'static str, one: String, other: String },
    /// One of several runs used several devices.
    #[error("cannot mix {} with other runs: it used several devices", path.display())]
    SeveralMedia { path: PathBuf },
    /// There are no trials.
    #[error("{} contains no trials", path.display())]
    NoTrials {
        /// The run, or the first of them.
        path: PathBuf,
    },
    /// A requested workload was not recorded.
    #[error("no trial was recorded under the workload `{name}`")]
    NoWorkload { name: String, known: Vec<String> },
    /// No setup was recorded under all workloads.
    #[error("no setup was recorded under all of {}", workloads.join(", "))]
    NoCompleteSetup { workloads: Vec<String> },
    /// No recorded setup is among those to choose from.
    #[error("no recorded setup has the file systems, options and schedulers that are asked for")]
    NothingWanted,
    /// The baseline was not recorded.
    #[error("the baseline was not recorded, so there is nothing to compare with")]
    NoBaseline { wanted: String },
    /// No trial has the figure that is asked for.
    #[error(transparent)]
    NoFigures(#[from] NoFigures),
    #[error(transparent)]
    Problem(#[from] ProblemError),
    /// The search cannot start.
    #[error("{}", driver::describe_search_error(.0))]
    Search(#[from] flashfit_search::SearchError),
    /// Every recorded setup has failed.
    #[error("every recorded trial failed: the last error was: {last}")]
    AllFailed { last: String },
    /// The search took only what the runs do not have.
    #[error("all trials of this search are of setups, workloads or lengths without a record")]
    NothingDrawn,
    #[error("{} and {} are the same run", first.display(), second.display())]
    SameRun { first: PathBuf, second: PathBuf },
}

impl UserError for ReplayError {
    fn class(&self) -> ExitClass {
        match self {
            Self::Dir(error) => error.class(),
            Self::Problem(error) => error.class(),
            Self::AllFailed { .. } => ExitClass::BadVerdict,
            _ => ExitClass::Usage,
        }
    }

    fn hint(&self) -> Option<Hint> {
        match self {
            Self::Dir(error) => error.hint(),
            Self::Problem(error) => error.hint(),
            Self::Differ { .. } | Self::SeveralMedia { .. } => {
                Some("replay them one at a time".into())
            }
            Self::NoTrials { .. } => {
                Some("see docs/run-format.md for the format of trials.jsonl".into())
            }
            Self::NoWorkload { known, .. } => {
                Some(format!("recorded workloads: {}", known.join(", ")).into())
            }
            Self::NothingWanted => Some("name fewer of them: without any, all are tried".into()),
            Self::NoBaseline { wanted } => Some(format!("record {wanted} too").into()),
            Self::NoCompleteSetup { .. }
            | Self::NoFigures(_)
            | Self::Search(_)
            | Self::AllFailed { .. }
            | Self::NothingDrawn => None,
            Self::SameRun { .. } => Some("name each run once".into()),
        }
    }
}

/// The parts of `run.json` that are used, all optional.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
struct Header {
    spec: SpecPart,
    facts: FactsPart,
    catalog: Option<CatalogUsed>,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
struct SpecPart {
    filesystems: Vec<String>,
    workloads: Vec<String>,
    profile: Option<Value>,
    data_size: Option<Value>,
    memory: Option<Value>,
    runtime_ms: Option<Value>,
    start: Option<Value>,
    table: Option<Value>,
    second: Option<Value>,
    state: Option<Value>,
    by: Option<Criterion>,
    allow: Option<Durability>,
    p99_write_max_ns: Option<u64>,
    target: Option<String>,
    life: Option<RunLife>,
    weights_thousandths: BTreeMap<String, u32>,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
struct FactsPart {
    stand: Option<Value>,
    kernel: Option<Value>,
    machine: Option<Value>,
    default_scheduler: Option<Scheduler>,
    #[serde(rename = "medium")]
    device: DevicePart,
    card: Option<CardPart>,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
struct DevicePart {
    capacity: Option<Value>,
    identity: IdentityPart,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
struct IdentityPart {
    model: Option<Value>,
    serial: Option<Value>,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
struct CardPart {
    name: Option<Value>,
    model: Option<Value>,
}

/// One or several runs of one device.
#[derive(Debug, Clone)]
pub struct Recording {
    /// Trials by run, in time order.
    pub trials: Vec<TrialRecord>,
    /// Workloads; those listed in a run come first.
    pub workloads: Vec<String>,
    /// File systems in the order of the runs; the first is the baseline's.
    pub filesystems: Vec<String>,
    /// The default scheduler, if recorded.
    pub default_scheduler: Option<Scheduler>,
    /// Whether a run used a simulated card.
    pub simulated: bool,
    /// The objective of the first run.
    pub judge: Objective,
    /// The safety that the first run allowed, if recorded.
    pub allow: Option<Durability>,
    /// The device of the first run as the user named it, if recorded.
    pub target: Option<String>,
    /// The size of that device, if recorded.
    pub capacity: Option<Bytes>,
    /// How long setups last by the first run, if it had a usage model.
    pub life: Option<RunLife>,
    /// Workload weights of the first run other than 1, in thousandths.
    pub weights_thousandths: BTreeMap<String, u32>,
    /// The devices of a run with several; its trials are converted to the first.
    pub devices: Vec<TrialDevice>,
    pub paths: Vec<PathBuf>,
    /// What runs used, as far as they say.
    pub catalogs: Vec<RecordedCatalog>,
}

/// The catalog that a run used, and for what.
#[derive(Debug, Clone)]
pub struct RecordedCatalog {
    pub path: PathBuf,
    pub filesystems: Vec<String>,
    pub workloads: Vec<String>,
    pub used: CatalogUsed,
}

impl Recording {
    /// Reads runs.
    ///
    /// # Errors
    /// See [`ReplayError`].
    pub fn read(paths: &[PathBuf]) -> Result<Self, ReplayError> {
        let mut recording = Self {
            trials: Vec::new(),
            workloads: Vec::new(),
            filesystems: Vec::new(),
            default_scheduler: None,
            simulated: false,
            judge: Objective { by: Criterion::Throughput, p99_write_max_ns: None },
            allow: None,
            target: None,
            capacity: None,
            life: None,
            weights_thousandths: BTreeMap::new(),
            devices: Vec::new(),
            paths: paths.to_vec(),
            catalogs: Vec::new(),
        };
        let mut headers: Vec<(&Path, Header, Range<usize>)> = Vec::new();
        for path in paths {
            let (header, trials): (Header, Vec<TrialRecord>) = run_dir::read_any(path)?;
            let levels = DeviceEffects::of(&trials);
            if levels.are_several() && paths.len() > 1 {
                return Err(ReplayError::SeveralMedia { path: path.clone() });
            }
            recording.devices = levels.devices().to_vec();
            // A long record fits into memory once, not twice.
            let trials = if levels.are_several() { levels.applied_to_all(&trials) } else { trials };
            for (earlier_path, earlier, its_trials) in &headers {
                // The same trials would count as independent ones. One may have been continued.
                if is_continued(&recording.trials[its_trials.clone()], &trials) {
                    let (first, second) = ((*earlier_path).to_owned(), path.clone());
                    return Err(ReplayError::SameRun { first, second });
                }
                same(earlier_path, earlier, path, &header)?;
            }
            if headers.is_empty() {
                let spec = &header.spec;
                recording.judge.by = spec.by.unwrap_or(Criterion::Throughput);
                recording.judge.p99_write_max_ns = spec.p99_write_max_ns;
                recording.allow = spec.allow;
                recording.target = spec.target.clone();
                let capacity = header.facts.device.capacity.as_ref();
                recording.capacity = capacity.and_then(Value::as_u64).map(Bytes);
                recording.life = spec.life.clone();
                recording.weights_thousandths = spec.weights_thousandths.clone();
            }
            recording.simulated |= header.facts.card.is_some();
            let scheduler = header.facts.default_scheduler.clone();
            recording.default_scheduler = recording.default_scheduler.or(scheduler);
            recording.filesystems.extend(header.spec.filesystems.iter().cloned());
            recording.workloads.extend(header.spec.workloads.iter().cloned());
            let begin = recording.trials.len();
            recording.trials.extend(trials);
            recording.catalogs.extend(header.catalog.clone().map(|used| RecordedCatalog {
                path: path.clone(),
                filesystems: header.spec.filesystems.clone(),
                workloads: header.spec.workloads.clone(),
                used,
            }));
            headers.push((path, header, begin..recording.trials.len()));
        }
        if recording.trials.is_empty() {
            let path = paths.first().cloned().unwrap_or_default();
            return Err(ReplayError::NoTrials { path });
        }
        for trial in &recording.trials {
            recording.filesystems.push(trial.key.setup.filesystem.clone());
            recording.workloads.push(trial.key.workload.clone());
        }
        recording.filesystems = once(recording.filesystems);
        recording.workloads = once(recording.workloads);
        // A run may list workloads without any trials yet.
        let trials = &recording.trials;
        recording.workloads.retain(|name| trials.iter().any(|trial| trial.key.workload == *name));
        Ok(recording)
    }

    /// The runs that used other definitions of their file systems and workloads than a catalog has.
    /// Runs of earlier versions do not say what they used.
    ///
    /// # Errors
    /// When a file of the user's catalog cannot be read.
    pub fn with_other_catalog(
        &self,
        user_dir: Option<&Path>,
    ) -> Result<Vec<&Path>, CatalogEntryError> {
        let mut others = Vec::new();
        for run in &self.catalogs {
            let now = CatalogUsed::of_names(&run.filesystems, &run.workloads, user_dir)?;
            if now.sha256 != run.used.sha256 {
                others.push(run.path.as_path());
            }
        }
        Ok(others)
    }

    /// Every setup with a trial, in time order.
    pub fn setups(&self) -> Vec<Setup> {
        let mut seen = std::collections::BTreeSet::new();
        let setups = self.trials.iter().map(|trial| &trial.key.setup);
        setups.filter(|setup| seen.insert((*setup).clone())).cloned().collect()
    }

    /// The baseline: the first file system recorded without options, under the default scheduler if
    /// that is known and recorded.
    ///
    /// # Errors
    /// [`ReplayError::NoBaseline`].
    pub fn baseline(&self) -> Result<Setup, ReplayError> {
        let setups = self.setups();
        let scheduler = self.default_scheduler.as_ref();
        if let Some(found) = baseline_of(&setups, &self.filesystems, scheduler) {
            return Ok(found.clone());
        }
        let first = self.filesystems.first().map_or("the file system", String::as_str);
        Err(ReplayError::NoBaseline { wanted: format!("{first} without options") })
    }
}

/// The first of these file systems that was recorded without options, under the default scheduler
/// if that is known and recorded.
pub(crate) fn baseline_of<'a>(
    setups: &'a [Setup],
    filesystems: &[String],
    default_scheduler: Option<&Scheduler>,
) -> Option<&'a Setup> {
    filesystems.iter().find_map(|filesystem| {
        let mut bare = setups
            .iter()
            .filter(|setup| setup.options.is_empty() && setup.filesystem == *filesystem);
        let by_kernel = bare.clone().find(|setup| default_scheduler == Some(&setup.scheduler));
        by_kernel.or_else(|| bare.next())
    })
}

fn once(names: Vec<String>) -> Vec<String> {
    let mut seen = std::collections::BTreeSet::new();
    names.into_iter().filter(|name| seen.insert(name.clone())).collect()
}

/// Whether one of two runs begins with all trials of the other, or both are the same.
fn is_continued(one: &[TrialRecord], other: &[TrialRecord]) -> bool {
    let text = |trial: &TrialRecord| serde_json::to_string(trial).ok();
    let mut pairs = one.iter().zip(other);
    pairs.len() > 0 && pairs.all(|(one, other)| text(one) == text(other))
}

/// Checks that two runs agree in device, test bed and measurement, as far as both record them.
fn same(first: &Path, a: &Header, second: &Path, b: &Header) -> Result<(), ReplayError> {
    let card = |header: &Header| header.facts.card.clone().unwrap_or_default();
    let (a_card, b_card) = (card(a), card(b));
    let identity = |header: &Header| header.facts.device.identity.clone();
    let (a_identity, b_identity) = (identity(a), identity(b));
    let state = |header: &Header| header.spec.state.clone();
    // Without one, it is known that there is none.
    let behind = |header: &Header| header.spec.second.clone().or_else(|| Some("none".into()));
    let pairs = [
        ("the card", a_card.name, b_card.name),
        ("the card's model", a_card.model, b_card.model),
        ("the device size", a.facts.device.capacity.clone(), b.facts.device.capacity.clone()),
        ("the device", a_identity.model, b_identity.model),
        ("the device serial number", a_identity.serial, b_identity.serial),
        ("the test bed", a.facts.stand.clone(), b.facts.stand.clone()),
        ("the machine", a.facts.machine.clone(), b.facts.machine.clone()),
        ("the kernel", a.facts.kernel.clone(), b.facts.kernel.clone()),
        ("the profile", a.spec.profile.clone(), b.spec.profile.clone()),
        ("the data size", a.spec.data_size.clone(), b.spec.data_size.clone()),
        ("the memory", a.spec.memory.clone(), b.spec.memory.clone()),
        ("the runtime", a.spec.runtime_ms.clone(), b.spec.runtime_ms.clone()),
        ("where the file system starts", a.spec.start.clone(), b.spec.start.clone()),
        ("the partition table", a.spec.table.clone(), b.spec.table.clone()),
        ("the second partition", behind(a), behind(b)),
        ("the state of the file system", state(a), state(b)),
    ];
    for (what, one, other) in pairs {
        if let (Some(one), Some(other)) = (one, other) {
            if one != other {
                let short = |value: &Value| {
                    let text = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
                    if text.len() > 60 { "described at length".to_owned() } else { text }
                };
                return Err(ReplayError::Differ {
                    first: first.to_owned(),
                    second: second.to_owned(),
                    what,
                    one: short(&one),
                    other: short(&other),
                });
            }
        }
    }
    // One used a simulated card, the other a device.
    if a.facts.card.is_some() != b.facts.card.is_some() {
        let kind = |header: &Header| match header.facts.card {
            Some(_) => "simulated".to_owned(),
            None => "not simulated".to_owned(),
        };
        return Err(ReplayError::Differ {
            first: first.to_owned(),
            second: second.to_owned(),
            what: "the kind of device",
            one: kind(a),
            other: kind(b),
        });
    }
    Ok(())
}
