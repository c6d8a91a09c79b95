//! The wear counters of a device, one a line, and the sources that gave none.

use std::fmt::Write;

use flashfit_device::Bytes;
use flashfit_report::text::{plain, wrap};
use flashfit_report::{Column, Shorten, TextTable};
use flashfit_wear_counters::{CounterUnit, SourceOutcome, WearCounter, WearReading};

/// What a device reports, `columns` wide.
pub fn text(reading: &WearReading, columns: usize) -> String {
    let mut text =
        format!("{} ({})\n\n", plain(&reading.device.display().to_string()), reading.kind);
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
        let reason = asked.reason.as_deref().unwrap_or_default();
        line(&format!("{}: {}: {reason}", asked.source, outcome(asked.outcome)));
    }
    if !reading.reports_wear() {
        line("The device reports nothing about the wear of its flash.");
    }
    text
}

fn table(reading: &WearReading) -> TextTable {
    let mut table = TextTable::new([
        Column::text("WHAT"),
        Column::number("VALUE"),
        Column::number("STEP"),
        Column::text("SOURCE").shorten(Shorten::End),
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
fn value(counter: &WearCounter) -> String {
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

/// A value with its unit.
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
