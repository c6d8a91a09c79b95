//! Checks whether a stage was in a steady state, by two criteria.
//!
//! fio (`ss=bw:10%`, fio(1)): in a rolling window, the bandwidth of each second differs from the
//! mean by at most 10 %. The window is one second shorter than the stage, because fio ends a stage
//! when the criterion is met: stages then end at most one second early.
//!
//! SNIA (Solid State Storage Performance Test Specification 2.0.1): in a window of five rounds, the
//! range is at most 20 % of the mean, and the linear fit changes by at most 10 % of the mean. Here
//! a round is one second of fio's bandwidth log, and the window is the last five. Limit: five
//! seconds show a write cache that fills up, but not the slower effects of garbage collection.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::error::BenchError;
use crate::fio::system;

/// A window of five rounds and one round before it.
pub const MIN_RUNTIME_NS: u64 = 6_000_000_000;
const ROUND_MS: u64 = 1000;
const WINDOW_ROUNDS: usize = 5;
const MAX_RANGE_THOUSANDTHS: u64 = 200;
const MAX_SLOPE_THOUSANDTHS: u64 = 100;
/// An entry further than this from the end of a round belongs to an incomplete round.
const SLACK_MS: u64 = 100;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct SteadyState {
    /// Whether the criterion of fio was met.
    pub fio: bool,
    /// Whether the criterion of SNIA was met; `None` if the stage had fewer than five rounds.
    pub snia: Option<bool>,
    /// In thousandths of the mean.
    pub range_thousandths: Option<u64>,
    /// The absolute change of the linear fit over the window, in thousandths of the mean.
    pub slope_thousandths: Option<u64>,
}

impl SteadyState {
    /// The result of fio's criterion alone.
    pub(crate) fn by_fio(attained: bool) -> Self {
        Self { fio: attained, snia: None, range_thousandths: None, slope_thousandths: None }
    }

    /// Both criteria; `rounds` are the bandwidths of complete rounds.
    fn of(attained: bool, rounds: &[u64]) -> Self {
        let Some(first) = rounds.len().checked_sub(WINDOW_ROUNDS) else {
            return Self::by_fio(attained);
        };
        let window = &rounds[first..];
        let (range, slope) = (range_thousandths(window), slope_thousandths(window));
        let steady = range <= MAX_RANGE_THOUSANDTHS && slope <= MAX_SLOPE_THOUSANDTHS;
        Self {
            fio: attained,
            snia: Some(steady),
            range_thousandths: Some(range),
            slope_thousandths: Some(slope),
        }
    }
}

/// Checks the steady state of one run of fio.
#[derive(Debug)]
pub(crate) struct SteadyStateCheck {
    folder: PathBuf,
    runtime_ns: u64,
}

/// The prefix of the bandwidth logs.
const LOG: &str = "steady";

impl SteadyStateCheck {
    /// For a run with logs in `folder`, from which earlier logs are deleted.
    pub(crate) fn new(folder: &Path, runtime_ns: u64) -> Self {
        let check = Self { folder: folder.to_owned(), runtime_ns };
        check.logs().iter().for_each(|log| drop(std::fs::remove_file(log)));
        check
    }

    /// The job settings that make fio check its criterion and log the bandwidth.
    pub(crate) fn settings(&self) -> String {
        let seconds = self.runtime_ns / 1_000_000_000 - 1;
        format!(
            "ss=bw:10%\nss_dur={seconds}\nwrite_bw_log={}\nlog_avg_msec={ROUND_MS}",
            self.folder.join(LOG).display()
        )
    }

    /// Combines the result of fio with that of the logs.
    pub(crate) fn evaluate(&self, by_fio: Option<SteadyState>) -> Result<SteadyState, BenchError> {
        let attained = by_fio.is_some_and(|steady| steady.fio);
        let mut texts = Vec::new();
        for log in self.logs() {
            texts.push(std::fs::read_to_string(&log).map_err(system(&log))?);
        }
        Ok(SteadyState::of(attained, &rounds(&texts)))
    }

    fn logs(&self) -> Vec<PathBuf> {
        let entries = std::fs::read_dir(&self.folder).into_iter().flatten().flatten();
        let is_log = |path: &PathBuf| {
            let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
            name.starts_with(&format!("{LOG}_bw")) && name.ends_with(".log")
        };
        entries.map(|entry| entry.path()).filter(is_log).collect()
    }
}

/// The bandwidth of each complete round, summed over jobs and directions, from fio's logs. A line
/// is `milliseconds, KiB/s, direction, …` and covers the time since the previous line.
fn rounds(logs: &[String]) -> Vec<u64> {
    let mut by_round: BTreeMap<u64, u64> = BTreeMap::new();
    let mut ends: Vec<u64> = Vec::new();
    for log in logs {
        let mut end = 0;
        for line in log.lines() {
            let mut fields = line.split(',').map(|field| field.trim().parse::<u64>());
            let (Some(Ok(at_ms)), Some(Ok(rate))) = (fields.next(), fields.next()) else {
                continue;
            };
            // The entry at 1001 ms belongs to the first second.
            let round = (at_ms + ROUND_MS / 2) / ROUND_MS;
            if at_ms.abs_diff(round * ROUND_MS) <= SLACK_MS && round > 0 {
                *by_round.entry(round).or_default() += rate;
                end = end.max(round);
            }
        }
        ends.push(end);
    }
    // After the first job ends, the load of the others is a different one.
    let shared = ends.into_iter().min().unwrap_or(0);
    let mut rounds: Vec<u64> =
        (1..=shared).map(|r| by_round.get(&r).copied().unwrap_or(0)).collect();
    while rounds.last() == Some(&0) {
        rounds.pop();
    }
    rounds
}

fn range_thousandths(window: &[u64]) -> u64 {
    let (min, max) = (window.iter().min(), window.iter().max());
    let sum: u64 = window.iter().sum();
    let range = max.unwrap_or(&0) - min.unwrap_or(&0);
    range * 1000 * window.len() as u64 / sum.max(1)
}

/// The change of the least-squares line from the first round of the window to the last.
fn slope_thousandths(window: &[u64]) -> u64 {
    let count = i128::try_from(window.len()).expect("a window is short");
    let sum: i128 = window.iter().map(|value| i128::from(*value)).sum();
    // Twice the distance from the middle round, to stay with integers.
    let positions = (0..count).map(|index| 2 * index - (count - 1));
    let product: i128 =
        positions.clone().zip(window).map(|(position, value)| position * i128::from(*value)).sum();
    let squares: i128 = positions.map(|position| position * position).sum();
    // The slope per round is 2 * product / squares, and the window has count - 1 steps.
    let rise = (2 * product * (count - 1)).abs() * 1000 * count;
    u64::try_from(rise / (squares * sum.max(1)).max(1)).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_criteria_follow_the_specification() {
        let steady = |rounds: &[u64]| SteadyState::of(true, rounds);
        // Within 20 %: steady. Only the last five rounds count.
        let level = steady(&[900, 100, 110, 95, 105, 100]);
        assert_eq!((level.snia, level.range_thousandths), (Some(true), Some(147)));
        // The range is too wide, although the slope is 0.
        let wide = steady(&[100, 80, 100, 115, 100]);
        assert_eq!((wide.snia, wide.range_thousandths), (Some(false), Some(353)));
        // From 95 to 106 in a line: 11 % of the mean, although the range is allowed.
        let falling = steady(&[1060, 1033, 1005, 978, 950]);
        assert_eq!((falling.snia, falling.slope_thousandths), (Some(false), Some(109)));
        let flat = steady(&[1030, 1015, 1000, 985, 970]);
        assert_eq!((flat.snia, flat.slope_thousandths), (Some(true), Some(60)));
        // Too few rounds.
        assert_eq!(steady(&[100, 100, 100, 100]).snia, None);
    }

    #[test]
    fn a_bandwidth_of_zero_does_not_divide_by_zero() {
        assert_eq!(SteadyState::of(false, &[0, 0, 0, 0, 0]).range_thousandths, Some(0));
    }

    #[test]
    fn logs_of_several_jobs_are_added_up_second_by_second() {
        let one = "1001, 10, 1, 0, 0\n2000, 20, 1, 0, 0\n3000, 30, 1, 0, 0\n3300, 9, 1, 0, 0\n";
        let other = "1000, 1, 0, 0, 0\n1000, 2, 1, 0, 0\n2001, 3, 0, 0, 0\n";
        assert_eq!(rounds(&[one.into()]), [10, 20, 30]);
        assert_eq!(rounds(&[one.into(), other.into()]), [13, 23]);
        assert_eq!(rounds(&[]), [0; 0]);
    }
}
