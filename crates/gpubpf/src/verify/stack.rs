//! What a function's stack frame holds, byte by byte as far as it is known.

use super::scalar::Scalar;
use super::value::Value;

/// The deepest a frame goes.
pub const FRAME_BYTES: i64 = 512;

/// Bytes written together. What no cell covers was never written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Cell {
    /// From the frame pointer: -8 is the first eight bytes.
    offset: i16,
    bytes: u8,
    value: Value,
}

impl Cell {
    fn end(&self) -> i16 {
        self.offset + i16::from(self.bytes)
    }
}

/// Cells in order; they do not overlap.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Stack {
    cells: Vec<Cell>,
}

impl Stack {
    pub fn write(&mut self, offset: i16, bytes: u8, value: Value) {
        self.clear(offset, offset + i16::from(bytes));
        let value = match value {
            Value::Number(scalar) => Value::Number(scalar.low_bytes(bytes)),
            other => other,
        };
        let at = self.cells.partition_point(|cell| cell.offset < offset);
        self.cells.insert(
            at,
            Cell {
                offset,
                bytes,
                value,
            },
        );
    }

    /// Takes out what is between, leaving the rest of cells that reach beyond as single bytes.
    fn clear(&mut self, start: i16, end: i16) {
        let touched = |cell: &Cell| cell.offset < end && cell.end() > start;
        if !self.cells.iter().any(touched) {
            return;
        }
        let mut cells = Vec::with_capacity(self.cells.len() + 8);
        for cell in &self.cells {
            if !touched(cell) {
                cells.push(*cell);
                continue;
            }
            // A pointer that is partly overwritten is no number anyone may read: its rest is gone.
            if matches!(cell.value, Value::Pointer(_)) {
                continue;
            }
            for offset in cell.offset..cell.end() {
                if !(start..end).contains(&offset) {
                    cells.push(Cell {
                        offset,
                        bytes: 1,
                        value: Value::Number(byte_of(cell, offset)),
                    });
                }
            }
        }
        self.cells = cells;
    }

    /// Marks bytes as written with numbers nothing is known of.
    pub fn fill(&mut self, start: i16, end: i16) {
        let mut at = start;
        while at < end {
            let step = if at % 8 == 0 && end - at >= 8 { 8 } else { 1 };
            self.write(at, step as u8, Value::UNKNOWN);
            at += step;
        }
    }

    /// A write somewhere between: what was written there is unknown, what was not stays unwritten.
    /// False if a pointer would be damaged.
    pub fn scatter(&mut self, start: i16, end: i16) -> bool {
        for cell in &mut self.cells {
            if cell.offset < end && cell.end() > start {
                if matches!(cell.value, Value::Pointer(_)) {
                    return false;
                }
                cell.value = Value::Number(Scalar::of_bytes(cell.bytes, false));
            }
        }
        true
    }

    /// The first byte between that was never written.
    pub fn unwritten(&self, start: i16, end: i16) -> Option<i16> {
        let mut at = start;
        while at < end {
            match self.cell_at(at) {
                Some(cell) => at = cell.end(),
                None => return Some(at),
            }
        }
        None
    }

    /// Whether a pointer, or a part of one, is between.
    pub fn has_pointer(&self, start: i16, end: i16) -> bool {
        self.cells.iter().any(|cell| {
            cell.offset < end && cell.end() > start && matches!(cell.value, Value::Pointer(_))
        })
    }

    fn cell_at(&self, offset: i16) -> Option<&Cell> {
        let after = self.cells.partition_point(|cell| cell.offset <= offset);
        let cell = &self.cells[after.checked_sub(1)?];
        (offset < cell.end()).then_some(cell)
    }

    /// What a read gives; None where it takes a pointer apart. All bytes were written.
    pub fn read(&self, offset: i16, bytes: u8) -> Option<Value> {
        let end = offset + i16::from(bytes);
        if let Some(cell) = self.cell_at(offset)
            && cell.offset == offset
        {
            match cell.value {
                value if cell.bytes == bytes => return Some(value),
                Value::Number(scalar) if cell.bytes > bytes => {
                    return Some(Value::Number(scalar.low_bytes(bytes)));
                }
                _ => {}
            }
        }
        if self.has_pointer(offset, end) {
            return None;
        }
        let number = self.known_bytes(offset, end).map(|known| {
            let mut word = [0; 8];
            word[..known.len()].copy_from_slice(&known);
            Scalar::known(u64::from_le_bytes(word))
        });
        Some(Value::Number(
            number.unwrap_or_else(|| Scalar::of_bytes(bytes, false)),
        ))
    }

    /// The bytes between, if each is known.
    pub fn known_bytes(&self, start: i16, end: i16) -> Option<Vec<u8>> {
        (start..end)
            .map(|offset| {
                let cell = self.cell_at(offset)?;
                Some(byte_of(cell, offset).constant()? as u8)
            })
            .collect()
    }

    /// Whether whatever was proven with this frame holds with `other`, too.
    pub fn covers(&self, other: &Stack, lookups: &mut Vec<(u32, u32)>) -> bool {
        self.cells.iter().all(|old| {
            let same = other
                .cell_at(old.offset)
                .filter(|new| new.offset == old.offset && new.bytes == old.bytes);
            match (same, old.value) {
                (Some(new), _) => old.value.covers(&new.value, lookups),
                // Cut differently: then only what says nothing covers it.
                (None, Value::Number(scalar)) => {
                    scalar == Scalar::of_bytes(old.bytes, false)
                        && other.unwritten(old.offset, old.end()).is_none()
                        && !other.has_pointer(old.offset, old.end())
                }
                (None, _) => false,
            }
        })
    }

    /// Drops what is known of numbers in cells that do not matter.
    pub fn widen(&mut self, matters: impl Fn(i16, i16) -> bool) {
        for cell in &mut self.cells {
            if matches!(cell.value, Value::Number(_)) && !matters(cell.offset, cell.end()) {
                cell.value = Value::Number(Scalar::of_bytes(cell.bytes, false));
            }
        }
    }

    /// Drops what is known of numbers that another frame does not have in the same place.
    pub fn widen_changed(&mut self, before: &Stack) {
        for cell in &mut self.cells {
            let same = before.cell_at(cell.offset).is_some_and(|old| old == cell);
            if matches!(cell.value, Value::Number(_)) && !same {
                cell.value = Value::Number(Scalar::of_bytes(cell.bytes, false));
            }
        }
    }

    pub fn values_mut(&mut self) -> impl Iterator<Item = &mut Value> {
        self.cells.iter_mut().map(|cell| &mut cell.value)
    }
}

fn byte_of(cell: &Cell, offset: i16) -> Scalar {
    match cell.value {
        Value::Number(scalar) => match scalar.constant() {
            Some(value) => {
                let shift = (offset - cell.offset) * 8;
                Scalar::known(value >> shift & 0xff)
            }
            None => Scalar::of_bytes(1, false),
        },
        _ => Scalar::of_bytes(1, false),
    }
}
