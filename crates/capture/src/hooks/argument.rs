//! Arguments: what of a call is copied, and how it reads.
//!
//! `arg1:u64`, `arg2:str`, `*arg0+16:u32`, `*arg3:u64@return`, `retval:i32`; of tracepoints, the
//! field's name.

use super::{
    Located,
    lex::{Token, Walk},
};

/// One argument of a hook.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Argument {
    pub name: String,
    pub source: ValueOrigin,
    /// The value is a pointer; what is so many bytes behind it is read.
    pub pointed: Option<u16>,
    pub format: Format,
    pub place: CopiedAt,
    /// A condition needs it, the reader does not.
    pub hidden: bool,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ValueOrigin {
    /// The function's argument of that number, from 0.
    Argument(u8),
    Returned,
    /// A tracepoint's field.
    Field(String),
}

/// When it is copied.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CopiedAt {
    Entry,
    Return,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    Unsigned(u8),
    Signed(u8),
    Pointer,
    Text,
}

impl Format {
    /// Bytes of the value itself.
    pub fn size(self) -> u8 {
        match self {
            Format::Unsigned(bits) | Format::Signed(bits) => bits / 8,
            Format::Pointer | Format::Text => 8,
        }
    }

    pub fn is_signed(self) -> bool {
        matches!(self, Format::Signed(_))
    }

    fn parse(word: &str) -> Option<Self> {
        Some(match word {
            "u8" | "bool" => Format::Unsigned(8),
            "u16" => Format::Unsigned(16),
            "u32" => Format::Unsigned(32),
            "u64" => Format::Unsigned(64),
            "i8" => Format::Signed(8),
            "i16" => Format::Signed(16),
            "i32" => Format::Signed(32),
            "i64" => Format::Signed(64),
            "ptr" => Format::Pointer,
            "str" => Format::Text,
            _ => return None,
        })
    }
}

const FORMATS: &str = "u8, u16, u32, u64, i8, i16, i32, i64, bool, ptr or str";

impl Argument {
    /// Reads `text` of the argument that is called `name`.
    pub fn parse(name: &str, text: &str) -> Result<Self, Located> {
        let mut walk = Walk::new(text)?;
        let pointed = walk.take("*");
        if walk.take("*") {
            return Err(Located::new(1, "only one pointer can be followed"));
        }
        let place = walk.place();
        let source = match walk.next() {
            Some(Token::Word(word)) => source(word, place)?,
            _ => {
                return Err(Located::new(
                    place,
                    "expected arg0, arg1 …, retval, or the name of a tracepoint's field",
                ));
            }
        };
        let offset = offset(&mut walk, pointed)?;
        let format = if walk.take(":") {
            let place = walk.place();
            match walk.next() {
                Some(Token::Word(word)) => Format::parse(word).ok_or_else(|| {
                    Located::new(place, format!("'{word}' is not a type: use {FORMATS}"))
                })?,
                _ => {
                    return Err(Located::new(
                        place,
                        format!("expected a type: use {FORMATS}"),
                    ));
                }
            }
        } else {
            Format::Unsigned(64)
        };
        let mut when = match source {
            ValueOrigin::Returned => CopiedAt::Return,
            ValueOrigin::Argument(_) | ValueOrigin::Field(_) => CopiedAt::Entry,
        };
        if walk.take("@") {
            let place = walk.place();
            when = match walk.next() {
                Some(Token::Word("return")) => CopiedAt::Return,
                Some(Token::Word("entry")) if source != ValueOrigin::Returned => CopiedAt::Entry,
                _ => return Err(Located::new(place, "expected 'return' or 'entry'")),
            };
            if when == CopiedAt::Return && matches!(source, ValueOrigin::Argument(_)) && !pointed {
                return Err(Located::new(
                    place,
                    "arguments are not available at the return, but what they point to is: write *argN",
                ));
            }
        }
        walk.finish()?;
        Ok(Argument {
            name: name.to_owned(),
            source,
            pointed: pointed.then_some(offset),
            format,
            place: when,
            hidden: false,
        })
    }
}

/// What the word at a place means: `arg0` … `arg11`, `retval`, or a field.
fn source(word: &str, place: usize) -> Result<ValueOrigin, Located> {
    if word == "retval" {
        return Ok(ValueOrigin::Returned);
    }
    let number = (word.strip_prefix("arg"))
        .filter(|rest| !rest.is_empty() && rest.bytes().all(|b| b.is_ascii_digit()));
    match number {
        Some(number) => match number.parse() {
            Ok(number @ 0..=11) => Ok(ValueOrigin::Argument(number)),
            _ => Err(Located::new(
                place,
                format!("{word}: arguments are arg0 to arg11"),
            )),
        },
        None => {
            let field = word.strip_prefix("args.").unwrap_or(word);
            if field.is_empty() || field.contains('.') || field.len() > 64 {
                return Err(Located::new(
                    place,
                    format!("'{word}' is not the name of a field"),
                ));
            }
            Ok(ValueOrigin::Field(field.to_owned()))
        }
    }
}

fn offset(walk: &mut Walk<'_>, pointed: bool) -> Result<u16, Located> {
    let place = walk.place();
    if !walk.take("+") {
        return Ok(0);
    }
    if !pointed {
        return Err(Located::new(
            place,
            "an offset applies to what a pointer points to: write *argN+16",
        ));
    }
    let place = walk.place();
    match walk.next() {
        Some(Token::Number(number)) => {
            u16::try_from(number).map_err(|_| Located::new(place, "an offset is at most 65535"))
        }
        _ => Err(Located::new(place, "expected a number")),
    }
}
