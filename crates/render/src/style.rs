//! How a text may look: colours, width, and whether anything but ASCII can be shown.

/// What the place where a text is shown can do. The command line finds it out; nothing here
/// looks at a terminal or at the environment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Style {
    pub color: bool,
    /// Columns that pictures fill, and text where it is cut.
    pub width: usize,
    /// Text is wrapped and tables are cut to the width. What goes into a file or a pipe is not.
    pub cut: bool,
    pub unicode: bool,
    /// Kernels' whole names instead of short ones, never cut.
    pub full_names: bool,
}

impl Default for Style {
    fn default() -> Self {
        Style {
            color: false,
            width: 80,
            cut: true,
            unicode: true,
            full_names: false,
        }
    }
}

/// What a piece of text is, which says how it is painted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Paint {
    Heading,
    /// Something that needs looking at.
    Alarm,
    Warning,
    Good,
    /// Less important than what stands around it.
    Faint,
    Name,
}

impl Paint {
    const fn code(self) -> &'static str {
        match self {
            Paint::Heading => "1",
            Paint::Alarm => "1;31",
            Paint::Warning => "33",
            Paint::Good => "32",
            Paint::Faint => "2",
            Paint::Name => "36",
        }
    }
}

impl Style {
    /// The text in its colour, or as it is where there are no colours.
    pub fn paint(&self, paint: Paint, text: &str) -> String {
        if self.color && !text.is_empty() {
            format!("\x1b[{}m{text}\x1b[0m", paint.code())
        } else {
            text.to_owned()
        }
    }

    /// The sign for microseconds.
    pub fn micro(&self) -> &'static str {
        if self.unicode { "µs" } else { "us" }
    }

    /// A kernel's name in a sentence or a list of other things.
    pub fn kernel(&self, name: &str) -> String {
        let text = if self.full_names {
            analyse::demangled(name).into_owned()
        } else {
            analyse::short_name(name)
        };
        if self.unicode {
            text
        } else {
            text.replace('…', self.ellipsis())
        }
    }

    /// What stands for text that was cut off.
    pub fn ellipsis(&self) -> &'static str {
        if self.unicode { "…" } else { "..." }
    }
}

/// The columns a text takes, colours not counted. Names are ASCII nearly always; what is not
/// counts one column a character.
pub fn columns(text: &str) -> usize {
    let mut count = 0;
    let mut escape = false;
    for character in text.chars() {
        match (escape, character) {
            (false, '\x1b') => escape = true,
            (false, _) => count += 1,
            (true, 'm') => escape = false,
            (true, _) => {}
        }
    }
    count
}

/// Names come from traced programs: what would move the cursor, change colours or
/// turn the text around is shown as `?`.
pub fn printable(text: &str) -> String {
    const DIRECTION: [std::ops::RangeInclusive<char>; 3] = [
        '\u{200e}'..='\u{200f}',
        '\u{2028}'..='\u{202e}',
        '\u{2066}'..='\u{2069}',
    ];
    let bad = |character: char| {
        character.is_control() || DIRECTION.iter().any(|marks| marks.contains(&character))
    };
    text.chars()
        .map(|character| if bad(character) { '?' } else { character })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn colours_only_when_allowed_and_they_take_no_room() {
        let plain = Style::default();
        assert_eq!(plain.paint(Paint::Alarm, "x"), "x");
        let coloured = Style {
            color: true,
            ..plain
        };
        let text = coloured.paint(Paint::Alarm, "µs!");
        assert_ne!(text, "µs!");
        assert_eq!(columns(&text), 3);
    }

    #[test]
    fn names_cannot_paint() {
        assert_eq!(printable("a\x1b[31mb\n\u{202e}\u{200f}"), "a?[31mb???");
    }
}
