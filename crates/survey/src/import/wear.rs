//! Documents of wear counters: what a device reported at one time, and what a command cost it.
//!
//! Each reading is a source with its date, so the sources of a card show how its wear grew.
//! Counters that began when the device was attached or a file system was made are left out of
//! readings, because they say nothing about the life of the card. Limit: documents of a simulated
//! card that was served do not name its model, and are refused.

use flashfit_wear_counters::{CountSpan, CounterUnit, WearMeasurement, WearQuantity, WearReading};
use serde_json::Value;

use super::figures::measure;
use super::{canonical, envelope};
use crate::metric::SurveyMetric;
use crate::record::{
    MeasuredSetup, ProbedConstruction, SourceFacts, SourceKind, SurveyMeasure, SurveyResult,
    SurveySource, SurveyValue, stored_text,
};

const SIMULATED: &str = "a simulated card counted, and the document does not name its model";

/// # Errors
/// The reason, if it cannot be used.
pub fn read_reading(document: &Value) -> Result<SurveySource, String> {
    let (reading, tool_version): (WearReading, String) = envelope::data(document)?;
    if reading.counters.iter().any(|counter| counter.is_simulated) {
        return Err(SIMULATED.to_owned());
    }
    let device = reading.measured_device.as_ref();
    let card = envelope::card(device)?;
    let is_of_life = |since| since == CountSpan::Made;
    let counters = reading.counters.iter().filter(|counter| is_of_life(counter.since));
    let results = counters.map(|counter| SurveyResult {
        setup: MeasuredSetup::default(),
        measure: of_counter(counter.measures, counter.unit, &counter.id, ""),
        value: SurveyValue {
            value: counter.value as f64,
            low: None,
            high: None,
            count: 1,
            confidence: None,
        },
    });
    let results = distinct(results);
    if results.is_empty() {
        return Err("the device reported no counter of its life".to_owned());
    }
    let left_out = reading.counters.iter().filter(|counter| !is_of_life(counter.since)).count();
    let mut notes = Vec::new();
    if left_out > 0 {
        notes.push(format!("{left_out} counters that do not count since the card was made"));
    }
    let address = canonical::address(document);
    Ok(SurveySource {
        origin: address.clone(),
        former_origin: None,
        address,
        rank: 0,
        kind: SourceKind::WearReading,
        is_simulated: false,
        card,
        facts: SourceFacts {
            created_unix_s: reading.created_unix_s,
            tool_version,
            firmware: envelope::firmware(device),
            ..SourceFacts::default()
        },
        construction: ProbedConstruction::default(),
        results,
        notes,
    })
}

/// # Errors
/// The reason, if it cannot be used.
pub fn read_measurement(document: &Value) -> Result<SurveySource, String> {
    let (found, tool_version): (WearMeasurement, String) = envelope::data(document)?;
    if found.is_simulated {
        return Err(SIMULATED.to_owned());
    }
    let device = found.measured_device.as_ref();
    let card = envelope::card(device)?;
    let workload = envelope::command_name(&found.command);
    let mut results = Vec::new();
    if let Some(ratio) = &found.write_amplification {
        let measure = SurveyMeasure {
            workload: workload.clone(),
            ..measure(SurveyMetric::WriteAmplification, "ratio")
        };
        let interval = (ratio.low, ratio.middle, ratio.high);
        results.extend(interval_result(measure, interval, found.runs));
    }
    let mut notes = Vec::new();
    for counter in &found.counters {
        if let Some(reason) = &counter.not_believed {
            notes.push(stored_text(&format!("{} is left out: {reason}", counter.id)));
            continue;
        }
        let measure = of_counter(counter.measures, counter.unit, &counter.id, &workload);
        let unit = format!("{}/run", measure.unit);
        let measure = SurveyMeasure { unit, ..measure };
        let interval = &counter.per_run;
        let interval = (interval.low, interval.middle, interval.high);
        results.extend(interval_result(measure, interval, found.runs));
    }
    let results = distinct(results.into_iter());
    if results.is_empty() {
        return Err("it has no figures".to_owned());
    }
    let address = canonical::address(document);
    Ok(SurveySource {
        origin: address.clone(),
        former_origin: None,
        address,
        rank: 0,
        kind: SourceKind::WearMeasurement,
        is_simulated: false,
        card,
        facts: SourceFacts {
            created_unix_s: found.created_unix_s,
            tool_version,
            firmware: envelope::firmware(device),
            ..SourceFacts::default()
        },
        construction: ProbedConstruction::default(),
        results,
        notes,
    })
}

fn interval_result(
    measure: SurveyMeasure,
    (low, middle, high): (Option<f64>, f64, Option<f64>),
    runs: u32,
) -> Option<SurveyResult> {
    let mut all = [low, Some(middle), high].into_iter().flatten();
    let is_valid = all.all(|value| value.is_finite() && value >= 0.0);
    is_valid.then(|| SurveyResult {
        setup: MeasuredSetup::default(),
        measure,
        value: SurveyValue { value: middle, low, high, count: runs.max(1), confidence: None },
    })
}

/// The figures, those of one measure once.
fn distinct(results: impl Iterator<Item = SurveyResult>) -> Vec<SurveyResult> {
    let mut kept: Vec<SurveyResult> = Vec::new();
    for result in results {
        if kept.iter().all(|one| one.measure != result.measure) {
            kept.push(result);
        }
    }
    kept
}

/// The measure of a counter, whose name is the point.
fn of_counter(
    quantity: WearQuantity,
    unit: CounterUnit,
    id: &str,
    workload: &str,
) -> SurveyMeasure {
    let unit = match unit {
        CounterUnit::Bytes => "bytes",
        CounterUnit::Pages => "pages",
        CounterUnit::Percent => "percent",
        CounterUnit::Count => "count",
        CounterUnit::Hours => "hours",
    };
    SurveyMeasure {
        workload: workload.to_owned(),
        point: stored_text(id),
        ..measure(metric(quantity), unit)
    }
}

fn metric(quantity: WearQuantity) -> SurveyMetric {
    match quantity {
        WearQuantity::HostWritten => SurveyMetric::HostWritten,
        WearQuantity::HostRead => SurveyMetric::HostRead,
        WearQuantity::HostDiscarded => SurveyMetric::HostDiscarded,
        WearQuantity::FileSystemWritten => SurveyMetric::FileSystemWritten,
        WearQuantity::FlashWritten => SurveyMetric::FlashWritten,
        WearQuantity::FlashWrittenForHost => SurveyMetric::FlashWrittenForHost,
        WearQuantity::FlashWrittenByController => SurveyMetric::FlashWrittenByController,
        WearQuantity::ErasesTotal => SurveyMetric::EraseCountTotal,
        WearQuantity::ErasesMean => SurveyMetric::EraseCountMean,
        WearQuantity::ErasesMost => SurveyMetric::EraseCountMax,
        WearQuantity::ErasesLeast => SurveyMetric::EraseCountMin,
        WearQuantity::LifeUsed | WearQuantity::LifeUsedA | WearQuantity::LifeUsedB => {
            SurveyMetric::LifeUsed
        }
        WearQuantity::SparesUsed => SurveyMetric::SpareUsed,
        WearQuantity::PowerCycles => SurveyMetric::PowerCycles,
        WearQuantity::PowerLosses => SurveyMetric::UnsafeShutdowns,
        WearQuantity::PowerOnHours => SurveyMetric::PowerOnHours,
    }
}
