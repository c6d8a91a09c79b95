//! The search space: candidates as rows of categorical factor levels, and weighted workloads.
//!
//! An option that does not exist in a candidate's family has no level there (`None`), which makes
//! the space conditional. Limit: levels are unordered categories; that 4 KiB lies between 2 KiB and
//! 8 KiB is not used.

use std::collections::BTreeSet;

/// Index into [`SearchSpace::candidates`].
pub type CandidateIndex = usize;
/// Index into [`SearchSpace::workloads`].
pub type WorkloadIndex = usize;

/// How strategies treat a factor.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FactorRole {
    /// Divides candidates into families (file systems). `greedy` searches each family separately,
    /// and each family is part of the first batch.
    Family,
    /// `greedy` tries all of its levels with every change (an I/O scheduler).
    Companion,
    Choice,
}

/// A dimension of the space.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Factor {
    pub name: String,
    /// Names of the levels; at least one.
    pub levels: Vec<String>,
    pub role: FactorRole,
    /// The level of a candidate with default options.
    pub default: u16,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Candidate {
    /// A level for each factor; `None` if the factor does not apply.
    pub levels: Vec<Option<u16>>,
    /// Whether it may be chosen. Only the first round of `greedy` and `exhaustive` try candidates
    /// that may not be.
    pub allowed: bool,
    /// How safe it is: 0 is the safest.
    pub safety: u8,
    /// How many levels differ from the defaults.
    pub distance: u32,
}

#[derive(Debug, Clone, PartialEq)]
pub struct Weighted {
    pub name: String,
    /// Relative weight in the merit; above 0.
    pub weight: f64,
}

#[derive(Debug, Clone, PartialEq)]
pub struct SearchSpace {
    pub factors: Vec<Factor>,
    pub candidates: Vec<Candidate>,
    pub workloads: Vec<Weighted>,
    /// The candidate that gains are relative to; it may be tried even if it is not allowed.
    pub baseline: CandidateIndex,
}

/// Why a space cannot be searched.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SpaceError {
    #[error("the search space is empty: it has no candidates")]
    NoCandidate,
    #[error("the search space has no allowed candidate: all {candidates} are excluded")]
    NoneAllowed { candidates: usize },
    #[error("the search space has no workloads")]
    NoWorkload,
    #[error("the weight of workload '{name}' is not a positive number")]
    Weight { name: String },
    #[error(
        "the baseline, candidate {baseline}, is out of range: there are {candidates} candidates"
    )]
    Baseline { baseline: CandidateIndex, candidates: usize },
    #[error("candidate {candidate} does not fit the factors: {what}")]
    Levels { candidate: CandidateIndex, what: String },
    #[error("candidate {candidate} is a duplicate")]
    Twice {
        /// The index of the second.
        candidate: CandidateIndex,
    },
}

impl SearchSpace {
    /// Checks that the space can be searched.
    ///
    /// # Errors
    /// The first defect found.
    pub fn check(&self) -> Result<(), SpaceError> {
        let candidates = self.candidates.len();
        if candidates == 0 {
            return Err(SpaceError::NoCandidate);
        }
        if self.workloads.is_empty() {
            return Err(SpaceError::NoWorkload);
        }
        let bad = |workload: &&Weighted| !(workload.weight > 0.0 && workload.weight.is_finite());
        if let Some(workload) = self.workloads.iter().find(bad) {
            return Err(SpaceError::Weight { name: workload.name.clone() });
        }
        if self.baseline >= candidates {
            return Err(SpaceError::Baseline { baseline: self.baseline, candidates });
        }
        if !self.candidates.iter().any(|candidate| candidate.allowed) {
            return Err(SpaceError::NoneAllowed { candidates });
        }
        let mut seen = BTreeSet::new();
        for (index, candidate) in self.candidates.iter().enumerate() {
            if let Some(what) = self.misfit(candidate) {
                return Err(SpaceError::Levels { candidate: index, what });
            }
            if !seen.insert(&candidate.levels) {
                return Err(SpaceError::Twice { candidate: index });
            }
        }
        Ok(())
    }

    fn misfit(&self, candidate: &Candidate) -> Option<String> {
        if candidate.levels.len() != self.factors.len() {
            return Some(format!(
                "{} levels for {} factors",
                candidate.levels.len(),
                self.factors.len()
            ));
        }
        let beyond = self.factors.iter().zip(&candidate.levels).find(|(factor, level)| {
            level.is_some_and(|level| usize::from(level) >= factor.levels.len())
        });
        beyond.map(|(factor, _)| format!("factor '{}' has no such level", factor.name))
    }

    /// The weights of the workloads, normalized to sum to 1.
    pub fn weights(&self) -> Vec<f64> {
        let sum: f64 = self.workloads.iter().map(|workload| workload.weight).sum();
        self.workloads.iter().map(|workload| workload.weight / sum).collect()
    }

    /// The factor that divides candidates into families.
    pub fn family_factor(&self) -> Option<usize> {
        self.factors.iter().position(|factor| factor.role == FactorRole::Family)
    }

    /// The candidates of each family in the order of the factor's levels, without empty families.
    /// Without a family factor, all candidates are one family.
    pub fn families(&self) -> Vec<Vec<CandidateIndex>> {
        let all = 0..self.candidates.len();
        let Some(factor) = self.family_factor() else { return vec![all.collect()] };
        let mut levels: Vec<Option<u16>> =
            (0..self.factors[factor].levels.len()).map(|level| u16::try_from(level).ok()).collect();
        levels.push(None);
        let of = |level: &Option<u16>| -> Vec<CandidateIndex> {
            all.clone().filter(|&index| self.candidates[index].levels[factor] == *level).collect()
        };
        levels.iter().map(of).filter(|family| !family.is_empty()).collect()
    }
}
