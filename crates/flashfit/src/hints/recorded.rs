//! Hints for the search and for recorded runs.

use flashfit_host::dir::{DirError, DirObstacle};
use flashfit_host::program::quote_path;
use flashfit_search::{SearchError, SpaceError};
use flashfit_tune::compare::CompareError;
use flashfit_tune::objective::{NoFigure, NoFigures};
use flashfit_tune::replay::ReplayError;
use flashfit_tune::run_dir::RunDirError;
use flashfit_tune::{ConclusionError, Criterion, LeastBudget, ProblemError, TuneError};

use super::of;

const NAME_RUN: &str = "name the directory that flashfit tune printed";
const OTHER_MERIT: &str = "rank by another score: --by throughput";

pub fn run_dir(error: &RunDirError) -> Option<String> {
    match error {
        RunDirError::Exists { path } => Some(format!(
            "continue it with: flashfit tune --resume {}; or name another directory with --dir",
            quote_path(path)
        )),
        RunDirError::Occupied { .. } => Some("name another directory with --dir".to_owned()),
        RunDirError::NoRun { .. } => Some(NAME_RUN.to_owned()),
        RunDirError::Dir(DirError::Full { .. }) => {
            Some("make room, then: flashfit tune --resume DIR".to_owned())
        }
        RunDirError::Dir(DirError::Invalid { obstacle: DirObstacle::NotAFolder, .. }) => {
            of(error).or_else(|| Some(NAME_RUN.to_owned()))
        }
        other => of(other),
    }
}

pub fn tune(error: &TuneError) -> Option<String> {
    match error {
        TuneError::Dir(error) => run_dir(error),
        TuneError::NoBoardLeft { .. } => {
            Some("when boards are back: flashfit tune --resume DIR".to_owned())
        }
        TuneError::Search(SearchError::TooFewTrials { least, .. }) => {
            Some(format!("use --trials {} or more, or fewer file systems", least.ceil()))
        }
        TuneError::BudgetTooSmall { least, .. } => {
            let flag = match least {
                LeastBudget::Seconds(seconds) => format!("--budget {seconds}s"),
                LeastBudget::WrittenMib(mib) => format!("--max-write {mib}MiB"),
            };
            Some(format!(
                "continue with {flag} or more: flashfit tune --resume DIR {flag}; or begin again \
                 with fewer file systems"
            ))
        }
        TuneError::NoFigures(error) => Some(no_figures(error)),
        other => of(other),
    }
}

pub fn problem(error: &ProblemError) -> String {
    match error {
        ProblemError::TooMany => {
            "name fewer file systems with --fs or schedulers with --scheduler, or take options \
             out: --without ext4:NAME"
        }
        ProblemError::Space(SpaceError::NoneAllowed { .. }) => {
            "allow less safety, as in --allow loses-recent, or name other file systems"
        }
        ProblemError::Space(_) | ProblemError::NoBaseline => {
            "name file systems with --fs and workloads with --workload"
        }
    }
    .to_owned()
}

pub fn conclusion(error: &ConclusionError) -> Option<String> {
    Some(match error {
        ConclusionError::Problem(error) => problem(error),
        ConclusionError::NoFigures(error) => no_figures(error),
    })
}

fn no_figures(error: &NoFigures) -> String {
    let is_rate = matches!(error.reason, NoFigure::Zero { by: Criterion::Throughput, .. });
    match &error.workload {
        None if !is_rate => OTHER_MERIT.to_owned(),
        None => "leave its workload out: flashfit tune --replay DIR --workload NAMES".to_owned(),
        Some(workload) => format!(
            "leave {workload} out: name the other workloads with --workload{}",
            if is_rate { String::new() } else { format!("; or {OTHER_MERIT}") }
        ),
    }
}

pub fn compare(error: &CompareError) -> Option<String> {
    match error {
        CompareError::Dir(error) => run_dir(error),
        other @ CompareError::TooFew => of(other),
    }
}

pub fn replay(error: &ReplayError) -> Option<String> {
    match error {
        ReplayError::Dir(error) => run_dir(error),
        ReplayError::Problem(error) => Some(problem(error)),
        ReplayError::NoCompleteSetup { workloads } if workloads.len() > 1 => {
            Some("name fewer workloads with --workload".to_owned())
        }
        ReplayError::NoCompleteSetup { .. } => {
            Some("name another workload with --workload".to_owned())
        }
        ReplayError::NoFigures(error) => Some(no_figures(error)),
        ReplayError::Search(SearchError::TooFewTrials { least, .. }) => {
            Some(format!("use --trials {} or more", least.ceil()))
        }
        other => of(other),
    }
}
