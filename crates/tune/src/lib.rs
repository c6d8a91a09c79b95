//! Which trial next, the run directory, merit, statistics, analysis and recommendation.

pub mod analysis;
pub mod choice;
pub mod conclusion;
pub mod config;
pub mod course;
pub mod limits;
pub mod merit;
mod order;
pub mod problem;
pub mod quantity;
pub mod recommend;
pub mod record;
pub mod replay;
pub mod results;
pub mod run_dir;
pub mod session;
pub mod space;
pub mod spec;
pub mod stats;
pub mod told;

pub use choice::{By, OptionChoice, StrategyKind};
pub use conclusion::{Conclusion, ConclusionError};
pub use config::Config;
pub use course::Rules;
pub use limits::{Limits, Spent};
pub use problem::{Problem, ProblemError};
pub use recommend::{Recommendation, Verdict};
pub use quantity::{Percent, Span, Weight};
pub use record::{Outcome, Purpose, TrialKey, TrialRecord};
pub use results::Results;
pub use run_dir::{Claimed, Run, RunDir};
pub use session::{Ended, Observer, Session, SoFar, TuneError};
pub use space::{Choices, Space};
pub use spec::{RunHeader, RunSpec};
pub use told::Judge;
