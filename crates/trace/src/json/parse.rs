//! A cursor over one JSON text. It never recurses on foreign input except where the caller
//! counts the depth.

use std::borrow::Cow;

/// What is wrong with a text, and where in it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problem {
    pub at: usize,
    pub what: Cow<'static, str>,
}

pub type Parsed<T> = Result<T, Problem>;

/// A string as it was written: with escapes it owns its meaning.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Text<'a> {
    pub text: Cow<'a, str>,
    /// An escaped string is only ever a string, never a pointer (see `value`).
    pub escaped: bool,
}

pub struct Cursor<'a> {
    text: &'a str,
    at: usize,
}

impl<'a> Cursor<'a> {
    pub fn new(text: &'a str) -> Self {
        Cursor { text, at: 0 }
    }

    pub fn problem<T>(&self, what: impl Into<Cow<'static, str>>) -> Parsed<T> {
        Err(Problem {
            at: self.at,
            what: what.into(),
        })
    }

    /// The next byte that is not white space, 0 at the end.
    #[inline]
    pub fn peek(&mut self) -> u8 {
        let bytes = self.text.as_bytes();
        while let Some(&byte) = bytes.get(self.at) {
            if !matches!(byte, b' ' | b'\t' | b'\r' | b'\n') {
                return byte;
            }
            self.at += 1;
        }
        0
    }

    /// Step over `byte` if it comes next.
    #[inline]
    pub fn take(&mut self, byte: u8) -> bool {
        let found = self.peek() == byte && self.at < self.text.len();
        self.at += usize::from(found);
        found
    }

    /// Step over `text` if it comes next, byte for byte.
    #[inline]
    pub fn take_exactly(&mut self, text: &[u8]) -> bool {
        let found = self.text.as_bytes()[self.at..].starts_with(text);
        if found {
            self.at += text.len();
        }
        found
    }

    #[inline]
    pub fn expect(&mut self, byte: u8, what: &'static str) -> Parsed<()> {
        if self.take(byte) {
            Ok(())
        } else {
            self.problem(what)
        }
    }

    /// Nothing but white space may follow.
    pub fn end(&mut self) -> Parsed<()> {
        self.peek();
        if self.at == self.text.len() {
            Ok(())
        } else {
            self.problem("text after the JSON object")
        }
    }

    /// Step over what separates members; false when `close` ends them.
    #[inline]
    pub fn another(&mut self, close: u8, first: bool) -> Parsed<bool> {
        if self.take(close) {
            return Ok(false);
        }
        if !first {
            self.expect(b',', "expected ',' or the end of an object or list")?;
        }
        Ok(true)
    }

    #[inline]
    pub fn key(&mut self) -> Parsed<Text<'a>> {
        let key = self.string()?;
        self.expect(b':', "expected ':' after a key")?;
        Ok(key)
    }

    #[inline]
    pub fn string(&mut self) -> Parsed<Text<'a>> {
        self.expect(b'"', "expected a string")?;
        let start = self.at;
        self.at += plain_length(&self.text.as_bytes()[start..]);
        match self.text.as_bytes().get(self.at) {
            Some(b'"') => {
                let text = Cow::Borrowed(&self.text[start..self.at]);
                self.at += 1;
                Ok(Text {
                    text,
                    escaped: false,
                })
            }
            Some(b'\\') => self.escaped_string(start),
            Some(_) => self.problem("a control character in a string"),
            None => self.problem("an unterminated string"),
        }
    }

    /// The rest of a string whose first escape is here.
    fn escaped_string(&mut self, start: usize) -> Parsed<Text<'a>> {
        let bytes = self.text.as_bytes();
        let mut text = String::from(&self.text[start..self.at]);
        loop {
            let plain = self.at;
            self.at += plain_length(&bytes[plain..]);
            text.push_str(&self.text[plain..self.at]);
            match bytes.get(self.at) {
                Some(b'"') => {
                    self.at += 1;
                    return Ok(Text {
                        text: Cow::Owned(text),
                        escaped: true,
                    });
                }
                Some(b'\\') => {
                    self.at += 1;
                    text.push(self.escape()?);
                }
                Some(_) => return self.problem("a control character in a string"),
                None => return self.problem("an unterminated string"),
            }
        }
    }

    fn escape(&mut self) -> Parsed<char> {
        let letter = self.text.as_bytes().get(self.at).copied();
        self.at += 1;
        Ok(match letter {
            Some(byte @ (b'"' | b'\\' | b'/')) => byte as char,
            Some(b'n') => '\n',
            Some(b't') => '\t',
            Some(b'r') => '\r',
            Some(b'b') => '\u{8}',
            Some(b'f') => '\u{c}',
            Some(b'u') => {
                let high = self.hex4()?;
                if !(0xd800..0xdc00).contains(&high) {
                    // A lone low surrogate has no character.
                    return Ok(char::from_u32(high).unwrap_or(char::REPLACEMENT_CHARACTER));
                }
                if !self.text.as_bytes()[self.at..].starts_with(b"\\u") {
                    return Ok(char::REPLACEMENT_CHARACTER);
                }
                self.at += 2;
                let low = self.hex4()?;
                let low = low.wrapping_sub(0xdc00);
                let code = 0x10000 + ((high - 0xd800) << 10) + (low & 0x3ff);
                let code = if low < 0x400 { code } else { 0xfffd };
                char::from_u32(code).unwrap_or(char::REPLACEMENT_CHARACTER)
            }
            _ => {
                self.at -= 1;
                return self.problem("an unknown escape in a string");
            }
        })
    }

    fn hex4(&mut self) -> Parsed<u32> {
        let digits = self.text.as_bytes().get(self.at..self.at + 4);
        let digits = digits.filter(|digits| digits.iter().all(u8::is_ascii_hexdigit));
        let Some(digits) = digits.and_then(|digits| std::str::from_utf8(digits).ok()) else {
            return self.problem("\\u without four hexadecimal digits");
        };
        self.at += 4;
        Ok(u32::from_str_radix(digits, 16).unwrap_or(0))
    }

    /// A number, as it is written.
    #[inline]
    pub fn number(&mut self) -> Parsed<&'a str> {
        self.peek();
        let start = self.at;
        let bytes = self.text.as_bytes();
        while bytes.get(self.at).is_some_and(|byte| {
            byte.is_ascii_digit() || matches!(byte, b'-' | b'+' | b'.' | b'e' | b'E')
        }) {
            self.at += 1;
        }
        if start == self.at {
            self.problem("expected a number")
        } else {
            Ok(&self.text[start..self.at])
        }
    }

    /// `true`, `false` or `null`.
    #[inline]
    pub fn word(&mut self, word: &'static str) -> bool {
        self.peek();
        let found = self.text.as_bytes()[self.at..].starts_with(word.as_bytes());
        if found {
            self.at += word.len();
        }
        found
    }

    #[inline]
    pub fn uint(&mut self) -> Parsed<u64> {
        self.peek();
        let bytes = &self.text.as_bytes()[self.at..];
        let (mut number, mut length) = (0u64, 0);
        // So many digits always fit.
        while length < 19
            && let Some(digit) = bytes.get(length).map(|byte| byte.wrapping_sub(b'0'))
            && digit < 10
        {
            number = number * 10 + u64::from(digit);
            length += 1;
        }
        if length > 0 && matches!(bytes.get(length), Some(b',' | b'}' | b']')) {
            self.at += length;
            return Ok(number);
        }
        let token = self.number()?;
        match parse_uint(token.as_bytes()).or_else(|| integral(token)) {
            Some(number) => Ok(number),
            None => self.problem("expected a whole number, zero or more"),
        }
    }

    pub fn int(&mut self) -> Parsed<i64> {
        let token = self.number()?;
        match token.parse() {
            Ok(number) => Ok(number),
            Err(_) => self.problem("expected a whole number"),
        }
    }

    /// A handle: `"0x…"`, or a plain number.
    pub fn handle(&mut self) -> Parsed<u64> {
        if self.peek() != b'"' {
            return self.uint();
        }
        let text = self.string()?.text;
        let digits = text
            .strip_prefix("0x")
            .filter(|digits| !digits.starts_with('+'));
        match digits.and_then(|digits| u64::from_str_radix(digits, 16).ok()) {
            Some(handle) => Ok(handle),
            None => self.problem("expected a handle like \"0x7f00\""),
        }
    }

    /// Step over any value, without recursion.
    pub fn skip(&mut self) -> Parsed<()> {
        let mut depth = 0usize;
        loop {
            match self.peek() {
                b'{' | b'[' => {
                    depth += 1;
                    self.at += 1;
                }
                b'}' | b']' if depth > 0 => {
                    depth -= 1;
                    self.at += 1;
                }
                b',' | b':' if depth > 0 => self.at += 1,
                b'"' => {
                    self.string()?;
                }
                b't' if self.word("true") => {}
                b'f' if self.word("false") => {}
                b'n' if self.word("null") => {}
                _ => {
                    self.number()?;
                }
            }
            if depth == 0 {
                return Ok(());
            }
        }
    }
}

impl Cursor<'_> {
    /// Step over any value, looking only at what could hide its end: strings and brackets.
    pub fn skip_quickly(&mut self) -> Parsed<()> {
        if !matches!(self.peek(), b'{' | b'[') {
            return self.skip();
        }
        let bytes = self.text.as_bytes();
        let mut depth = 0usize;
        while let Some(&byte) = bytes.get(self.at) {
            self.at += 1;
            match byte {
                b'"' => self.rest_of_string()?,
                b'{' | b'[' => depth += 1,
                b'}' | b']' => {
                    depth -= 1;
                    if depth == 0 {
                        return Ok(());
                    }
                }
                _ => {}
            }
        }
        self.problem("an unterminated object or list")
    }

    /// Step over the rest of a string, escapes and all.
    fn rest_of_string(&mut self) -> Parsed<()> {
        let bytes = self.text.as_bytes();
        loop {
            self.at += plain_length(&bytes[self.at..]);
            match bytes.get(self.at) {
                Some(b'"') => {
                    self.at += 1;
                    return Ok(());
                }
                // What is escaped is one byte that could be mistaken, or several that cannot.
                Some(b'\\') if self.at + 1 < bytes.len() => self.at += 2,
                Some(b'\\') | None => return self.problem("an unterminated string"),
                Some(_) => return self.problem("a control character in a string"),
            }
        }
    }
}

/// How many bytes from the start of `bytes` stand for themselves in a JSON string.
#[inline]
fn plain_length(bytes: &[u8]) -> usize {
    const ONES: u64 = u64::MAX / 255;
    const HIGHS: u64 = ONES << 7;
    /// The high bit of each byte that is zero (and perhaps of bytes above the first such).
    const fn zeros(word: u64) -> u64 {
        word.wrapping_sub(ONES) & !word
    }
    let (words, rest) = bytes.as_chunks::<8>();
    for (place, word) in words.iter().enumerate() {
        let word = u64::from_le_bytes(*word);
        let quotes = zeros(word ^ (ONES * b'"' as u64));
        let backslashes = zeros(word ^ (ONES * b'\\' as u64));
        let controls = word.wrapping_sub(ONES * 0x20) & !word;
        let special = (quotes | backslashes | controls) & HIGHS;
        if special != 0 {
            // The lowest one is exact: borrows only reach upwards.
            return place * 8 + special.trailing_zeros() as usize / 8;
        }
    }
    let special = |&byte: &u8| byte < 0x20 || byte == b'"' || byte == b'\\';
    words.len() * 8 + rest.iter().position(special).unwrap_or(rest.len())
}

#[inline]
pub fn parse_uint(digits: &[u8]) -> Option<u64> {
    let mut number: u64 = 0;
    for byte in digits {
        let digit = byte.wrapping_sub(b'0');
        if digit > 9 {
            return None;
        }
        number = number.checked_mul(10)?.checked_add(digit.into())?;
    }
    (!digits.is_empty()).then_some(number)
}

/// Other tools may write 4096 as 4096.0 or 4.096e3.
fn integral(token: &str) -> Option<u64> {
    let number: f64 = token.parse().ok()?;
    (number.fract() == 0.0 && (0.0..1.8e19).contains(&number)).then_some(number as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn strings_mean_what_json_says() {
        for json in [
            r#""plain""#,
            r#""a\"b\\\/\b\f\n\r\t\u00e9""#,
            r#""\ud83d\ude00""#,
            "\"é\"",
        ] {
            let ours = Cursor::new(json).string().expect("a string");
            assert_eq!(
                ours.text,
                serde_json::from_str::<String>(json).expect("JSON")
            );
        }
        // Lone surrogates have no character; they must not end the reading.
        for lone in [r#""\ud800""#, r#""\udc00x""#, r#""\ud800\u0041""#] {
            let text = Cursor::new(lone).string().expect("a string").text;
            assert!(text.starts_with('\u{fffd}'), "{text}");
        }
        for wrong in [
            "\"",
            "\"\\",
            "\"\\u12",
            "\"\\x\"",
            "\"a\nb\"",
            "x",
            "\"\\ud800\\u12",
        ] {
            assert!(Cursor::new(wrong).string().is_err(), "{wrong:?}");
        }
    }

    #[test]
    fn what_must_be_escaped_is_found_anywhere() {
        for length in 0..20 {
            for special in [b'"', b'\\', 0, 0x1f, b'\n'] {
                for at in 0..length {
                    let mut bytes = vec![b'!'; length];
                    (bytes[at], bytes[length - 1]) =
                        (special, if at + 1 == length { special } else { b'"' });
                    assert_eq!(plain_length(&bytes), at, "{special} at {at} of {length}");
                }
            }
            assert_eq!(plain_length(&vec![0xc3; length]), length);
            assert_eq!(plain_length(&vec![b' '; length]), length);
        }
    }

    #[test]
    fn any_value_can_be_skipped() {
        for json in [
            "{\"a\":[1,{\"b\":null}],\"c\":\"}\"}",
            "true",
            "-1.5e3",
            "[]",
            "\"x\"",
            "{\"a\\\"}\\\\\":[\"]\"]}",
        ] {
            let mut cursor = Cursor::new(json);
            cursor.skip().expect("skipped");
            cursor.end().expect("the end");
            let mut cursor = Cursor::new(json);
            cursor.skip_quickly().expect("skipped");
            cursor.end().expect("the end");
        }
        let deep = "[".repeat(100_000);
        assert!(Cursor::new(&deep).skip().is_err());
        assert!(Cursor::new(&deep).skip_quickly().is_err());
        for wrong in ["{\"a\\", "{\"a\\\"}", "{\"a\n\"}", "{\"\\é"] {
            assert!(Cursor::new(wrong).skip_quickly().is_err(), "{wrong}");
        }
        assert!(Cursor::new("{\"a\"").skip().is_err());
    }

    #[test]
    fn numbers_are_checked() {
        assert_eq!(Cursor::new(" 4096").uint(), Ok(4096));
        assert_eq!(Cursor::new("4.096e3").uint(), Ok(4096));
        assert_eq!(Cursor::new("18446744073709551615").uint(), Ok(u64::MAX));
        assert!(Cursor::new("18446744073709551616").uint().is_err());
        assert!(Cursor::new("-1").uint().is_err());
        assert!(Cursor::new("1.5").uint().is_err());
        assert_eq!(Cursor::new("\"0x1f\"").handle(), Ok(0x1f));
        assert_eq!(Cursor::new("31").handle(), Ok(31));
        assert!(Cursor::new("\"0x+1\"").handle().is_err());
        assert!(Cursor::new("\"31\"").handle().is_err());
    }
}
