//! The wear counters of a device, one a line, and the sources that gave none.

use std::fmt::Write;

use flashfit_device::Bytes;
use flashfit_host::path_text::to_text;
use flashfit_report::text::{plain, wrap};
use flashfit_report::{Column, Shorten, TextTable};
use flashfit_wear_counters::needed_volume::{NeededVolume, VolumeBasis};
use flashfit_wear_counters::{CounterUnit, SourceAnswer, SourceOutcome, WearCounter, WearReading};

/// What a device reports, `columns` wide.
pub fn text(reading: &WearReading, columns: usize) -> String {
    let mut text = format!("{} ({})\n\n", plain(&to_text(&reading.device)), reading.kind);
    text.push_str(&table(reading).render(columns));
    text.push('\n');
    let mut line = |line: &str| {
        for part in wrap(&plain(line), columns) {
            writeln!(text, "{part}").expect("a string takes any text");
        }
    };
    for fact in &reading.facts {
        line(&format!("{}: {} ({})", fact.name, fact.text, fact.source));
    }
    if reading.counters.iter().any(|counter| counter.is_simulated) {
        line("A simulated card counted: these are figures of its model.");
    }
    let silent: Vec<_> = reading.asked.iter().filter(|asked| asked.counters == 0).collect();
    for asked in silent.iter().filter(|asked| asked.outcome != SourceOutcome::Answered) {
        line(&unanswered(asked));
    }
    if !reading.reports_wear() {
        line(match reading.unanswered().next() {
            None => "The device reports nothing about the wear of its flash.",
            Some(_) => {
                "Not every source answered, so it is unknown whether the device counts wear."
            }
        });
    }
    text
}

/// A source that gave nothing, and why.
pub fn unanswered(asked: &SourceAnswer) -> String {
    let reason = asked.reason.as_deref().unwrap_or_default();
    format!("{}: {}: {reason}", asked.source, outcome(asked.outcome))
}

fn table(reading: &WearReading) -> TextTable {
    let mut table = TextTable::new([
        Column::text("WHAT"),
        Column::number("VALUE"),
        Column::number("STEP"),
        Column::text("SOURCE").shorten(Shorten::Middle),
    ]);
    for counter in &reading.counters {
        table.row([
            counter.measures.text().to_owned(),
            value(counter),
            amount(counter.step, counter.unit),
            counter.source.clone(),
        ]);
    }
    table
}

/// The value of a counter: the range of its step where it counts in steps.
pub fn value(counter: &WearCounter) -> String {
    let shown = amount(counter.value, counter.unit);
    if counter.is_saturated {
        return format!("{shown} or more");
    }
    match counter.unit {
        CounterUnit::Percent if counter.step > 1 => {
            format!("{} to {} %", counter.value, counter.value + counter.step)
        }
        _ => shown,
    }
}

/// A volume, with what the estimate rests on.
pub fn volume(needed: &NeededVolume) -> String {
    let basis = match needed.basis {
        VolumeBasis::Measured => "by this measurement",
        VolumeBasis::AssumedCycles => "if the flash endures 1000 erases",
        VolumeBasis::History => "by the life used so far",
        VolumeBasis::Unit | VolumeBasis::Size => "at most",
    };
    format!("about {} ({basis})", Bytes(needed.bytes).si())
}

pub fn amount(value: u64, unit: CounterUnit) -> String {
    match unit {
        CounterUnit::Bytes => Bytes(value).si(),
        CounterUnit::Pages => format!("{value} pages"),
        CounterUnit::Percent => format!("{value} %"),
        CounterUnit::Count => value.to_string(),
        CounterUnit::Hours => format!("{value} h"),
    }
}

fn outcome(outcome: SourceOutcome) -> &'static str {
    match outcome {
        SourceOutcome::Answered | SourceOutcome::ReportsNothing => "reports nothing",
        SourceOutcome::NeedsRoot => "needs root",
        SourceOutcome::ProgramMissing => "program missing",
        SourceOutcome::Asleep => "asleep",
        SourceOutcome::NotAsked => "not asked",
        SourceOutcome::Failed => "failed",
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const GOLDEN: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/golden/wear-show.txt");

    fn reading(value: serde_json::Value) -> WearReading {
        serde_json::from_value(value).unwrap()
    }

    fn counter(
        measures: &str,
        (value, unit, step): (u64, &str, u64),
        source: &str,
    ) -> serde_json::Value {
        json!({
            "id": "test", "measures": measures, "value": value, "unit": unit, "step": step,
            "since": "made", "source": source, "is_saturated": value >= 100 && unit == "percent",
            "is_simulated": false,
        })
    }

    fn readings() -> [WearReading; 2] {
        let emmc = json!({
            "device": "/dev/mmcblk0", "kind": "emmc",
            "counters": [
                counter("host_written", (1_234_567_890, "bytes", 512), "kernel, stat, sectors written"),
                counter("life_used_a", (0, "percent", 10), "EXT_CSD, DEVICE_LIFE_TIME_EST_TYP_A"),
                counter("life_used_b", (100, "percent", 10), "EXT_CSD, DEVICE_LIFE_TIME_EST_TYP_B"),
            ],
            "facts": [{
                "name": "spare blocks", "text": "80 % used or more", "source": "EXT_CSD, PRE_EOL_INFO",
            }],
            "asked": [
                {"source": "kernel, stat", "outcome": "answered", "counters": 1},
                {"source": "EXT_CSD", "outcome": "answered", "counters": 2},
            ],
        });
        let card = json!({
            "device": "/dev/mmcblk1\u{1b}[2J", "kind": "sd-card",
            "counters": [counter("host_written", (512, "bytes", 512), "kernel, stat, sectors written")],
            "facts": [],
            "asked": [{
                "source": "CMD56", "outcome": "not_asked", "counters": 0,
                "reason": "no manufacturer's command is known for this card; SD cards have no \
                           standard counter of wear",
            }],
        });
        [reading(emmc), reading(card)]
    }

    #[test]
    fn counters_look_as_the_golden_file_has_them() {
        let text = readings().map(|reading| text(&reading, 80)).join("\n");
        flashfit_test_support::golden(GOLDEN, &text);
        assert!(text.lines().all(|line| line.chars().count() <= 80) && !text.contains('\u{1b}'));
    }
}
