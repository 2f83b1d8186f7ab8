//! The .BTF section → [`Btf`].

use super::{Btf, BtfError, Encoding, Kind, MOST_RECORDS, Member, Type, TypeId};

/// Little-endian words of a section; reading past the end is None.
pub(super) struct Cursor<'a> {
    pub bytes: &'a [u8],
}

impl<'a> Cursor<'a> {
    pub fn u32(&mut self) -> Option<u32> {
        let (word, rest) = self.bytes.split_first_chunk::<4>()?;
        self.bytes = rest;
        Some(u32::from_le_bytes(*word))
    }

    /// `length` bytes from `offset`, counted from `start`.
    pub fn part(start: &'a [u8], offset: u32, length: u32) -> Option<&'a [u8]> {
        start.get(offset as usize..)?.get(..length as usize)
    }
}

pub(super) const MAGIC: u32 = 0xeb9f;

impl Btf {
    pub fn parse(bytes: &[u8]) -> Result<Btf, BtfError> {
        read(bytes).unwrap_or(Err(BtfError::CutShort))
    }
}

/// None where the section ends too early.
fn read(bytes: &[u8]) -> Option<Result<Btf, BtfError>> {
    let mut header = Cursor { bytes };
    let magic = header.u32()?;
    if magic & 0xffff != MAGIC {
        let is_swapped = magic.swap_bytes() & 0xffff == MAGIC || magic >> 16 == 0x9feb;
        return Some(Err(match is_swapped {
            true => BtfError::BigEndian,
            false => BtfError::NoMagic,
        }));
    }
    let header_length = header.u32()?;
    let (type_offset, type_length) = (header.u32()?, header.u32()?);
    let (string_offset, string_length) = (header.u32()?, header.u32()?);
    let body = bytes.get(header_length as usize..)?;
    let strings = Cursor::part(body, string_offset, string_length)?.to_vec();
    let mut btf = Btf {
        types: Vec::new(),
        strings,
    };
    let mut cursor = Cursor {
        bytes: Cursor::part(body, type_offset, type_length)?,
    };
    while !cursor.bytes.is_empty() {
        if btf.types.len() == MOST_RECORDS {
            return Some(Err(BtfError::TooManyTypes));
        }
        let ty = match read_type(&btf, &mut cursor)? {
            Ok(ty) => ty,
            Err(why) => return Some(Err(why)),
        };
        btf.types.push(ty);
    }
    Some(Ok(btf))
}

fn read_type(btf: &Btf, cursor: &mut Cursor<'_>) -> Option<Result<Type, BtfError>> {
    let (name, info, size) = (cursor.u32()?, cursor.u32()?, cursor.u32()?);
    let count = info & 0xffff;
    let flag = info >> 31 != 0;
    let text = |offset| btf.string(offset).unwrap_or_default().to_owned();
    let kind = match info >> 24 & 0x1f {
        1 => {
            let encoding = match cursor.u32()? >> 24 & 15 {
                0 => Encoding::Unsigned,
                1 => Encoding::Signed,
                2 | 3 => Encoding::Char,
                _ => Encoding::Bool,
            };
            Kind::Int {
                bytes: size,
                encoding,
            }
        }
        2 => Kind::Pointer(size),
        3 => {
            let (element, _index, count) = (cursor.u32()?, cursor.u32()?, cursor.u32()?);
            Kind::Array { element, count }
        }
        kind @ (4 | 5) => {
            let mut members = Vec::new();
            for _ in 0..count {
                let (name, ty, offset) = (cursor.u32()?, cursor.u32()?, cursor.u32()?);
                members.push(Member {
                    name: text(name),
                    ty,
                    bit_offset: if flag { offset & 0xff_ffff } else { offset },
                    bits: if flag { offset >> 24 } else { 0 },
                });
            }
            Kind::Struct {
                bytes: size,
                union: kind == 5,
                members,
            }
        }
        6 => {
            let mut values = Vec::new();
            for _ in 0..count {
                let (name, value) = (cursor.u32()?, cursor.u32()?);
                let value = if flag {
                    i64::from(value as i32)
                } else {
                    i64::from(value)
                };
                values.push((text(name), value));
            }
            Kind::Enum {
                bytes: size,
                values,
            }
        }
        7 => Kind::Forward,
        8 => Kind::Typedef(size),
        9..=11 | 18 => Kind::Qualifier(size),
        12 => Kind::Function(size),
        13 => {
            for _ in 0..count {
                cursor.u32()?;
                cursor.u32()?;
            }
            Kind::Prototype
        }
        14 => {
            cursor.u32()?;
            Kind::Variable(size)
        }
        15 => {
            let mut variables = Vec::new();
            for _ in 0..count {
                variables.push((cursor.u32()?, cursor.u32()?, cursor.u32()?));
            }
            Kind::Section(variables)
        }
        16 => Kind::Float(size),
        17 => {
            cursor.u32()?;
            Kind::Tag
        }
        19 => {
            let mut values = Vec::new();
            for _ in 0..count {
                let (name, low, high) = (cursor.u32()?, cursor.u32()?, cursor.u32()?);
                let value = u64::from(low) | u64::from(high) << 32;
                values.push((text(name), value as i64));
            }
            Kind::Enum {
                bytes: size,
                values,
            }
        }
        kind => {
            let id = btf.types.len() as TypeId + 1;
            return Some(Err(BtfError::UnknownKind { id, kind }));
        }
    };
    Some(Ok(Type {
        name: text(name),
        kind,
    }))
}
