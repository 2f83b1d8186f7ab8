//! Formats of trace_printk: which conversions they have, and how a line reads.

/// Why a text is no format.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum FormatError {
    #[error("a width of {0} digits")]
    Width(usize),
    #[error("the format ends in the middle of a conversion")]
    Cut,
    #[error("unknown conversion %{0} (known: d i u x X p c s, with l or ll)")]
    Conversion(char),
}

/// One `%…` of a format.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Conversion {
    /// Between `%` and the length: flags and width.
    flags: String,
    /// 4 or 8: how many bytes of the value count.
    bytes: u8,
    letter: char,
}

enum Part<'a> {
    Text(&'a str),
    Conversion(Conversion),
}

/// The letters of a format's conversions, in order; or what is wrong with it.
pub fn conversions(format: &str) -> Result<Vec<char>, FormatError> {
    Ok(parts(format)?
        .into_iter()
        .filter_map(|part| match part {
            Part::Conversion(conversion) => Some(conversion.letter),
            Part::Text(_) => None,
        })
        .collect())
}

fn parts(format: &str) -> Result<Vec<Part<'_>>, FormatError> {
    let mut parts = Vec::new();
    let mut rest = format;
    while let Some(at) = rest.find('%') {
        parts.push(Part::Text(&rest[..at]));
        let tail = &rest[at + 1..];
        if let Some(tail) = tail.strip_prefix('%') {
            parts.push(Part::Text("%"));
            rest = tail;
            continue;
        }
        let width = tail
            .find(|c: char| !(c.is_ascii_digit() || "-+ #0".contains(c)))
            .unwrap_or(tail.len());
        if width > 8 {
            return Err(FormatError::Width(width));
        }
        let (flags, tail) = tail.split_at(width);
        let longs = tail.chars().take_while(|&c| c == 'l').count();
        let halves = tail[longs..].chars().take_while(|&c| c == 'h').count();
        let tail = &tail[longs + halves..];
        let Some(letter) = tail.chars().next() else {
            return Err(FormatError::Cut);
        };
        if !"diuxXpcs".contains(letter) || longs > 2 || halves > 2 {
            return Err(FormatError::Conversion(letter));
        }
        let bytes = if longs > 0 || letter == 'p' { 8 } else { 4 };
        parts.push(Part::Conversion(Conversion {
            flags: flags.to_owned(),
            bytes,
            letter,
        }));
        rest = &tail[letter.len_utf8()..];
    }
    parts.push(Part::Text(rest));
    Ok(parts)
}

/// The line a format makes of values. `text` gives the constant texts that `%s` names by number.
pub fn render(format: &str, values: &[u64], text: impl Fn(u64) -> Option<String>) -> String {
    let Ok(parts) = parts(format) else {
        return format.to_owned();
    };
    let mut line = String::new();
    let mut values = values.iter().copied();
    for part in parts {
        match part {
            Part::Text(text) => line.push_str(text),
            Part::Conversion(conversion) => {
                let value = values.next().unwrap_or(0);
                line.push_str(&conversion.render(value, &text));
            }
        }
    }
    line
}

/// No line is wider because a format asks for it.
const WIDEST: usize = 256;

impl Conversion {
    fn render(&self, value: u64, text: impl Fn(u64) -> Option<String>) -> String {
        let narrow = self.bytes == 4;
        let unsigned = if narrow {
            u64::from(value as u32)
        } else {
            value
        };
        let mut body = match self.letter {
            'd' | 'i' if narrow => (value as i32).to_string(),
            'd' | 'i' => (value as i64).to_string(),
            'u' => unsigned.to_string(),
            'x' if self.flags.contains('#') => format!("{unsigned:#x}"),
            'x' => format!("{unsigned:x}"),
            'X' => format!("{unsigned:X}"),
            'p' => format!("{value:#x}"),
            'c' => char::from(value as u8).to_string(),
            _ => text(value).unwrap_or_else(|| "?".into()),
        };
        if self.flags.contains('+') && "di".contains(self.letter) && !body.starts_with('-') {
            body.insert(0, '+');
        }
        let digits = self.flags.trim_start_matches(['-', '+', ' ', '#', '0']);
        let width = digits.parse::<usize>().unwrap_or(0).min(WIDEST);
        let padding = width.saturating_sub(body.chars().count());
        if self.flags.contains('-') {
            body.push_str(&" ".repeat(padding));
        } else if self
            .flags
            .trim_start_matches(['+', ' ', '#'])
            .starts_with('0')
        {
            let sign = usize::from(body.starts_with(['-', '+']));
            body.insert_str(sign, &"0".repeat(padding));
        } else {
            body.insert_str(0, &" ".repeat(padding));
        }
        body
    }
}
