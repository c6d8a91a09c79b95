//! The document of a campaign of power cuts: of a board with a real card, or of a simulated card.
//!
//! Shares of power cuts have Wilson's 95 % interval (Wilson, 1927). A campaign that was continued
//! replaces its earlier state. Limit: the oracles that found nothing are not in the document, so
//! only broken promises have rows with a share of 0.

use std::collections::BTreeMap;

use flashfit_device::MeasuredDevice;
use serde::Deserialize;
use serde_json::Value;
use sha2::{Digest, Sha256};

use super::figures::{measure, setup};
use super::{canonical, envelope};
use crate::identity::{CardIdentity, hash, hexadecimal};
use crate::metric::SurveyMetric;
use crate::query::statistics::wilson;
use crate::record::{
    MeasuredSetup, ProbedConstruction, SourceFacts, SourceKind, SurveyMeasure, SurveyResult,
    SurveySource, SurveyValue, stored_text, test_bed_kind,
};

/// The most setups and oracles that are read.
const MOST_SETUPS: usize = 1000;
const MOST_POINTS: usize = 100;

#[derive(Debug, Deserialize)]
struct Campaign {
    plan: Value,
    dir: String,
    setups: Vec<CampaignSetup>,
    measured_device: Option<MeasuredDevice>,
    kernel: Option<String>,
    created_unix_s: Option<u64>,
}

#[derive(Debug, Deserialize)]
struct CampaignSetup {
    setup: String,
    states: u64,
    broken_promises: u64,
    by_promise: BTreeMap<String, CampaignPromise>,
    by_oracle: BTreeMap<String, u64>,
    longest_recovery_ms: u64,
}

#[derive(Debug, Deserialize)]
struct CampaignPromise {
    examined: bool,
    broken: u64,
}

/// # Errors
/// The reason, if it cannot be used.
pub fn read(document: &Value) -> Result<SurveySource, String> {
    let (campaign, tool_version): (Campaign, String) = envelope::data(document)?;
    let model = campaign.plan.pointer("/card/model").filter(|model| model.is_object());
    let card = match model {
        Some(model) => {
            let name = model.get("name").and_then(Value::as_str).unwrap_or_default();
            CardIdentity::simulated(name, model.get("capacity").and_then(Value::as_u64))
        }
        None => envelope::card(campaign.measured_device.as_ref())?,
    };
    if campaign.setups.len() > MOST_SETUPS {
        return Err("it has more setups than a survey keeps".to_owned());
    }
    let workload = workload(campaign.plan.get("workload").unwrap_or(&Value::Null));
    let mut results = Vec::new();
    let mut seen = Vec::new();
    let mut cuts: u64 = 0;
    for one in &campaign.setups {
        let of = named_setup(&one.setup);
        if one.states > 0 && !seen.contains(&of) {
            cuts = cuts.saturating_add(one.states);
            collect(&mut results, one, &of, &workload);
            seen.push(of);
        }
    }
    if results.is_empty() {
        return Err("no power was cut yet".to_owned());
    }
    let former_origin = former_origin(&campaign);
    Ok(SurveySource {
        address: canonical::address(document),
        origin: origin(&former_origin, &card),
        former_origin: Some(former_origin),
        rank: cuts,
        kind: SourceKind::PowerCuts,
        is_simulated: model.is_some(),
        card,
        facts: SourceFacts {
            created_unix_s: campaign.created_unix_s,
            tool_version,
            kernel: stored_text(campaign.kernel.as_deref().unwrap_or_default()),
            test_bed: test_bed(&campaign.plan),
            firmware: envelope::firmware(campaign.measured_device.as_ref()),
            conditions: conditions(&campaign.plan),
            ..SourceFacts::default()
        },
        construction: ProbedConstruction::default(),
        results,
        notes: Vec::new(),
    })
}

fn collect(
    results: &mut Vec<SurveyResult>,
    one: &CampaignSetup,
    of: &MeasuredSetup,
    workload: &str,
) {
    let mut add = |metric, unit: &str, point: &str, value: SurveyValue| {
        let measure = SurveyMeasure {
            workload: workload.to_owned(),
            point: stored_text(point),
            ..measure(metric, unit)
        };
        results.push(SurveyResult { setup: of.clone(), measure, value });
    };
    let cuts = one.states;
    let plain =
        |value: f64| SurveyValue { value, low: None, high: None, count: 1, confidence: None };
    add(SurveyMetric::PowerCuts, "count", "", plain(cuts as f64));
    add(SurveyMetric::BrokenPromises, "ratio", "", share(one.broken_promises, cuts));
    let examined = one.by_promise.iter().filter(|(name, one)| one.examined && !name.is_empty());
    for (promise, found) in examined.take(MOST_POINTS) {
        add(SurveyMetric::BrokenPromises, "ratio", promise, share(found.broken, cuts));
    }
    for (oracle, failed) in one.by_oracle.iter().take(MOST_POINTS) {
        add(SurveyMetric::FailedCuts, "ratio", oracle, share(*failed, cuts));
    }
    if one.longest_recovery_ms > 0 {
        let longest = one.longest_recovery_ms as f64 * 1e6;
        add(SurveyMetric::RecoveryTimeMax, "ns", "", plain(longest));
    }
}

/// A share with its interval, of at least one trial.
fn share(part: u64, all: u64) -> SurveyValue {
    let share = part.min(all) as f64 / all as f64;
    let (low, high) = wilson(share, all as f64);
    SurveyValue {
        value: share,
        low: Some(low),
        high: Some(high),
        count: u32::try_from(all).unwrap_or(u32::MAX),
        confidence: None,
    }
}

/// A setup by its label, `ext4` or `ext4:noatime+nobarrier`.
fn named_setup(label: &str) -> MeasuredSetup {
    let (filesystem, options) = label.split_once(':').unwrap_or((label, ""));
    let options: Vec<String> =
        options.split('+').filter(|option| !option.is_empty()).map(str::to_owned).collect();
    setup(filesystem, &options, "")
}

fn workload(plan: &Value) -> String {
    let text = |pointer: &str| plan.pointer(pointer).and_then(Value::as_str).unwrap_or_default();
    if let Some(name) = plan.as_str() {
        return stored_text(name);
    }
    if plan.get("sqlite").is_some() {
        return stored_text(&format!(
            "sqlite:{}:{}",
            text("/sqlite/journal"),
            text("/sqlite/sync")
        ));
    }
    let words = [text("/program/run").to_owned(), text("/program/check").to_owned()];
    envelope::command_name(&words)
}

/// The kind of test bed, without the name of a host.
fn test_bed(plan: &Value) -> String {
    let on = plan.pointer("/board/on").and_then(Value::as_str).unwrap_or("vm");
    stored_text(test_bed_kind(on))
}

fn conditions(plan: &Value) -> String {
    let faults = plan.pointer("/card/faults").and_then(Value::as_array).cloned();
    let mut names: Vec<String> = faults
        .unwrap_or_default()
        .iter()
        .filter_map(|fault| {
            let name = fault.get("class")?.as_str()?;
            Some(match fault.get("value").and_then(Value::as_u64) {
                Some(value) => format!("{name}={value}"),
                None => name.to_owned(),
            })
        })
        .collect();
    names.sort();
    match names.is_empty() {
        true => String::new(),
        false => stored_text(&format!("faults of the card: {}", names.join(", "))),
    }
}

/// The same for all states of a campaign: what it was before, and the card. Cards that are tested
/// one after the other can have equal plans and directories.
fn origin(former: &str, card: &CardIdentity) -> String {
    let capacity = card.capacity.map_or_else(String::new, |bytes| bytes.to_string());
    let texts = [&card.kind, &card.manufacturer, &card.product, &capacity, &card.serial];
    let texts = texts.map(String::as_str);
    hash(&[], &[&["power-cuts of a card", former][..], &texts].concat())
}

/// That of earlier versions: the directory and what cannot change while a campaign continues.
fn former_origin(campaign: &Campaign) -> String {
    let mut hash = Sha256::new();
    hash.update(b"power-cuts\n");
    hash.update(campaign.dir.as_bytes());
    let mut plan = campaign.plan.clone();
    if let Some(plan) = plan.as_object_mut() {
        // The number of power cuts can be raised.
        plan.remove("states");
    }
    hash.update(canonical::address(&plan).as_bytes());
    hexadecimal(&hash.finalize())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_have_wilsons_interval() {
        // statsmodels.stats.proportion.proportion_confint(2, 20, method="wilson")
        let value = share(2, 20);
        assert!((value.low.unwrap() - 0.027_866).abs() < 1e-5, "{value:?}");
        assert!((value.high.unwrap() - 0.301_034).abs() < 1e-5, "{value:?}");
        assert_eq!((value.value, value.count), (0.1, 20));
        let none = share(0, 100);
        assert_eq!((none.value, none.low), (0.0, Some(0.0)));
        assert!((none.high.unwrap() - 0.036_995).abs() < 1e-5, "{none:?}");
    }

    #[test]
    fn labels_are_setups() {
        let of = named_setup("ext4:noatime+nobarrier");
        assert_eq!((of.filesystem.as_str(), of.options.as_str()), ("ext4", "noatime+nobarrier"));
        assert_eq!(named_setup("f2fs").options, "");
    }
}
