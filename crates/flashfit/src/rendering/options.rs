//! What was found of options, as plain text: a line an option, with its evidence below where there
//! is more than one piece.

use flashfit_option_probe::{EvidenceSource, OptionFinding, OptionFindings, OptionVerdict};
use flashfit_report::text::{plain, width as columns_of, wrap};

/// Evidence is broken to at least this many columns, however narrow the terminal.
const NARROWEST: usize = 24;

/// What was found of one file system.
pub fn file_system(findings: &OptionFindings, title: &str, width: usize) -> String {
    let mut text = format!("{} ({})\n", plain(&findings.filesystem), plain(title));
    if let Some(reason) = &findings.not_mounted {
        text.push_str(&indented("  ", &format!("nothing was mounted: {reason}"), width));
    }
    let name_width = widest(findings.options.iter().map(|found| plain(&found.option)));
    let verdict_width = widest(findings.options.iter().map(|found| found.verdict.to_string()));
    for found in &findings.options {
        let (option, verdict) = (plain(&found.option), found.verdict);
        let head = format!("  {option:<name_width$}  {verdict:<verdict_width$}  ");
        text.push_str(&row(&head, &remarks(found, findings.not_mounted.is_some()), width));
    }
    for hint in hints(findings) {
        text.push_str(&indented("  ", &format!("hint: {hint}"), width));
    }
    if findings.options.is_empty() {
        text.push_str("  it has no options in the catalog\n");
    }
    text
}

/// What the verdicts that occur mean.
pub fn legend<'a>(all: impl IntoIterator<Item = &'a OptionFindings>, width: usize) -> String {
    let options = all.into_iter().flat_map(|findings| &findings.options);
    let mut verdicts: Vec<OptionVerdict> = options.map(|found| found.verdict).collect();
    verdicts.sort_unstable();
    verdicts.dedup();
    let name_width = widest(verdicts.iter().map(OptionVerdict::to_string));
    let line = |verdict: &OptionVerdict| {
        let head = format!("{verdict:<name_width$}  ");
        row(&head, &[verdict.meaning().to_owned()], width)
    };
    verdicts.iter().map(line).collect()
}

/// Evidence; that nothing was mounted is said above, not for each option that needs none.
fn remarks(found: &OptionFinding, unmounted: bool) -> Vec<String> {
    let told = found.evidence.len() > 1 && unmounted;
    let evidence = found.evidence.iter().filter(|seen| {
        !(told && seen.place == EvidenceSource::Flashfit && seen.text.starts_with("not mounted: "))
    });
    let lines = evidence.map(|seen| match seen.place {
        // Its own words need no source.
        EvidenceSource::Flashfit => plain(&seen.text),
        place => format!("{}: {}", place.title(), plain(&seen.text)),
    });
    lines.collect()
}

/// What the user can do, each once.
fn hints(findings: &OptionFindings) -> Vec<String> {
    let mut hints: Vec<String> = Vec::new();
    for hint in findings.options.iter().filter_map(|found| found.hint.as_ref()) {
        if !hints.contains(hint) {
            hints.push(hint.clone());
        }
    }
    hints
}

/// A heading and its remarks, aligned under the first remark.
fn row(head: &str, remarks: &[String], width: usize) -> String {
    let indent = columns_of(head);
    let room = width.saturating_sub(indent).max(NARROWEST);
    let lines: Vec<String> = remarks.iter().flat_map(|remark| wrap(remark, room)).collect();
    let mut text = String::new();
    for (index, line) in lines.iter().enumerate() {
        let start = if index == 0 { head.to_owned() } else { " ".repeat(indent) };
        text.push_str(&format!("{start}{line}\n"));
    }
    if lines.is_empty() {
        text.push_str(&format!("{}\n", head.trim_end()));
    }
    text
}

fn indented(indent: &str, text: &str, width: usize) -> String {
    let lines = wrap(&plain(text), width.saturating_sub(indent.len()).max(NARROWEST));
    lines.iter().map(|line| format!("{indent}{line}\n")).collect()
}

fn widest(cells: impl Iterator<Item = String>) -> usize {
    cells.map(|cell| columns_of(&cell)).max().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use flashfit_option_probe::OptionEvidence;

    use super::*;

    const GOLDEN: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/golden/options.txt");

    fn found(
        option: &str,
        verdict: OptionVerdict,
        evidence: &[(EvidenceSource, &str)],
    ) -> OptionFinding {
        let evidence = evidence
            .iter()
            .map(|(place, text)| OptionEvidence { place: *place, text: (*text).to_owned() });
        let (option, evidence) = (option.to_owned(), evidence.collect());
        OptionFinding { option, verdict, evidence, hint: None }
    }

    fn ext4() -> OptionFindings {
        let removed = "EXT4-fs: Ignoring removed orlov option";
        let table = "noatime in place of relatime";
        OptionFindings {
            filesystem: "ext4".to_owned(),
            not_mounted: None,
            options: vec![
                found("noatime", OptionVerdict::Effective, &[(EvidenceSource::MountTable, table)]),
                found("orlov", OptionVerdict::Ignored, &[(EvidenceSource::KernelLog, removed)]),
                found(
                    "ordered",
                    OptionVerdict::Default,
                    &[(EvidenceSource::OptionList, "data=ordered, with and without it")],
                ),
                found(
                    "journal_ioprio",
                    OptionVerdict::Accepted,
                    &[(EvidenceSource::MountTable, "nothing in it shows the option")],
                ),
                found(
                    "extents",
                    OptionVerdict::Refused,
                    &[
                        (EvidenceSource::KernelLog, "ext4: Unknown parameter 'extents'"),
                        (
                            EvidenceSource::Mount,
                            "wrong fs type, bad option, bad superblock on /dev/loop0, missing \
                             codepage or helper program, or other error.",
                        ),
                    ],
                ),
            ],
        }
    }

    fn f2fs() -> OptionFindings {
        let mut findings = OptionFindings {
            filesystem: "f2fs".to_owned(),
            not_mounted: Some("this kernel has no f2fs".to_owned()),
            options: vec![
                found(
                    "sections",
                    OptionVerdict::Effective,
                    &[(EvidenceSource::Superblock, "segs_per_sec 2")],
                ),
                found(
                    "atgc",
                    OptionVerdict::NotInKernel,
                    &[(EvidenceSource::Flashfit, "not mounted: this kernel has no f2fs")],
                ),
                found(
                    "age",
                    OptionVerdict::ToolMissing,
                    &[(EvidenceSource::Flashfit, "x is not\u{1b}[2J here")],
                ),
                found("none", OptionVerdict::NotMeasured, &[]),
            ],
        };
        findings.options[2].hint = Some("apt-get install f2fs-tools".to_owned());
        findings
    }

    #[test]
    fn findings_look_as_the_golden_file_has_them() {
        let mut text = String::new();
        for findings in [ext4(), f2fs()] {
            text.push_str(&file_system(&findings, "a file system", 80));
            text.push('\n');
        }
        text.push_str(&legend([&ext4(), &f2fs()], 80));
        flashfit_test_support::golden(GOLDEN, &text);
    }

    #[test]
    fn a_narrow_terminal_gets_all_of_it() {
        let text = file_system(&ext4(), "ext4", 60);
        assert!(text.lines().all(|line| columns_of(line) <= 60), "{text}");
        assert!(text.contains("helper program"), "{text}");
        assert!(!file_system(&f2fs(), "f2fs", 10).contains('\u{1b}'));
        let empty = OptionFindings { options: Vec::new(), ..ext4() };
        assert!(file_system(&empty, "ext4", 80).contains("no options"));
    }
}
