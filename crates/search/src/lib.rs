//! Search strategies: they choose the next trials, fit a model of the results, decide when to stop,
//! and analyze the outcome.
//!
//! The crate is independent of file systems, devices and files: a candidate is a row of factor
//! levels and a trial yields a logarithm. Every result is a pure function of the space, the
//! history, the settings and the seed. Without a clock or I/O, a resumed search makes the same
//! decisions as an uninterrupted one.

mod answer;
mod confirm;
mod confirm_noise;
mod confirm_states;
mod history;
pub mod landscape;
mod level_pairs;
mod likely;
pub mod model;
mod pairwise;
mod preference;
mod prior;
mod random;
mod settings;
mod space;
mod strategy;

pub use answer::{Answer, Effect, Interaction, LeftToGain, Tie, answer, pareto_front};
pub use confirm::{ConfirmingTrials, Gain, MIN_CONFIRMING_TRIALS, MIN_ROUNDS};
pub use flashfit_numbers::student;
pub use history::{
    Batch, MAX_WITHOUT_FIGURE, Observation, Proposal, Purpose, TrialLength, TrialOutcome,
    TrialTable, cells_without_figure, spent,
};
pub use level_pairs::PairsTried;
pub use likely::LikelyGain;
pub use pairwise::{Difference, DifferenceVerdict, SearchTrials};
pub use prior::{SearchPrior, SimilarResult};
pub use random::RandomStream;
pub use settings::{Goal, SearchError, SearchSettings, ShortRun};
pub use space::{
    Candidate, CandidateIndex, Factor, FactorRole, SearchSpace, SpaceError, Weighted, WorkloadIndex,
};
pub use strategy::{
    Adaptive, Exhaustive, Greedy, MIN_TRIALS_PER_WORKLOAD, NextStep, RandomSearch, Request,
    SearchEnd, Strategy, StrategyPlan, all_failed, least_trials, next_step,
};
