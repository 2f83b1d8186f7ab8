//! What is wrong with a hooks file, and where.

use std::ops::Range;

/// A mistake at a place of the text.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("line {line}, column {column}: {what}")]
pub struct Error {
    /// From 1.
    pub line: usize,
    /// From 1, in characters.
    pub column: usize,
    pub what: String,
    /// The line it is in, for the reader.
    pub text: String,
}

impl Error {
    pub(super) fn at(text: &str, place: usize, what: impl Into<String>) -> Self {
        let mut place = place.min(text.len());
        while !text.is_char_boundary(place) {
            place -= 1;
        }
        let before = &text[..place];
        let start = before.rfind('\n').map_or(0, |newline| newline + 1);
        let end = text[place..].find('\n').map_or(text.len(), |n| place + n);
        Error {
            line: before.matches('\n').count() + 1,
            column: text[start..place].chars().count() + 1,
            what: what.into(),
            // A line may be the whole file.
            text: text[start..end].chars().take(200).collect(),
        }
    }

    /// The error as compilers show it: the place, the line, a mark below it.
    pub fn show(&self, file: &str) -> String {
        let number = self.line.to_string();
        let mark: String = (self.text.chars().take(self.column - 1))
            .map(|c| if c == '\t' { '\t' } else { ' ' })
            .collect();
        let shown = format!("{file}:{number}:{}: {}", self.column, self.what);
        if self.column > 200 {
            return shown;
        }
        let pad = " ".repeat(number.len());
        format!(
            "{shown}\n {number} | {}\n {pad} | {mark}^",
            self.text.trim_end()
        )
    }
}

/// A mistake in a part of the text (a string of the file), by its distance from the part's start.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Located {
    pub place: usize,
    pub what: String,
}

impl Located {
    pub(super) fn new(place: usize, what: impl Into<String>) -> Self {
        Located {
            place,
            what: what.into(),
        }
    }

    /// The same in the whole text, where the part is the value of a TOML string at `span`.
    pub(super) fn within(self, text: &str, span: Option<Range<usize>>, value: &str) -> Error {
        let span = span.unwrap_or(0..0);
        let quoted = text.get(span.start + 1..span.end.saturating_sub(1));
        // With escapes, or three quotes, the value's bytes lie elsewhere: then its start must do.
        let place = if quoted == Some(value) {
            span.start + 1 + self.place.min(value.len())
        } else {
            span.start
        };
        Error::at(text, place, self.what)
    }
}
