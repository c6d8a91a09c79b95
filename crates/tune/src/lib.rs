//! Which trial next, the run directory, merit, statistics, analysis and recommendation.

pub mod analysis;
pub mod choice;
pub mod config;
pub mod limits;
pub mod merit;
mod order;
pub mod quantity;
pub mod recommend;
pub mod record;
pub mod results;
pub mod run_dir;
pub mod session;
pub mod space;
pub mod spec;
pub mod stats;
pub mod strategy;

pub use choice::{By, OptionChoice, StrategyKind};
pub use config::Config;
pub use recommend::{Recommendation, Verdict};
pub use record::{Outcome, Purpose, TrialKey, TrialRecord};
pub use results::Results;
pub use run_dir::{Claimed, Run, RunDir};
pub use session::{Observer, Session, TuneError};
pub use space::{Choices, Space};
pub use spec::{RunHeader, RunSpec};
