//! The search: which trial next, what is believed after each, when to stop, and what can be said.
//!
//! It knows nothing of file systems, devices or files: candidates are rows of levels, a trial is a
//! logarithm. Everything is a pure function of the space, the history, the limits and a seed;
//! there is no clock and no input or output here, so a resumed run goes on as if nothing had
//! happened.

mod answer;
mod confirm;
mod history;
pub mod landscape;
mod limits;
pub mod model;
mod random;
mod space;
mod strategy;
pub mod student;

pub use answer::{Answer, Effect, Interaction, Tie, answer, front};
pub use confirm::{ConfirmingTrials, Gain};
pub use history::{
    Batch, Observation, Proposal, Purpose, TrialLength, TrialOutcome, TrialTable, spent,
};
pub use limits::{Goal, Limits, SearchError, ShortRun};
pub use random::RandomStream;
pub use space::{
    Candidate, CandidateIndex, Factor, FactorRole, SearchSpace, SpaceError, Weighted, WorkloadIndex,
};
pub use strategy::{
    Adaptive, Exhaustive, Greedy, NextStep, RandomSearch, Request, SearchEnd, Strategy,
    StrategyPlan, all_failed, next_step,
};
