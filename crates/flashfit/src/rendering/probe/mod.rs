//! A probe as text: the verdict on each quantity with its reason, what is declared, the
//! evidence as a plot, and what to do next.

pub mod chart;
mod plot;
mod quantities;

use std::fmt::Write;
use std::time::Duration;

use flashfit_device::{Bytes, DeclaredBytes, DeclaredFacts};
use flashfit_geometry::{GeometryFinding, GeometryFindings, QuantityValue, QuantityVerdict};
use flashfit_probe::{ProbeDocument, ProbeMode};
use flashfit_report::probability;
use flashfit_report::terminal::SIMULATED_BANNER;
use flashfit_report::text::{plain, plain_command, wrap};
use flashfit_twin::pattern::PatternRatio;

use crate::rendering::duration;
use quantities::{name_columns, quantities};

/// Requests that failed and are shown; the document has all.
const FAULTS_SHOWN: usize = 3;
/// Likelier values of what was not found are shown.
const WORTH_SHOWING: f64 = 0.005;
/// So many plots; the drawing has all.
const PLOTS_SHOWN: usize = 3;

/// All of it, for a terminal of `width` columns.
pub fn text(document: &ProbeDocument, width: usize) -> String {
    let name_columns = name_columns(&document.findings, &document.declared);
    let mut page = Page { text: String::new(), width, name_columns };
    if document.simulated {
        page.paragraph("", SIMULATED_BANNER);
        page.text.push('\n');
    }
    page.paragraph("", &heading(document));
    page.paragraph("", &cost(document));
    if document.interrupted {
        page.paragraph("", "Ended early: these are the results so far.");
    }
    page.text.push('\n');
    page.findings(&document.findings);
    page.declared(&document.declared);
    page.list("What that means:", &document.next.remarks);
    page.faults(document);
    page.list("How it was measured:", &document.notes);
    page.twin(document);
    page.evidence(document);
    page.next(document);
    page.text
}

fn heading(document: &ProbeDocument) -> String {
    let Some(device) = &document.device else { return document.target.clone() };
    let size = Bytes(device.capacity_bytes);
    format!(
        "{}: {}, {}, {size} ({}), sectors of {} bytes",
        document.target,
        device.kind,
        device.identity.summary(),
        size.si(),
        device.sector_bytes
    )
}

fn cost(document: &ProbeDocument) -> String {
    let cost = &document.cost;
    let how = match document.mode {
        ProbeMode::Write if cost.written_bytes == 0 => "Probed by reading only",
        ProbeMode::Read => "Probed by reading only",
        ProbeMode::Write => "Probed by writing and reading",
        ProbeMode::Import => return "Read from tables of flashbench.".to_owned(),
    };
    let mut text = format!("{how}: {} reads of {}", cost.reads, Bytes(cost.read_bytes));
    if document.mode == ProbeMode::Write {
        text.push_str(&format!(", {} written", Bytes(cost.written_bytes)));
    }
    let simulated = if document.simulated { " of the card's time" } else { "" };
    let time = Duration::from_nanos(cost.elapsed_ns);
    text.push_str(&format!(", in {}{simulated}; seed {}.", seconds(time), document.seed));
    // An image can end within a sector, which is not read.
    let is_all = |length| {
        let device = document.device.as_ref();
        device.is_some_and(|device| {
            device.capacity_bytes.saturating_sub(length) < device.sector_bytes
        })
    };
    if let Some([start, length]) = document.region.filter(|[_, length]| !is_all(*length)) {
        text.push_str(&format!(" Region: {} from {start}.", Bytes(length)));
    }
    text
}

/// A duration with a tenth where it is short.
fn seconds(time: Duration) -> String {
    if time < Duration::from_secs(10) {
        format!("{:.1} s", time.as_secs_f64())
    } else {
        duration(time)
    }
}

/// A finding's value for people.
pub fn value(value: QuantityValue) -> String {
    match value {
        QuantityValue::Bytes(bytes) => Bytes(bytes).to_string(),
        QuantityValue::Count(count) => count.to_string(),
        QuantityValue::Is(true) => "yes".to_owned(),
        QuantityValue::Is(false) => "no".to_owned(),
    }
}

struct Page {
    text: String,
    width: usize,
    name_columns: usize,
}

impl Page {
    fn line(&mut self, line: &str) {
        writeln!(self.text, "{line}").expect("a string takes any text");
    }

    fn paragraph(&mut self, indent: &str, text: &str) {
        for line in wrap(&plain(text), self.width.saturating_sub(indent.len())) {
            self.line(&format!("{indent}{line}"));
        }
    }

    /// A name and its description, wrapped in a second column.
    fn fact(&mut self, name: &str, text: &str) {
        let columns = self.name_columns;
        let lines = wrap(&plain(text), self.width.saturating_sub(columns + 3));
        for (index, line) in lines.iter().enumerate() {
            let name = if index == 0 { plain(name) } else { String::new() };
            self.line(&format!("  {name:<columns$} {line}"));
        }
    }

    fn list(&mut self, title: &str, texts: &[String]) {
        if texts.is_empty() {
            return;
        }
        self.line(&format!("\n{title}"));
        texts.iter().for_each(|text| self.paragraph("  ", text));
    }

    fn findings(&mut self, findings: &GeometryFindings) {
        let mut unmeasured: Vec<(&str, Vec<&str>)> = Vec::new();
        for (name, finding) in quantities(findings) {
            match finding.verdict {
                QuantityVerdict::Found => {
                    let value = finding.value.map_or_else(String::new, value);
                    let sure = finding.confidence.map(probability).unwrap_or_default();
                    self.fact(name, &format!("{value} ({sure}): {}", finding.reason));
                }
                QuantityVerdict::Inconclusive => {
                    self.fact(name, &format!("inconclusive: {}", inconclusive(finding)));
                }
                QuantityVerdict::NotMeasured => {
                    let reason = finding.reason.as_str();
                    match unmeasured.iter_mut().find(|(known, _)| *known == reason) {
                        Some((_, names)) => names.push(name),
                        None => unmeasured.push((reason, vec![name])),
                    }
                }
            }
        }
        for (reason, names) in unmeasured {
            self.fact("not measured", &format!("{}: {reason}", names.join("; ")));
        }
    }

    fn declared(&mut self, declared: &DeclaredFacts) {
        if *declared == DeclaredFacts::default() {
            return;
        }
        self.line("\nDeclared:");
        let sizes = [
            ("erase block", &declared.erase_block),
            ("write unit", &declared.write_unit),
            ("cache", &declared.cache),
            ("capacity", &declared.capacity),
        ];
        for (name, values) in sizes {
            values.iter().for_each(|one| self.fact(name, &stated(one)));
        }
        for fact in &declared.facts {
            self.fact(&fact.name, &format!("{} ({})", fact.text, fact.source));
        }
        for rejected in &declared.rejected {
            self.fact("not believed", &format!("{}: {}", rejected.register, rejected.reason));
        }
    }

    fn faults(&mut self, document: &ProbeDocument) {
        let faults = &document.errors;
        if faults.is_empty() {
            return;
        }
        let title = match faults.len() {
            1 => "\nOne request failed and is not included:".to_owned(),
            count => format!("\n{count} requests failed and are not included:"),
        };
        self.line(&title);
        for fault in faults.iter().take(FAULTS_SHOWN) {
            self.paragraph("  ", &fault.message);
        }
        if faults.len() > FAULTS_SHOWN {
            self.line("  ...");
        }
    }

    fn twin(&mut self, document: &ProbeDocument) {
        let Some(twin) = &document.twin else { return };
        // Rounded up, because the text says "within".
        let ratio = |thousandths: u64| {
            let hundredths = thousandths.div_ceil(10);
            format!("{}.{:02}", hundredths / 100, hundredths % 100)
        };
        self.text.push('\n');
        let text = format!(
            "The twin in {} reproduces, within a factor of {}, half of the {} rates that it was \
             fitted to, and nine in ten within {}. Its results are simulated.",
            twin.file.display(),
            ratio(twin.median_error_thousandths),
            twin.rates,
            ratio(twin.ninth_decile_error_thousandths)
        );
        self.paragraph("", &text);
        if let Some((median, largest)) = PatternRatio::median_and_largest(&twin.patterns) {
            let text = format!(
                "Of {} patterns of file systems, half take as long on it as on the device within a \
                 factor of {}, and all within {}.",
                twin.patterns.len(),
                ratio(median),
                ratio(largest)
            );
            self.paragraph("", &text);
        }
        for (title, writes) in [("Good for:", &twin.good_for), ("Not for:", &twin.not_for)] {
            if !writes.is_empty() {
                self.line(title);
            }
            writes.iter().for_each(|writes| self.paragraph("  ", writes));
        }
        if !twin.alike.is_empty() {
            self.line("The measurements do not tell it apart from:");
            twin.alike.iter().for_each(|structure| self.paragraph("  ", structure));
        }
    }

    fn evidence(&mut self, document: &ProbeDocument) {
        for series in document.evidence.series.iter().take(PLOTS_SHOWN) {
            self.text.push('\n');
            let drawn = plot::draw(series, self.width);
            self.text.push_str(&drawn);
        }
        let more = document.evidence.series.len().saturating_sub(PLOTS_SHOWN);
        if more > 0 {
            let text = format!("\n{more} more of these: --svg evidence.svg draws them all.");
            self.line(&text);
        }
    }

    fn next(&mut self, document: &ProbeDocument) {
        let next = &document.next;
        if next.partition_start_bytes.is_none() && next.commands.is_empty() {
            return;
        }
        self.line("\nWhat to do next:");
        let sector_bytes = document.device.as_ref().map_or(512, |device| device.sector_bytes);
        let start = next.partition_start_bytes.map(|start| start_of(start, sector_bytes));
        start.iter().for_each(|text| self.paragraph("  ", text));
        for command in next.mkfs.iter().chain(&next.commands) {
            self.line(&format!("    {}", plain_command(command)));
        }
    }
}

/// Where the partition starts, as partitioning programs are told: in sectors of the device.
fn start_of(start: u64, sector_bytes: u64) -> String {
    let sector = start / sector_bytes.max(1);
    format!("start the partition at {} (sector {sector})", Bytes(start))
}

/// A declared size with its source, a guess marked as one.
fn stated(declared: &DeclaredBytes) -> String {
    let guess = if declared.is_guess { ", not declared by the device" } else { "" };
    format!("{} ({}{guess})", declared.bytes, declared.source)
}

/// Why there is no value, and the likeliest ones.
fn inconclusive(finding: &GeometryFinding) -> String {
    let likeliest: Vec<String> = finding
        .candidates
        .iter()
        .filter(|candidate| candidate.probability >= WORTH_SHOWING)
        .take(2)
        .map(|candidate| {
            format!("{} ({})", value(candidate.value), probability(candidate.probability))
        })
        .collect();
    if likeliest.is_empty() {
        return finding.reason.clone();
    }
    format!("{} (likeliest: {})", finding.reason, likeliest.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_partition_starts_at_a_sector_of_the_device() {
        assert_eq!(start_of(4 << 20, 512), "start the partition at 4 MiB (sector 8192)");
        assert_eq!(start_of(4 << 20, 4096), "start the partition at 4 MiB (sector 1024)");
    }

    #[test]
    fn quantities_without_a_measurement_share_a_line() {
        let found = GeometryFinding::found(
            QuantityValue::Count(5),
            0.97,
            "the rate falls behind five units",
        );
        let findings =
            GeometryFindings { open_erase_blocks_linear: found, ..GeometryFindings::default() };
        let name_columns = name_columns(&findings, &DeclaredFacts::default());
        let mut page = Page { text: String::new(), width: 80, name_columns };
        page.findings(&findings);
        assert!(page.text.starts_with("  open erase blocks, linear  5 (97 %): the rate falls"));
        assert_eq!(page.text.matches("not measured").count(), 1, "{}", page.text);
        assert!(page.text.lines().all(|line| line.len() <= 80), "{}", page.text);
    }
}
