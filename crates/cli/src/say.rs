//! cutrace's own words on standard error. Nobody may be there to read them (`2>&1 | head -1`, a
//! terminal that is gone): that is no error, and never costs the traced program's exit status.

use std::{
    fmt,
    io::{self, Write},
};

/// A line on standard error. What would move the cursor or change colours comes from file names,
/// programs and traces, and is shown as `?`.
macro_rules! say {
    ($($words:tt)*) => {
        $crate::say::line(format_args!($($words)*))
    };
}
pub(crate) use say;

pub fn line(words: fmt::Arguments<'_>) {
    text(&format!("{words}\n"));
}

/// Lines that may have foreign words in them.
pub fn text(lines: &str) {
    painted(&harmless(lines));
}

/// Text with colours of our own; whoever made it has looked at the foreign words in it.
pub fn painted(text: &str) {
    // In one write, so that lines of several processes do not mix. stderr has no buffer to flush.
    let _ = io::stderr().write_all(text.as_bytes());
}

/// Line breaks and tabs stay.
fn harmless(lines: &str) -> String {
    let mut harmless = String::with_capacity(lines.len());
    for part in lines.split_inclusive(['\n', '\t']) {
        let end = part.ends_with(['\n', '\t']);
        let (words, end) = part.split_at(part.len() - usize::from(end));
        harmless.push_str(&render::printable(words));
        harmless.push_str(end);
    }
    harmless
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_cannot_paint_and_lines_stay_lines() {
        let said = harmless("one\n\ttwo \x1b]0;title\x07\x1b[2J\r\nend");
        assert_eq!(said, "one\n\ttwo ?]0;title??[2J?\nend");
        assert_eq!(harmless("\n\n"), "\n\n");
    }
}
