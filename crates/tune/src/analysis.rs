//! Rankings of setups by the merits of the methodology (section 6): per workload and file system,
//! and for the device as a whole, as the sum of the workloads' merits.

use flashfit_filesystem::Setup;

use crate::choice::Criterion;
use crate::results::MeritResults;
use crate::stats::{Estimate, mean};

/// A row of a ranking.
#[derive(Debug, Clone, PartialEq)]
pub struct Ranked {
    pub setup: Setup,
    pub merit: Estimate,
    /// Whether its interval overlaps that of the first, or an interval is missing.
    pub ties_with_first: bool,
}

/// Whose setups are in a ranking.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RankedFileSystems {
    /// All together.
    All,
    One(String),
}

impl RankedFileSystems {
    /// For a title.
    pub fn as_str(&self) -> &str {
        self.name().unwrap_or("all file systems")
    }

    /// `None` for all together.
    pub fn name(&self) -> Option<&str> {
        match self {
            Self::All => None,
            Self::One(name) => Some(name),
        }
    }
}

/// Setups, best first; those that were measured once come last.
#[derive(Debug, Clone, PartialEq)]
pub struct Ranking {
    pub filesystem: RankedFileSystems,
    /// The workload; `None` for the device as a whole.
    pub workload: Option<String>,
    pub by: Criterion,
    pub rows: Vec<Ranked>,
}

/// All rankings of a run by one merit: first the whole device, then each workload, each by file
/// system. The ranking of the device excludes setups that failed or lack a workload.
pub fn rankings(results: &MeritResults, filesystems: &[String], by: Criterion) -> Vec<Ranking> {
    let subjects = std::iter::once(None).chain(results.workloads().iter().map(Some));
    subjects
        .flat_map(|workload| {
            filesystems.iter().map(move |filesystem| {
                ranking(results, Some(filesystem), workload.map(String::as_str), by)
            })
        })
        .collect()
}

/// The setups of all file systems in one ranking, for the whole device.
pub fn overall(results: &MeritResults, by: Criterion) -> Ranking {
    ranking(results, None, None, by)
}

/// How much better a setup is than another as a logarithm of the ratio, under one workload or as
/// the weighted mean of all: the difference of means over full-length trials, as in
/// [`crate::pareto`]; `None` unless both were measured.
pub fn growth(
    results: &MeritResults,
    (setup, baseline): (&Setup, &Setup),
    workload: Option<&str>,
    by: Criterion,
    weight: impl Fn(&str) -> f64,
) -> Option<f64> {
    let of = |name: &str| {
        let level = |setup: &Setup| {
            let logs = results.logs(setup, name, by);
            (!logs.is_empty()).then(|| mean(&logs))
        };
        Some(level(setup)? - level(baseline)?)
    };
    if let Some(name) = workload {
        return of(name);
    }
    let (mut sum, mut total) = (0.0, 0.0);
    for name in results.workloads() {
        sum += weight(name) * of(name)?;
        total += weight(name);
    }
    (total > 0.0).then(|| sum / total)
}

/// The best setup of each file system under each workload and for the whole device (`None`, first).
pub fn matrix(
    results: &MeritResults,
    filesystems: &[String],
    by: Criterion,
) -> Vec<(Option<String>, Vec<Option<Ranked>>)> {
    let workloads = results.workloads().iter().map(Some);
    let subjects = std::iter::once(None).chain(workloads.filter(|_| results.workloads().len() > 1));
    subjects
        .map(|workload| {
            let best = |filesystem: &String| {
                let rows =
                    ranking(results, Some(filesystem), workload.map(String::as_str), by).rows;
                rows.into_iter().next()
            };
            (workload.cloned(), filesystems.iter().map(best).collect())
        })
        .collect()
}

fn ranking(
    results: &MeritResults,
    filesystem: Option<&str>,
    workload: Option<&str>,
    by: Criterion,
) -> Ranking {
    let mut rows: Vec<Ranked> = results
        .setups()
        .filter(|setup| filesystem.is_none_or(|name| setup.filesystem == name))
        .filter_map(|setup| {
            let merit = match workload {
                Some(workload) => Estimate::of(&results.merits(setup, workload, by)),
                None => whole_device(results, setup, by),
            };
            Some(Ranked { setup: setup.clone(), merit: merit?, ties_with_first: false })
        })
        .collect();
    // A single trial says little: it must not put a setup before those that were compared.
    rows.sort_by(|a, b| {
        let once = |row: &Ranked| row.merit.interval.is_none();
        once(a).cmp(&once(b)).then(b.merit.middle.total_cmp(&a.merit.middle))
    });
    if let Some(first) = rows.first().map(|row| row.merit) {
        for row in &mut rows {
            row.ties_with_first = meets(&row.merit, &first);
        }
    }
    let filesystem =
        filesystem.map_or(RankedFileSystems::All, |name| RankedFileSystems::One(name.to_owned()));
    let workload = workload.map(str::to_owned);
    Ranking { filesystem, workload, by, rows }
}

/// The sum of the workloads' merits by repeat; `None` unless all were measured and none failed.
fn whole_device(results: &MeritResults, setup: &Setup, by: Criterion) -> Option<Estimate> {
    if results.failure(setup).is_some() {
        return None;
    }
    let series: Vec<Vec<f64>> =
        results.workloads().iter().map(|workload| results.merits(setup, workload, by)).collect();
    let complete = series.iter().map(Vec::len).min()?;
    let sums: Vec<f64> =
        (0..complete).map(|repeat| series.iter().map(|merits| merits[repeat]).sum()).collect();
    Estimate::of(&sums)
}

fn meets(a: &Estimate, b: &Estimate) -> bool {
    match (a.interval, b.interval) {
        (Some((a_low, a_high)), Some((b_low, b_high))) => a_low <= b_high && b_low <= a_high,
        _ => true,
    }
}
