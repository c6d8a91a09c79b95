//! Texts of what was measured, and how. What a user named is left out unless it is asked for.

use flashfit_device::Bytes;
use flashfit_report::FigureUnit;
use flashfit_survey::metric::{MetricGroup, SurveyMetric};
use flashfit_survey::query::cells::MeasuredWay;
use flashfit_survey::record::{MeasuredSetup, SurveyMeasure};

use crate::SiteOptions;

pub fn group(metric: &str) -> Option<MetricGroup> {
    SurveyMetric::of_name(metric).map(SurveyMetric::group)
}

/// A unit that is stored, with the factor to the one that is shown.
pub fn unit(stored: &str) -> (FigureUnit, f64) {
    match stored {
        "bytes/s" => (FigureUnit::BytesPerSecond, 1.0),
        "operations/s" | "runs/s" => (FigureUnit::RequestsPerSecond, 1.0),
        "ns" => (FigureUnit::Nanoseconds, 1.0),
        "bytes" => (FigureUnit::Bytes, 1.0),
        "percent" => (FigureUnit::Percent, 1.0),
        "share" => (FigureUnit::Percent, 100.0),
        _ => (FigureUnit::Number, 1.0),
    }
}

/// The unit of a measure; shares are shown in percent.
pub fn stored_unit(measure: &SurveyMeasure) -> &str {
    match measure.metric.as_str() {
        "broken-promises" | "failed-cuts" => "share",
        _ => &measure.unit,
    }
}

/// A figure with its unit.
pub fn figure(value: f64, stored: &str) -> String {
    match stored {
        "bytes" if value >= 0.0 => Bytes(value as u64).to_string(),
        "bytes/run" if value >= 0.0 => format!("{}/run", Bytes(value as u64)),
        "count" if value.fract() == 0.0 => format!("{value}"),
        "hours" | "pages" => format!("{value} {stored}"),
        _ => {
            let (unit, factor) = unit(stored);
            unit.show(value * factor)
        }
    }
}

/// The ends of an interval, with the unit once.
pub fn range(low: f64, high: f64, stored: &str) -> String {
    let (unit, factor) = unit(stored);
    unit.show_range(low * factor, high * factor)
}

/// `ext4 noatime+discard, scheduler bfq`.
pub fn setup(setup: &MeasuredSetup) -> String {
    let options = if setup.options.is_empty() { "default options" } else { &setup.options };
    let scheduler = match setup.scheduler.as_str() {
        "" => String::new(),
        name => format!(", scheduler {name}"),
    };
    match setup.filesystem.as_str() {
        "" => "no file system".to_owned(),
        name => format!("{name} {options}{scheduler}"),
    }
}

/// What a measure is of, without the workload: `write, 256 KiB`.
pub fn part(measure: &SurveyMeasure) -> String {
    // A stage often has the name of its direction or workload.
    let is_said = [&measure.direction, &measure.workload].contains(&&measure.stage);
    let stage = if is_said { "" } else { &measure.stage };
    joined(&[stage, &measure.direction, &measure.point], ", ")
}

/// `linear-write: write, 256 KiB`.
pub fn measure(measure: &SurveyMeasure) -> String {
    joined(&[&measure.workload, &part(measure)], ": ")
}

/// The parts that are not empty.
pub fn joined(parts: &[&str], between: &str) -> String {
    let parts: Vec<&str> = parts.iter().copied().filter(|part| !part.is_empty()).collect();
    parts.join(between)
}

/// How it was measured. The part of a kernel's version that whoever built it has added can name a
/// project or a machine.
pub fn way(way: &MeasuredWay, options: SiteOptions) -> String {
    let kernel = match (way.kernel.as_str(), options.with_names) {
        ("", _) => String::new(),
        (kernel, true) => format!("Linux {kernel}"),
        (kernel, false) => format!("Linux {}", plain_version(kernel)),
    };
    let processors = match way.processors {
        Some(1) => "1 processor".to_owned(),
        Some(count) => format!("{count} processors"),
        None => String::new(),
    };
    let test_bed = match way.test_bed.as_str() {
        "" => String::new(),
        name => format!("test bed {name}"),
    };
    let parts = [&kernel, &way.machine, &processors, &test_bed, &way.conditions];
    let text = joined(&parts.map(String::as_str), ", ");
    if text.is_empty() { "unknown conditions".to_owned() } else { text }
}

/// The numbers at the beginning of a version.
fn plain_version(version: &str) -> &str {
    let end = version.find(|letter: char| !letter.is_ascii_digit() && letter != '.');
    version[..end.unwrap_or(version.len())].trim_end_matches('.')
}

/// `1 card`, `2 cards`.
pub fn counted(count: usize, what: &str) -> String {
    format!("{count} {what}{}", if count == 1 { "" } else { "s" })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_way_does_not_name_the_builder_of_the_kernel() {
        let measured = MeasuredWay {
            source_kind: "run".into(),
            conditions: "quick".into(),
            kernel: "6.12.8-acme-gateway+".into(),
            machine: "aarch64".into(),
            processors: Some(4),
            test_bed: "ssh".into(),
        };
        let text = way(&measured, SiteOptions::default());
        assert_eq!(text, "Linux 6.12.8, aarch64, 4 processors, test bed ssh, quick");
        assert!(way(&measured, SiteOptions { with_names: true }).contains("-acme-gateway"));
        assert_eq!(plain_version("6.12.y"), "6.12");
    }

    #[test]
    fn measures_and_setups_are_read_at_once() {
        let of = |stage: &str, direction: &str| {
            measure(&SurveyMeasure {
                workload: "files".into(),
                stage: stage.into(),
                direction: direction.into(),
                ..SurveyMeasure::default()
            })
        };
        assert_eq!(of("write", "write"), "files: write");
        assert_eq!(of("serve", "read"), "files: serve, read");
        let own = MeasuredSetup { filesystem: "ext4".into(), ..MeasuredSetup::default() };
        assert_eq!(setup(&own), "ext4 default options");
        assert_eq!(figure(4_194_304.0, "bytes"), "4 MiB");
        assert_eq!(figure(3.0, "count"), "3");
        assert_eq!(figure(0.25, "share"), "25.0 %");
        assert_eq!(figure(20.0, "hours"), "20 hours");
    }
}
