//! A table of plain text: aligned columns that shrink to a width.
//!
//! Cells are made plain ([`text::plain`]) on entry. Columns are two spaces apart. When the table is
//! wider than asked, the columns that may be shortened give way: first those that lose their end,
//! then all of them, widest first. Columns that may not are kept whole, so the table can still be
//! wider than asked. See [`text`] for what a column is.

use crate::text;

/// The side at which a column's cells stand.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Align {
    /// Text.
    #[default]
    Left,
    /// Numbers.
    Right,
}

/// How a cell that is too long gives way.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Shorten {
    /// It doesn't.
    #[default]
    Never,
    /// It loses its middle, as names do that differ at both ends.
    Middle,
    /// It loses its end, as remarks do.
    End,
}

/// A column's heading and manners.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Column {
    heading: String,
    align: Align,
    shorten: Shorten,
}

impl Column {
    /// A column of text that is never shortened.
    pub fn text(heading: &str) -> Self {
        Self { heading: text::plain(heading), align: Align::Left, shorten: Shorten::Never }
    }

    /// A column of numbers, aligned at the right and never shortened.
    pub fn number(heading: &str) -> Self {
        Self { align: Align::Right, ..Self::text(heading) }
    }

    /// The same column, with its cells at another side.
    #[must_use]
    pub fn align(self, align: Align) -> Self {
        Self { align, ..self }
    }

    /// The same column, whose cells may be shortened.
    #[must_use]
    pub fn shorten(self, shorten: Shorten) -> Self {
        Self { shorten, ..self }
    }
}

/// The narrowest a column is shortened to.
const NARROWEST: usize = 8;
/// Remarks longer than this give way before names do.
const SHORT_REMARK: usize = 16;
const GAP: usize = 2;

/// A table under construction.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct TextTable {
    columns: Vec<Column>,
    rows: Vec<Vec<String>>,
}

impl TextTable {
    /// A table without rows.
    pub fn new(columns: impl IntoIterator<Item = Column>) -> Self {
        Self { columns: columns.into_iter().collect(), rows: Vec::new() }
    }

    /// Adds a row; missing cells are empty, surplus ones are dropped.
    pub fn row<S: AsRef<str>>(&mut self, cells: impl IntoIterator<Item = S>) {
        let mut row: Vec<String> = cells.into_iter().map(|c| text::plain(c.as_ref())).collect();
        row.resize(self.columns.len(), String::new());
        self.rows.push(row);
    }

    /// Whether it has no rows.
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// The heading and the rows, each ending in a newline, within `width` columns where the
    /// table's manners allow; a column that is empty in every row is left out.
    pub fn render(&self, width: usize) -> String {
        let shown: Vec<usize> = (0..self.columns.len()).filter(|&i| self.has_content(i)).collect();
        let widths = self.widths(&shown, width);
        let heading = shown.iter().map(|&index| self.columns[index].heading.as_str());
        let mut rendered = self.line(&shown, &widths, heading);
        for row in &self.rows {
            let cells = shown.iter().map(|&index| row[index].as_str());
            rendered.push_str(&self.line(&shown, &widths, cells));
        }
        rendered
    }

    fn has_content(&self, index: usize) -> bool {
        self.rows.is_empty() || self.rows.iter().any(|row| !row[index].is_empty())
    }

    fn widths(&self, shown: &[usize], width: usize) -> Vec<usize> {
        let natural = |index: usize| {
            let cells = self.rows.iter().map(|row| text::width(&row[index])).max().unwrap_or(0);
            cells.max(text::width(&self.columns[index].heading))
        };
        let mut widths: Vec<usize> = shown.iter().map(|&index| natural(index)).collect();
        let gaps = GAP * shown.len().saturating_sub(1);
        while widths.iter().sum::<usize>() + gaps > width {
            let widest = |shortens: &dyn Fn(Shorten) -> bool, narrowest: usize| {
                (0..shown.len())
                    .filter(|&i| shortens(self.columns[shown[i]].shorten) && widths[i] > narrowest)
                    .max_by_key(|&i| widths[i])
            };
            let next = widest(&|how| how == Shorten::End, SHORT_REMARK)
                .or_else(|| widest(&|how| how != Shorten::Never, NARROWEST));
            let Some(next) = next else { break };
            widths[next] -= 1;
        }
        widths
    }

    fn line<'a>(
        &self,
        shown: &[usize],
        widths: &[usize],
        cells: impl Iterator<Item = &'a str>,
    ) -> String {
        let mut line = String::new();
        for ((&index, &width), cell) in shown.iter().zip(widths).zip(cells) {
            if !line.is_empty() {
                line.push_str(&" ".repeat(GAP));
            }
            let column = &self.columns[index];
            let cell = match column.shorten {
                Shorten::Never => cell.to_owned(),
                Shorten::Middle => text::shorten_middle(cell, width),
                Shorten::End => text::shorten_end(cell, width),
            };
            let padding = " ".repeat(width.saturating_sub(text::width(&cell)));
            match column.align {
                Align::Left => line.extend([cell, padding]),
                Align::Right => line.extend([padding, cell]),
            }
        }
        line.truncate(line.trim_end().len());
        line.push('\n');
        line
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table() -> TextTable {
        let mut table = TextTable::new([
            Column::number("n"),
            Column::text("device").shorten(Shorten::Middle),
            Column::text("state").shorten(Shorten::End),
            Column::text("unused"),
        ]);
        table.row(["1", "/dev/mmcblk0", "free"]);
        table.row(["10", "/dev/disk/by-id/usb-\u{1b}[2JThing", "in use by ext4"]);
        table
    }

    #[test]
    fn columns_are_aligned_and_empty_ones_left_out() {
        assert_eq!(
            table().render(80),
            " n  device                        state\n \
             1  /dev/mmcblk0                  free\n\
             10  /dev/disk/by-id/usb-[2JThing  in use by ext4\n"
        );
    }

    #[test]
    fn a_narrow_table_shortens_the_widest_first() {
        let narrow = table().render(30);
        assert_eq!(
            narrow,
            " n  device        state\n \
             1  /dev/mmcblk0  free\n\
             10  /dev/d…Thing  in use by e…\n"
        );
        assert!(narrow.lines().all(|line| text::width(line) <= 30));
    }

    #[test]
    fn a_table_without_rows_is_its_heading() {
        let mut empty = TextTable::new([Column::text("a"), Column::text("b")]);
        assert!(empty.is_empty());
        assert_eq!(empty.render(80), "a  b\n");
        empty.row([""; 0]);
        assert_eq!(empty.render(0), "\n\n");
    }
}
