//! One layout for every table: columns aligned, the widest text column cut where the width of
//! the screen demands it.

use crate::{
    Style,
    style::{Paint, columns, printable},
};

/// How a column's cells lie.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Align {
    Left,
    Right,
}

/// A table being built: columns first, then rows.
#[derive(Debug, Clone, Default)]
pub struct Table {
    columns: Vec<(String, Align)>,
    rows: Vec<Vec<Cell>>,
}

/// A cell's text, and how it is painted.
#[derive(Debug, Clone)]
pub struct Cell {
    text: String,
    paint: Option<Paint>,
}

impl<T: AsRef<str>> From<T> for Cell {
    fn from(text: T) -> Self {
        Cell {
            text: printable(text.as_ref()),
            paint: None,
        }
    }
}

impl Cell {
    pub fn painted(text: impl AsRef<str>, paint: Paint) -> Self {
        Cell {
            text: printable(text.as_ref()),
            paint: Some(paint),
        }
    }
}

/// Between columns.
const GAP: usize = 2;
/// A text column is not cut below this.
const LEAST: usize = 12;

impl Table {
    pub fn new() -> Self {
        Table::default()
    }

    /// A column of texts.
    pub fn left(mut self, heading: &str) -> Self {
        self.columns.push((heading.to_owned(), Align::Left));
        self
    }

    /// A column of numbers.
    pub fn right(mut self, heading: &str) -> Self {
        self.columns.push((heading.to_owned(), Align::Right));
        self
    }

    /// Adds a row. Missing cells stay empty; more than there are columns are not shown.
    pub fn row(&mut self, cells: impl IntoIterator<Item = impl Into<Cell>>) {
        let cells: Vec<Cell> = cells.into_iter().map(Into::into).collect();
        self.rows.push(cells);
    }

    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// The lines, each ended, indented by two.
    pub fn render(&self, style: &Style) -> String {
        let widths = self.widths(style.width);
        let mut text = String::new();
        let headings: Vec<Cell> = (self.columns.iter())
            .map(|(heading, _)| Cell::painted(heading, Paint::Heading))
            .collect();
        if headings.iter().any(|heading| !heading.text.is_empty()) {
            self.line(&mut text, &headings, &widths, style);
        }
        for row in &self.rows {
            self.line(&mut text, row, &widths, style);
        }
        text
    }

    fn line(&self, text: &mut String, cells: &[Cell], widths: &[usize], style: &Style) {
        let start = text.len();
        let mut owed = GAP;
        for ((cell, &width), (_, align)) in cells.iter().zip(widths).zip(&self.columns) {
            let shown = cut(&cell.text, width, *align, style);
            let room = width.saturating_sub(columns(&shown));
            if *align == Align::Right {
                owed += room;
            }
            if !shown.is_empty() {
                // Spaces only before something: no line ends in them.
                text.extend(std::iter::repeat_n(' ', std::mem::take(&mut owed)));
                match cell.paint {
                    Some(paint) => text.push_str(&style.paint(paint, &shown)),
                    None => text.push_str(&shown),
                }
            }
            if *align == Align::Left {
                owed += room;
            }
            owed += GAP;
        }
        if text.len() > start {
            text.push('\n');
        }
    }

    /// What each column gets: what it wants, less what the widest text columns must give up.
    fn widths(&self, limit: usize) -> Vec<usize> {
        let mut widths: Vec<usize> = (self.columns.iter().enumerate())
            .map(|(place, (heading, _))| {
                let cells = self.rows.iter().filter_map(|row| row.get(place));
                cells
                    .map(|cell| columns(&cell.text))
                    .chain([columns(heading)])
                    .max()
                    .unwrap_or(0)
            })
            .collect();
        loop {
            let total: usize = widths.iter().map(|width| width + GAP).sum();
            let Some(over) = total.checked_sub(limit).filter(|&over| over > 0) else {
                return widths;
            };
            let widest = (0..widths.len())
                .filter(|&place| self.columns[place].1 == Align::Left && widths[place] > LEAST)
                .max_by_key(|&place| widths[place]);
            let Some(widest) = widest else { return widths };
            // Down to the next widest at most, so that two long columns share the loss.
            let next = (0..widths.len())
                .filter(|&place| place != widest && self.columns[place].1 == Align::Left)
                .map(|place| widths[place])
                .max()
                .unwrap_or(0);
            let give = widths[widest].saturating_sub(next).max(1).min(over);
            widths[widest] = (widths[widest] - give).max(LEAST);
        }
    }
}

/// The text, cut to a width: of names the beginning is kept.
fn cut(text: &str, width: usize, align: Align, style: &Style) -> String {
    if align == Align::Right || columns(text) <= width {
        return text.to_owned();
    }
    let kept = width.saturating_sub(columns(style.ellipsis()));
    let mut shown: String = text.chars().take(kept).collect();
    shown.push_str(style.ellipsis());
    shown
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table() -> Table {
        let mut table = Table::new()
            .left("Name")
            .right("Calls")
            .right("Total")
            .left("");
        table.row(["cuMemAlloc_v2", "12", "113 µs", "BOTTLENECK"]);
        table.row([
            "a_name_that_is_much_longer_than_there_is_room_for",
            "1,234",
            "7 ns",
        ]);
        table
    }

    #[test]
    fn columns_are_aligned_and_no_line_ends_in_blanks() {
        insta::assert_snapshot!(table().render(&Style::default()), @r"
          Name                                               Calls   Total
          cuMemAlloc_v2                                         12  113 µs  BOTTLENECK
          a_name_that_is_much_longer_than_there_is_room_for  1,234    7 ns
        ");
    }

    #[test]
    fn long_names_give_way_to_the_width() {
        for width in [44, 60, 200] {
            for unicode in [false, true] {
                let style = Style {
                    color: false,
                    width,
                    unicode,
                };
                let text = table().render(&style);
                assert!(text.lines().all(|line| columns(line) <= width), "{text}");
            }
        }
        let narrow = Style {
            width: 10,
            ..Style::default()
        };
        assert!(
            table().render(&narrow).contains("1,234"),
            "numbers are never cut"
        );
    }

    #[test]
    fn colour_does_not_move_columns() {
        let mut table = table();
        table.row([Cell::painted("x", Paint::Alarm), "5".into()]);
        let plain = table.render(&Style::default());
        let coloured = table.render(&Style {
            color: true,
            ..Style::default()
        });
        assert_ne!(plain, coloured);
        let widths = |text: &str| text.lines().map(columns).collect::<Vec<_>>();
        assert_eq!(widths(&plain), widths(&coloured));
    }
}
