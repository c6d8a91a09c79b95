//! The report as one self-contained HTML file without scripts or requests.
//!
//! It is readable without its style sheet, because a strict content security policy can block it.
//! The verdict comes first, then the commands and the charts that matter. Everything else is
//! folded: tables beyond their first rows, rankings, and the charts of each workload.

mod comparison;
mod figures;
mod findings;
mod parts;
mod rankings;
mod verdict;

use crate::document::{ComparisonPage, Report};
use crate::markup::Element;
use crate::svg::{Drawing, LineStyles};

use parts::{heading, paragraph};

/// The style sheet of all pages.
pub const STYLE: &str = include_str!("html/report.css");

pub fn render(report: &Report) -> String {
    let head = head(&report.title, report.simulated);
    let page = Element::new("html").attr("lang", "en").child(head).child(body(report));
    format!("<!DOCTYPE html>\n{page}\n")
}

/// A comparison of runs as the same kind of file.
pub fn render_comparison(page: &ComparisonPage) -> String {
    format!("<!DOCTYPE html>\n{}\n", comparison::page(page))
}

fn head(title: &str, is_simulated: bool) -> Element {
    let simulated = if is_simulated { " (simulated card)" } else { "" };
    Element::new("head")
        .child(Element::new("meta").attr("charset", "utf-8"))
        // flashfit replaces only files with this mark.
        .child(Element::new("meta").attr("name", "generator").attr("content", "flashfit"))
        .child(
            Element::new("meta")
                .attr("name", "viewport")
                .attr("content", "width=device-width, initial-scale=1"),
        )
        .child(Element::new("title").text(format!("{title}{simulated} - flashfit")))
        .child(Element::new("style").lines(STYLE))
}

fn body(report: &Report) -> Element {
    let groups = [&report.highlights[..], &report.figures].concat();
    let drawing = Drawing { styles: LineStyles::of(&groups), simulated: report.simulated };
    let main = Element::new("main")
        .child(Element::new("h1").text(&report.title))
        .children(report.simulated.then(banner))
        .child(contents(report))
        .child(verdict::section(report))
        .children(verdict::commands(&report.verdict))
        .children(figures::sections(&report.highlights, &drawing))
        .children(findings::section(report.matrix.as_ref(), &report.findings))
        .children(rankings::section(&report.rankings))
        .children(figures::folded("Figures of each workload", &report.figures, &drawing))
        .children(parts::setups(&report.setups))
        .children(parts::facts(&report.facts))
        .children(parts::warnings(&report.warnings))
        .children(parts::failures(&report.failures))
        .child(parts::how_to_read(report.simulated))
        .children(reproduce(report));
    Element::new("body").child(main)
}

fn banner() -> Element {
    Element::new("p").class("banner").attr("role", "note").child(
        Element::new("strong")
            .text("Simulated card: all results come from a model of a card, not from a device."),
    )
}

/// Links to the sections that are present.
fn contents(report: &Report) -> Element {
    let groups = report.highlights.iter().enumerate();
    let findings = report.findings.iter().filter(|finding| !finding.is_drawn).count();
    let highlights = groups.map(|(index, group)| (figures::anchor(index), group.title.clone()));
    let others = [
        ("findings", "Findings", findings),
        ("rankings", "Rankings", report.rankings.len()),
        ("workloads", "Figures of each workload", report.figures.len()),
        ("facts", "Facts", report.facts.len()),
        ("reading", "How to read this", 1),
    ];
    let commands = ("commands".to_owned(), "Commands".to_owned());
    let commands = (!report.verdict.commands.is_empty()).then_some(commands);
    let others = others
        .into_iter()
        .filter(|(_, _, count)| *count > 0)
        .map(|(anchor, title, _)| (anchor.to_owned(), title.to_owned()));
    links(commands.into_iter().chain(highlights).chain(others))
}

/// Links to anchors, with their titles.
fn links(listed: impl Iterator<Item = (String, String)>) -> Element {
    let links = listed.map(|(anchor, title)| {
        let link = Element::new("a").attr("href", format!("#{anchor}")).text(title);
        Element::new("li").child(link)
    });
    Element::new("nav").attr("aria-label", "Contents").child(Element::new("ul").children(links))
}

fn reproduce(report: &Report) -> Option<Element> {
    (!report.reproduce.is_empty()).then(|| {
        Element::new("section")
            .child(heading("reproduce", "Reproduce"))
            .child(paragraph("This command repeats the run with the same seed:"))
            .child(parts::command_line(&report.reproduce))
    })
}
