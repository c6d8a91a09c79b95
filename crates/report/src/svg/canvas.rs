//! The frame of a chart and elements that all charts share.

use crate::figure::BetterDirection;
use crate::markup::Element;
use crate::text;

use super::SIMULATED;

pub(crate) const WIDTH_PX: f64 = 760.0;
/// The top of the area below the heading.
pub(crate) const TOP_PX: f64 = 58.0;

const TEXT_COLOR: &str = "#222222";
const FAINT_TEXT_COLOR: &str = "#555555";
pub(crate) const GRID: &str = "#dddddd";
pub(crate) const AXIS: &str = "#888888";

/// An upper limit of the average width of a character in the small text.
pub(crate) const CHARACTER_PX: f64 = 6.8;

/// A coordinate with at most one decimal.
pub(crate) fn px(value: f64) -> String {
    let text = crate::quantity::fixed(value, 1);
    text.strip_suffix(".0").map_or_else(|| text.clone(), str::to_owned)
}

pub(crate) fn characters_in(width_px: f64) -> usize {
    (width_px / CHARACTER_PX).floor().max(0.0) as usize
}

pub(crate) fn count(items: usize) -> f64 {
    f64::from(u32::try_from(items).expect("a chart has fewer than 2^32 items"))
}

/// An empty chart with its heading: title, better direction, and a mark if it is simulated.
pub(crate) fn figure(
    title: &str,
    direction: BetterDirection,
    simulated: bool,
    height: f64,
) -> Element {
    let note = direction.note();
    let parts = [note, if simulated { SIMULATED } else { "" }];
    let parts: Vec<&str> = parts.into_iter().filter(|part| !part.is_empty()).collect();
    let description = parts.join("; ");
    let figure = Element::new("svg")
        .attr("xmlns", "http://www.w3.org/2000/svg")
        .attr("viewBox", format!("0 0 {} {}", px(WIDTH_PX), px(height)))
        .attr("width", px(WIDTH_PX))
        .attr("height", px(height))
        .attr("role", "img")
        .attr("aria-label", format!("{title}: {description}"))
        .attr("font-family", "system-ui, 'DejaVu Sans', Arial, sans-serif")
        .attr("font-size", 12)
        .attr("fill", TEXT_COLOR)
        .child(background(height))
        .child(
            label(12.0, 22.0, "start", &text::shorten_end(title, 84))
                .attr("font-size", 15)
                .attr("font-weight", "bold"),
        )
        .child(label(12.0, 41.0, "start", note).attr("fill", FAINT_TEXT_COLOR));
    if simulated {
        figure.child(
            label(160.0, 41.0, "start", &SIMULATED.to_uppercase())
                .attr("fill", "#a33c00")
                .attr("font-weight", "bold"),
        )
    } else {
        figure
    }
}

fn background(height: f64) -> Element {
    Element::new("rect")
        .attr("width", px(WIDTH_PX))
        .attr("height", px(height))
        .attr("fill", "#ffffff")
}

/// A text at a position; `anchor` is `start`, `middle` or `end`.
pub(crate) fn label(x: f64, y: f64, anchor: &str, content: &str) -> Element {
    let label = Element::new("text").attr("x", px(x)).attr("y", px(y));
    let label = if anchor == "start" { label } else { label.attr("text-anchor", anchor) };
    label.text(content)
}

/// A text that is shortened in the middle to `max_chars`, with the whole text as a tooltip.
pub(crate) fn short_label(
    x: f64,
    y: f64,
    anchor: &str,
    content: &str,
    max_chars: usize,
) -> Element {
    let content = text::plain(content);
    let short = text::shorten_middle(&content, max_chars);
    let shown = label(x, y, anchor, &short);
    if short == content { shown } else { shown.child(tooltip(&content)) }
}

pub(crate) fn faint(label: Element) -> Element {
    label.attr("fill", FAINT_TEXT_COLOR)
}

pub(crate) fn tooltip(content: &str) -> Element {
    Element::new("title").text(content)
}

pub(crate) fn rule(x1: f64, y1: f64, x2: f64, y2: f64, color: &str) -> Element {
    Element::new("path")
        .attr("d", format!("M{} {}L{} {}", px(x1), px(y1), px(x2), px(y2)))
        .attr("stroke", color)
        .attr("fill", "none")
}

/// Shown instead of an empty plot.
pub(crate) fn no_data(x: f64, y: f64) -> Element {
    faint(label(x, y, "middle", "no data"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn coordinates_are_short() {
        assert_eq!(px(12.0), "12");
        assert_eq!(px(12.34), "12.3");
        assert_eq!(px(-0.01), "0");
    }

    #[test]
    fn a_shortened_label_keeps_the_whole_as_a_tooltip() {
        let label = short_label(0.0, 0.0, "start", "abcdefgh", 5).to_string();
        assert!(label.contains("ab…gh<title>abcdefgh</title>"), "{label}");
    }
}
