//! The page of a comparison of runs.

use crate::document::ComparisonPage;
use crate::markup::Element;
use crate::svg::{Drawing, LineStyles};

use super::parts::{how_to_read, paragraph};
use super::{banner, figures, findings, head, links};

pub(super) fn page(page: &ComparisonPage) -> Element {
    let drawing = Drawing { styles: LineStyles::of(&page.figures), simulated: page.simulated };
    let listed = [("findings".to_owned(), "Findings".to_owned())];
    let listed = listed.into_iter().filter(|_| !page.findings.is_empty());
    let groups = page.figures.iter().enumerate();
    let listed = listed
        .chain(groups.map(|(index, group)| (figures::anchor(index), group.title.clone())))
        .chain([("reading".to_owned(), "How to read this".to_owned())]);
    let main = Element::new("main")
        .child(Element::new("h1").text(&page.title))
        .children(page.simulated.then(banner))
        .children(page.summary.iter().map(|line| paragraph(line)))
        .child(links(listed))
        .children(findings::section(&page.findings))
        .child(paragraph(&page.note).class("scale"))
        .children(figures::sections(&page.figures, &drawing))
        .child(how_to_read(page.simulated));
    Element::new("html")
        .attr("lang", "en")
        .child(head(&page.title, page.simulated))
        .child(Element::new("body").child(main))
}
