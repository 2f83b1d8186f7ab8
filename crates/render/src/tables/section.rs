//! What tables have around them: headings, lines that are too long for the screen, words for
//! times and handles.

use crate::{
    Paint, Style, Table, columns, printable,
    units::{count, time},
};
use analyse::{HostTime, Report};

/// A part of a report: a heading, then lines and tables.
pub(super) struct Section<'a> {
    pub style: &'a Style,
    text: String,
}

impl<'a> Section<'a> {
    pub fn new(style: &'a Style) -> Self {
        Section {
            style,
            text: String::new(),
        }
    }

    /// A heading, apart from what came before it.
    pub fn heading(&mut self, text: &str) {
        if !self.text.is_empty() {
            self.text.push('\n');
        }
        self.text.push_str(&self.style.paint(Paint::Heading, text));
        self.text.push('\n');
    }

    /// A line, indented by two, going on further in where it is too long.
    pub fn line(&mut self, text: &str) {
        self.wrapped(&printable(text), 2, 4);
    }

    /// A line with colours in it already: nothing that came unchecked from a traced program.
    pub fn painted_line(&mut self, text: &str) {
        self.wrapped(text, 2, 5);
    }

    /// A paragraph below a line.
    pub fn indented(&mut self, text: &str) {
        self.wrapped(&printable(text), 5, 5);
    }

    pub fn blank(&mut self) {
        self.text.push('\n');
    }

    fn wrapped(&mut self, text: &str, first: usize, further: usize) {
        // Lines in a pipe are for grep and for other widths than ours.
        let limit = match self.style.cut {
            true => self.style.width.max(20),
            false => usize::MAX,
        };
        let mut line = " ".repeat(first - 1);
        let mut words = text.split(' ').peekable();
        while let Some(word) = words.next() {
            // A number stays with its unit.
            let unit = (words.peek()).filter(|next| ends_in_digit(word) && is_unit(next));
            let wide = columns(word) + unit.map_or(0, |unit| 1 + columns(unit));
            if columns(&line) + 1 + wide > limit && !line.trim().is_empty() {
                self.text.push_str(&line);
                self.text.push('\n');
                line = " ".repeat(further - 1);
            }
            line.push(' ');
            line.push_str(word);
        }
        self.text.push_str(line.trim_end());
        self.text.push('\n');
    }

    /// A table; nothing if it has no rows.
    pub fn table(&mut self, table: &Table) {
        if !table.is_empty() {
            self.text.push_str(&table.render(self.style));
        }
    }

    /// How many rows to show where a screen has room for so many: in a file or a pipe all of them.
    pub fn rows(&self, on_screen: usize) -> usize {
        match self.style.cut {
            true => on_screen,
            false => usize::MAX,
        }
    }

    /// How many rows were left out, if any were.
    pub fn more(&mut self, shown: usize, of: u64) {
        if of > shown as u64 {
            let rest = of - shown as u64;
            let line = format!("  and {} more", count(rest));
            self.text.push_str(&self.style.paint(Paint::Faint, &line));
            self.text.push('\n');
        }
    }

    pub fn time(&self, ns: u64) -> String {
        time(ns, self.style)
    }

    pub fn finish(self) -> String {
        self.text
    }
}

fn ends_in_digit(word: &str) -> bool {
    word.ends_with(|letter: char| letter.is_ascii_digit())
}

fn is_unit(word: &str) -> bool {
    const UNITS: [&str; 16] = [
        "ns", "µs", "us", "ms", "s", "min", "h", "B", "KiB", "MiB", "GiB", "TiB", "MB/s", "GB/s",
        "TB/s", "%",
    ];
    UNITS.contains(&word.trim_end_matches(['.', ',', ';', ':', ')']))
}

/// When something was, from the beginning of the trace.
pub(super) fn since_start(report: &Report, at: u64, style: &Style) -> String {
    let since = at.saturating_sub(report.overview.start_ns);
    format!("+{}", time(since, style))
}

/// `synchronising 1.50 ms, nothing traced 20.0 µs`: the greatest parts.
pub(super) fn host_words(host: &HostTime, most: usize, style: &Style) -> String {
    let parts = host.parts();
    let words: Vec<String> = (parts.iter().take(most))
        .map(|(what, ns)| format!("{what} {}", time(*ns, style)))
        .collect();
    words.join(", ")
}

/// A stream's handle as people know it.
pub(super) fn stream_name(stream: Option<u64>) -> String {
    match stream {
        None | Some(0) => "default".into(),
        Some(1) => "legacy".into(),
        Some(2) => "per-thread".into(),
        Some(handle) => format!("{handle:#x}"),
    }
}

pub(super) fn device_name(device: Option<u32>) -> String {
    device.map_or_else(|| "?".into(), |device| device.to_string())
}
