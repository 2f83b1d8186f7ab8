//! Bytes of a known type → named values.

use super::{Btf, Encoding, Kind, Member, TypeId};

/// A value with its parts, ready to print.
#[derive(Debug, Clone, PartialEq)]
pub enum Value {
    Unsigned(u64),
    Signed(i64),
    Bool(bool),
    Float(f64),
    /// A char array, up to its NUL.
    Text(String),
    /// The number, and the name it has in its enum.
    Enum(i64, Option<String>),
    Pointer(u64),
    Struct(Vec<Field>),
    Array(Vec<Value>),
    /// What has no known form, or is not all there.
    Bytes(Vec<u8>),
}

#[derive(Debug, Clone, PartialEq)]
pub struct Field {
    /// Empty for an unnamed struct or union inside another.
    pub name: String,
    pub value: Value,
}

/// No value has more parts than this: an array of a million entries is not worth naming.
const MOST_PARTS: usize = 4096;
const DEEPEST: usize = 16;

/// Reads `bytes` as a value of a type. What the type cannot explain comes back as bytes.
pub fn decode(btf: &Btf, ty: TypeId, bytes: &[u8]) -> Value {
    let mut reader = Reader {
        btf,
        parts: MOST_PARTS,
    };
    reader.value(ty, bytes, DEEPEST)
}

struct Reader<'a> {
    btf: &'a Btf,
    parts: usize,
}

impl Reader<'_> {
    fn value(&mut self, ty: TypeId, bytes: &[u8], depth: usize) -> Value {
        self.known(ty, bytes, depth)
            .unwrap_or_else(|| Value::Bytes(bytes.to_vec()))
    }

    fn known(&mut self, ty: TypeId, bytes: &[u8], depth: usize) -> Option<Value> {
        self.parts = self.parts.checked_sub(1)?;
        let depth = depth.checked_sub(1)?;
        let size = self.btf.size(ty)? as usize;
        let bytes = bytes.get(..size)?;
        let (_, resolved) = self.btf.resolve(ty)?;
        Some(match &resolved.kind {
            Kind::Int { encoding, .. } => integer(*encoding, unsigned(bytes)?, bytes.len() * 8),
            Kind::Float(_) => Value::Float(match bytes.len() {
                4 => f64::from(f32::from_le_bytes(bytes.try_into().ok()?)),
                8 => f64::from_le_bytes(bytes.try_into().ok()?),
                _ => return None,
            }),
            Kind::Pointer(_) => Value::Pointer(unsigned(bytes)?),
            Kind::Enum { values, .. } => named(values, unsigned(bytes)?, bytes.len() * 8),
            Kind::Array { element, count } => self.array(*element, *count, bytes, depth)?,
            Kind::Struct { members, .. } => {
                let mut fields = Vec::new();
                for member in members {
                    fields.push(Field {
                        name: member.name.clone(),
                        value: self.member(member, bytes, depth)?,
                    });
                }
                Value::Struct(fields)
            }
            _ => return None,
        })
    }

    fn member(&mut self, member: &Member, bytes: &[u8], depth: usize) -> Option<Value> {
        if member.bits == 0 {
            let start = member.bit_offset as usize / 8;
            let length = self.btf.size(member.ty).unwrap_or(0) as usize;
            let bytes = bytes.get(start..start.checked_add(length)?)?;
            return Some(self.value(member.ty, bytes, depth));
        }
        let bits = (member.bits as usize).min(64);
        let start = member.bit_offset as usize;
        let mut value = 0u64;
        for bit in 0..bits {
            let at = start + bit;
            let byte = *bytes.get(at / 8)?;
            value |= u64::from(byte >> (at % 8) & 1) << bit;
        }
        let (_, ty) = self.btf.resolve(member.ty)?;
        Some(match &ty.kind {
            Kind::Enum { values, .. } => named(values, value, bits),
            Kind::Int { encoding, .. } => integer(*encoding, value, bits),
            _ => Value::Unsigned(value),
        })
    }

    fn array(&mut self, element: TypeId, count: u32, bytes: &[u8], depth: usize) -> Option<Value> {
        let size = self.btf.size(element)? as usize;
        let (_, ty) = self.btf.resolve(element)?;
        let is_text = matches!(
            ty.kind,
            Kind::Int {
                bytes: 1,
                encoding: Encoding::Char | Encoding::Signed
            }
        );
        if is_text {
            let end = bytes
                .iter()
                .position(|&byte| byte == 0)
                .unwrap_or(bytes.len());
            if let Ok(text) = std::str::from_utf8(&bytes[..end]) {
                return Some(Value::Text(text.to_owned()));
            }
        }
        let mut values = Vec::new();
        for index in 0..count as usize {
            if self.parts == 0 {
                return None;
            }
            let part = bytes.get(index * size..(index + 1) * size)?;
            values.push(self.value(element, part, depth));
        }
        Some(Value::Array(values))
    }
}

fn unsigned(bytes: &[u8]) -> Option<u64> {
    let mut word = [0; 8];
    word.get_mut(..bytes.len())?.copy_from_slice(bytes);
    Some(u64::from_le_bytes(word))
}

/// The low `bits` with their sign.
fn signed(value: u64, bits: usize) -> i64 {
    let unused = 64 - bits.clamp(1, 64);
    (value << unused) as i64 >> unused
}

fn integer(encoding: Encoding, value: u64, bits: usize) -> Value {
    match encoding {
        Encoding::Unsigned => Value::Unsigned(value),
        Encoding::Signed | Encoding::Char => Value::Signed(signed(value, bits)),
        Encoding::Bool => Value::Bool(value != 0),
    }
}

fn named(values: &[(String, i64)], value: u64, bits: usize) -> Value {
    // Whether an enum has signs is not always told: take the reading that has a name.
    for number in [value as i64, signed(value, bits)] {
        if let Some((name, _)) = values.iter().find(|(_, named)| *named == number) {
            return Value::Enum(number, Some(name.clone()));
        }
    }
    Value::Enum(value as i64, None)
}
