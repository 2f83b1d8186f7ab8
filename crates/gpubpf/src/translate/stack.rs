//! A stack frame in registers.

use std::collections::BTreeMap;
use std::fmt::Write;

use super::emit::Emit;

/// Registers that hold the bytes of a frame: one for eight bytes, or one for four where nothing
/// reaches across.
pub struct Cells {
    /// By offset from the frame pointer.
    cells: BTreeMap<i16, Cell>,
}

struct Cell {
    bytes: i16,
    register: String,
    /// Written in parts: then it starts as 0, so that no part is ever undefined.
    in_parts: bool,
}

impl Cells {
    /// Cells for uses of so many bytes at these offsets.
    pub fn new(uses: &[(i16, u32)]) -> Cells {
        let mut words: BTreeMap<i16, Vec<(i16, i16)>> = BTreeMap::new();
        for &(offset, bytes) in uses {
            let end = offset + bytes as i16;
            let mut word = offset & !7;
            while word < end {
                let part = (offset.max(word), end.min(word + 8));
                words.entry(word).or_default().push(part);
                word += 8;
            }
        }
        let mut cells = BTreeMap::new();
        for (word, parts) in words {
            let across = parts
                .iter()
                .any(|&(start, end)| start < word + 4 && end > word + 4);
            let sizes: &[(i16, i16)] = if across { &[(0, 8)] } else { &[(0, 4), (4, 4)] };
            for &(from, bytes) in sizes {
                let (start, end) = (word + from, word + from + bytes);
                let mut touching = parts
                    .iter()
                    .filter(|(a, b)| *a < end && *b > start)
                    .peekable();
                if touching.peek().is_none() {
                    continue;
                }
                let in_parts = touching.any(|&(a, b)| a > start || b < end);
                let name = if bytes == 8 { "%s" } else { "%h" };
                cells.insert(
                    start,
                    Cell {
                        bytes,
                        register: format!("{name}{}", 512 + start),
                        in_parts,
                    },
                );
            }
        }
        Cells { cells }
    }

    pub fn declarations(&self) -> String {
        let mut text = String::new();
        for cell in self.cells.values() {
            let bits = cell.bytes * 8;
            let _ = writeln!(text, "    .reg .b{bits} {};", cell.register);
        }
        text
    }

    pub fn initial(&self) -> String {
        let mut text = String::new();
        for cell in self.cells.values().filter(|cell| cell.in_parts) {
            let bits = cell.bytes * 8;
            let _ = writeln!(text, "    mov.b{bits} {}, 0;", cell.register);
        }
        text
    }

    /// 32-bit registers it takes.
    pub fn registers(&self) -> u32 {
        let bytes: i16 = self.cells.values().map(|cell| cell.bytes).sum();
        bytes as u32 / 4
    }

    /// The cells that hold bytes of a use, with where in the cell and in the value they are.
    fn parts(&self, offset: i16, bytes: u8) -> Vec<Part> {
        let end = offset + i16::from(bytes);
        self.cells
            .range(offset - 7..end)
            .filter(|(start, cell)| **start + cell.bytes > offset)
            .map(|(&start, cell)| {
                let from = start.max(offset);
                let until = (start + cell.bytes).min(end);
                Part {
                    register: cell.register.clone(),
                    cell_bytes: cell.bytes as u8,
                    cell_shift: ((from - start) * 8) as u32,
                    value_shift: ((from - offset) * 8) as u32,
                    bits: ((until - from) * 8) as u32,
                }
            })
            .collect()
    }

    /// A 64-bit register with the bytes there, zero-extended.
    pub fn read(&self, emit: &mut Emit, offset: i16, bytes: u8) -> String {
        let mut value: Option<String> = None;
        for part in self.parts(offset, bytes) {
            let mut piece = part.register.clone();
            if part.cell_bytes == 4 {
                piece = emit.set("cvt.u64.u32", &piece);
            }
            if part.cell_shift > 0 {
                piece = emit.set("shr.u64", &format!("{piece}, {}", part.cell_shift));
            }
            // What is above goes away by the shift where the part ends the cell.
            if part.cell_shift + part.bits < u32::from(part.cell_bytes) * 8 {
                piece = emit.set("and.b64", &format!("{piece}, {:#x}", mask(part.bits)));
            }
            if part.value_shift > 0 {
                piece = emit.set("shl.b64", &format!("{piece}, {}", part.value_shift));
            }
            value = Some(match value {
                Some(value) => emit.set("or.b64", &format!("{value}, {piece}")),
                None => piece,
            });
        }
        value.unwrap_or_else(|| emit.set("mov.b64", "0"))
    }

    /// Puts the low bytes of a 64-bit register (or a constant) there.
    pub fn write(&self, emit: &mut Emit, offset: i16, bytes: u8, value: &str) {
        for part in self.parts(offset, bytes) {
            let whole = part.bits == u32::from(part.cell_bytes) * 8;
            let mut piece = value.to_owned();
            if part.value_shift > 0 {
                piece = emit.set("shr.u64", &format!("{piece}, {}", part.value_shift));
            }
            if whole {
                if part.cell_bytes == 4 {
                    emit.line(format!("cvt.u32.u64 {}, {piece}", part.register));
                } else {
                    emit.line(format!("mov.b64 {}, {piece}", part.register));
                }
                continue;
            }
            let head = if part.cell_bytes == 4 {
                piece = emit.low(&piece);
                "bfi.b32"
            } else {
                "bfi.b64"
            };
            emit.line(format!(
                "{head} {0}, {piece}, {0}, {1}, {2}",
                part.register, part.cell_shift, part.bits
            ));
        }
    }
}

struct Part {
    register: String,
    cell_bytes: u8,
    cell_shift: u32,
    value_shift: u32,
    bits: u32,
}

fn mask(bits: u32) -> u64 {
    u64::MAX >> (64 - bits)
}
