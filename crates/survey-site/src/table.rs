//! Tables that a script sorts: the values by which cells are ordered are attributes.

use flashfit_report::markup::Element;

/// A cell. An empty one is always last.
#[derive(Debug, Clone, Default)]
pub struct SiteCell {
    text: String,
    small: String,
    order: Option<f64>,
    link: Option<String>,
    class: &'static str,
}

impl SiteCell {
    pub fn text(text: impl Into<String>) -> Self {
        Self { text: text.into(), ..Self::default() }
    }

    /// A number that is shown as a text.
    pub fn number(text: impl Into<String>, order: f64) -> Self {
        Self { text: text.into(), order: Some(order), ..Self::default() }
    }

    pub fn count(count: usize) -> Self {
        Self::number(count.to_string(), count as f64)
    }

    /// Below, in small letters.
    pub fn small(self, small: impl Into<String>) -> Self {
        Self { small: small.into(), ..self }
    }

    pub fn link(self, file: &str) -> Self {
        Self { link: Some(file.to_owned()), ..self }
    }

    pub fn class(self, class: &'static str) -> Self {
        Self { class, ..self }
    }

    fn element(&self, name: &'static str, is_number: bool) -> Element {
        let class = [if is_number { "number" } else { "" }, self.class].join(" ");
        let element = match class.trim() {
            "" => Element::new(name),
            class => Element::new(name).class(class),
        };
        let element = match self.order {
            Some(order) => element.attr("data-order", order),
            None => element,
        };
        let element = match &self.link {
            Some(file) => element.child(Element::new("a").attr("href", file).text(&self.text)),
            None => element.text(&self.text),
        };
        let small = (!self.small.is_empty()).then(|| Element::new("small").text(&self.small));
        element.children(small)
    }
}

/// A table whose first column names the rows.
#[derive(Debug, Clone)]
pub struct SiteTable {
    label: String,
    columns: Vec<(String, String, bool)>,
    rows: Vec<Vec<SiteCell>>,
}

impl SiteTable {
    /// `label` is read to those who do not see it.
    pub fn new(label: &str) -> Self {
        Self { label: label.to_owned(), columns: Vec::new(), rows: Vec::new() }
    }

    pub fn texts(mut self, title: &str) -> Self {
        self.columns.push((title.to_owned(), String::new(), false));
        self
    }

    pub fn numbers(self, title: &str) -> Self {
        self.numbers_of(title, "")
    }

    /// A column of numbers with a second line of its title.
    pub fn numbers_of(mut self, title: &str, small: &str) -> Self {
        self.columns.push((title.to_owned(), small.to_owned(), true));
        self
    }

    pub fn row(&mut self, cells: Vec<SiteCell>) {
        assert_eq!(cells.len(), self.columns.len(), "a row has all columns of {}", self.label);
        self.rows.push(cells);
    }

    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// In a box that scrolls, by keyboard too.
    pub fn element(&self) -> Element {
        // A column without a value in any row is left out.
        let is_used =
            |column: usize| column == 0 || self.rows.iter().any(|row| !row[column].text.is_empty());
        let used: Vec<usize> = (0..self.columns.len()).filter(|column| is_used(*column)).collect();
        let heads = used.iter().map(|column| {
            let (title, small, is_number) = &self.columns[*column];
            let head = Element::new("th").attr("scope", "col").text(title);
            let head = if *is_number { head.class("number") } else { head };
            head.children((!small.is_empty()).then(|| Element::new("small").text(small)))
        });
        let rows = self.rows.iter().map(|row| {
            let cells = used.iter().map(|column| match column {
                0 => row[0].element("th", false).attr("scope", "row"),
                _ => row[*column].element("td", self.columns[*column].2),
            });
            Element::new("tr").children(cells)
        });
        let table = Element::new("table")
            .class("sortable")
            .child(Element::new("thead").child(Element::new("tr").children(heads)))
            .child(Element::new("tbody").children(rows));
        Element::new("div")
            .class("scroll")
            .attr("role", "region")
            .attr("aria-label", &self.label)
            .attr("tabindex", 0)
            .child(table)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_without_values_are_left_out_and_texts_are_escaped() {
        let mut table = SiteTable::new("Products").texts("Product").numbers("Speed").texts("Note");
        let hostile = SiteCell::text("\"><script>x</script>").link("a.html");
        table.row(vec![hostile, SiteCell::number("2 MiB/s", 2.5), SiteCell::default()]);
        let text = table.element().to_string();
        assert!(text.contains("&lt;script&gt;") && !text.contains("<script>"), "{text}");
        assert!(text.contains("data-order=\"2.5\"") && !text.contains("Note"), "{text}");
    }
}
