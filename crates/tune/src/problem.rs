//! Maps setups and workloads to a search space and back.
//!
//! The file system is the family, the I/O scheduler the companion. Every option that only some
//! setups of a file system have is a choice of that file system. The baseline is always a candidate
//! because gains are relative to it; if the user excluded it, it may not be chosen.

use std::collections::{BTreeMap, BTreeSet};

use flashfit_filesystem::{Durability, Setup};
use flashfit_search::{
    Candidate, CandidateIndex, Factor, FactorRole, SearchPrior, SearchSpace, SpaceError, Weighted,
    WorkloadIndex,
};
use flashfit_user_error::{ExitClass, UserError};

use crate::prior;
use crate::record::{TrialKey, TrialPurpose};
use crate::space::{FileSystemChoices, Space};
use crate::spec::RunSpec;
use flashfit_run_format::{RunLife, SearchPhase};

/// The most setups; the search evaluates each of them after every batch.
const MAX_SETUPS: usize = 20_000;

#[derive(Debug, thiserror::Error)]
pub enum ProblemError {
    /// The space is invalid.
    #[error(transparent)]
    Space(#[from] SpaceError),
    #[error("the search space is too large: it has more than {MAX_SETUPS} setups")]
    TooMany,
    #[error("the search space has no baseline: no file system is given")]
    NoBaseline,
}

impl UserError for ProblemError {
    fn class(&self) -> ExitClass {
        ExitClass::Usage
    }
}

/// Properties of a setup.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SetupStanding {
    /// The effect of a power cut.
    pub durability: Durability,
    /// Whether it may be chosen.
    pub allowed: bool,
}

/// The search space with its setups and workloads.
#[derive(Debug, Clone)]
pub struct Problem {
    pub space: SearchSpace,
    /// The setups, by candidate.
    pub setups: Vec<Setup>,
    pub workloads: Vec<String>,
    /// How long setups last, where a usage model was given.
    pub life: Option<RunLife>,
    /// What is known of similar devices.
    pub prior: Option<SearchPrior>,
    /// Where the search began again, in a run that was extended.
    pub phase: SearchPhase,
    /// Whether the baseline is one of the setups that the user wants to choose from.
    pub baseline_is_listed: bool,
    candidates: BTreeMap<Setup, CandidateIndex>,
}

impl Problem {
    /// The problem of a run.
    ///
    /// # Errors
    /// See [`ProblemError`].
    pub fn of_run(space: &Space, spec: &RunSpec) -> Result<Self, ProblemError> {
        let reference = space.baseline().ok_or(ProblemError::NoBaseline)?;
        let mut setups = Vec::new();
        for choices in &space.choices {
            // Each option doubles the number of setups, so the count is limited before listing
            // them.
            let least = choices.all_setups_up_to(MAX_SETUPS).ok_or(ProblemError::TooMany)?;
            setups.extend(least);
        }
        let standing = |setup: &Setup, listed: bool| {
            let filesystem = space.of(&setup.filesystem).map(|choices| &choices.filesystem);
            let verdict = filesystem.and_then(|filesystem| setup.durability(filesystem).ok());
            let durability = verdict.map_or(Durability::MayCorrupt, |verdict| verdict.durability);
            SetupStanding { durability, allowed: listed && durability <= space.allow }
        };
        let order: Vec<String> =
            space.choices.iter().flat_map(FileSystemChoices::option_names).collect();
        let weight = |workload: &str| spec.weight(workload);
        let problem = Self::new(setups, &reference, &order, &spec.workloads, weight, standing)?;
        let prior = spec.prior.as_ref().and_then(|known| prior::of(&problem, known));
        Ok(Self { life: spec.life.clone(), phase: spec.phase, prior, ..problem })
    }

    /// A problem with these setups, plus the baseline if it is not among them. Options are in the
    /// order of `order` (`FILESYSTEM/OPTION`), then the others.
    ///
    /// # Errors
    /// See [`ProblemError`].
    pub fn new(
        mut setups: Vec<Setup>,
        reference: &Setup,
        order: &[String],
        workloads: &[String],
        weight: impl Fn(&str) -> f64,
        standing: impl Fn(&Setup, bool) -> SetupStanding,
    ) -> Result<Self, ProblemError> {
        let listed = setups.len();
        let baseline_is_listed = setups.contains(reference);
        if !baseline_is_listed {
            setups.push(reference.clone());
        }
        if setups.len() > MAX_SETUPS {
            return Err(ProblemError::TooMany);
        }
        let factors = Factors::of(&setups, reference, order);
        let candidate = |(index, setup): (usize, &Setup)| {
            let standing = standing(setup, index < listed);
            Candidate {
                levels: factors.levels(setup),
                allowed: standing.allowed,
                safety: standing.durability as u8,
                distance: distance(setup, reference),
            }
        };
        let candidates: BTreeMap<Setup, CandidateIndex> =
            setups.iter().enumerate().map(|(index, setup)| (setup.clone(), index)).collect();
        let space = SearchSpace {
            candidates: setups.iter().enumerate().map(candidate).collect(),
            workloads: workloads
                .iter()
                .map(|name| Weighted { name: name.clone(), weight: weight(name) })
                .collect(),
            baseline: candidates[reference],
            factors: factors.list,
        };
        space.check()?;
        let (workloads, phase) = (workloads.to_vec(), SearchPhase::default());
        Ok(Self {
            space,
            setups,
            workloads,
            life: None,
            prior: None,
            phase,
            baseline_is_listed,
            candidates,
        })
    }

    pub fn candidate(&self, setup: &Setup) -> Option<CandidateIndex> {
        self.candidates.get(setup).copied()
    }

    /// The place of a workload.
    pub fn workload(&self, name: &str) -> Option<WorkloadIndex> {
        self.workloads.iter().position(|known| known == name)
    }

    /// Whether the search includes a trial's setup and workload.
    pub fn has(&self, key: &TrialKey) -> bool {
        key.purpose != TrialPurpose::Overlap
            && self.candidate(&key.setup).is_some()
            && self.workload(&key.workload).is_some()
    }

    pub fn baseline(&self) -> &Setup {
        &self.setups[self.space.baseline]
    }

    /// The default setup of a candidate's file system.
    pub fn own_baseline(&self, candidate: CandidateIndex) -> Option<CandidateIndex> {
        let baseline = Setup {
            filesystem: self.setups[candidate].filesystem.clone(),
            options: Vec::new(),
            scheduler: self.baseline().scheduler.clone(),
        };
        self.candidate(&baseline)
    }

    /// How many file systems there are.
    pub fn families(&self) -> usize {
        self.space.families().len()
    }
}

/// The number of choices that differ from the baseline.
fn distance(setup: &Setup, reference: &Setup) -> u32 {
    let options = u32::try_from(setup.options.len()).unwrap_or(u32::MAX);
    options
        + u32::from(setup.scheduler != reference.scheduler)
        + u32::from(setup.filesystem != reference.filesystem)
}

/// The factors of some setups.
struct Factors {
    list: Vec<Factor>,
    filesystems: Vec<String>,
    schedulers: Vec<String>,
    /// File system and option.
    options: Vec<(String, String)>,
}

impl Factors {
    fn of(setups: &[Setup], reference: &Setup, order: &[String]) -> Self {
        let each = |name: fn(&Setup) -> String| {
            let mut seen = BTreeSet::new();
            let names = setups.iter().map(name);
            names.filter(|name| seen.insert(name.clone())).collect::<Vec<_>>()
        };
        let filesystems = each(|setup| setup.filesystem.clone());
        let schedulers = each(|setup| setup.scheduler.name().to_owned());
        let options = options(setups, order);
        let place = |names: &[String], name: &str| {
            let found = names.iter().position(|known| known == name).unwrap_or(0);
            u16::try_from(found).expect("there are few file systems and schedulers")
        };
        let mut list = vec![
            Factor {
                name: "file system".to_owned(),
                default: place(&filesystems, &reference.filesystem),
                levels: filesystems.clone(),
                role: FactorRole::Family,
            },
            Factor {
                name: "scheduler".to_owned(),
                default: place(&schedulers, reference.scheduler.name()),
                levels: schedulers.clone(),
                role: FactorRole::Companion,
            },
        ];
        list.extend(options.iter().map(|(filesystem, option)| Factor {
            name: format!("{filesystem}/{option}"),
            levels: vec!["off".to_owned(), "on".to_owned()],
            role: FactorRole::Choice,
            default: 0,
        }));
        Self { list, filesystems, schedulers, options }
    }

    fn levels(&self, setup: &Setup) -> Vec<Option<u16>> {
        let place = |names: &[String], name: &str| {
            names.iter().position(|known| known == name).and_then(|place| u16::try_from(place).ok())
        };
        let common = [
            place(&self.filesystems, &setup.filesystem),
            place(&self.schedulers, setup.scheduler.name()),
        ];
        let choice = |(filesystem, option): &(String, String)| {
            (*filesystem == setup.filesystem).then(|| u16::from(setup.options.contains(option)))
        };
        common.into_iter().chain(self.options.iter().map(choice)).collect()
    }
}

/// The options that vary within a file system.
fn options(setups: &[Setup], order: &[String]) -> Vec<(String, String)> {
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    let mut with: BTreeMap<(&str, &str), usize> = BTreeMap::new();
    let mut first: Vec<(&str, &str)> = Vec::new();
    for setup in setups {
        *counts.entry(&setup.filesystem).or_default() += 1;
        for option in &setup.options {
            let count = with.entry((&setup.filesystem, option)).or_default();
            *count += 1;
            if *count == 1 {
                first.push((&setup.filesystem, option));
            }
        }
    }
    first.retain(|option| with[option] < counts[option.0]);
    let place = |(filesystem, option): &(&str, &str)| {
        let name = format!("{filesystem}/{option}");
        order.iter().position(|known| *known == name).unwrap_or(usize::MAX)
    };
    first.sort_by_key(place);
    first.into_iter().map(|(filesystem, option)| (filesystem.into(), option.into())).collect()
}
