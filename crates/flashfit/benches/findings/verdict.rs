//! Whether a published finding came out.

use crate::finding::{BAND, Expectation, Finding};

/// The outcome of a finding, as a sentence.
pub fn verdict(finding: &Finding, rates: &[f64]) -> String {
    let off = failures(finding, rates);
    if off.is_empty() {
        return "**Reproduced.**".to_owned();
    }
    format!("**Not reproduced**: {}.", off.join("; "))
}

/// What is not as published.
fn failures(finding: &Finding, rates: &[f64]) -> Vec<String> {
    let (Some(&first), Some(&last)) = (rates.first(), rates.last()) else {
        return vec!["nothing was measured".to_owned()];
    };
    let highest = rates.iter().copied().fold(0.0, f64::max);
    let lowest = rates.iter().copied().fold(f64::INFINITY, f64::min);
    let unless = |is_so: bool, text: String| if is_so { Vec::new() } else { vec![text] };
    match finding.expect {
        Expectation::Ratios => ratios(finding, rates),
        Expectation::Growth { least_ratio } => {
            let grows = rates.windows(2).all(|pair| pair[1] > pair[0]);
            let text = format!("the rate does not grow by a factor of {least_ratio} throughout");
            unless(grows && last >= first * least_ratio as f64, text)
        }
        Expectation::Dip => {
            let text = "no case is less than half as fast as the first one, or the last one is";
            unless(lowest < first / 2.0 && last >= first / 2.0, text.to_owned())
        }
        Expectation::Level => {
            let text = "random writes are less than half as fast as sequential ones".to_owned();
            unless(lowest >= first / 2.0, text)
        }
        Expectation::Spread { percent } => {
            let (published, here) = (1.0 + percent as f64 / 100.0, highest / lowest);
            let text = format!(
                "the fastest is {:.0} % faster than the slowest, not {percent} %",
                (here - 1.0) * 100.0
            );
            unless(is_within(here, published), text)
        }
    }
}

fn ratios(finding: &Finding, rates: &[f64]) -> Vec<String> {
    let Some(base) = finding.cases.first().and_then(|case| case.published) else {
        return vec!["the first case has no published figure".to_owned()];
    };
    let mut failures = Vec::new();
    for (case, rate) in finding.cases.iter().zip(rates).skip(1) {
        let Some(published) = case.published else { continue };
        let (theirs, ours) = (published / base, rate / rates[0]);
        if !is_within(ours, theirs) {
            failures.push(format!(
                "{} is {ours:.1} times as fast, not {theirs:.1} times ({:.1} to {:.1} would do)",
                case.label,
                theirs / BAND,
                theirs * BAND
            ));
        }
    }
    failures
}

fn is_within(ours: f64, theirs: f64) -> bool {
    ours >= theirs / BAND && ours <= theirs * BAND
}
