//! The document of a probe.

use flashfit_geometry::{GeometryFinding, QuantityValue};
use flashfit_probe::{ProbeDocument, WrongQuantity};
use serde_json::Value;

use super::canonical;
use super::figures::measure;
use crate::identity::CardIdentity;
use crate::metric::SurveyMetric;
use crate::record::{
    MeasuredSetup, ProbedConstruction, SourceFacts, SourceKind, SurveyResult, SurveySource,
    SurveyValue, stored_text,
};

/// The version of the document.
const VERSION: u64 = 1;

/// # Errors
/// The reason, if it cannot be used.
pub fn read(document: &Value) -> Result<SurveySource, String> {
    if document.get("schema_version").and_then(Value::as_u64) != Some(VERSION) {
        return Err("it is a probe of another version of flashfit".to_owned());
    }
    let probe = serde_json::from_value::<ProbeDocument>(document.clone())
        .map_err(|error| format!("it is not a probe that this version reads: {error}"))?;
    if let Some(wrong) = WrongQuantity::of(&probe) {
        return Err(format!("it is not a probe that this version reads: {wrong}"));
    }
    let Some(device) = &probe.device else {
        return Err("it was made from tables, and says nothing about the device".to_owned());
    };
    let card = if probe.simulated {
        let name = simulated_name(&probe.target);
        CardIdentity::simulated(&name, Some(device.capacity_bytes))
    } else {
        CardIdentity::of_device(
            device.kind,
            &device.identity,
            &probe.declared,
            device.capacity_bytes,
            device.partition_start_bytes.is_some(),
        )
    };
    let address = canonical::address(document);
    let findings = &probe.findings;
    let mut notes = Vec::new();
    if probe.interrupted {
        notes.push("the probe was interrupted".to_owned());
    }
    Ok(SurveySource {
        origin: address.clone(),
        former_origin: None,
        address,
        rank: 0,
        kind: SourceKind::Probe,
        is_simulated: probe.simulated,
        card,
        facts: SourceFacts {
            created_unix_s: probe.created_unix_s,
            tool_version: stored_text(&probe.tool_version),
            firmware: stored_text(device.identity.firmware.as_deref().unwrap_or_default()),
            ..SourceFacts::default()
        },
        construction: ProbedConstruction {
            erase_block: found(&findings.erase_block),
            write_unit: found(&findings.write_unit),
            capacity: found(&findings.capacity),
        },
        results: results(&probe),
        notes,
    })
}

/// The name of a card model, without the folder of its file.
pub fn simulated_name(target: &str) -> String {
    let name = target.strip_prefix("sim:").unwrap_or(target);
    let name = name.rsplit('/').next().unwrap_or(name);
    stored_text(name.strip_suffix(".toml").unwrap_or(name))
}

fn found(finding: &GeometryFinding) -> Option<u64> {
    match finding.value {
        Some(QuantityValue::Bytes(bytes)) if bytes > 0 => Some(bytes),
        _ => None,
    }
}

fn results(probe: &ProbeDocument) -> Vec<SurveyResult> {
    let findings = &probe.findings;
    let mut offset = findings.erase_block_offset.clone();
    // Of a partition, the finding counts from its start.
    if probe.device.as_ref().is_some_and(|device| device.partition_start_bytes.is_some()) {
        let geometry = probe.geometry();
        let on_disk = QuantityValue::Bytes(geometry.erase_block_offset.0);
        offset.value = offset.value.and_then(|_| geometry.erase_block.map(|_| on_disk));
    }
    let named = [
        (SurveyMetric::Capacity, &findings.capacity),
        (SurveyMetric::Page, &findings.page),
        (SurveyMetric::WriteUnit, &findings.write_unit),
        (SurveyMetric::EraseBlock, &findings.erase_block),
        (SurveyMetric::EraseBlockOffset, &offset),
        (SurveyMetric::OpenEraseBlocksSequential, &findings.open_erase_blocks_linear),
        (SurveyMetric::OpenEraseBlocksRandom, &findings.open_erase_blocks_random),
        (SurveyMetric::SmallWriteLog, &findings.small_write_log),
        (SurveyMetric::SpecialZone, &findings.special_zone),
        (SurveyMetric::PslcCache, &findings.pslc_cache),
    ];
    named.into_iter().filter_map(|(metric, finding)| result(metric, finding)).collect()
}

fn result(metric: SurveyMetric, finding: &GeometryFinding) -> Option<SurveyResult> {
    let (value, unit) = match finding.value.as_ref()? {
        QuantityValue::Bytes(bytes) => (*bytes as f64, "bytes"),
        QuantityValue::Count(count) => (f64::from(*count), "count"),
        QuantityValue::Is(_) => return None,
    };
    let confidence = finding.confidence.filter(|share| (0.0..=1.0).contains(share));
    let value = SurveyValue { value, low: None, high: None, count: 1, confidence };
    Some(SurveyResult { setup: MeasuredSetup::default(), measure: measure(metric, unit), value })
}
