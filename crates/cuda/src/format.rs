//! Values as people read them: enums by name, flags OR-ed, addresses in hexadecimal.

use core::fmt::{self, Display, Formatter};

use crate::model::{Enum, Field, Kind, Struct, Type};
use crate::unions::is_meant;

/// A value of a known type, as the bits in a register or in memory, for display.
#[derive(Clone, Copy, Debug)]
pub struct Value {
    pub kind: &'static Type,
    pub raw: u64,
}

impl Display for Value {
    fn fmt(&self, out: &mut Formatter<'_>) -> fmt::Result {
        // Registers carry rubbish above the type's size.
        let raw = match self.kind.size {
            1 => self.raw & 0xff,
            2 => self.raw & 0xffff,
            4 => self.raw & 0xffff_ffff,
            _ => self.raw,
        };
        match self.kind.kind {
            Kind::Void => Ok(()),
            Kind::Signed => match self.kind.size {
                1 => write!(out, "{}", raw as i8),
                2 => write!(out, "{}", raw as i16),
                4 => write!(out, "{}", raw as i32),
                _ => write!(out, "{}", raw as i64),
            },
            Kind::Unsigned => write!(out, "{raw}"),
            Kind::Float if self.kind.size == 4 => write!(out, "{}", f32::from_bits(raw as u32)),
            Kind::Float => write!(out, "{}", f64::from_bits(raw)),
            Kind::Enum => match self.kind.enumeration() {
                Some(names) => write_enum(out, names, raw),
                None => write!(out, "{raw}"),
            },
            Kind::Handle => write_handle(out, self.kind.text, raw),
            Kind::DevicePointer | Kind::Pointer | Kind::Text | Kind::Callback => {
                write_address(out, raw)
            }
            // Small structs travel in registers, but their fields are the reader's business.
            Kind::Struct => write!(out, "{raw:#x}"),
        }
    }
}

fn write_address(out: &mut Formatter<'_>, raw: u64) -> fmt::Result {
    if raw == 0 {
        out.write_str("NULL")
    } else {
        write!(out, "{raw:#x}")
    }
}

/// The two special streams are named as programs name them.
fn write_handle(out: &mut Formatter<'_>, text: &str, raw: u64) -> fmt::Result {
    match (text, raw) {
        ("CUstream", 1) => out.write_str("CU_STREAM_LEGACY"),
        ("CUstream", 2) => out.write_str("CU_STREAM_PER_THREAD"),
        ("cudaStream_t", 1) => out.write_str("cudaStreamLegacy"),
        ("cudaStream_t", 2) => out.write_str("cudaStreamPerThread"),
        _ => write_address(out, raw),
    }
}

fn write_enum(out: &mut Formatter<'_>, names: &Enum, raw: u64) -> fmt::Result {
    if let Some(name) = u32::try_from(raw)
        .ok()
        .and_then(|value| names.name_of(value))
    {
        return out.write_str(name);
    }
    if !names.bits || raw == 0 {
        return write!(out, "{}", raw as i64);
    }
    // From the largest down, so that a combined name (READWRITE) goes before its parts.
    let mut rest = raw;
    let mut first = true;
    for member in names.members.iter().rev() {
        let value = u64::from(member.value);
        if value != 0 && rest & value == value && !member.name.ends_with("MASK") {
            write!(out, "{}{}", if first { "" } else { "|" }, member.name)?;
            rest &= !value;
            first = false;
        }
    }
    match (rest, first) {
        (0, _) => Ok(()),
        (_, true) => write!(out, "{rest:#x}"),
        (_, false) => write!(out, "|{rest:#x}"),
    }
}

/// A struct's bytes as `{field=value, …}`. Bytes may be cut short: what is not there is left out.
#[derive(Clone, Copy, Debug)]
pub struct StructValue<'a> {
    pub layout: &'static Struct,
    pub bytes: &'a [u8],
}

/// Structs in structs, at most: real ones go three deep.
const MAX_DEPTH: u32 = 8;
/// Elements shown of an array.
const MAX_ELEMENTS: u32 = 8;

impl Display for StructValue<'_> {
    fn fmt(&self, out: &mut Formatter<'_>) -> fmt::Result {
        write_struct(out, self.layout, self.bytes, MAX_DEPTH)
    }
}

fn write_struct(out: &mut Formatter<'_>, layout: &Struct, bytes: &[u8], depth: u32) -> fmt::Result {
    out.write_str("{")?;
    let mut first = true;
    let tag = |name: Option<&str>| {
        let field = layout.field(name?)?;
        read(field, bytes).map(|raw| raw as u32)
    };
    for field in layout.fields {
        let meant = is_meant(layout, field, tag);
        let bytes = bytes.get(field.offset as usize..).unwrap_or_default();
        let size = field.kind.size as usize;
        if size == 0 || bytes.len() < size || !meant || field.is_filler() {
            continue;
        }
        write!(out, "{}{}=", if first { "" } else { ", " }, field.name)?;
        first = false;
        write_field(out, field, bytes, depth)?;
    }
    out.write_str("}")
}

fn write_field(out: &mut Formatter<'_>, field: &Field, bytes: &[u8], depth: u32) -> fmt::Result {
    if field.count == 1 {
        return write_element(out, field.kind, bytes, depth);
    }
    let shown = field.count.min(MAX_ELEMENTS) as usize;
    out.write_str("[")?;
    for (index, element) in bytes
        .chunks_exact(field.kind.size as usize)
        .take(shown)
        .enumerate()
    {
        out.write_str(if index == 0 { "" } else { ", " })?;
        write_element(out, field.kind, element, depth)?;
    }
    out.write_str(if field.count > MAX_ELEMENTS {
        ", …]"
    } else {
        "]"
    })
}

fn write_element(
    out: &mut Formatter<'_>,
    kind: &'static Type,
    bytes: &[u8],
    depth: u32,
) -> fmt::Result {
    match kind.structure() {
        Some(_) if depth == 0 => out.write_str("…"),
        Some(layout) => write_struct(out, layout, bytes, depth - 1),
        None => Value {
            kind,
            raw: raw(bytes, kind.size),
        }
        .fmt(out),
    }
}

/// A field's bits, if all its bytes are there and it is no struct.
pub fn read(field: &Field, bytes: &[u8]) -> Option<u64> {
    let start = field.offset as usize;
    let held = bytes.get(start..start + field.kind.size as usize)?;
    (field.kind.kind != Kind::Struct).then(|| raw(held, field.kind.size))
}

/// Little-endian bits of up to eight bytes.
fn raw(bytes: &[u8], size: u32) -> u64 {
    let mut buffer = [0; 8];
    let size = (size as usize).min(8).min(bytes.len());
    buffer[..size].copy_from_slice(&bytes[..size]);
    u64::from_le_bytes(buffer)
}
