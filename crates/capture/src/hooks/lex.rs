//! The words of argument and condition expressions.

use super::Located;

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Token<'a> {
    Word(&'a str),
    Number(u64),
    Text(&'a str),
    Sign(&'static str),
}

/// Longer ones come first: `<=` is not `<`.
const SIGNS: [&str; 19] = [
    "&&", "||", "==", "!=", "<=", ">=", "<", ">", "&", "!", "(", ")", "*", "+", "-", ":", "@", "[",
    "]",
];

/// Expressions are a line of a file.
const LONGEST: usize = 1024;

pub fn tokens(text: &str) -> Result<Vec<(usize, Token<'_>)>, Located> {
    if text.len() > LONGEST {
        return Err(Located::new(0, format!("longer than {LONGEST} bytes")));
    }
    let mut found = Vec::new();
    let mut place = 0;
    while let Some(first) = text[place..].chars().next() {
        let rest = &text[place..];
        let length = if first.is_whitespace() {
            first.len_utf8()
        } else if first.is_ascii_digit() {
            let length = rest
                .find(|c: char| !c.is_ascii_alphanumeric() && c != '_')
                .unwrap_or(rest.len());
            let number = number(&rest[..length]).ok_or_else(|| {
                Located::new(place, format!("'{}' is not a number", &rest[..length]))
            })?;
            found.push((place, Token::Number(number)));
            length
        } else if first == '"' || first == '\'' {
            let end = rest[1..].find(first);
            let end = end.ok_or_else(|| Located::new(place, "unterminated string"))?;
            found.push((place, Token::Text(&rest[1..=end])));
            end + 2
        } else if first.is_alphabetic() || first == '_' {
            let length = rest
                .find(|c: char| !c.is_alphanumeric() && c != '_' && c != '.')
                .unwrap_or(rest.len());
            found.push((place, Token::Word(&rest[..length])));
            length
        } else {
            let sign = SIGNS.iter().find(|sign| rest.starts_with(**sign));
            let sign = sign.ok_or_else(|| Located::new(place, format!("unexpected '{first}'")))?;
            found.push((place, Token::Sign(sign)));
            sign.len()
        };
        place += length;
    }
    Ok(found)
}

/// `4096`, `0x1000`, `1_000`.
fn number(text: &str) -> Option<u64> {
    let digits = text.replace('_', "");
    match digits.strip_prefix("0x") {
        Some(digits) => u64::from_str_radix(digits, 16).ok(),
        None => digits.parse().ok(),
    }
}

/// A walk over tokens that knows where it is.
pub struct Walk<'a> {
    tokens: Vec<(usize, Token<'a>)>,
    at: usize,
    end: usize,
}

impl<'a> Walk<'a> {
    pub fn new(text: &'a str) -> Result<Self, Located> {
        Ok(Walk {
            tokens: tokens(text)?,
            at: 0,
            end: text.len(),
        })
    }

    pub fn peek(&self) -> Option<&Token<'a>> {
        self.tokens.get(self.at).map(|(_, token)| token)
    }

    /// The token so many places behind the next.
    pub fn peek_at(&self, ahead: usize) -> Option<&Token<'a>> {
        self.tokens.get(self.at + ahead).map(|(_, token)| token)
    }

    /// Where the next token begins.
    pub fn place(&self) -> usize {
        self.tokens
            .get(self.at)
            .map_or(self.end, |(place, _)| *place)
    }

    pub fn next(&mut self) -> Option<Token<'a>> {
        let token = self.tokens.get(self.at).map(|(_, token)| token.clone());
        self.at += 1;
        token
    }

    /// Takes this sign if it comes next.
    pub fn take(&mut self, sign: &str) -> bool {
        let here = matches!(self.peek(), Some(Token::Sign(found)) if *found == sign);
        self.at += usize::from(here);
        here
    }

    pub fn expect(&mut self, sign: &str, wanted: &str) -> Result<(), Located> {
        let place = self.place();
        if self.take(sign) {
            return Ok(());
        }
        Err(Located::new(place, format!("expected {wanted}")))
    }

    pub fn finish(&self) -> Result<(), Located> {
        match self.peek() {
            None => Ok(()),
            Some(_) => Err(Located::new(self.place(), "expected nothing more here")),
        }
    }
}
