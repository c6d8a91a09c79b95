//! What can be tried: candidates as rows of categorical levels, and workloads with weights.
//!
//! An option that a candidate's family does not have has no level there (`None`), which makes the
//! space conditional. Limits: levels are categories; that 4 KiB lies between 2 and 8 is not used.

use std::collections::BTreeSet;

/// The place of a candidate in [`SearchSpace::candidates`].
pub type CandidateIndex = usize;
/// The place of a workload in [`SearchSpace::workloads`].
pub type WorkloadIndex = usize;

/// What a factor is to the candidates.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FactorRole {
    /// Every candidate is of one family (a file system); families are searched apart by `greedy`
    /// and each gets its share of a first look.
    Family,
    /// Tried in all its levels beside every change by `greedy` (an I/O scheduler).
    Companion,
    /// An option.
    Choice,
}

/// Something in which candidates differ.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Factor {
    /// What it is called.
    pub name: String,
    /// What its levels are called; at least one.
    pub levels: Vec<String>,
    /// What it is to the candidates.
    pub role: FactorRole,
    /// The level of an untuned candidate.
    pub default: u16,
}

/// One thing that can be tried.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Candidate {
    /// A level for each factor; `None` where the factor does not apply.
    pub levels: Vec<Option<u16>>,
    /// Whether it may be chosen. Those that may not are never tried but by `greedy`'s first round
    /// and `exhaustive`.
    pub allowed: bool,
    /// How safe it is: 0 is the safest.
    pub safety: u8,
    /// How many choices differ from the defaults.
    pub distance: u32,
}

/// A workload and what it counts.
#[derive(Debug, Clone, PartialEq)]
pub struct Weighted {
    /// What it is called.
    pub name: String,
    /// Its weight in the merit; above 0, relative to the others.
    pub weight: f64,
}

/// Everything that can be tried.
#[derive(Debug, Clone, PartialEq)]
pub struct SearchSpace {
    /// In what candidates differ.
    pub factors: Vec<Factor>,
    /// What can be tried, no two alike.
    pub candidates: Vec<Candidate>,
    /// Under what.
    pub workloads: Vec<Weighted>,
    /// The untuned candidate that gains are relative to; it may be tried even if not allowed.
    pub reference: CandidateIndex,
}

/// Why a space cannot be searched.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SpaceError {
    /// There is nothing to try.
    #[error("the space is empty: there is no candidate to try")]
    NoCandidate,
    /// No candidate may be chosen.
    #[error("none of the {candidates} candidates may be chosen")]
    NoneAllowed {
        /// How many there are.
        candidates: usize,
    },
    /// There is nothing to try candidates under.
    #[error("there is no workload")]
    NoWorkload,
    /// A weight that is not a positive number.
    #[error("the weight of workload '{name}' is not a positive number")]
    Weight {
        /// The workload.
        name: String,
    },
    /// The reference is not among the candidates.
    #[error("the reference, candidate {reference}, is not among the {candidates} candidates")]
    Reference {
        /// Its index.
        reference: CandidateIndex,
        /// How many candidates there are.
        candidates: usize,
    },
    /// A candidate's levels do not fit the factors.
    #[error("candidate {candidate} does not fit the factors: {what}")]
    Levels {
        /// Its index.
        candidate: CandidateIndex,
        /// What is wrong.
        what: String,
    },
    /// Two candidates are the same.
    #[error("candidate {candidate} is there twice")]
    Twice {
        /// The index of the second.
        candidate: CandidateIndex,
    },
}

impl SearchSpace {
    /// Looks whether the space can be searched.
    ///
    /// # Errors
    /// With the first thing that is wrong.
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
        if self.reference >= candidates {
            return Err(SpaceError::Reference { reference: self.reference, candidates });
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

    /// The weights of the workloads, made to sum to 1.
    pub fn weights(&self) -> Vec<f64> {
        let sum: f64 = self.workloads.iter().map(|workload| workload.weight).sum();
        self.workloads.iter().map(|workload| workload.weight / sum).collect()
    }

    /// The factor that divides candidates into families, if there is one.
    pub fn family_factor(&self) -> Option<usize> {
        self.factors.iter().position(|factor| factor.role == FactorRole::Family)
    }

    /// The candidates of each family, in the order of its levels; families without any are left
    /// out. Without a family factor all are of one family.
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
