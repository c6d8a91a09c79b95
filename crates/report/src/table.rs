//! Plain-text tables whose columns shrink to a width.
//!
//! Cells are cleaned ([`text::plain`]) on entry. Columns are two spaces apart. If the table is too
//! wide, columns that can be shortened shrink: first those shortened at the end, then all of them,
//! widest first. Other columns keep their width, so the table can still be too wide. [`text`]
//! defines the width of a character. A process whose output is not a terminal shows cells whole
//! ([`show_cells_whole`]): a program that reads them needs their names.

use std::sync::atomic::{AtomicBool, Ordering};

use crate::text;

static SHOWS_CELLS_WHOLE: AtomicBool = AtomicBool::new(false);

/// From now on, no table of this process shortens its cells, whatever its width.
pub fn show_cells_whole() {
    SHOWS_CELLS_WHOLE.store(true, Ordering::Relaxed);
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Align {
    #[default]
    Left,
    Right,
}

/// How a cell that is too long is shortened.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Shorten {
    #[default]
    Never,
    /// For names, which differ at both ends.
    Middle,
    End,
}

#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Column {
    heading: String,
    align: Align,
    shorten: Shorten,
}

impl Column {
    /// Aligned to the left and never shortened.
    pub fn text(heading: &str) -> Self {
        Self { heading: text::plain(heading), align: Align::Left, shorten: Shorten::Never }
    }

    /// Aligned to the right and never shortened.
    pub fn number(heading: &str) -> Self {
        Self { align: Align::Right, ..Self::text(heading) }
    }

    #[must_use]
    pub fn align(self, align: Align) -> Self {
        Self { align, ..self }
    }

    #[must_use]
    pub fn shorten(self, shorten: Shorten) -> Self {
        Self { shorten, ..self }
    }
}

const MIN_WIDTH: usize = 8;
/// Remarks longer than this are shortened before names are.
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

    /// Adds a row; missing cells are empty, surplus cells are dropped.
    pub fn row<S: AsRef<str>>(&mut self, cells: impl IntoIterator<Item = S>) {
        let mut row: Vec<String> = cells.into_iter().map(|c| text::plain(c.as_ref())).collect();
        row.resize(self.columns.len(), String::new());
        self.rows.push(row);
    }

    /// Whether it has no rows.
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// The heading and the rows, each ending in a newline. Columns that are empty in every row are
    /// left out.
    pub fn render(&self, width: usize) -> String {
        self.render_within(if SHOWS_CELLS_WHOLE.load(Ordering::Relaxed) {
            usize::MAX
        } else {
            width
        })
    }

    fn render_within(&self, width: usize) -> String {
        let shown: Vec<usize> = (0..self.columns.len()).filter(|&i| self.has_content(i)).collect();
        let widths = self.widths(&shown, width);
        let heading = shown.iter().map(|&index| self.columns[index].heading.as_str());
        let mut rendered = self.line(&shown, &widths, heading);
        let mut rows = self.rows.clone();
        for (&index, &width) in shown.iter().zip(&widths) {
            if self.columns[index].shorten == Shorten::Middle {
                let names: Vec<&str> = self.rows.iter().map(|row| row[index].as_str()).collect();
                let names = text::shorten_distinct(&names, width);
                rows.iter_mut().zip(names).for_each(|(row, name)| row[index] = name);
            }
        }
        for row in &rows {
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
                .or_else(|| widest(&|how| how != Shorten::Never, MIN_WIDTH));
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
                // Names were shortened together.
                Shorten::Never | Shorten::Middle => cell.to_owned(),
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
    fn without_a_limit_nothing_is_shortened() {
        let whole = table().render_within(usize::MAX);
        assert_eq!(whole, table().render(1000));
        assert!(!whole.contains('…'), "{whole}");
    }

    #[test]
    fn different_names_stay_different() {
        let mut table = TextTable::new([Column::text("setup").shorten(Shorten::Middle)]);
        let names =
            ["ext4 noatime,commit-60,nobarrier none", "ext4 noatime,commit-30,nobarrier none"];
        names.into_iter().for_each(|name| table.row([name]));
        table.row(["ext4 noatime none"]);
        let narrow = table.render(20);
        let lines: std::collections::BTreeSet<&str> = narrow.lines().collect();
        assert_eq!(lines.len(), 4, "{narrow}");
        assert!(narrow.lines().all(|line| text::width(line) <= 20), "{narrow}");
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
