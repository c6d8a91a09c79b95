//! The frame of all pages: policy, style, script, and how to read them.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use flashfit_report::html::STYLE;
use flashfit_report::markup::Element;
use sha2::{Digest, Sha256};

use crate::product::SiteProduct;
use crate::{SiteData, words};

const OWN_STYLE: &str = include_str!("site.css");
const SCRIPT: &str = include_str!("sort.js");

/// A whole page.
pub fn render(title: &str, content: Vec<Element>) -> String {
    let policy = format!(
        "default-src 'none'; style-src 'sha256-{}'; script-src 'sha256-{}'; base-uri 'none'; \
         form-action 'none'",
        hash(&[STYLE, OWN_STYLE]),
        hash(&[SCRIPT]),
    );
    let meta = |name: &str, content: &str| {
        Element::new("meta").attr("name", name).attr("content", content)
    };
    let head = Element::new("head")
        .child(Element::new("meta").attr("charset", "utf-8"))
        .child(
            Element::new("meta")
                .attr("http-equiv", "Content-Security-Policy")
                .attr("content", policy),
        )
        .child(meta("generator", "flashfit"))
        .child(meta("referrer", "no-referrer"))
        .child(meta("viewport", "width=device-width, initial-scale=1"))
        .child(Element::new("title").text(format!("{title} - flashfit")))
        .child(Element::verbatim("style", &[STYLE, OWN_STYLE]));
    let made = format!("Made by flashfit {} from a survey.", env!("CARGO_PKG_VERSION"));
    let body = Element::new("body")
        .child(Element::new("main").children(content))
        .child(Element::new("footer").child(Element::new("p").text(made)))
        .child(Element::verbatim("script", &[SCRIPT]));
    let page = Element::new("html").attr("lang", "en").child(head).child(body);
    format!("<!DOCTYPE html>\n{page}\n")
}

fn hash(parts: &[&str]) -> String {
    STANDARD.encode(Sha256::digest(parts.concat()))
}

pub fn paragraph(text: &str) -> Element {
    Element::new("p").text(text)
}

pub fn heading(anchor: &str, title: &str) -> Element {
    Element::new("h2").attr("id", anchor).text(title)
}

pub fn banner() -> Element {
    let text = "Simulated: these results come from models of cards, not from devices.";
    Element::new("p").class("banner").attr("role", "note").child(Element::new("strong").text(text))
}

/// What the mark of these products means; nothing if they have none.
pub fn measured_by_others(data: &SiteData<'_>, products: &[&SiteProduct]) -> Option<Element> {
    let bundled: usize = products.iter().map(|product| product.bundled(data.cards)).sum();
    let all: usize = products.iter().map(|product| product.cards.len()).sum();
    let text = format!(
        "+ measured by others: {bundled} of {} came with bundles. Their figures are claims that \
         cannot be checked, and count as the others.",
        words::counted(all, "card"),
    );
    (bundled > 0).then(|| Element::new("p").attr("role", "note").text(text))
}

pub fn folded(title: &str, is_open: bool, content: Vec<Element>) -> Element {
    let details = Element::new("details");
    let details = if is_open { details.attr("open", "") } else { details };
    details.child(Element::new("summary").text(title)).children(content)
}

/// What a chart shows beyond its drawing.
pub fn figure(caption: &str, chart: Element) -> Element {
    let caption = (!caption.is_empty()).then(|| Element::new("figcaption").text(caption));
    Element::new("figure").class("dots").child(chart).children(caption)
}

const READING: [(&str, &str); 9] = [
    (
        "Speed and latency",
        "Each figure of a product is the geometric mean of its cards; a card that was measured \
         several times counts once, and one with a mark counts as the others. Latency is the 99th \
         percentile of single operations: one in a hundred takes longer.",
    ),
    (
        "Interval",
        "The range that contains the true mean of all cards of the product with 95 % confidence. \
         One card says nothing about the others, so its product has no interval; on the page of a \
         product, a figure of one card has the interval of its repeats.",
    ),
    (
        "Measured in the same way",
        "Kernel, processor, amount of data, memory and starting state change what a card can do. \
         Figures are in one table or chart only if all of these were equal. Empty cells were not \
         measured in that way.",
    ),
    (
        "Tied",
        "Not distinguishable from the best at the number of cards and repeats that were measured. \
         With 95 % confidence, the best of a table is the highest or one of those tied with it.",
    ),
    (
        "Setup",
        "A file system with its options and I/O scheduler. The highest mean of many setups is \
         biased: a setup that won by luck looks better than it is, because the trials of the \
         search count. So these pages state no gains. A measured gain is in the report of a run, \
         which repeats the winner in fresh trials.",
    ),
    (
        "Marks",
        "A card with ! contradicts itself or differs from the other cards of its product. It may \
         be counterfeit, worn or of another revision. Products with fewer than four cards have no \
         marks for differences.",
    ),
    (
        "Cards with *",
        "Any number of cards: they have neither a serial number nor a name, and count as one.",
    ),
    (
        "Products and cards with +",
        "Measured by others and brought by a bundle. That such figures were measured cannot be \
         checked: they are claims. A product with + has at least one such card.",
    ),
    (
        "Simulated",
        "A model of a card under a real kernel. It has its own tables and charts and is \
         never compared with real cards.",
    ),
];

pub fn how_to_read() -> Element {
    let mut list = Element::new("dl");
    for (term, meaning) in READING {
        list = list.child(Element::new("dt").text(term)).child(Element::new("dd").text(meaning));
    }
    Element::new("section").child(heading("reading", "How to read this")).child(list)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_policy_allows_what_is_in_the_page_and_nothing_else() {
        let page = render("<b>", Vec::new());
        for (tag, name) in [("style", "style-src"), ("script", "script-src")] {
            let start = page.find(&format!("<{tag}>")).unwrap() + tag.len() + 2;
            let content = &page[start..page.find(&format!("</{tag}>")).unwrap()];
            // As a browser computes it, from the text between the tags.
            let wanted = format!("{name} &#39;sha256-{}&#39;", hash(&[content]));
            assert!(page.contains(&wanted), "{tag}");
        }
        assert!(page.contains("default-src &#39;none&#39;") && page.contains("<title>&lt;b&gt;"));
        for forbidden in ["http://", "https://", "src=", "@import", "url(", "style=", "onclick"] {
            assert!(!page.contains(forbidden), "{forbidden}");
        }
    }
}
