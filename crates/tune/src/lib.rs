//! A run: which trial is next, merit, statistics, analysis, replay and recommendation.
//!
//! Its interface is made of the types of `flashfit-run-format`, which are therefore exported again.

pub mod analysis;
pub mod bimodal;
pub mod compare;
mod completed;
pub mod conclusion;
pub mod constraint;
pub mod constraint_status;
pub mod drift;
pub mod driver;
pub mod forecast;
pub mod head_to_head;
pub mod life;
pub mod merit;
pub mod objective;
mod order;
pub mod pareto;
pub mod prior;
pub mod problem;
mod raw;
pub mod recommend;
pub mod replay;
pub mod results;
pub mod run;
pub mod session;
pub mod space;
pub mod spread;
pub mod start_effect;
pub mod starts;
pub mod stats;
pub mod sustained;
mod time_limit;
pub mod twin;

pub use flashfit_run_format::{
    Budget, CatalogUsed, Config, Criterion, Likeness, OptionChoice, Percent, RawMeasurement,
    RecordedOutcome, RunDir, RunDirLock, RunExtension, RunHeader, RunLife, RunPrior, RunSpec,
    SearchPhase, Spent, StoredRun, StrategyKind, TimeSpan, TrialDevice, TrialKey, TrialPurpose,
    TrialRecord, Weight, Years, budget, choice, config, quantity, record, run_dir, spec,
};

pub use conclusion::{Conclusion, ConclusionError};
pub use driver::DriverRules;
pub use objective::Objective;
pub use problem::{Problem, ProblemError};
pub use recommend::{GainVerdict, Recommendation};
pub use results::MeritResults;
pub use session::{LeastBudget, Observer, RunEnd, RunProgress, TuneError, TuneSession};
pub use space::{FileSystemChoices, Space};
