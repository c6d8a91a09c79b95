//! The wear counters of a device, one a line.

use std::fmt::Write;

use flashfit_device::Bytes;
use flashfit_report::{Column, Shorten, TextTable};
use flashfit_wear_counters::{CounterUnit, WearReading};

pub fn text(reading: &WearReading, columns: usize) -> String {
    let mut text = String::new();
    writeln!(text, "{} ({})\n", reading.device.display(), reading.kind)
        .expect("a string takes any text");
    let mut table = TextTable::new([
        Column::text("WHAT"),
        Column::number("VALUE"),
        Column::number("STEP"),
        Column::text("SOURCE").shorten(Shorten::End),
    ]);
    for counter in &reading.counters {
        let shown = |value| amount(value, counter.unit);
        table.row([
            counter.measures.text().to_owned(),
            shown(counter.value),
            shown(counter.step),
            counter.source.clone(),
        ]);
    }
    text + &table.render(columns)
}

/// A value with its unit.
fn amount(value: u64, unit: CounterUnit) -> String {
    match unit {
        CounterUnit::Bytes => Bytes(value).si(),
        CounterUnit::Percent => format!("{value} %"),
        CounterUnit::Count => value.to_string(),
        CounterUnit::Hours => format!("{value} h"),
    }
}
