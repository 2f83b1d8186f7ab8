//! A marker's argument as the assembler was given it: `-4@%eax`, `8@$-1`, `4@-8(%rbp)`,
//! `8@16(%rdi,%rcx,8)`, `4@counter+4(%rip)`.

use crate::ebpf::layout::{
    OPERAND_CONSTANT, OPERAND_MEMORY, OPERAND_REGISTER, Operand, REGISTER_NONE,
};

/// Why an argument cannot be read: what its text is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Unreadable {
    #[error("not understood")]
    Unknown,
    #[error("not an integer of 1, 2, 4 or 8 bytes")]
    Wide,
    #[error("the address of something")]
    Address,
    #[error("in a vector register")]
    Vector,
    #[error("at an address by name")]
    Named,
    #[error("at a symbol that the file defines more than once")]
    Ambiguous,
    #[error("at a symbol that the file does not define")]
    Undefined,
}

/// The instruction pointer, as the kernel keeps registers (in words).
const INSTRUCTION: u8 = 16;
/// Those with two-letter names, as the kernel keeps them.
const LETTERED: [(&str, u8); 8] = [
    ("bp", 4),
    ("bx", 5),
    ("ax", 10),
    ("cx", 11),
    ("dx", 12),
    ("si", 13),
    ("di", 14),
    ("sp", 19),
];

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Register {
    place: u8,
    bytes: u8,
    shift: u8,
}

/// Where one argument is. `symbol` tells how far behind the marker a variable is.
pub fn parse(
    text: &str,
    symbol: impl FnOnce(&str) -> Result<i64, Unreadable>,
) -> Result<Operand, Unreadable> {
    let (size, is_signed, place) = match text.split_once('@') {
        Some((size, place)) => {
            let is_signed = size.starts_with('-');
            let size = match size.strip_prefix('-').unwrap_or(size) {
                "1" => 1,
                "2" => 2,
                "4" => 4,
                "8" => 8,
                _ => return Err(Unreadable::Wide),
            };
            (size, is_signed, place)
        }
        None => (8, false, text),
    };
    let operand = Operand {
        size,
        is_signed: is_signed.into(),
        base: REGISTER_NONE,
        index: REGISTER_NONE,
        ..Operand::default()
    };
    if let Some(number) = place.strip_prefix('$') {
        return Ok(Operand {
            kind: OPERAND_CONSTANT,
            value: number_of(number).ok_or(Unreadable::Address)? as u64,
            ..operand
        });
    }
    if !place.ends_with(')') {
        let named = place.strip_prefix('%').ok_or(Unreadable::Unknown)?;
        let register = register(named).ok_or(match named.contains("mm") {
            true => Unreadable::Vector,
            false => Unreadable::Unknown,
        })?;
        return Ok(Operand {
            kind: OPERAND_REGISTER,
            size: size.min(register.bytes),
            base: register.place,
            shift: register.shift,
            ..operand
        });
    }
    let (before, inside) = place.split_once('(').ok_or(Unreadable::Unknown)?;
    let inside = inside.strip_suffix(')').ok_or(Unreadable::Unknown)?;
    let operand = Operand {
        kind: OPERAND_MEMORY,
        ..operand
    };
    if inside == "%rip" {
        return Ok(Operand {
            base: INSTRUCTION,
            value: behind_marker(before, symbol)? as u64,
            ..operand
        });
    }
    let displacement = match before {
        "" => 0,
        before => number_of(before).ok_or(Unreadable::Named)?,
    };
    let mut parts = inside.split(',');
    let (base, index) = (parts.next(), parts.next());
    let scale = match parts.next() {
        None | Some("1") => 0,
        Some("2") => 1,
        Some("4") => 2,
        Some("8") => 3,
        Some(_) => return Err(Unreadable::Unknown),
    };
    let base = pointer(base.unwrap_or_default())?;
    let index = pointer(index.unwrap_or_default())?;
    if parts.next().is_some() || (base, index) == (REGISTER_NONE, REGISTER_NONE) {
        return Err(Unreadable::Unknown);
    }
    Ok(Operand {
        base,
        index,
        shift: scale,
        value: displacement as u64,
        ..operand
    })
}

/// `counter`, `counter+8`, `8+counter`: how far behind the marker.
fn behind_marker(
    text: &str,
    symbol: impl FnOnce(&str) -> Result<i64, Unreadable>,
) -> Result<i64, Unreadable> {
    let sign = text.char_indices().skip(1).find(|(_, c)| "+-".contains(*c));
    let (first, second) = match sign {
        Some((at, _)) => text.split_at(at),
        None => (text, "0"),
    };
    let (name, more) = match number_of(first) {
        Some(more) => (second.strip_prefix('+').ok_or(Unreadable::Unknown)?, more),
        None => (first, number_of(second).ok_or(Unreadable::Unknown)?),
    };
    if name.is_empty() || name.contains(['@', ':', '%']) {
        return Err(Unreadable::Named);
    }
    symbol(name)?.checked_add(more).ok_or(Unreadable::Unknown)
}

/// A register in brackets: it holds an address.
fn pointer(text: &str) -> Result<u8, Unreadable> {
    if text.is_empty() {
        return Ok(REGISTER_NONE);
    }
    let register = text
        .strip_prefix('%')
        .and_then(register)
        .ok_or(Unreadable::Unknown)?;
    match register.bytes {
        8 => Ok(register.place),
        _ => Err(Unreadable::Unknown),
    }
}

fn register(name: &str) -> Option<Register> {
    let made = |place, bytes| Register {
        place,
        bytes,
        shift: 0,
    };
    if let Some(rest) = name.strip_prefix('r') {
        let digits = rest.trim_end_matches(['d', 'w', 'b']);
        let bytes = match &rest[digits.len()..] {
            "" => 8,
            "d" => 4,
            "w" => 2,
            "b" => 1,
            _ => return None,
        };
        let place = match digits {
            "8" => Some(9),
            "9" => Some(8),
            "10" => Some(7),
            "11" => Some(6),
            "12" => Some(3),
            "13" => Some(2),
            "14" => Some(1),
            "15" => Some(0),
            _ => None,
        };
        if let Some(place) = place {
            return Some(made(place, bytes));
        }
    }
    let whole = |name: &str| {
        let found = LETTERED.iter().find(|(letters, _)| *letters == name);
        found.map(|(_, place)| *place)
    };
    if let Some(place) = whole(name) {
        return Some(made(place, 2));
    }
    if let Some(place) = name.strip_prefix('r').and_then(whole) {
        return Some(made(place, 8));
    }
    if let Some(place) = name.strip_prefix('e').and_then(whole) {
        return Some(made(place, 4));
    }
    // One byte: al, ah, sil.
    let (letters, last) = name.split_at_checked(name.len().checked_sub(1)?)?;
    match (last, letters.len()) {
        ("l", 2) => Some(made(whole(letters)?, 1)),
        ("l", 1) => Some(made(whole(&format!("{letters}x"))?, 1)),
        ("h", 1) => Some(Register {
            shift: 8,
            ..made(whole(&format!("{letters}x"))?, 1)
        }),
        _ => None,
    }
}

/// A number as assemblers write it; none that begins with 0 and is not hexadecimal, which would be octal.
fn number_of(text: &str) -> Option<i64> {
    let (negative, digits) = match text.strip_prefix('-') {
        Some(digits) => (true, digits),
        None => (false, text.strip_prefix('+').unwrap_or(text)),
    };
    let value = match digits.strip_prefix("0x") {
        Some(digits) if digits.bytes().all(|b| b.is_ascii_hexdigit()) => {
            u64::from_str_radix(digits, 16).ok()?
        }
        None if digits == "0" || digits.starts_with(|c: char| matches!(c, '1'..='9')) => {
            digits.parse().ok()?
        }
        _ => return None,
    };
    match negative {
        true => (value <= 1 << 63).then(|| (value as i64).wrapping_neg()),
        false => Some(value as i64),
    }
}
