//! Text of `flashfit wear record`, `wear estimate` and `wear age`.

use std::path::Path;

use flashfit_device::Bytes;
use flashfit_report::text::wrap;
use flashfit_report::{Column, TextTable};
use flashfit_wear::extrapolation::Interval;
use flashfit_wear::{SetupEstimate, UsageModel};

use crate::wear::estimate::EstimateDocument;
use crate::wear::record::RecordDocument;

const HOURS_A_MONTH: f64 = 365.25 * 24.0 / 12.0;

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
    match years {
        ..1.0 => format!("{years:.2}"),
        ..10.0 => format!("{years:.1}"),
        _ => format!("{years:.0}"),
    }
}

pub fn interval(of: Interval, unit: fn(f64) -> String) -> String {
    format!("{} ({} to {})", unit(of.median), unit(of.low), unit(of.high))
}

pub fn estimate_text(document: &EstimateDocument, usage: &UsageModel, width: usize) -> String {
    let mut text = paragraph(&format!("Simulated life of {}", document.target), "", width);
    let volume = format!(
        "{}: {:.2} GiB a day written by programs; rated for {} erase cycles",
        usage.title, document.gib_a_day, document.rated_cycles
    );
    text += &paragraph(&volume, "", width);
    text.push('\n');
    let compared = document.setups.iter().any(|setup| setup.ratio_to_first.is_some());
    let mut columns = vec![
        Column::text("SETUP"),
        Column::text("YEARS (90 % INTERVAL)"),
        Column::text("ENDS WITH"),
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
    for setup in &document.setups {
        let found = &setup.estimate;
        let mut cells = vec![
            found.setup.clone(),
            interval(found.years, years),
            found.limit.short().to_owned(),
            format!("{:.1}", found.filesystem_amplification),
            format!("{:.1}", found.write_amplification),
            format!("{:.1}", found.erases.most / found.erases.mean),
        ];
        if let Some(percent) = setup.percent_beyond {
            cells.push(format!("{percent:.0} %"));
        }
        if compared {
            let ratio = setup.ratio_to_first.map(|ratio| interval(ratio, |x| format!("{x:.2}")));
            cells.push(ratio.unwrap_or_else(|| "1".to_owned()));
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
    }
    if let Some(years) = document.wanted_years {
        let lasts = format!("LASTS: the share of simulated lives longer than {years} years.");
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

fn paragraph(text: &str, indent: &str, width: usize) -> String {
    let lines = wrap(text, width.saturating_sub(indent.len()));
    lines.into_iter().map(|line| format!("{indent}{line}\n")).collect()
}

fn details(found: &SetupEstimate, width: usize) -> String {
    let ends: Vec<String> = (found.limits.iter())
        .map(|end| format!("{} after {}", end.limit.text(), years(end.years)))
        .collect();
    let first = &found.assumptions[0];
    let mut text =
        paragraph(&format!("{}: {} years (medians).", found.setup, ends.join(", ")), "", width);
    for line in [
        format!(
            "What matters most is the {}: {} to {} years by that alone.",
            first.assumption.text(),
            years(first.years_low),
            years(first.years_high)
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn years_have_two_digits() {
        assert_eq!([0.123, 1.26, 23.4].map(years), ["0.12", "1.3", "23"]);
    }
}
