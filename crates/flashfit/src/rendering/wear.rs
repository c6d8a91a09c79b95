//! Text of `flashfit wear record`, `wear estimate` and `wear age`.

use std::path::Path;

use flashfit_device::Bytes;
use flashfit_report::text::wrap;
use flashfit_report::{Column, TextTable};
use flashfit_wear::extrapolation::Interval;
use flashfit_wear::mix::ModeledUsage;
use flashfit_wear::{SetupEstimate, UsageModel, UsedLife};

use crate::rendering::two_digits::two_digits;
use crate::wear::estimate::EstimateDocument;
use crate::wear::record::RecordDocument;

const DAYS_A_YEAR: f64 = 365.25;
const HOURS_A_MONTH: f64 = DAYS_A_YEAR * 24.0 / 12.0;
/// Shorter lives are shown in days.
const DAYS_BELOW_YEARS: f64 = 0.1;

pub fn recorded_text(document: &RecordDocument, file: &Path) -> String {
    let header = &document.header;
    let amplification =
        document.counters.write_amplification_thousandths.unwrap_or(0) as f64 / 1000.0;
    format!(
        "Recorded {} requests of {} on {} in {}.\n\
         Programs wrote {}, the file system {}; the simulated card programmed {amplification:.2} \
         times as much.\n",
        document.requests,
        header.workload,
        header.filesystem,
        file.display(),
        Bytes(header.written_by_programs.0),
        Bytes(document.written_to_card_bytes),
    )
}

/// Years with two digits, as 0.12, 1.3 or 23.
pub fn years(years: f64) -> String {
    two_digits(years)
}

/// `1.3 years`, or `12 days` for less than a tenth of a year.
pub fn span(years: f64) -> String {
    let scale = TimeScale::of(years);
    format!("{} {}", scale.show(years), scale.name())
}

/// `0.51 to 2.6 years`, in the unit of the higher one.
fn range(low: f64, high: f64) -> String {
    let scale = TimeScale::of(high);
    format!("{} to {} {}", scale.show(low), scale.show(high), scale.name())
}

/// `1.3 (0.51 to 2.6)` under a head that says years; `12 days (4.1 to 33)` if the median is less
/// than a tenth of a year.
pub fn years_cell(of: Interval) -> String {
    let scale = TimeScale::of(of.median);
    let unit = if scale == TimeScale::Days { " days" } else { "" };
    let [median, low, high] = [of.median, of.low, of.high].map(|years| scale.show(years));
    format!("{median}{unit} ({low} to {high})")
}

/// The same as part of a sentence: `1.3 years`, and `0.51 to 2.6`.
pub fn years_in_words(of: Interval) -> (String, String) {
    let scale = TimeScale::of(of.median);
    (span(of.median), format!("{} to {}", scale.show(of.low), scale.show(of.high)))
}

/// The unit in which the figures of a life are shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum TimeScale {
    Days,
    Years,
}

impl TimeScale {
    /// That of an interval is the scale of its median.
    fn of(years: f64) -> Self {
        if years < DAYS_BELOW_YEARS && years > 0.0 { Self::Days } else { Self::Years }
    }

    fn show(self, years: f64) -> String {
        two_digits(if self == Self::Days { years * DAYS_A_YEAR } else { years })
    }

    fn name(self) -> &'static str {
        if self == Self::Days { "days" } else { "years" }
    }
}

fn ratio(of: Interval) -> String {
    format!("{:.2} ({:.2} to {:.2})", of.median, of.low, of.high)
}

pub fn estimate_text(document: &EstimateDocument, usage: &UsageModel, width: usize) -> String {
    let mut text = paragraph(&format!("Simulated life of {}", document.target), "", width);
    let volume = format!(
        "{}: {:.2} GiB a day written by programs; {}",
        usage.title,
        document.gib_a_day,
        rating(document.rated_cycles, document.pslc_rated_cycles)
    );
    text += &paragraph(&volume, "", width);
    text.push('\n');
    let compared = document.setups.iter().any(|setup| setup.ratio_to_first.is_some());
    let mut columns = vec![
        Column::text("SETUP"),
        Column::text("YEARS (90 % INTERVAL)"),
        Column::text("FIRST LIMIT"),
        Column::number("FS WA"),
        Column::number("CARD WA"),
        Column::number("WORST/MEAN"),
    ];
    if document.wanted_years.is_some() {
        columns.push(Column::number("LASTS"));
    }
    if compared {
        columns.push(Column::text("TIMES AS LONG"));
    }
    let mut table = TextTable::new(columns);
    for (index, setup) in document.setups.iter().enumerate() {
        let found = &setup.estimate;
        let mut cells = vec![
            found.setup.clone(),
            years_cell(found.years),
            found.limit.short().to_owned(),
            format!("{:.1}", found.filesystem_amplification),
            format!("{:.1}", found.write_amplification),
            format!("{:.1}", found.worst_to_mean),
        ];
        if let Some(percent) = setup.percent_beyond {
            cells.push(format!("{percent:.0} %"));
        }
        if compared {
            let ratio = setup.ratio_to_first.map(ratio);
            let none = if index == 0 { "1" } else { "not known" };
            cells.push(ratio.unwrap_or_else(|| none.to_owned()));
        }
        table.row(&cells);
    }
    text += &table.render(width);
    text += "\n";
    for setup in &document.not_estimated {
        text += &paragraph(&format!("Not estimated: {}", setup.reason), "", width);
    }
    for setup in &document.setups {
        text += &details(&setup.estimate, width);
        if let Some(note) = modeled_note(&setup.estimate.modeled, usage) {
            text += &paragraph(&note, "  ", width);
        }
    }
    text += &paragraph(
        "YEARS: until the first limit. Past its rating, a maker promises nothing; the device accepts \
         writes until its spare blocks are used up. WORST/MEAN: how much more of its rating than the \
         mean the most worn block has used when it reaches it.",
        "",
        width,
    );
    if document.used_life != UsedLife::NEW {
        let given = "The years of a used device, and their intervals, count only the cases in \
                     which it still accepts writes now.";
        text += &paragraph(given, "", width);
    }
    if let Some(years) = document.wanted_years {
        let lasts =
            format!("LASTS: the share of simulated lives without a limit within {years} years.");
        text += &paragraph(&lasts, "", width);
    }
    if compared {
        text += &paragraph(
            "The ratio is surer than the years: what is unknown about the device and the volume is \
             the same for all setups.",
            "",
            width,
        );
    }
    text += &paragraph(
        "FS WA and CARD WA: bytes that the file system sends, and that the card programs, per byte \
         they are given.",
        "",
        width,
    );
    text
}

/// `rated for 3000 erase cycles, 30000 in the pSLC area`.
pub fn rating(cycles: u64, pslc_cycles: Option<u64>) -> String {
    let pslc = pslc_cycles.map(|cycles| format!(", {cycles} in the pSLC area"));
    format!("rated for {cycles} erase cycles{}", pslc.unwrap_or_default())
}

/// `64 GiB, 90 % of it never written`.
pub fn capacity(device: Bytes, unwritten: Bytes) -> String {
    if unwritten.0 == 0 {
        return device.to_string();
    }
    let percent = unwritten.0 as f64 * 100.0 / device.0 as f64;
    format!("{device}, {percent:.0} % of it never written")
}

fn paragraph(text: &str, indent: &str, width: usize) -> String {
    let lines = wrap(text, width.saturating_sub(indent.len()));
    lines.into_iter().map(|line| format!("{indent}{line}\n")).collect()
}

fn details(found: &SetupEstimate, width: usize) -> String {
    let ends: Vec<String> = (found.limits.iter())
        .map(|end| match end.years {
            Some(after) => format!("{} after {}", end.limit.text(), span(after)),
            None => format!("{} not reached", end.limit.text()),
        })
        .collect();
    let first = &found.assumptions[0];
    let (writable, writable_range) = years_in_words(found.writable_years);
    let mut text = paragraph(
        &format!("{}: {} (each assumption at its median).", found.setup, ends.join(", ")),
        "",
        width,
    );
    for line in [
        format!("It accepts writes for {writable} ({writable_range})."),
        format!(
            "What matters most is the {}: {} by that alone.",
            first.assumption.text(),
            range(first.years_low, first.years_high)
        ),
        format!(
            "A block can be erased before it is full; on average it is erased {:.0} times a year.",
            found.erases.mean
        ),
        format!(
            "CELF score: one recorded cycle, or {:.1} hours of this usage, takes {:.4} % of the \
             life.",
            found.celf.cycle_months * HOURS_A_MONTH,
            found.celf.score_millionths / 1e4
        ),
    ] {
        text += &paragraph(&line, "  ", width);
    }
    text
}

/// What the simulation had instead of what the usage model says.
pub fn modeled_note(modeled: &ModeledUsage, usage: &UsageModel) -> Option<String> {
    let changed = modeled.is_changed_elsewhere(usage).then(|| {
        let (here, there) = (modeled.changed_percent, usage.changed_percent.value);
        format!("{here:.1} % of the device changed, not {there} %")
    });
    let filled = modeled.is_filled_elsewhere(usage).then(|| {
        let (here, there) = (modeled.filled_percent, usage.fill_percent.value);
        format!("{here:.0} % filled, not {there} %")
    });
    let parts: Vec<String> = changed.into_iter().chain(filled).collect();
    (!parts.is_empty())
        .then(|| format!("Modeled with {}: the recordings are of one size.", parts.join(" and ")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_never_written_belongs_to_the_device() {
        assert_eq!(capacity(Bytes::mib(64 << 10), Bytes(0)), "64 GiB");
        let most = Bytes::mib(64 * 922);
        assert_eq!(capacity(Bytes::mib(64 << 10), most), "64 GiB, 90 % of it never written");
        assert_eq!(
            rating(3000, Some(30_000)),
            "rated for 3000 erase cycles, 30000 in the pSLC area"
        );
    }

    #[test]
    fn years_have_two_digits() {
        assert_eq!([0.123, 1.26, 23.4].map(years), ["0.12", "1.3", "23"]);
        assert_eq!(
            [0.0, 0.002, 0.0999, 0.1].map(span),
            ["0 years", "0.73 days", "36 days", "0.10 years"]
        );
    }

    #[test]
    fn a_short_life_has_all_its_figures_in_days() {
        let of = |low, median, high| Interval { low, median, high };
        assert_eq!(years_cell(of(0.004, 0.01, 0.2)), "3.7 days (1.5 to 73)");
        assert_eq!(years_cell(of(0.004, 0.12, 1.5)), "0.12 (0.0040 to 1.5)");
        let (median, shown) = years_in_words(of(0.001, 0.002, 0.004));
        assert_eq!((median.as_str(), shown.as_str()), ("0.73 days", "0.37 to 1.5"));
        assert_eq!(range(0.01, 0.02), "3.7 to 7.3 days");
        assert_eq!(range(0.01, 1.2), "0.010 to 1.2 years");
    }

    #[test]
    fn a_simulation_that_differs_from_the_usage_model_says_so() {
        let usage = flashfit_wear::usage::load("data-logger", None).unwrap();
        let modeled = ModeledUsage { changed_percent: 12.5, filled_percent: 62.4 };
        assert_eq!(
            modeled_note(&modeled, &usage).unwrap(),
            "Modeled with 62 % filled, not 40 %: the recordings are of one size."
        );
        let camera = flashfit_wear::usage::load("camera", None).unwrap();
        assert_eq!(
            modeled_note(&modeled, &camera).unwrap(),
            "Modeled with 12.5 % of the device changed, not 40 %: the recordings are of one size."
        );
        let same = ModeledUsage { changed_percent: 12.5, filled_percent: 41.0 };
        assert_eq!(modeled_note(&same, &usage), None);
    }
}
