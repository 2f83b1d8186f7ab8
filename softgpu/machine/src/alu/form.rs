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

/// Words that exclude each other, and what each means.
pub type Table<T> = &'static [(&'static str, T)];

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

const fn int(bits: u8, signed: bool, raw: bool) -> Type {
    Type::Int { bits, signed, raw }
}

/// Every word that names a type.
pub const TYPES: Table<Type> = &[
    ("pred", Type::Pred),
    ("b8", int(8, false, true)),
    ("b16", int(16, false, true)),
    ("b32", int(32, false, true)),
    ("b64", int(64, false, true)),
    ("u2", int(2, false, false)),
    ("u4", int(4, false, false)),
    ("u8", int(8, false, false)),
    ("u16", int(16, false, false)),
    ("u32", int(32, false, false)),
    ("u64", int(64, false, false)),
    ("s2", int(2, true, false)),
    ("s4", int(4, true, false)),
    ("s8", int(8, true, false)),
    ("s16", int(16, true, false)),
    ("s32", int(32, true, false)),
    ("s64", int(64, true, false)),
    ("f16", Type::F16),
    ("bf16", Type::BF16),
    ("f16x2", Type::F16x2),
    ("bf16x2", Type::BF16x2),
    ("tf32", Type::TF32),
    ("f32", Type::F32),
    ("f64", Type::F64),
    ("f32x2", Type::F32x2),
    ("u16x2", Type::U16x2),
    ("s16x2", Type::S16x2),
    ("e4m3x2", Type::E4M3x2),
    ("e5m2x2", Type::E5M2x2),
];

impl Type {
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
            Type::F32x2 => int(64),
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

const ROUNDINGS: Table<Rounding> = &[
    ("rn", Rounding::NearestEven),
    ("rz", Rounding::Zero),
    ("rm", Rounding::Down),
    ("rp", Rounding::Up),
];

const INTEGRAL_ROUNDINGS: Table<Rounding> = &[
    ("rni", Rounding::NearestEven),
    ("rzi", Rounding::Zero),
    ("rmi", Rounding::Down),
    ("rpi", Rounding::Up),
];

/// An instruction's modifiers, taken out one by one. Resolvers see words only by asking for them
/// here: so a test finds every form that resolves by giving every possible answer.
pub struct Form<'a> {
    pub opcode: &'a str,
    name: String,
    pub(super) words: Vec<&'a str>,
    #[cfg(test)]
    pub open: Option<super::every_form::Open>,
}

impl<'a> Form<'a> {
    pub fn new(opcode: &'a str, modifiers: &'a [String]) -> Self {
        let words: Vec<&str> = modifiers.iter().map(String::as_str).collect();
        let name = format!("{opcode}.{}", words.join("."));
        Form {
            opcode,
            name,
            words,
            #[cfg(test)]
            open: None,
        }
    }

    pub fn unsupported(&self, why: &str) -> Unsupported {
        Unsupported {
            message: format!("{}: {why}", self.name.trim_end_matches('.')),
        }
    }

    /// For what newer hardware has: softgpu is, and answers as, an sm_90 device.
    pub fn needs(&self, architecture: &str) -> Unsupported {
        self.unsupported(&format!(
            "needs {architecture} or higher, and softgpu is an sm_90 device"
        ))
    }

    pub fn has(&mut self, word: &'static str) -> bool {
        #[cfg(test)]
        self.decide(word);
        self.words.contains(&word)
    }

    /// Takes a flag out; false if it is not there.
    pub fn take(&mut self, word: &'static str) -> bool {
        #[cfg(test)]
        self.decide(word);
        match self.words.iter().position(|w| *w == word) {
            Some(at) => {
                self.words.remove(at);
                true
            }
            None => false,
        }
    }

    /// Takes the first modifier that the table has.
    pub fn take_one<T: Copy>(&mut self, table: Table<T>) -> Option<T> {
        #[cfg(test)]
        self.decide_one(table.iter().map(|(word, _)| *word));
        self.take_first(table)
    }

    fn take_first<T: Copy>(&mut self, table: Table<T>) -> Option<T> {
        let (at, value) = self
            .words
            .iter()
            .enumerate()
            .find_map(|(i, w)| Some((i, look_up(table, w)?)))?;
        self.words.remove(at);
        Some(value)
    }

    /// Takes the types, in order, of an instruction that has `most` at most: a further one stays
    /// behind, for [`Form::finish`] to find.
    pub fn types(&mut self, most: usize) -> Vec<Type> {
        #[cfg(test)]
        self.decide_types(most);
        (0..most).map_while(|_| self.take_first(TYPES)).collect()
    }

    /// Takes the one type of an instruction.
    pub fn one_type(&mut self) -> Result<Type, Unsupported> {
        match self.types(1)[..] {
            [ty] => Ok(ty),
            _ => Err(self.unsupported("needs one type")),
        }
    }

    /// Takes the types of an instruction with two.
    pub fn two_types(&mut self) -> Result<(Type, Type), Unsupported> {
        match self.types(2)[..] {
            [a, b] => Ok((a, b)),
            _ => Err(self.unsupported("needs two types")),
        }
    }

    /// The first type, left in place.
    pub fn first_type(&mut self) -> Result<Type, Unsupported> {
        #[cfg(test)]
        self.decide_types(1);
        self.words
            .iter()
            .find_map(|w| look_up(TYPES, w))
            .ok_or_else(|| self.unsupported("has no type"))
    }

    /// Takes `.rn`, `.rz`, `.rm` or `.rp`.
    pub fn rounding(&mut self) -> Option<Rounding> {
        self.take_one(ROUNDINGS)
    }

    /// Takes `.rni`, `.rzi`, `.rmi` or `.rpi`.
    pub fn integral_rounding(&mut self) -> Option<Rounding> {
        self.take_one(INTEGRAL_ROUNDINGS)
    }

    /// Fails if a modifier was left over.
    pub fn finish(&self) -> Result<(), Unsupported> {
        match self.words.first() {
            None => Ok(()),
            Some(word) => Err(self.unsupported(&format!(".{word} is not allowed here"))),
        }
    }
}

fn look_up<T: Copy>(table: Table<T>, word: &str) -> Option<T> {
    let (_, value) = table.iter().find(|(name, _)| *name == word)?;
    Some(*value)
}
