//! The page of a comparison of runs.

use crate::document::ComparisonPage;
use crate::markup::Element;
use crate::svg::{Drawing, LineStyles};

use super::parts::{how_to_read, paragraph};
use super::{banner, figures, findings, head, links};

pub(super) fn page(page: &ComparisonPage) -> Element {
    let drawing = Drawing { styles: LineStyles::of(&page.figures), simulated: page.simulated };
    let (first, others) = page.figures.split_at(page.figures.len().min(1));
    let listed = [
        ("findings", "Findings", page.findings.len()),
        ("workloads", "More figures", others.len()),
        ("reading", "How to read this", 1),
    ];
    let listed = listed
        .into_iter()
        .filter(|(_, _, count)| *count > 0)
        .map(|(anchor, title, _)| (anchor.to_owned(), title.to_owned()));
    let groups = first.iter().enumerate();
    let groups = groups.map(|(index, group)| (figures::anchor(index), group.title.clone()));
    let main = Element::new("main")
        .child(Element::new("h1").text(&page.title))
        .children(page.simulated.then(banner))
        .child(links(groups.chain(listed)))
        .children(page.summary.iter().map(|line| paragraph(line)))
        .children(figures::sections(first, &drawing))
        .children(findings::section(None, &page.findings))
        .child(paragraph(&page.note).class("scale"))
        .children(figures::folded("More figures", others, &drawing))
        .child(how_to_read(page.simulated));
    Element::new("html")
        .attr("lang", "en")
        .child(head(&page.title, page.simulated))
        .child(Element::new("body").child(main))
}
