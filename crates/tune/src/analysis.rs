//! Rankings of setups by the methodology's merits (section 6): per workload and file system, and
//! for the device as a whole, where the merits of the workloads add up.

use flashfit_filesystem::Setup;

use crate::choice::Criterion;
use crate::results::MeritResults;
use crate::stats::Estimate;

/// A place in a ranking.
#[derive(Debug, Clone, PartialEq)]
pub struct Ranked {
    /// The setup.
    pub setup: Setup,
    /// Its merit.
    pub merit: Estimate,
    /// Whether its interval meets that of the first, or there is no interval to tell by.
    pub ties_with_first: bool,
}

/// Setups of one file system, best first.
#[derive(Debug, Clone, PartialEq)]
pub struct Ranking {
    /// The file system.
    pub filesystem: String,
    /// The workload; `None` for the device as a whole.
    pub workload: Option<String>,
    /// By which merit.
    pub by: Criterion,
    /// The setups.
    pub rows: Vec<Ranked>,
}

/// All rankings of a run by one merit: the device first, then each workload, each by file system.
/// Setups that failed or lack a workload are left out of the device's.
pub fn rankings(results: &MeritResults, filesystems: &[String], by: Criterion) -> Vec<Ranking> {
    let subjects = std::iter::once(None).chain(results.workloads().iter().map(Some));
    subjects
        .flat_map(|workload| {
            filesystems.iter().map(move |filesystem| {
                ranking(results, filesystem, workload.map(String::as_str), by)
            })
        })
        .collect()
}

fn ranking(
    results: &MeritResults,
    filesystem: &str,
    workload: Option<&str>,
    by: Criterion,
) -> Ranking {
    let mut rows: Vec<Ranked> = results
        .setups()
        .filter(|setup| setup.filesystem == filesystem)
        .filter_map(|setup| {
            let merit = match workload {
                Some(workload) => Estimate::of(&results.merits(setup, workload, by)),
                None => whole_medium(results, setup, by),
            };
            Some(Ranked { setup: setup.clone(), merit: merit?, ties_with_first: false })
        })
        .collect();
    rows.sort_by(|a, b| b.merit.middle.total_cmp(&a.merit.middle));
    if let Some(first) = rows.first().map(|row| row.merit) {
        for row in &mut rows {
            row.ties_with_first = meets(&row.merit, &first);
        }
    }
    Ranking { filesystem: filesystem.to_owned(), workload: workload.map(str::to_owned), by, rows }
}

/// The sum of the workloads' merits, repeat by repeat; `None` unless all were measured and none
/// failed.
fn whole_medium(results: &MeritResults, setup: &Setup, by: Criterion) -> Option<Estimate> {
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
