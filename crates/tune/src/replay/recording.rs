//! Recorded runs as a search needs them: the trials, and what tells one device from another.
//!
//! Of `run.json` only `schema` and `schema_version` are needed; what is missing is not compared.
//! Runs are mixed only where everything that both of them tell of device, stand and measuring is
//! the same. Limit: devices without an identity cannot be told apart by it; their size and the rest
//! must do.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use flashfit_catalog::CatalogEntryError;
use flashfit_filesystem::{Durability, Scheduler, Setup};
use flashfit_user_error::{ExitClass, UserError};
use serde::Deserialize;
use serde_json::Value;

use crate::choice::Criterion;
use crate::driver;
use crate::objective::{NoFigure, Objective};
use crate::problem::ProblemError;
use crate::record::{TrialDevice, TrialRecord};
use crate::run_dir::{self, RunDirError};
use crate::spec::CatalogUsed;
use crate::spread::DeviceEffects;

/// Why a replay is not possible.
#[derive(Debug, thiserror::Error)]
pub enum ReplayError {
    /// A run cannot be read.
    #[error(transparent)]
    Dir(#[from] RunDirError),
    /// Two runs are not of the same device, stand or way of measuring.
    #[error(
        "{} and {} cannot be mixed: they differ in {what} ({one} and {other})",
        first.display(),
        second.display()
    )]
    Differ {
        /// A run.
        first: PathBuf,
        /// Another.
        second: PathBuf,
        /// In what.
        what: &'static str,
        /// What the first has.
        one: String,
        /// What the second has.
        other: String,
    },
    /// A run of several devices among others.
    #[error("{} was spread over several media, and is not mixed with other runs", path.display())]
    SeveralMedia {
        /// The run.
        path: PathBuf,
    },
    /// There are no trials.
    #[error("{} holds no trial", path.display())]
    NoTrials {
        /// The run, or the first of them.
        path: PathBuf,
    },
    /// A workload that was asked for was not recorded.
    #[error("no trial was recorded under the workload `{name}`")]
    NoWorkload {
        /// The workload.
        name: String,
        /// Those that were.
        known: Vec<String>,
    },
    /// No setup was recorded under all workloads.
    #[error("no setup was recorded under all of {}", workloads.join(", "))]
    NoCompleteSetup {
        /// The workloads.
        workloads: Vec<String>,
    },
    /// The baseline was not recorded.
    #[error("the untuned setup was not recorded, and nothing can be compared with it")]
    NoReference {
        /// What was looked for.
        wanted: String,
    },
    /// A trial does not tell what is asked for.
    #[error(transparent)]
    NoFigure(#[from] NoFigure),
    /// There is nothing to search.
    #[error(transparent)]
    Problem(#[from] ProblemError),
    /// The search cannot begin.
    #[error("{}", driver::in_words(.0))]
    Search(#[from] flashfit_search::SearchError),
    /// Every recorded setup has failed.
    #[error("every recorded trial failed; the last said: {last}")]
    AllFailed {
        /// What it said.
        last: String,
    },
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

    fn hint(&self) -> Option<String> {
        match self {
            Self::Dir(error) => error.hint(),
            Self::Problem(error) => error.hint(),
            Self::Differ { .. } | Self::SeveralMedia { .. } => {
                Some("replay them one at a time".to_owned())
            }
            Self::NoTrials { .. } => {
                Some("docs/run-format.md tells what trials.jsonl must hold".to_owned())
            }
            Self::NoWorkload { known, .. } => Some(format!("recorded were {}", known.join(", "))),
            Self::NoReference { wanted } => Some(format!("record {wanted} as well")),
            Self::NoCompleteSetup { .. }
            | Self::NoFigure(_)
            | Self::Search(_)
            | Self::AllFailed { .. } => None,
        }
    }
}

/// What of `run.json` is looked at; none of it is needed.
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
    state: Option<Value>,
    by: Option<Criterion>,
    allow: Option<Durability>,
    p99_write_max_ns: Option<u64>,
    weights_thousandths: BTreeMap<String, u32>,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
struct FactsPart {
    stand: Option<Value>,
    kernel: Option<Value>,
    machine: Option<Value>,
    default_scheduler: Option<Scheduler>,
    medium: MediumPart,
    card: Option<CardPart>,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
struct MediumPart {
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
    /// The trials, run by run in the order in which they were made.
    pub trials: Vec<TrialRecord>,
    /// The workloads, those that a run names first.
    pub workloads: Vec<String>,
    /// The file systems in the order of the runs; the first is the one to compare with.
    pub filesystems: Vec<String>,
    /// The scheduler that the kernel had chosen, where that is told.
    pub default_scheduler: Option<Scheduler>,
    /// Whether a run says that its device was a simulated card.
    pub simulated: bool,
    /// By what the first run was judged.
    pub judge: Objective,
    /// What the first run allowed, where it says so.
    pub allow: Option<Durability>,
    /// How much workloads counted in the first run that did not count once, in thousandths.
    pub weights_thousandths: BTreeMap<String, u32>,
    /// The devices of a run that was spread over several; its trials are told as on the first.
    pub media: Vec<TrialDevice>,
    /// The runs.
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
    /// As [`ReplayError`] tells.
    pub fn read(paths: &[PathBuf]) -> Result<Self, ReplayError> {
        let mut recording = Self {
            trials: Vec::new(),
            workloads: Vec::new(),
            filesystems: Vec::new(),
            default_scheduler: None,
            simulated: false,
            judge: Objective { by: Criterion::Throughput, p99_write_max_ns: None },
            allow: None,
            weights_thousandths: BTreeMap::new(),
            media: Vec::new(),
            paths: paths.to_vec(),
            catalogs: Vec::new(),
        };
        let mut headers: Vec<(&Path, Header)> = Vec::new();
        for path in paths {
            let (header, trials): (Header, Vec<TrialRecord>) = run_dir::read_any(path)?;
            let levels = DeviceEffects::of(&trials);
            if levels.are_several() && paths.len() > 1 {
                return Err(ReplayError::SeveralMedia { path: path.clone() });
            }
            recording.media = levels.media().to_vec();
            let trials = levels.applied_to_all(&trials);
            for (earlier_path, earlier) in &headers {
                same(earlier_path, earlier, path, &header)?;
            }
            if headers.is_empty() {
                let spec = &header.spec;
                recording.judge.by = spec.by.unwrap_or(Criterion::Throughput);
                recording.judge.p99_write_max_ns = spec.p99_write_max_ns;
                recording.allow = spec.allow;
                recording.weights_thousandths = spec.weights_thousandths.clone();
            }
            recording.simulated |= header.facts.card.is_some();
            let scheduler = header.facts.default_scheduler.clone();
            recording.default_scheduler = recording.default_scheduler.or(scheduler);
            recording.filesystems.extend(header.spec.filesystems.iter().cloned());
            recording.workloads.extend(header.spec.workloads.iter().cloned());
            recording.trials.extend(trials);
            recording.catalogs.extend(header.catalog.clone().map(|used| RecordedCatalog {
                path: path.clone(),
                filesystems: header.spec.filesystems.clone(),
                workloads: header.spec.workloads.clone(),
                used,
            }));
            headers.push((path, header));
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
        // A run may name workloads under which it made no trial yet.
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

    /// Every setup that has a trial, in the order of time.
    pub fn setups(&self) -> Vec<Setup> {
        let mut seen = std::collections::BTreeSet::new();
        let setups = self.trials.iter().map(|trial| &trial.key.setup);
        setups.filter(|setup| seen.insert((*setup).clone())).cloned().collect()
    }

    /// The setup to compare with: no options, of the first file system that was recorded so, under
    /// the kernel's scheduler where that is known and recorded.
    ///
    /// # Errors
    /// [`ReplayError::NoReference`].
    pub fn reference(&self) -> Result<Setup, ReplayError> {
        let bare: Vec<Setup> =
            self.setups().into_iter().filter(|setup| setup.options.is_empty()).collect();
        for filesystem in &self.filesystems {
            let mut of_it = bare.iter().filter(|setup| setup.filesystem == *filesystem);
            let by_kernel = of_it
                .clone()
                .find(|setup| self.default_scheduler.as_ref() == Some(&setup.scheduler));
            if let Some(found) = by_kernel.or_else(|| of_it.next()) {
                return Ok(found.clone());
            }
        }
        let first = self.filesystems.first().map_or("the file system", String::as_str);
        Err(ReplayError::NoReference { wanted: format!("{first} without options") })
    }
}

fn once(names: Vec<String>) -> Vec<String> {
    let mut seen = std::collections::BTreeSet::new();
    names.into_iter().filter(|name| seen.insert(name.clone())).collect()
}

/// Whether two runs are of the same device, stand and way of measuring, as far as both tell.
fn same(first: &Path, a: &Header, second: &Path, b: &Header) -> Result<(), ReplayError> {
    let card = |header: &Header| header.facts.card.clone().unwrap_or_default();
    let (a_card, b_card) = (card(a), card(b));
    let identity = |header: &Header| header.facts.medium.identity.clone();
    let (a_identity, b_identity) = (identity(a), identity(b));
    let state = |header: &Header| header.spec.state.clone();
    let pairs = [
        ("the card", a_card.name, b_card.name),
        ("the card's model", a_card.model, b_card.model),
        ("the medium's size", a.facts.medium.capacity.clone(), b.facts.medium.capacity.clone()),
        ("the medium", a_identity.model, b_identity.model),
        ("the medium's serial number", a_identity.serial, b_identity.serial),
        ("the stand", a.facts.stand.clone(), b.facts.stand.clone()),
        ("the machine", a.facts.machine.clone(), b.facts.machine.clone()),
        ("the kernel", a.facts.kernel.clone(), b.facts.kernel.clone()),
        ("the profile", a.spec.profile.clone(), b.spec.profile.clone()),
        ("the data size", a.spec.data_size.clone(), b.spec.data_size.clone()),
        ("the memory", a.spec.memory.clone(), b.spec.memory.clone()),
        ("the runtime", a.spec.runtime_ms.clone(), b.spec.runtime_ms.clone()),
        ("where the file system starts", a.spec.start.clone(), b.spec.start.clone()),
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
    // One of a simulated card, the other of a device.
    if a.facts.card.is_some() != b.facts.card.is_some() {
        let kind = |header: &Header| match header.facts.card {
            Some(_) => "simulated".to_owned(),
            None => "not simulated".to_owned(),
        };
        return Err(ReplayError::Differ {
            first: first.to_owned(),
            second: second.to_owned(),
            what: "the kind of medium",
            one: kind(a),
            other: kind(b),
        });
    }
    Ok(())
}
