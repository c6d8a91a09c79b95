//! The verdict and the rankings as plain text.
//!
//! Lines fit the given width, except commands: each is printed on one line so that it can be
//! copied. The output has no colors.

use crate::document::{RankingTable, Report, ReportCommand, ReportVerdict};
use crate::finding::{ColumnKind, ReportFinding};
use crate::table::{Align, Column, Shorten, TextTable};
use crate::text::{self, count_of};

/// The first line of every output about a simulated card.
pub const SIMULATED_BANNER: &str =
    "SIMULATED CARD: these results come from a model of a card, not from a device.";

/// The verdict with commands, risk, warnings and failures.
pub fn render_verdict(report: &Report, width: usize) -> String {
    let mut page = Page { width, text: String::new() };
    if report.simulated {
        page.paragraph(SIMULATED_BANNER, "");
        page.blank_line();
    }
    let verdict = &report.verdict;
    page.paragraph(&format!("{}: {}", verdict.supported_outcome().label(), verdict.headline), "");
    if verdict.is_downgraded() {
        page.paragraph(ReportVerdict::DOWNGRADED, "");
    }
    if let Some(gain) = verdict.gain {
        page.paragraph(&format!("Gain over the baseline: {}", gain.describe()), "");
    }
    for detail in &verdict.detail {
        page.blank_line();
        page.paragraph(detail, "");
    }
    for finding in &report.findings {
        page.finding(finding);
    }
    page.commands(&verdict.commands);
    if !verdict.risk.is_empty() {
        page.blank_line();
        page.paragraph(&format!("Risk: {}", verdict.risk), "");
    }
    if !verdict.power_cuts.is_empty() {
        page.blank_line();
        page.paragraph(&format!("Power cuts: {}", verdict.power_cuts), "");
    }
    page.warnings_and_failures(report);
    if !report.reproduce.is_empty() {
        page.blank_line();
        page.paragraph("To repeat this run:", "");
        page.command(&report.reproduce);
    }
    page.text
}

/// A finding alone; empty if it has no rows.
pub fn render_finding(finding: &ReportFinding, width: usize) -> String {
    let mut page = Page { width, text: String::new() };
    page.finding(finding);
    page.text
}

/// Years are not a column, which would leave no space for names: see [`render_finding`].
pub fn render_ranking(ranking: &RankingTable, width: usize) -> String {
    let mut page = Page { width, text: String::new() };
    page.paragraph(&ranking.title, "");
    page.paragraph(&ranking.scale_note, "");
    let growth = ranking.has_growth();
    let mut columns = vec![
        Column::number("#"),
        Column::text("setup").shorten(Shorten::Middle),
        Column::number("score"),
        Column::text(&ranking.spread.heading()).align(Align::Right),
    ];
    columns.extend(growth.then(|| Column::number("growth")));
    columns.extend([Column::number("n"), Column::text("note").shorten(Shorten::End)]);
    let mut table = TextTable::new(columns);
    for row in &ranking.rows {
        let scaled = ranking.unit.scaled_for(row.score);
        let digits = |value| ranking.unit.digits(value, scaled);
        let marked = row.role.mark().into_iter().chain([row.note.as_str()]);
        let notes: Vec<&str> = marked.filter(|note| !note.is_empty()).collect();
        let mut cells = vec![
            row.rank.to_string(),
            row.setup.clone(),
            ranking.unit.show(row.score),
            format!("{} to {}", digits(row.low), digits(row.high)),
        ];
        cells.extend(growth.then(|| row.growth.clone()));
        cells.extend([row.trials.to_string(), notes.join("; ")]);
        table.row(cells);
    }
    page.text.push_str(&table.render(width));
    page.text
}

struct Page {
    width: usize,
    text: String,
}

impl Page {
    fn line(&mut self, line: &str) {
        self.text.push_str(line);
        self.text.push('\n');
    }

    /// Adds an empty line between two parts.
    fn blank_line(&mut self) {
        if !self.text.is_empty() && !self.text.ends_with("\n\n") {
            self.text.push('\n');
        }
    }

    /// Adds wrapped text, the first line after `bullet` and the others indented below it.
    fn paragraph(&mut self, content: &str, bullet: &str) {
        let indent = text::width(bullet);
        let lines = text::wrap(&text::plain(content), self.width.saturating_sub(indent));
        for (index, line) in lines.iter().enumerate() {
            let start = if index == 0 { bullet.to_owned() } else { " ".repeat(indent) };
            self.line(&format!("{start}{line}"));
        }
    }

    fn command(&mut self, line: &str) {
        self.line(&format!("  {}", text::plain_command(line)));
    }

    fn finding(&mut self, finding: &ReportFinding) {
        if finding.terminal_rows == 0 || finding.rows.is_empty() {
            return;
        }
        self.blank_line();
        self.paragraph(&finding.title, "");
        let columns = finding.columns.iter().map(|(heading, kind)| match kind {
            ColumnKind::Name => Column::text(heading).shorten(Shorten::Middle),
            ColumnKind::Number => Column::number(heading),
            ColumnKind::Remark => Column::text(heading).shorten(Shorten::End),
        });
        let mut table = TextTable::new(columns);
        for row in finding.rows.iter().take(finding.terminal_rows) {
            table.row(row);
        }
        self.text.push_str(&table.render(self.width));
        let more = finding.rows.len().saturating_sub(finding.terminal_rows);
        if more > 0 {
            self.line(&format!("({more} more in the report)"));
        }
    }

    fn commands(&mut self, commands: &[ReportCommand]) {
        for command in commands {
            self.blank_line();
            self.paragraph(&command.caption, "");
            self.command(&command.line);
        }
    }

    fn warnings_and_failures(&mut self, report: &Report) {
        if !report.warnings.is_empty() {
            self.blank_line();
            self.line(&format!("{}:", count_of(report.warnings.len(), "warning")));
            for warning in &report.warnings {
                self.paragraph(warning, "- ");
            }
        }
        if !report.failures.is_empty() {
            self.blank_line();
            let trials = report.failures.iter().map(|failure| failure.trials as usize).sum();
            self.line(&format!("{} failed:", count_of(trials, "trial")));
            for failure in &report.failures {
                let line = format!("{}, {}: {}", failure.setup, failure.workload, failure.reason);
                self.paragraph(&line, "- ");
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::document::{RankRow, SetupRole};

    #[test]
    fn a_long_command_stays_on_one_line() {
        let line = format!("mkfs.ext4 -O {} /dev/mmcblk0p1", "^has_journal,".repeat(20));
        let command = ReportCommand { caption: "make it".into(), line: line.clone() };
        let verdict = ReportVerdict { commands: vec![command], ..ReportVerdict::default() };
        let report = Report { verdict, ..Report::default() };
        assert!(render_verdict(&report, 40).lines().any(|shown| shown == format!("  {line}")));
    }

    #[test]
    fn a_ranking_fits_eighty_columns() {
        let row = RankRow {
            rank: 1,
            setup: "ext4 noatime,nojournal,geometry,lazy_itable_init mq-deadline".into(),
            role: SetupRole::Baseline,
            score: 9.8123,
            low: 9.7,
            high: 9.9,
            growth: "+9.8 %".into(),
            trials: 12,
            years: "2.6 (1.1 to 6.1)".into(),
            note: "loses files that were written less than 30 s before a power cut".into(),
        };
        let ranking = RankingTable { rows: vec![row], ..RankingTable::default() };
        let shown = render_ranking(&ranking, 80);
        assert!(shown.lines().all(|line| text::width(line) <= 80), "{shown}");
        assert!(shown.contains("baseline; "), "{shown}");
    }

    #[test]
    fn an_empty_report_cannot_tell() {
        assert_eq!(render_verdict(&Report::default(), 80), "Cannot tell:\n");
        assert_eq!(
            render_ranking(&RankingTable::default(), 80),
            "#  setup  score  min to max  n  note\n"
        );
    }
}
