//! A program and the functions it calls → one list of instructions.

use std::collections::HashMap;

use super::elf::{Image, Reference, Symbol};
use super::{Attach, Function, Line, ObjectError, Program};
use crate::btf::Btf;
use crate::decode::decode;
use crate::instruction::{PSEUDO_MAP, PSEUDO_MAP_VALUE, Raw};
use crate::map::Map;

/// The instructions of a section.
pub struct Code {
    pub name: String,
    pub raw: Vec<Raw>,
    /// By byte offset.
    pub references: HashMap<u64, Reference>,
}

/// More than any probe has, in one object.
pub const MOST_INSTRUCTIONS: usize = 1 << 16;

pub fn link(
    image: &Image,
    btf: &Btf,
    maps: &[Map],
    entry: &Symbol,
    attach: Attach,
) -> Result<Program, ObjectError> {
    let mut linker = Linker {
        image,
        btf,
        maps,
        program: &entry.name,
        placed: Vec::new(),
        raw: Vec::new(),
        calls: Vec::new(),
    };
    linker.place(entry)?;
    let mut next = 0;
    while let Some(&(slot, callee)) = linker.calls.get(next) {
        next += 1;
        let start = match linker.placed_at(callee) {
            Some(start) => start,
            None => linker.place(callee)?,
        };
        linker.raw[slot].immediate = (start as i64 - slot as i64 - 1) as i32;
    }
    linker.finish(entry, attach)
}

struct Linker<'a> {
    image: &'a Image,
    btf: &'a Btf,
    maps: &'a [Map],
    program: &'a str,
    /// Functions and the slot each begins at.
    placed: Vec<(&'a Symbol, usize)>,
    raw: Vec<Raw>,
    /// Slots that call, and what.
    calls: Vec<(usize, &'a Symbol)>,
}

impl<'a> Linker<'a> {
    fn error(&self, reason: String) -> ObjectError {
        ObjectError::Program {
            program: self.program.to_owned(),
            reason,
        }
    }

    fn placed_at(&self, function: &Symbol) -> Option<usize> {
        self.placed
            .iter()
            .find(|(placed, _)| std::ptr::eq(*placed, function))
            .map(|(_, start)| *start)
    }

    fn place(&mut self, function: &'a Symbol) -> Result<usize, ObjectError> {
        let code = &self.image.code[&function.section];
        let start = self.raw.len();
        if start + (function.end - function.start) > MOST_INSTRUCTIONS {
            return Err(self.error("it has too many instructions".into()));
        }
        self.core(function, start, &code.name)?;
        self.placed.push((function, start));
        self.raw
            .extend_from_slice(&code.raw[function.start..function.end]);
        let mut at = function.start;
        while at < function.end {
            let raw = code.raw[at];
            let slot = start + at - function.start;
            let reference = code.references.get(&(at as u64 * 8));
            if raw.is_wide() {
                if let Some(reference) = reference {
                    self.relocate(slot, reference)?;
                } else if raw.src != 0 {
                    let reason = format!("instruction {slot}: a map without a relocation");
                    return Err(self.error(reason));
                }
                at += 1;
            } else if raw.is_local_call() {
                let callee = self.callee(code, function, at, raw, reference)?;
                self.calls.push((slot, callee));
            } else if let Some(reference) = reference {
                let symbol = &reference.symbol;
                let reason = format!("instruction {slot}: unknown symbol {symbol}");
                return Err(self.error(reason));
            }
            at += 1;
        }
        Ok(start)
    }

    /// The function a call reaches.
    fn callee(
        &self,
        code: &Code,
        caller: &Symbol,
        at: usize,
        raw: Raw,
        reference: Option<&Reference>,
    ) -> Result<&'a Symbol, ObjectError> {
        let (section, start) = match reference {
            Some(Reference {
                section: Some(section),
                value,
                ..
            }) => {
                let start = (*value as i64).checked_div(8).unwrap_or(0) + i64::from(raw.immediate);
                (*section, start + 1)
            }
            Some(Reference { symbol, .. }) => {
                return Err(self.error(format!("function {symbol} is not in this object")));
            }
            None => (caller.section, at as i64 + i64::from(raw.immediate) + 1),
        };
        self.image
            .functions
            .iter()
            .find(|symbol| symbol.section == section && symbol.start as i64 == start)
            .ok_or_else(|| self.error(format!("a call in {} has an invalid target", code.name)))
    }

    /// Makes a 16-byte constant name a map, or a place in global data.
    fn relocate(&mut self, slot: usize, reference: &Reference) -> Result<(), ObjectError> {
        let name = &reference.symbol;
        let Some(section) = reference.section else {
            return Err(self.error(format!(
                "{name} is not defined in this object (kernel symbols and config values do not exist on a GPU)"
            )));
        };
        if slot + 1 >= self.raw.len() {
            return Err(self.error(format!(
                "instruction {slot}: a 16-byte constant is cut short"
            )));
        }
        let addend = self.raw[slot].immediate;
        if self.image.maps_section == Some(section) {
            let offset = reference.value.wrapping_add(addend as i64 as u64);
            let Some(&map) = self.image.maps.get(&offset) else {
                return Err(self.error(format!("{name} is not a map")));
            };
            self.raw[slot].src = PSEUDO_MAP;
            self.raw[slot].immediate = map as i32;
            self.raw[slot + 1] = Raw::default();
        } else if let Some(&map) = self.image.data.get(&section) {
            let offset = reference.value.wrapping_add(addend as i64 as u64);
            if offset > u64::from(self.maps[map].value_size) {
                return Err(self.error(format!("{name} is outside {}", self.maps[map].name)));
            }
            self.raw[slot].src = PSEUDO_MAP_VALUE;
            self.raw[slot].immediate = map as i32;
            self.raw[slot + 1] = Raw {
                immediate: offset as i32,
                ..Raw::default()
            };
        } else if self.image.code.contains_key(&section) {
            return Err(self.error(format!(
                "the address of {name} is taken: callbacks are not supported"
            )));
        } else {
            return Err(self.error(format!("{name} is in a section that holds no data")));
        }
        Ok(())
    }

    /// CO-RE relocations inside a function are an error.
    fn core(&self, function: &Symbol, start: usize, section: &str) -> Result<(), ObjectError> {
        let inside = function.start as u64 * 8..function.end as u64 * 8;
        let mut relocations = self.image.extension.relocations_of(section).iter();
        let Some(&(offset, ty)) = relocations.find(|(at, _)| inside.contains(&u64::from(*at)))
        else {
            return Ok(());
        };
        let name = self.btf.get(ty).map_or("", |ty| ty.name.as_str());
        Err(ObjectError::Core {
            program: self.program.to_owned(),
            instruction: (start + offset as usize / 8 - function.start) as u32,
            what: format!("struct {name}"),
        })
    }

    fn finish(self, entry: &Symbol, attach: Attach) -> Result<Program, ObjectError> {
        let instructions = decode(&self.raw).map_err(|bad| self.error(bad.to_string()))?;
        let position = |slot: usize| {
            instructions.partition_point(|instruction| (instruction.slot as usize) < slot)
        };
        let mut functions = Vec::new();
        let mut lines = vec![None; instructions.len()];
        for &(symbol, start) in &self.placed {
            let length = symbol.end - symbol.start;
            functions.push(Function {
                name: symbol.name.clone(),
                start: position(start),
                end: position(start + length),
            });
            let section = &self.image.code[&symbol.section].name;
            let records = self.image.extension.lines_of(section);
            for (index, record) in records.iter().enumerate() {
                let from = record.offset as usize / 8;
                let until = records
                    .get(index + 1)
                    .map_or(symbol.end, |next| next.offset as usize / 8)
                    .min(symbol.end);
                if from < symbol.start || from >= until {
                    continue;
                }
                let first = position(start + from - symbol.start);
                let last = position(start + until - symbol.start);
                let line = Line {
                    file: record.file.clone(),
                    line: record.line,
                    column: record.column,
                    text: record.text.clone(),
                };
                for place in &mut lines[first..last] {
                    *place = Some(line.clone());
                }
            }
        }
        Ok(Program {
            section: self.image.code[&entry.section].name.clone(),
            name: entry.name.clone(),
            attach,
            instructions,
            functions,
            lines,
        })
    }
}
