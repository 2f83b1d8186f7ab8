//! Notes of markers in an ELF file: `.note.stapsdt`. Each tells three addresses, then provider, name
//! and arguments as texts.

use super::{Argument, MOST_MARKERS, Marker, Markers, NoMarker, Refused, Unreadable, operand};
use crate::ebpf::layout::MOST_OPERANDS;
use object::elf::{EM_X86_64, FileHeader64, PF_W, PF_X, PT_LOAD};
use object::read::elf::{FileHeader, ProgramHeader, SectionHeader, SectionTable};
use object::{LittleEndian as LE, elf::SHN_UNDEF};
use std::{cell::OnceCell, collections::HashMap};

const SECTION: &[u8] = b".note.stapsdt";
/// Where the linker put it tells how far addresses in the notes are off.
const BASE: &[u8] = b".stapsdt.base";
const OWNER: &[u8] = b"stapsdt";
const KIND: u32 = 3;
/// A provider's or a marker's name, and all of its arguments.
const LONGEST_NAME: usize = 256;
const LONGEST_ARGUMENTS: usize = 4096;
/// What cannot be hooked is told of so many.
const MOST_REFUSED: usize = 1_000;

/// Files have a handful.
const MOST_SEGMENTS: usize = 64;

type Header = FileHeader64<LE>;

pub fn read(bytes: &[u8]) -> Markers {
    Elf::of(bytes).map(|elf| elf.markers()).unwrap_or_default()
}

struct Segment {
    address: u64,
    /// Of what is in the file.
    size: u64,
    offset: u64,
    flags: u32,
}

struct Elf<'a> {
    bytes: &'a [u8],
    sections: SectionTable<'a, Header>,
    segments: Vec<Segment>,
    base: Option<u64>,
    /// Variables by name; none where several have the same.
    symbols: OnceCell<HashMap<&'a [u8], Option<u64>>>,
}

impl<'a> Elf<'a> {
    fn of(bytes: &'a [u8]) -> Option<Self> {
        let header = Header::parse(bytes).ok()?;
        if header.e_machine.get(LE) != EM_X86_64 {
            return None;
        }
        let sections = header.sections(LE, bytes).ok()?;
        let headers = header.program_headers(LE, bytes).unwrap_or_default();
        let loaded = headers.iter().filter(|one| one.p_type(LE) == PT_LOAD);
        let loaded = loaded.take(MOST_SEGMENTS);
        let segments = loaded.map(|one| Segment {
            address: one.p_vaddr(LE),
            size: one.p_filesz(LE),
            offset: one.p_offset(LE),
            flags: one.p_flags(LE),
        });
        let base = sections.section_by_name(LE, BASE);
        Some(Elf {
            bytes,
            segments: segments.collect(),
            base: base.map(|(_, section)| section.sh_addr.get(LE)),
            sections,
            symbols: OnceCell::new(),
        })
    }

    fn markers(&self) -> Markers {
        let mut found = Markers::default();
        // Linkers make one of them.
        let Some((_, section)) = self.sections.section_by_name(LE, SECTION) else {
            return found;
        };
        let Ok(Some(mut notes)) = section.notes(LE, self.bytes) else {
            found.refuse("?".into(), NoMarker::Notes);
            return found;
        };
        loop {
            match notes.next() {
                Ok(Some(note)) if note.name() == OWNER && note.n_type(LE) == KIND => {
                    if found.markers.len() >= MOST_MARKERS {
                        found.refuse("?".into(), NoMarker::TooMany);
                        return found;
                    }
                    self.take(note.desc(), &mut found);
                }
                Ok(Some(_)) => {}
                Ok(None) => return found,
                Err(_) => {
                    found.refuse("?".into(), NoMarker::Long);
                    return found;
                }
            }
        }
    }

    fn take(&self, description: &[u8], found: &mut Markers) {
        let Some(said) = NoteFields::of(description) else {
            return found.refuse("?".into(), NoMarker::Damaged);
        };
        match self.marker(&said) {
            Ok(marker) => found.markers.push(marker),
            Err(why) => found.refuse(format!("{}:{}", said.provider, said.name), why),
        }
    }

    fn marker(&self, said: &NoteFields<'_>) -> Result<Marker, NoMarker> {
        // The file may have been moved after it was linked; the notes were not.
        let moved = match self.base {
            Some(base) if said.base != 0 => base.wrapping_sub(said.base),
            _ => 0,
        };
        let location = said.location.wrapping_add(moved);
        let offset = self.offset(location, PF_X, 1).ok_or(NoMarker::NoCode)?;
        // A breakpoint in the midst of an instruction would take the program down.
        let code = usize::try_from(offset)
            .ok()
            .and_then(|at| self.bytes.get(at..));
        if !code.is_some_and(is_nop) {
            return Err(NoMarker::NoNop);
        }
        let semaphore = match said.semaphore {
            0 => None,
            address => {
                let offset = self.offset(address.wrapping_add(moved), PF_W, 2);
                let even = offset.filter(|offset| offset % 2 == 0);
                Some(even.ok_or(NoMarker::NoCounter)?)
            }
        };
        let texts = said.arguments.split_ascii_whitespace();
        let arguments = texts.take(MOST_OPERANDS + 1).map(|text| Argument {
            text: text.to_owned(),
            operand: operand::parse(text, |name| self.behind(location, name)),
        });
        Ok(Marker {
            provider: said.provider.to_owned(),
            name: said.name.to_owned(),
            offset,
            semaphore,
            arguments: arguments.collect(),
        })
    }

    /// Where in the file so many bytes at an address are, in a segment with these flags.
    fn offset(&self, address: u64, flags: u32, bytes: u64) -> Option<u64> {
        let within = |segment: &&Segment| {
            let at = address.checked_sub(segment.address);
            segment.flags & flags == flags
                && at.is_some_and(|at| at.saturating_add(bytes) <= segment.size)
        };
        let segment = self.segments.iter().find(within)?;
        segment.offset.checked_add(address - segment.address)
    }

    /// How far behind a place a variable is.
    fn behind(&self, location: u64, name: &str) -> Result<i64, Unreadable> {
        let symbols = self.symbols.get_or_init(|| self.symbols());
        match symbols.get(name.as_bytes()) {
            Some(Some(address)) => Ok(address.wrapping_sub(location) as i64),
            Some(None) => Err(Unreadable::Ambiguous),
            None => Err(Unreadable::Undefined),
        }
    }

    fn symbols(&self) -> HashMap<&'a [u8], Option<u64>> {
        let mut found: HashMap<&[u8], Option<u64>> = HashMap::new();
        for kind in [object::elf::SHT_SYMTAB, object::elf::SHT_DYNSYM] {
            let Ok(table) = self.sections.symbols(LE, self.bytes, kind) else {
                continue;
            };
            let variables = table.iter().filter(|symbol| {
                symbol.st_type() == object::elf::STT_OBJECT
                    && symbol.st_shndx.get(LE) != SHN_UNDEF
                    && symbol.st_value.get(LE) != 0
            });
            for symbol in variables {
                let address = symbol.st_value.get(LE);
                if let Ok(name) = table.symbol_name(LE, symbol) {
                    let known = found.entry(name).or_insert(Some(address));
                    if *known != Some(address) {
                        *known = None;
                    }
                }
            }
        }
        found
    }
}

impl Markers {
    fn refuse(&mut self, marker: String, why: NoMarker) {
        if self.refused.len() < MOST_REFUSED {
            self.refused.push(Refused { marker, why });
        }
    }
}

/// What a note says.
struct NoteFields<'a> {
    location: u64,
    base: u64,
    semaphore: u64,
    provider: &'a str,
    name: &'a str,
    arguments: &'a str,
}

impl<'a> NoteFields<'a> {
    fn of(description: &'a [u8]) -> Option<Self> {
        let (addresses, texts) = description.split_at_checked(24)?;
        let address = |at: usize| {
            let bytes = addresses[at..].first_chunk::<8>();
            bytes.map_or(0, |bytes| u64::from_le_bytes(*bytes))
        };
        let (provider, rest) = text(texts, LONGEST_NAME)?;
        let (name, rest) = text(rest, LONGEST_NAME)?;
        // Old ones have no arguments at all.
        let arguments = text(rest, LONGEST_ARGUMENTS);
        if provider.is_empty() || name.is_empty() || arguments.is_none() && !rest.is_empty() {
            return None;
        }
        Some(NoteFields {
            location: address(0),
            base: address(8),
            semaphore: address(16),
            provider,
            name,
            arguments: arguments.map_or("", |(text, _)| text),
        })
    }
}

/// A text up to its end, and what comes behind it. None that would spoil a terminal.
fn text(bytes: &[u8], longest: usize) -> Option<(&str, &[u8])> {
    let end = bytes.iter().take(longest + 1).position(|byte| *byte == 0)?;
    let text = std::str::from_utf8(&bytes[..end]).ok()?;
    let is_plain = !text.chars().any(char::is_control);
    is_plain.then_some((text, &bytes[end + 1..]))
}

/// One byte, two or more: what compilers write for markers.
fn is_nop(code: &[u8]) -> bool {
    matches!(code, [0x90, ..] | [0x66, 0x90, ..] | [0x0f, 0x1f, ..])
}
