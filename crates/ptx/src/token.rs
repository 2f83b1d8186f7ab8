//! PTX text to tokens, each with the place it stood at.
//!
//! Tolerant on purpose: opcodes and directives are not known here, so that newer ISA versions pass
//! through. Tokens keep their byte span because rewriting passes edit the text in place.

use crate::ParseError;
use crate::number::scan_number;

#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Kind {
    /// An identifier: `foo`, `%r1`, `$L__BB0_1`, `_`.
    Word,
    /// `.name`, with `::` parts whole: `.shared::cta`. The text includes the dot.
    Dotted,
    /// An integer literal, and whether it is unsigned (`U` suffix, or too large for s64).
    Int {
        value: u64,
        unsigned: bool,
    },
    /// `0fXXXXXXXX`: exact bits.
    Float32(u32),
    /// `0dXXXXXXXXXXXXXXXX` or a decimal float, as f64 bits.
    Float64(u64),
    /// The text includes the quotes.
    Str,
    /// One punctuation character.
    Punct(u8),
    /// A two-character operator such as `<<` or `&&`.
    Operator([u8; 2]),
    End,
}

/// A token and its place. Offsets are bytes; inputs are limited to what u32 holds.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Token {
    pub kind: Kind,
    pub start: u32,
    pub end: u32,
    /// 1-based.
    pub line: u32,
}

impl Token {
    /// The token as written; `source` must be the text it came from.
    pub fn text<'a>(&self, source: &'a str) -> &'a str {
        source
            .get(self.start as usize..self.end as usize)
            .unwrap_or("")
    }

    pub fn is(&self, punct: u8) -> bool {
        self.kind == Kind::Punct(punct)
    }
}

/// Reads tokens one by one; memory does not grow with the input.
#[derive(Debug, Clone)]
pub struct Lexer<'a> {
    source: &'a str,
    at: usize,
    line: u32,
}

impl<'a> Lexer<'a> {
    /// The longest text whose offsets fit a token.
    pub const MAX_LEN: usize = u32::MAX as usize - 1;

    pub fn new(source: &'a str) -> Result<Self, ParseError> {
        if source.len() > Self::MAX_LEN {
            return Err(ParseError::new(1, "the text is longer than 4 GiB"));
        }
        Ok(Lexer {
            source,
            at: 0,
            line: 1,
        })
    }

    pub fn source(&self) -> &'a str {
        self.source
    }

    /// The next token; `Kind::End` at the end, and again on every later call.
    pub fn next_token(&mut self) -> Result<Token, ParseError> {
        self.skip_blank()?;
        let bytes = self.source.as_bytes();
        let start = self.at;
        let line = self.line;
        let kind = match bytes.get(start) {
            None => Kind::End,
            Some(b'"') => self.string()?,
            Some(b'.') => match self.number_after_dot() {
                Some(kind) => kind,
                None => self.dotted(),
            },
            Some(b) if b.is_ascii_digit() => {
                let (kind, len) = scan_number(&bytes[start..])
                    .map_err(|why| ParseError::new(line, why.to_string()))?;
                self.at += len;
                kind
            }
            Some(b) if starts_word(*b) && word_len(&bytes[start..]) > 0 => {
                self.at += word_len(&bytes[start..]);
                Kind::Word
            }
            Some(_) => self.punctuation()?,
        };
        Ok(Token {
            kind,
            start: start as u32,
            end: self.at as u32,
            line,
        })
    }

    fn skip_blank(&mut self) -> Result<(), ParseError> {
        let bytes = self.source.as_bytes();
        loop {
            match &bytes[self.at..] {
                [b'\n', ..] => {
                    self.line += 1;
                    self.at += 1;
                }
                [b' ' | b'\t' | b'\r' | 0x0b | 0x0c, ..] => self.at += 1,
                [b'/', b'/', ..] => self.skip_line(),
                [b'/', b'*', ..] => self.skip_comment()?,
                // PTX 1.x debug lines, `@@DWARF .byte …`: one line each, nothing we need.
                [b'@', b'@', ..] => self.skip_line(),
                // Modules handed to the driver may carry their terminator.
                [0, ..] => self.at = bytes.len(),
                _ => return Ok(()),
            }
        }
    }

    fn skip_line(&mut self) {
        let bytes = self.source.as_bytes();
        while self.at < bytes.len() && bytes[self.at] != b'\n' {
            self.at += 1;
        }
    }

    fn skip_comment(&mut self) -> Result<(), ParseError> {
        let opened = self.line;
        let bytes = self.source.as_bytes();
        self.at += 2;
        loop {
            match &bytes[self.at..] {
                [] => return Err(ParseError::new(opened, "comment without its closing `*/`")),
                [b'*', b'/', ..] => {
                    self.at += 2;
                    return Ok(());
                }
                [b'\n', ..] => {
                    self.line += 1;
                    self.at += 1;
                }
                _ => self.at += 1,
            }
        }
    }

    fn string(&mut self) -> Result<Kind, ParseError> {
        let bytes = self.source.as_bytes();
        self.at += 1;
        loop {
            match &bytes[self.at..] {
                [] | [b'\n', ..] => {
                    return Err(ParseError::new(
                        self.line,
                        "string without its closing quote",
                    ));
                }
                [b'\\', next, ..] if *next != b'\n' => self.at += 2,
                [b'"', ..] => {
                    self.at += 1;
                    return Ok(Kind::Str);
                }
                _ => self.at += 1,
            }
        }
    }

    /// `.5` is a number where no word stands right before the dot; `tex.1d` is a modifier.
    fn number_after_dot(&mut self) -> Option<Kind> {
        let bytes = self.source.as_bytes();
        if self.at > 0 && continues_word(bytes[self.at - 1]) {
            return None;
        }
        bytes.get(self.at + 1).filter(|b| b.is_ascii_digit())?;
        let (kind, len) = scan_number(&bytes[self.at..]).ok()?;
        self.at += len;
        Some(kind)
    }

    fn dotted(&mut self) -> Kind {
        let bytes = self.source.as_bytes();
        let name = word_len(&bytes[self.at + 1..]);
        if name == 0 {
            self.at += 1;
            return Kind::Punct(b'.');
        }
        self.at += 1 + name;
        while bytes[self.at..].starts_with(b"::") {
            let part = word_len(&bytes[self.at + 2..]);
            if part == 0 {
                break;
            }
            self.at += 2 + part;
        }
        Kind::Dotted
    }

    fn punctuation(&mut self) -> Result<Kind, ParseError> {
        let rest = &self.source.as_bytes()[self.at..];
        const OPERATORS: [&[u8; 2]; 8] = [b"<<", b">>", b"<=", b">=", b"==", b"!=", b"&&", b"||"];
        if let Some(op) = OPERATORS.into_iter().find(|op| rest.starts_with(&op[..])) {
            self.at += 2;
            return Ok(Kind::Operator(*op));
        }
        match rest.first() {
            Some(&b) if b.is_ascii_punctuation() => {
                self.at += 1;
                Ok(Kind::Punct(b))
            }
            _ => {
                let found = self.source[self.at..].chars().next().unwrap_or('\0');
                Err(ParseError::new(
                    self.line,
                    format!("unexpected character {found:?}"),
                ))
            }
        }
    }
}

fn starts_word(b: u8) -> bool {
    b.is_ascii_alphabetic() || matches!(b, b'_' | b'$' | b'%')
}

fn continues_word(b: u8) -> bool {
    b.is_ascii_alphanumeric() || matches!(b, b'_' | b'$')
}

/// Length of the word at the start; 0 for a lone `%`, the remainder operator.
fn word_len(bytes: &[u8]) -> usize {
    let sigil = usize::from(bytes.first() == Some(&b'%'));
    let rest = bytes[sigil..]
        .iter()
        .take_while(|b| continues_word(**b))
        .count();
    if rest == 0 { 0 } else { sigil + rest }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tokens(text: &str) -> Vec<Token> {
        let mut lexer = Lexer::new(text).unwrap();
        let next = || Some(lexer.next_token().unwrap()).filter(|t| t.kind != Kind::End);
        std::iter::from_fn(next).collect()
    }

    fn texts(text: &str) -> Vec<&str> {
        tokens(text).iter().map(|token| token.text(text)).collect()
    }

    #[test]
    fn spans_give_back_the_text() {
        let text =
            "@!%p ld.shared::cta.b32 {%r1,_}, [$L__x+0x1FU]; // done\n\"a\\\"b\" 1.5e-3 a<<b";
        let expected = [
            "@",
            "!",
            "%p",
            "ld",
            ".shared::cta",
            ".b32",
            "{",
            "%r1",
            ",",
            "_",
            "}",
            ",",
            "[",
            "$L__x",
            "+",
            "0x1FU",
            "]",
            ";",
            "\"a\\\"b\"",
            "1.5e-3",
            "a",
            "<<",
            "b",
        ];
        assert_eq!(texts(text), expected);
    }

    #[test]
    fn dots_are_numbers_only_where_no_word_precedes() {
        assert_eq!(
            texts("tex.1d .5 .1d x.5"),
            ["tex", ".1d", ".5", ".1d", "x", ".5"]
        );
        let kinds: Vec<Kind> = tokens(".5 x.5").iter().map(|token| token.kind).collect();
        assert_eq!(
            kinds,
            [Kind::Float64(0.5f64.to_bits()), Kind::Word, Kind::Dotted]
        );
    }

    #[test]
    fn percent_alone_is_the_remainder() {
        assert_eq!(texts("7 % 3"), ["7", "%", "3"]);
        assert_eq!(tokens("% %r")[0].kind, Kind::Punct(b'%'));
    }

    #[test]
    fn lines_count_through_comments() {
        let lines: Vec<u32> = tokens("a\n/* \n\n */ b // c\nd")
            .iter()
            .map(|t| t.line)
            .collect();
        assert_eq!(lines, [1, 4, 5]);
    }
}
