//! Builds HTML and SVG elements in the syntax that is valid as both HTML5 and XML.
//!
//! All text and all attribute values are escaped, so no caller can inject markup. Only style sheets
//! and scripts that are part of the program are inserted as they are.

use std::fmt::{self, Display, Write};

use crate::text;

/// Elements that close themselves if they are empty.
const SELF_CLOSING: [&str; 7] = ["meta", "hr", "br", "path", "rect", "line", "circle"];

/// Elements without a line break before them.
const INLINE: [&str; 10] =
    ["a", "code", "strong", "em", "small", "span", "title", "tspan", "summary", "br"];

/// An element under construction.
#[derive(Debug, Clone)]
pub struct Element {
    name: &'static str,
    attributes: String,
    content: String,
}

impl Element {
    pub fn new(name: &'static str) -> Self {
        Self { name, attributes: String::new(), content: String::new() }
    }

    pub fn attr(mut self, name: &str, value: impl Display) -> Self {
        let value = escaped(&text::plain(&value.to_string()));
        write!(self.attributes, " {name}=\"{value}\"").expect("writing to a string does not fail");
        self
    }

    pub fn class(self, class: &str) -> Self {
        self.attr("class", class)
    }

    pub fn text(mut self, content: impl AsRef<str>) -> Self {
        self.content.push_str(&escaped(&text::plain(content.as_ref())));
        self
    }

    /// A command, cleaned by [`text::plain_command`].
    pub fn command(mut self, line: &str) -> Self {
        self.content.push_str(&escaped(&text::plain_command(line)));
        self
    }

    /// A style sheet or a script, whose content is not escaped in HTML.
    pub fn verbatim(name: &'static str, parts: &[&'static str]) -> Self {
        let content = parts.concat();
        assert!(!content.contains("</"), "it would end the element");
        Self { name, attributes: String::new(), content }
    }

    /// Trusted text that keeps its line breaks.
    pub fn lines(mut self, content: &'static str) -> Self {
        self.content.push_str(&escaped(content));
        self
    }

    pub fn child(mut self, child: Self) -> Self {
        if !INLINE.contains(&child.name) {
            self.content.push('\n');
        }
        write!(self.content, "{child}").expect("writing to a string does not fail");
        self
    }

    pub fn children(self, children: impl IntoIterator<Item = Self>) -> Self {
        children.into_iter().fold(self, Self::child)
    }
}

impl Display for Element {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { name, attributes, content } = self;
        if SELF_CLOSING.contains(name) && content.is_empty() {
            write!(f, "<{name}{attributes}/>")
        } else {
            write!(f, "<{name}{attributes}>{content}</{name}>")
        }
    }
}

fn escaped(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            '\'' => escaped.push_str("&#39;"),
            other => escaped.push(other),
        }
    }
    escaped
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn untrusted_text_is_escaped() {
        let hostile = "\"/><script>alert('1')</script>&\u{202e}";
        let shown = "&quot;/&gt;&lt;script&gt;alert(&#39;1&#39;)&lt;/script&gt;&amp;";
        let element = Element::new("p").attr("title", hostile).text(hostile).command(hostile);
        assert_eq!(element.to_string(), format!("<p title=\"{shown}\">{shown}{shown}\u{FFFD}</p>"));
    }

    #[test]
    fn only_empty_void_elements_close_themselves() {
        assert_eq!(Element::new("td").to_string(), "<td></td>");
        assert_eq!(Element::new("rect").attr("x", 1).to_string(), "<rect x=\"1\"/>");
        let titled = Element::new("rect").child(Element::new("title").text("t"));
        assert_eq!(titled.to_string(), "<rect><title>t</title></rect>");
    }
}
