//! Reading an instruction's modifiers: which types, roundings and flags it carries. A modifier
//! nobody asked for makes the instruction unsupported, so that none is ever ignored.

use thiserror::Error;

use super::Kind;

/// An instruction or variant that is not known.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("{message}")]
pub struct Unsupported {
    pub message: String,
}

/// Types of operands, as written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Type {
    Pred,
    /// `.b16`, `.u8`, `.s64` …
    Int {
        bits: u8,
        signed: bool,
        /// `.bN`: no arithmetic meaning.
        raw: bool,
    },
    F16,
    BF16,
    F16x2,
    BF16x2,
    TF32,
    F32,
    F64,
    F32x2,
    U16x2,
    S16x2,
    E4M3x2,
    E5M2x2,
}

impl Type {
    fn parse(word: &str) -> Option<Type> {
        Some(match word {
            "pred" => Type::Pred,
            "f16" => Type::F16,
            "bf16" => Type::BF16,
            "f16x2" => Type::F16x2,
            "bf16x2" => Type::BF16x2,
            "tf32" => Type::TF32,
            "f32" => Type::F32,
            "f64" => Type::F64,
            "f32x2" => Type::F32x2,
            "u16x2" => Type::U16x2,
            "s16x2" => Type::S16x2,
            "e4m3x2" => Type::E4M3x2,
            "e5m2x2" => Type::E5M2x2,
            _ => {
                let bits = match word.get(1..)? {
                    "2" => 2,
                    "4" => 4,
                    "8" => 8,
                    "16" => 16,
                    "32" => 32,
                    "64" => 64,
                    _ => return None,
                };
                let class = word.as_bytes()[0];
                if !matches!(class, b'b' | b'u' | b's') {
                    return None;
                }
                Type::Int {
                    bits,
                    signed: class == b's',
                    raw: class == b'b',
                }
            }
        })
    }

    /// The register that holds one.
    pub fn kind(self) -> Kind {
        let int = |bits| Kind::Int {
            bits,
            signed: false,
        };
        match self {
            Type::Pred => Kind::Pred,
            Type::Int { bits, signed, .. } => Kind::Int { bits, signed },
            Type::F16 => Kind::F16,
            Type::BF16 => Kind::BF16,
            Type::F16x2 => Kind::F16x2,
            Type::BF16x2 => Kind::BF16x2,
            Type::F32 => Kind::F32,
            Type::F64 => Kind::F64,
            Type::F32x2 => Kind::F32x2,
            Type::TF32 | Type::U16x2 | Type::S16x2 => int(32),
            Type::E4M3x2 | Type::E5M2x2 => int(16),
        }
    }
}

/// How a result that does not fit is rounded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Rounding {
    NearestEven,
    /// Nearest, ties away from zero (`.rna`).
    NearestAway,
    Zero,
    Down,
    Up,
}

/// An instruction's modifiers, taken out one by one.
pub struct Form<'a> {
    pub opcode: &'a str,
    name: String,
    words: Vec<&'a str>,
}

impl<'a> Form<'a> {
    pub fn new(opcode: &'a str, modifiers: &'a [String]) -> Self {
        let words: Vec<&str> = modifiers.iter().map(String::as_str).collect();
        let name = format!("{opcode}.{}", words.join("."));
        Form {
            opcode,
            name,
            words,
        }
    }

    pub fn unsupported(&self, why: &str) -> Unsupported {
        Unsupported {
            message: format!("{}: {why}", self.name.trim_end_matches('.')),
        }
    }

    pub fn has(&self, word: &str) -> bool {
        self.words.contains(&word)
    }

    /// Takes a flag out; false if it is not there.
    pub fn take(&mut self, word: &str) -> bool {
        match self.words.iter().position(|w| *w == word) {
            Some(at) => {
                self.words.remove(at);
                true
            }
            None => false,
        }
    }

    /// Takes the first modifier that `read` understands.
    pub fn take_one<T>(&mut self, read: impl Fn(&str) -> Option<T>) -> Option<T> {
        let (at, value) = self
            .words
            .iter()
            .enumerate()
            .find_map(|(i, w)| Some((i, read(w)?)))?;
        self.words.remove(at);
        Some(value)
    }

    /// Takes all types, in order.
    pub fn types(&mut self) -> Vec<Type> {
        let mut found = Vec::new();
        while let Some(ty) = self.take_one(Type::parse) {
            found.push(ty);
        }
        found
    }

    /// Takes the one type of an instruction.
    pub fn one_type(&mut self) -> Result<Type, Unsupported> {
        match self.types()[..] {
            [ty] => Ok(ty),
            _ => Err(self.unsupported("wants one type")),
        }
    }

    /// Takes the types of an instruction with two.
    pub fn two_types(&mut self) -> Result<(Type, Type), Unsupported> {
        match self.types()[..] {
            [a, b] => Ok((a, b)),
            _ => Err(self.unsupported("wants two types")),
        }
    }

    /// The last type, left in place.
    pub fn last_type(&self) -> Result<Type, Unsupported> {
        self.words
            .iter()
            .rev()
            .find_map(|w| Type::parse(w))
            .ok_or_else(|| self.unsupported("has no type"))
    }

    /// Takes `.rn`, `.rz`, `.rm` or `.rp`.
    pub fn rounding(&mut self) -> Option<Rounding> {
        self.take_one(|w| {
            Some(match w {
                "rn" => Rounding::NearestEven,
                "rz" => Rounding::Zero,
                "rm" => Rounding::Down,
                "rp" => Rounding::Up,
                _ => return None,
            })
        })
    }

    /// Takes `.rni`, `.rzi`, `.rmi` or `.rpi`.
    pub fn integral_rounding(&mut self) -> Option<Rounding> {
        self.take_one(|w| {
            Some(match w {
                "rni" => Rounding::NearestEven,
                "rzi" => Rounding::Zero,
                "rmi" => Rounding::Down,
                "rpi" => Rounding::Up,
                _ => return None,
            })
        })
    }

    /// Fails if a modifier was left over.
    pub fn finish(&self) -> Result<(), Unsupported> {
        match self.words.first() {
            None => Ok(()),
            Some(word) => Err(self.unsupported(&format!(".{word} is not known here"))),
        }
    }
}
