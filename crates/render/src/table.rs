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
    columns: Vec<Column>,
    rows: Vec<Vec<Cell>>,
}

#[derive(Debug, Clone)]
struct Column {
    heading: String,
    align: Align,
    /// Of kernels, which are shown short.
    names: bool,
    /// Left out where names would have too little room.
    optional: bool,
}

/// A cell's text, and how it is painted.
#[derive(Debug, Clone)]
pub struct Cell {
    text: String,
    paint: Option<Paint>,
    /// Shown behind a name where there is room.
    note: String,
}

impl<T: AsRef<str>> From<T> for Cell {
    fn from(text: T) -> Self {
        Cell {
            text: printable(text.as_ref()),
            paint: None,
            note: String::new(),
        }
    }
}

impl Cell {
    pub fn painted(text: impl AsRef<str>, paint: Paint) -> Self {
        Cell {
            paint: Some(paint),
            ..Cell::from(text)
        }
    }

    /// A kernel's name, with something to say about it.
    pub fn noted(name: impl AsRef<str>, note: impl Into<String>) -> Self {
        Cell {
            note: note.into(),
            ..Cell::from(name)
        }
    }
}

/// Between columns.
const GAP: usize = 2;
/// A text column is not cut below this.
const LEAST: usize = 12;
/// Kernels' names can be told apart at this width: optional columns go before they get less.
const NAMES: usize = 30;
/// Functions' names differ sooner.
const OTHERS: usize = 20;

impl Table {
    pub fn new() -> Self {
        Table::default()
    }

    /// A column of texts.
    pub fn left(self, heading: &str) -> Self {
        self.column(heading, Align::Left)
    }

    /// A column of numbers.
    pub fn right(self, heading: &str) -> Self {
        self.column(heading, Align::Right)
    }

    /// A column of kernels' names: give it whole ones.
    pub fn names(self, heading: &str) -> Self {
        let mut table = self.column(heading, Align::Left);
        if let Some(column) = table.columns.last_mut() {
            column.names = true;
        }
        table
    }

    /// A column of numbers that gives way to names; the last goes first.
    pub fn optional(self, heading: &str) -> Self {
        self.optional_column(heading, Align::Right)
    }

    /// The same of texts.
    pub fn optional_left(self, heading: &str) -> Self {
        self.optional_column(heading, Align::Left)
    }

    fn optional_column(self, heading: &str, align: Align) -> Self {
        let mut table = self.column(heading, align);
        if let Some(column) = table.columns.last_mut() {
            column.optional = true;
        }
        table
    }

    fn column(mut self, heading: &str, align: Align) -> Self {
        self.columns.push(Column {
            heading: heading.to_owned(),
            align,
            names: false,
            optional: false,
        });
        self
    }

    /// Adds a row. Missing cells stay empty; more than there are columns are not shown.
    pub fn row(&mut self, cells: impl IntoIterator<Item = impl Into<Cell>>) {
        let cells: Vec<Cell> = cells.into_iter().map(Into::into).collect();
        self.rows.push(cells);
    }

    /// How many rows it has.
    pub fn len(&self) -> usize {
        self.rows.len()
    }

    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// The lines, each ended, indented by two.
    pub fn render(&self, style: &Style) -> String {
        let mut table = self.clone();
        table.name(self, usize::MAX, style);
        let mut widths = table.widths(style);
        while let Some(spare) = table.spare(&widths) {
            table.columns.remove(spare);
            for row in table.rows.iter_mut().filter(|row| row.len() > spare) {
                row.remove(spare);
            }
            widths = table.widths(style);
        }
        if let Some(place) = table.columns.iter().position(|column| column.names) {
            table.name(self, widths[place], style);
        }
        table.text(&widths, style)
    }

    /// The same for a page: every cell in whole.
    pub fn html(&self) -> String {
        let class = |place: usize, paint: Option<Paint>| {
            let column = self.columns.get(place);
            let right = column.filter(|column| column.align == Align::Right);
            let paint = match paint {
                Some(Paint::Alarm) => "alarm",
                Some(Paint::Good) => "good",
                Some(Paint::Faint) => "faint",
                _ => "",
            };
            let words = [right.map_or("", |_| "right"), paint];
            let words: Vec<&str> = words.into_iter().filter(|word| !word.is_empty()).collect();
            match words.is_empty() {
                true => String::new(),
                false => format!(" class=\"{}\"", words.join(" ")),
            }
        };
        let escaped = crate::tables::escaped;
        let mut text = String::from("<table><thead><tr>");
        for (place, column) in self.columns.iter().enumerate() {
            let heading = escaped(&column.heading);
            text.push_str(&format!("<th{}>{heading}</th>", class(place, None)));
        }
        text.push_str("</tr></thead><tbody>");
        for row in &self.rows {
            text.push_str("<tr>");
            for (place, cell) in row.iter().take(self.columns.len()).enumerate() {
                let shown = escaped(&cell.text);
                text.push_str(&format!("<td{}>{shown}</td>", class(place, cell.paint)));
            }
            text.push_str("</tr>\n");
        }
        text.push_str("</tbody></table>");
        text
    }

    /// Gives the kernels of another table, the same in whole, names of at most this width.
    fn name(&mut self, whole: &Table, width: usize, style: &Style) {
        let place_of = |table: &Table| table.columns.iter().position(|column| column.names);
        let (Some(to), Some(from)) = (place_of(self), place_of(whole)) else {
            return;
        };
        let cells: Vec<&Cell> = whole.rows.iter().filter_map(|row| row.get(from)).collect();
        let names: Vec<&str> = cells.iter().map(|cell| cell.text.as_str()).collect();
        let shown = if style.full_names {
            names.iter().map(|name| style.kernel(name)).collect()
        } else {
            analyse::distinct(&names, width, style.ellipsis())
        };
        let rows = self.rows.iter_mut().filter_map(|row| row.get_mut(to));
        for ((cell, whole), mut text) in rows.zip(cells).zip(shown) {
            if !whole.note.is_empty() {
                let noted = format!("{text} {}", whole.note);
                if style.full_names || columns(&noted) <= width {
                    text = noted;
                }
            }
            cell.text = printable(&text);
        }
    }

    /// The column to leave out, if names (of kernels, or what comes first) have too little room.
    fn spare(&self, widths: &[usize]) -> Option<usize> {
        let kernels = self.columns.iter().position(|column| column.names);
        let names = kernels.or_else(|| {
            let mut columns = self.columns.iter();
            columns.position(|column| column.align == Align::Left)
        })?;
        let cells = self.rows.iter().filter_map(|row| row.get(names));
        let wanted = cells.map(|cell| columns(&cell.text)).max().unwrap_or(0);
        let least = if kernels.is_some() { NAMES } else { OTHERS };
        if widths[names] >= wanted.min(least) {
            return None;
        }
        self.columns.iter().rposition(|column| column.optional)
    }

    fn text(&self, widths: &[usize], style: &Style) -> String {
        let mut text = String::new();
        let headings: Vec<Cell> = (self.columns.iter())
            .map(|column| Cell::painted(&column.heading, Paint::Heading))
            .collect();
        if headings.iter().any(|heading| !heading.text.is_empty()) {
            self.line(&mut text, &headings, widths, style);
        }
        for row in &self.rows {
            self.line(&mut text, row, widths, style);
        }
        text
    }

    fn line(&self, text: &mut String, cells: &[Cell], widths: &[usize], style: &Style) {
        let start = text.len();
        let mut owed = GAP;
        for ((cell, &width), column) in cells.iter().zip(widths).zip(&self.columns) {
            let shown = cut(&cell.text, width, column.align, style);
            let room = width.saturating_sub(columns(&shown));
            if column.align == Align::Right {
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
            if column.align == Align::Left {
                owed += room;
            }
            owed += GAP;
        }
        if text.len() > start {
            text.push('\n');
        }
    }

    /// What each column gets: what it wants, less what the widest text columns must give up.
    fn widths(&self, style: &Style) -> Vec<usize> {
        let mut widths: Vec<usize> = (self.columns.iter().enumerate())
            .map(|(place, column)| {
                let cells = self.rows.iter().filter_map(|row| row.get(place));
                cells
                    .map(|cell| columns(&cell.text))
                    .chain([columns(&column.heading)])
                    .max()
                    .unwrap_or(0)
            })
            .collect();
        if !style.cut {
            return widths;
        }
        let gives = |place: usize| {
            let column = &self.columns[place];
            column.align == Align::Left && !(column.names && style.full_names)
        };
        loop {
            let total: usize = widths.iter().map(|width| width + GAP).sum();
            let Some(over) = total.checked_sub(style.width).filter(|&over| over > 0) else {
                return widths;
            };
            let widest = (0..widths.len())
                .filter(|&place| gives(place) && widths[place] > LEAST)
                .max_by_key(|&place| widths[place]);
            let Some(widest) = widest else { return widths };
            // Down to the next widest at most, so that two long columns share the loss.
            let next = (0..widths.len())
                .filter(|&place| place != widest && gives(place))
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
                    width,
                    unicode,
                    ..Style::default()
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

    fn kernels() -> Table {
        let mut table = Table::new()
            .names("Name")
            .right("Runs")
            .right("Total")
            .optional("p50")
            .optional("p99");
        for (name, note) in [
            ("nvjet_sm90_tst_128x64_64x8_1x2_h_bz_NNT", ""),
            ("nvjet_sm90_tst_128x64_64x8_1x2_h_bz_TNT", ""),
            (
                "void at::native::vectorized_elementwise_kernel<4, at::native::CUDAFunctor_add<c10::BFloat16>, std::array<char*, 3ul> >(int)",
                "(2 variants)",
            ),
            ("_Z9vectorAddPKfS0_Pfi", ""),
        ] {
            let numbers = ["2,824", "113 ms", "40.1 µs", "41.2 µs"].map(Cell::from);
            table.row([Cell::noted(name, note)].into_iter().chain(numbers));
        }
        table
    }

    #[test]
    fn kernels_are_named_for_the_room_there_is() {
        let at = |width| {
            kernels().render(&Style {
                width,
                ..Style::default()
            })
        };
        insta::assert_snapshot!(at(80), @r"
        Name                                      Runs   Total      p50      p99
        nvjet_sm90_tst_128x64_64x8_1x2_h_bz_NNT  2,824  113 ms  40.1 µs  41.2 µs
        nvjet_sm90_tst_128x64_64x8_1x2_h_bz_TNT  2,824  113 ms  40.1 µs  41.2 µs
        elementwise add<bf16> (2 variants)       2,824  113 ms  40.1 µs  41.2 µs
        vectorAdd                                2,824  113 ms  40.1 µs  41.2 µs
        ");
        insta::assert_snapshot!(at(50), @r"
        Name                                Runs   Total
        nvjet_sm90_tst_128x64_64x8_1…_NNT  2,824  113 ms
        nvjet_sm90_tst_128x64_64x8_1…_TNT  2,824  113 ms
        elementwise add<bf16>              2,824  113 ms
        vectorAdd                          2,824  113 ms
        ");
        insta::assert_snapshot!(at(40), @r"
        Name                      Runs   Total
        nvjet_sm90_tst_128…_NNT  2,824  113 ms
        nvjet_sm90_tst_128…_TNT  2,824  113 ms
        elementwise add<bf16>    2,824  113 ms
        vectorAdd                2,824  113 ms
        ");
    }

    #[test]
    fn whole_names_are_whole() {
        let text = kernels().render(&Style {
            full_names: true,
            ..Style::default()
        });
        for name in [
            "std::array<char*, 3ul> >(int) (2 variants)  2,824",
            "vectorAdd(float const*, float const*, float*, int)",
        ] {
            assert!(text.contains(name), "{text}");
        }
    }

    #[test]
    fn what_goes_into_a_file_is_not_cut() {
        let wide = Style {
            width: 20,
            cut: false,
            ..Style::default()
        };
        assert!(table().render(&wide).contains("there_is_room_for  1,234"));
        assert!(kernels().render(&wide).contains("_1x2_h_bz_NNT "));
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
