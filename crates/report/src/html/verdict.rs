//! The top of the report: the verdict and the commands that create the recommended setup.

use crate::document::{Report, ReportVerdict, RunOutcome};
use crate::markup::Element;
use crate::text::count_of;

use super::parts::{command_line, heading, paragraph};

pub(super) fn section(report: &Report) -> Element {
    let verdict = &report.verdict;
    let outcome = verdict.supported_outcome();
    let gain = verdict.gain.map(|gain| {
        paragraph("Gain over the baseline: ").child(Element::new("strong").text(gain.describe()))
    });
    Element::new("section")
        .class(&format!("verdict {}", class_of(outcome)))
        .attr("aria-label", "Verdict")
        .child(
            Element::new("p")
                .class("label")
                .child(Element::new("strong").text(format!("Verdict: {}", outcome.label()))),
        )
        .child(
            Element::new("p")
                .class("headline")
                .child(Element::new("strong").text(&verdict.headline)),
        )
        .children(verdict.is_downgraded().then(|| paragraph(ReportVerdict::DOWNGRADED)))
        .children(gain)
        .children(verdict.detail.iter().map(|detail| paragraph(detail)))
        .children(labelled("Risk:", &verdict.risk))
        .children(labelled("Power cuts:", &verdict.power_cuts))
        .children(warnings_and_failures(report))
}

fn class_of(outcome: RunOutcome) -> &'static str {
    match outcome {
        RunOutcome::Better => "verdict-better",
        RunOutcome::Likely => "verdict-likely",
        RunOutcome::NoGain => "verdict-no-gain",
        RunOutcome::CannotTell => "verdict-cannot-tell",
        RunOutcome::NoResult => "verdict-no-result",
    }
}

fn labelled(label: &str, text: &str) -> Option<Element> {
    (!text.is_empty()).then(|| {
        Element::new("p").child(Element::new("strong").text(label)).text(format!(" {text}"))
    })
}

/// Links from the top to the warnings and failures.
fn warnings_and_failures(report: &Report) -> Option<Element> {
    let failed: usize = report.failures.iter().map(|failure| failure.trials as usize).sum();
    let links: Vec<Element> =
        [(report.warnings.len(), "warning", "warnings"), (failed, "failed trial", "failures")]
            .into_iter()
            .filter(|(count, ..)| *count > 0)
            .map(|(count, what, anchor)| {
                Element::new("a").attr("href", format!("#{anchor}")).text(count_of(count, what))
            })
            .collect();
    if links.is_empty() {
        return None;
    }
    let mut line = paragraph("See also: ");
    for (index, link) in links.into_iter().enumerate() {
        line = if index > 0 { line.text(", ").child(link) } else { line.child(link) };
    }
    Some(line.text("."))
}

pub(super) fn commands(verdict: &ReportVerdict) -> Option<Element> {
    if verdict.commands.is_empty() {
        return None;
    }
    let section = Element::new("section").child(heading("commands", "Commands"));
    Some(verdict.commands.iter().fold(section, |section, command| {
        section.child(paragraph(&command.caption)).child(command_line(&command.line))
    }))
}
