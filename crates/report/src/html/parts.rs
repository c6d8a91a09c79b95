//! The smaller sections of the report and shared elements.

use crate::document::{FailedTrials, SetupDetail};
use crate::markup::Element;
use crate::quantity::{FigureUnit, NO_VALUE};
use crate::svg::SIMULATED;
use crate::text::count_of;

pub(super) fn heading(anchor: &str, title: &str) -> Element {
    Element::new("h2").attr("id", anchor).text(title)
}

pub(super) fn paragraph(content: &str) -> Element {
    Element::new("p").text(content)
}

pub(super) fn command_line(line: &str) -> Element {
    Element::new("pre").child(Element::new("code").command(line))
}

/// A container for wide content that scrolls separately, by keyboard too.
pub(super) fn scrolling(label: &str, content: Element) -> Element {
    Element::new("div")
        .class("scroll")
        .attr("role", "region")
        .attr("aria-label", label)
        .attr("tabindex", 0)
        .child(content)
}

pub(super) fn column_head(title: &str, number: bool) -> Element {
    let cell = Element::new("th").attr("scope", "col").text(title);
    if number { cell.class("number") } else { cell }
}

pub(super) fn cell(content: &str) -> Element {
    Element::new("td").text(content)
}

pub(super) fn number_cell(content: &str) -> Element {
    cell(content).class("number")
}

pub(super) fn table(heads: impl IntoIterator<Item = Element>, rows: Vec<Element>) -> Element {
    let heads = Element::new("thead").child(Element::new("tr").children(heads));
    Element::new("table").child(heads).child(Element::new("tbody").children(rows))
}

pub(super) fn row(cells: impl IntoIterator<Item = Element>) -> Element {
    Element::new("tr").children(cells)
}

pub(super) fn setups(setups: &[SetupDetail]) -> Option<Element> {
    if setups.is_empty() {
        return None;
    }
    let rows = setups.iter().map(|setup| {
        let choices: Vec<String> =
            setup.choices.iter().map(|(name, value)| format!("{name}: {value}")).collect();
        row([cell(&setup.role.marked(&setup.name)).class("name"), cell(&choices.join("; "))])
    });
    let table = table([column_head("setup", false), column_head("options", false)], rows.collect());
    let count = count_of(setups.len(), "setup");
    let details = Element::new("details")
        .child(Element::new("summary").text(format!("Options of {count}")))
        .child(scrolling("Setups", table));
    Some(Element::new("section").child(heading("setups", "Setups")).child(details))
}

pub(super) fn facts(facts: &[(String, String)]) -> Option<Element> {
    if facts.is_empty() {
        return None;
    }
    let rows = facts.iter().map(|(name, value)| {
        row([Element::new("th").attr("scope", "row").text(name), cell(value)])
    });
    let table = Element::new("table").child(Element::new("tbody").children(rows));
    let details = Element::new("details")
        .child(Element::new("summary").text(count_of(facts.len(), "fact")))
        .child(scrolling("Facts", table));
    Some(Element::new("section").child(heading("facts", "Facts")).child(details))
}

/// Warnings that are visible before the rest is unfolded.
const SHOWN_WARNINGS: usize = 5;

pub(super) fn warnings(warnings: &[String]) -> Option<Element> {
    if warnings.is_empty() {
        return None;
    }
    let list = |warnings: &[String]| {
        let items = warnings.iter().map(|warning| Element::new("li").text(warning));
        Element::new("ul").children(items)
    };
    let shown = if warnings.len() > SHOWN_WARNINGS + 1 { SHOWN_WARNINGS } else { warnings.len() };
    let (first, rest) = warnings.split_at(shown);
    let more = (!rest.is_empty()).then(|| {
        Element::new("details")
            .child(Element::new("summary").text(count_of(rest.len(), "more warning")))
            .child(list(rest))
    });
    Some(
        Element::new("section")
            .child(heading("warnings", "Warnings"))
            .child(list(first))
            .children(more),
    )
}

pub(super) fn failures(failures: &[FailedTrials]) -> Option<Element> {
    if failures.is_empty() {
        return None;
    }
    let rows = failures.iter().map(|failure| {
        row([
            cell(&failure.setup).class("name"),
            cell(&failure.workload),
            number_cell(&failure.trials.to_string()),
            cell(&failure.reason).class("note"),
        ])
    });
    let heads = [("setup", false), ("workload", false), ("trials", true), ("reason", false)];
    let heads = heads.map(|(title, number)| column_head(title, number));
    let note = "These trials have no result and do not count in any score.";
    Some(
        Element::new("section")
            .child(heading("failures", "Failed trials"))
            .child(paragraph(note))
            .child(
                Element::new("details")
                    .child(Element::new("summary").text(count_of(failures.len(), "row")))
                    .child(scrolling("Failed trials", table(heads, rows.collect()))),
            ),
    )
}

const READING: [(&str, &str); 6] = [
    (
        "Setup",
        "A file system with its layout, mkfs options, mount options and I/O scheduler, written in \
         this order: ext4 base none is ext4 with its default options (base) and the scheduler \
         none. The baseline is the default setup; all others are compared with it.",
    ),
    (
        "Score",
        "The value that setups are compared by, from all points of a workload. The note above \
         each ranking defines it.",
    ),
    (
        "Interval",
        "The range that contains the true value with the given confidence, estimated from the \
         repeats. If the intervals of two setups overlap, this run does not distinguish them, \
         whatever their order.",
    ),
    ("n", "The number of measurements. With n = 1, the noise is unknown."),
    (
        "Cannot tell",
        "A valid result: the differences are smaller than the noise of this device with this \
         number of repeats.",
    ),
    (
        "Figures",
        "The caption says what the whiskers show. A setup has the same number, color and marker \
         in all figures. Hover over a point to see its exact values.",
    ),
];

pub(super) fn how_to_read(simulated: bool) -> Element {
    let mut list = Element::new("dl");
    for (term, meaning) in READING {
        list = list.child(Element::new("dt").text(term)).child(Element::new("dd").text(meaning));
    }
    if simulated {
        let meaning = "A model of a card under a real kernel. It shows how file systems behave on \
                       such a card; a real device may differ and should be measured.";
        list = list
            .child(Element::new("dt").text(capitalized(SIMULATED)))
            .child(Element::new("dd").text(meaning));
    }
    let details = Element::new("details")
        .child(Element::new("summary").text("Setup, score, interval, n, cannot tell, figures"))
        .child(list);
    Element::new("section").child(heading("reading", "How to read this report")).child(details)
}

/// `1 to 2`; a dash for what was measured once, whose noise is unknown.
pub(super) fn interval_text(unit: FigureUnit, low: f64, high: f64, n: u32) -> String {
    if n < 2 || !low.is_finite() || !high.is_finite() {
        return NO_VALUE.to_owned();
    }
    format!("{} to {}", unit.show(low), unit.show(high))
}

pub(super) fn capitalized(text: &str) -> String {
    let mut rest = text.chars();
    rest.next().map_or_else(String::new, |first| first.to_uppercase().chain(rest).collect())
}
