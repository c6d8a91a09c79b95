//! Reads a usage model and collects every mistake in it.

use flashfit_catalog::{
    CatalogEntry, FileMistake, FileMistakes, ReadToml, line_of_key, nearest, read_toml,
};
use toml::{Table, Value};

use super::{SourcedNumber, TrimInterval, UsageModel, WORKLOADS};

/// More than any storage of this kind; probably a wrong unit.
const GIB_A_DAY_MAX: f64 = 1_000_000.0;
const CAPACITY_GIB_MAX: f64 = 1_048_576.0;
const UNIT_KEYS: [&str; 6] = ["gib", "gib_a_day", "hours_a_day", "percent", "factor", "interval"];

/// A section with one number and its source.
struct Section {
    name: &'static str,
    /// The key of the number, which is its unit.
    unit: &'static str,
    least: f64,
    most: f64,
}

const fn section(name: &'static str, unit: &'static str, least: f64, most: f64) -> Section {
    Section { name, unit, least, most }
}

const CAPACITY: Section = section("capacity", "gib", 0.5, CAPACITY_GIB_MAX);
const ACTIVE: Section = section("active", "hours_a_day", 0.01, 24.0);
const FILL: Section = section("fill", "percent", 1.0, 95.0);
const CHANGED: Section = section("changed", "percent", 0.1, 50.0);
const SPARE: Section = section("spare", "percent", 0.0, 90.0);
const VOLUME: Section = section("volume", "factor", 1.0, 10.0);
const SECTIONS: [&str; 9] =
    ["title", "capacity", "writes", "active", "fill", "changed", "spare", "volume", "trim"];

struct Reader<'a> {
    text: &'a str,
    table: &'a Table,
    mistakes: Vec<FileMistake>,
}

pub fn read(entry: &CatalogEntry) -> Result<UsageModel, FileMistakes> {
    let ReadToml { value, mistakes } = read_toml::<Table>(&entry.text);
    let Some(table) = value else { return Err(FileMistakes::new(&entry.origin, mistakes)) };
    let mut reader = Reader { text: &entry.text, table: &table, mistakes };
    for key in table.keys().filter(|key| !SECTIONS.contains(&key.as_str())) {
        reader.unknown(key, key, &SECTIONS);
    }
    let title = match table.get("title") {
        Some(Value::String(title)) => title.clone(),
        _ => reader.mistake("title", "is missing: one line that says what the product is"),
    };
    let usage = UsageModel {
        name: entry.name.clone(),
        title,
        capacity_gib: reader.number(&CAPACITY),
        writes: reader.writes(),
        volume_factor: reader.number(&VOLUME),
        active_hours_a_day: reader.number(&ACTIVE),
        fill_percent: reader.number(&FILL),
        changed_percent: reader.number(&CHANGED),
        spare_percent: reader.number(&SPARE),
        trim: reader.trim(),
    };
    let sum = usage.fill_percent.value + usage.spare_percent.value;
    if sum > 100.0 {
        let reason = format!("together with spare.percent {sum} % of the device");
        reader.mistake("fill.percent", &reason);
    }
    match reader.mistakes {
        mistakes if mistakes.is_empty() => Ok(usage),
        mistakes => Err(FileMistakes::new(&entry.origin, mistakes)),
    }
}

impl Reader<'_> {
    fn mistake(&mut self, key: &str, reason: &str) -> String {
        let line = line_of_key(self.text, key);
        self.mistakes.push(FileMistake { line, reason: format!("{key}: {reason}") });
        String::new()
    }

    fn unknown(&mut self, path: &str, key: &str, known: &[&str]) {
        let reason = match nearest(key, known.iter().copied()) {
            Some(nearest) => format!("unknown key; did you mean `{nearest}`?"),
            None => format!("unknown key; expected {}", known.join(", ")),
        };
        self.mistake(path, &reason);
    }

    fn number(&mut self, section: &Section) -> SourcedNumber<f64> {
        match self.table.get(section.name) {
            Some(Value::Table(found)) => {
                let found = found.clone();
                self.sourced(section.name, section, &found)
            }
            Some(_) => self.not_a_section(section.name, section.unit),
            None => {
                let reason = format!("the section is missing: `{}` and `source`", section.unit);
                self.mistake(section.name, &reason);
                default()
            }
        }
    }

    fn not_a_section(&mut self, path: &str, unit: &str) -> SourcedNumber<f64> {
        self.mistake(path, &format!("is not a section with `{unit}` and `source`"));
        default()
    }

    fn sourced(&mut self, path: &str, section: &Section, found: &Table) -> SourcedNumber<f64> {
        for key in found.keys().filter(|key| *key != section.unit && *key != "source") {
            let path = format!("{path}.{key}");
            if UNIT_KEYS.contains(&key.as_str()) || is_unit(key) {
                let reason = format!("wrong unit; expected `{}`", section.unit);
                self.mistake(&path, &reason);
            } else {
                self.unknown(&path, key, &[section.unit, "source"]);
            }
        }
        let path_of_unit = format!("{path}.{}", section.unit);
        let value = match found.get(section.unit) {
            Some(Value::Integer(number)) => Some(*number as f64),
            Some(Value::Float(number)) => Some(*number),
            Some(other) => {
                let reason = format!("is {other}, not a number");
                self.mistake(&path_of_unit, &reason);
                None
            }
            None => {
                self.mistake(&path_of_unit, "is missing");
                None
            }
        };
        let (least, most) = (section.least, section.most);
        if let Some(value) = value.filter(|value| !(least..=most).contains(value)) {
            let reason = format!("is {value}; must lie between {least} and {most}");
            self.mistake(&path_of_unit, &reason);
        }
        let source = self.source(path, found);
        SourcedNumber { value: value.unwrap_or(least), source }
    }

    fn source(&mut self, path: &str, found: &Table) -> String {
        match found.get("source") {
            Some(Value::String(source)) if !source.trim().is_empty() => source.clone(),
            _ => {
                let key = format!("{path}.source");
                self.mistake(&key, "is missing: where the number is from, or \"assumption\"")
            }
        }
    }

    fn writes(&mut self) -> Vec<(String, SourcedNumber<f64>)> {
        let Some(Value::Table(writes)) = self.table.get("writes") else {
            self.mistake("writes", "is missing: sections such as [writes.logs]");
            return Vec::new();
        };
        let section = section("writes", "gib_a_day", 0.0, GIB_A_DAY_MAX);
        let mut found = Vec::new();
        for (workload, value) in writes.clone() {
            let path = format!("writes.{workload}");
            if !WORKLOADS.contains(&workload.as_str()) {
                self.unknown(&path, &workload, &WORKLOADS);
            } else if let Value::Table(table) = value {
                found.push((workload, self.sourced(&path, &section, &table)));
            } else {
                self.not_a_section(&path, section.unit);
            }
        }
        found.retain(|(_, gib)| gib.value > 0.0 || gib.value.is_nan());
        if found.is_empty() && self.mistakes.is_empty() {
            self.mistake("writes", "nothing is written");
        }
        found
    }

    fn trim(&mut self) -> SourcedNumber<TrimInterval> {
        let default = SourcedNumber { value: TrimInterval::Never, source: String::new() };
        let Some(Value::Table(found)) = self.table.get("trim") else {
            self.mistake("trim", "the section is missing: `interval` and `source`");
            return default;
        };
        for key in found.keys().filter(|key| !["interval", "source"].contains(&key.as_str())) {
            self.unknown(&format!("trim.{key}"), key, &["interval", "source"]);
        }
        let value = match found.get("interval").and_then(Value::as_str) {
            Some("never") => TrimInterval::Never,
            Some("weekly") => TrimInterval::Weekly,
            Some("always") => TrimInterval::Always,
            _ => {
                self.mistake("trim.interval", "expected \"never\", \"weekly\" or \"always\"");
                TrimInterval::Never
            }
        };
        SourcedNumber { value, source: self.source("trim", found) }
    }
}

fn default() -> SourcedNumber<f64> {
    SourcedNumber { value: 1.0, source: String::new() }
}

/// Whether a key looks like a unit of size or time, such as `mb_a_day`.
fn is_unit(key: &str) -> bool {
    let first = key.split('_').next().unwrap_or_default();
    ["b", "kb", "mb", "gb", "tb", "kib", "mib", "tib", "bytes", "minutes", "days", "share"]
        .contains(&first)
}
