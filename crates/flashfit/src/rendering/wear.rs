//! Text of `flashfit wear record`, `wear estimate` and `wear age`.

use std::path::Path;

use flashfit_device::Bytes;
use flashfit_report::{Column, TextTable};
use flashfit_wear::extrapolation::Interval;
use flashfit_wear::{SetupEstimate, UsageModel};

use crate::wear::estimate::EstimateDocument;
use crate::wear::record::RecordDocument;

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

fn interval(of: Interval, unit: fn(f64) -> String) -> String {
    format!("{} ({} to {})", unit(of.median), unit(of.low), unit(of.high))
}

pub fn estimate_text(document: &EstimateDocument, usage: &UsageModel, width: usize) -> String {
    let mut text = format!(
        "Simulated life of {}\n{}: {:.2} GiB a day written by programs; rated for {} erase cycles\n\n",
        document.target, usage.title, document.gib_a_day, document.rated_cycles
    );
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
    for setup in &document.setups {
        text += &details(&setup.estimate);
    }
    if let Some(years) = document.wanted_years {
        text += &format!("LASTS: the share of simulated lives longer than {years} years.\n");
    }
    if compared {
        text += "The ratio is surer than the years: what is unknown about the device and the volume \
                 is the same\nfor all setups.\n";
    }
    text += "FS WA and CARD WA: bytes that the file system sends, and that the card programs, per \
             byte they are given.\n";
    text
}

fn details(found: &SetupEstimate) -> String {
    let ends: Vec<String> = (found.limits.iter())
        .map(|end| format!("{} after {}", end.limit.text(), years(end.years)))
        .collect();
    let first = &found.assumptions[0];
    format!(
        "{}: {} years (medians).\n  What matters most is the {}: {} to {} years by that alone.\n  \
         CELF score {:.2} millionths of the life per recorded cycle; one cycle = {:.3} months.\n",
        found.setup,
        ends.join(", "),
        first.assumption.text(),
        years(first.years_low),
        years(first.years_high),
        found.celf.score_millionths,
        found.celf.cycle_months,
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn years_have_two_digits() {
        assert_eq!([0.123, 1.26, 23.4].map(years), ["0.12", "1.3", "23"]);
    }
}
