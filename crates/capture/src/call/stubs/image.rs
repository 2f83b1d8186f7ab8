//! What of an ELF file tells where its code is, what its constructors are and which functions of others it calls.
//! Nothing is copied but relocations; pages of a large library are read only where something is looked at.

use iced_x86::{Code, Decoder, DecoderOptions, Instruction, OpKind};
use memmap2::Mmap;
use object::LittleEndian as LE;
use object::elf::{
    DT_INIT_ARRAY, DT_INIT_ARRAYSZ, DT_JMPREL, DT_PLTRELSZ, DT_RELA, DT_RELASZ, DT_STRTAB,
    DT_SYMTAB, EM_X86_64, FileHeader64, PF_X, PT_DYNAMIC, PT_GNU_EH_FRAME, PT_LOAD, R_X86_64_64,
    R_X86_64_GLOB_DAT, R_X86_64_JUMP_SLOT, R_X86_64_RELATIVE,
};
use object::read::elf::{FileHeader, ProgramHeader};
use std::collections::HashMap;

/// Bounds for files that lie.
const MOST_SEGMENTS: usize = 64;
const MOST_RELOCATIONS: u64 = 1 << 20;
const MOST_CONSTRUCTORS: u64 = 64 << 10;
const MOST_DYNAMIC: usize = 1 << 10;
/// What fat binaries' wrappers begin with.
const FAT_BINARY: u32 = 0x4662_43b1;
/// A kernel's name; those of templates are long.
const LONGEST_NAME: usize = 64 << 10;

/// A function of another file that is of interest.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Import {
    RegisterFunction,
    GetKernel,
    Other,
}

/// Where a call or a jump goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Callee {
    Import(Import),
    /// A function of this file.
    Own(u64),
    Unknown,
}

struct Segment {
    address: u64,
    offset: usize,
    /// In the file.
    size: usize,
    executable: bool,
}

pub struct Image {
    bytes: Mmap,
    segments: Vec<Segment>,
    /// Words that point to this file's code once it is loaded, and what they point to.
    pointers: HashMap<u64, u64>,
    imports: HashMap<u64, Import>,
    /// Where they are listed, and how many there are.
    constructors: (u64, u64),
    /// Where all functions are listed in order.
    unwinding: Option<u64>,
}

impl Image {
    pub fn new(bytes: Mmap) -> Option<Self> {
        let header = FileHeader64::<LE>::parse(&*bytes).ok()?;
        if header.e_machine.get(LE) != EM_X86_64 {
            return None;
        }
        let headers = header.program_headers(LE, &*bytes).ok()?;
        let mut segments = Vec::new();
        let (mut dynamic, mut unwinding) = (None, None);
        for header in headers {
            match header.p_type(LE) {
                PT_LOAD if segments.len() < MOST_SEGMENTS => segments.push(Segment {
                    address: header.p_vaddr(LE),
                    offset: usize::try_from(header.p_offset(LE)).ok()?,
                    size: usize::try_from(header.p_filesz(LE)).ok()?,
                    executable: header.p_flags(LE) & PF_X != 0,
                }),
                PT_DYNAMIC => dynamic = Some(header.p_vaddr(LE)),
                PT_GNU_EH_FRAME => unwinding = Some(header.p_vaddr(LE)),
                _ => {}
            }
        }
        let mut image = Image {
            bytes,
            segments,
            pointers: HashMap::new(),
            imports: HashMap::new(),
            constructors: (0, 0),
            unwinding,
        };
        image.read_dynamic(dynamic?);
        Some(image)
    }

    fn read_dynamic(&mut self, at: u64) {
        let mut tags = HashMap::new();
        let entries = self.at(at).chunks_exact(16).take(MOST_DYNAMIC);
        for entry in entries.map(words::<2>) {
            if entry[0] == 0 {
                break;
            }
            tags.insert(entry[0], entry[1]);
        }
        let tag = |tag: u32| tags.get(&u64::from(tag)).copied().unwrap_or(0);
        let count = tag(DT_INIT_ARRAYSZ) / 8;
        self.constructors = (tag(DT_INIT_ARRAY), count.min(MOST_CONSTRUCTORS));
        let names = (tag(DT_SYMTAB), tag(DT_STRTAB));
        self.relocate(tag(DT_RELA), tag(DT_RELASZ), names);
        self.relocate(tag(DT_JMPREL), tag(DT_PLTRELSZ), names);
    }

    fn relocate(&mut self, table: u64, size: u64, (symbols, strings): (u64, u64)) {
        let count = usize::try_from((size / 24).min(MOST_RELOCATIONS)).unwrap_or(0);
        let (mut pointers, mut imports) = (Vec::new(), Vec::new());
        for entry in self.at(table).chunks_exact(24).take(count) {
            let [slot, info, addend] = words(entry);
            let target = match (info & 0xffff_ffff) as u32 {
                R_X86_64_RELATIVE => Some(addend),
                R_X86_64_64 | R_X86_64_GLOB_DAT | R_X86_64_JUMP_SLOT => {
                    let symbol = self.at(symbols.wrapping_add((info >> 32) * 24));
                    let Some(symbol) = symbol.first_chunk::<24>() else {
                        continue;
                    };
                    let [name, value, _] = words(symbol);
                    let is_defined = symbol[6..8] != [0, 0];
                    if !is_defined {
                        let name = self.at(strings.wrapping_add(name & 0xffff_ffff));
                        imports.push((slot, import(name)));
                    }
                    is_defined.then(|| value.wrapping_add(addend))
                }
                _ => None,
            };
            if let Some(target) = target.filter(|target| !self.code(*target).is_empty()) {
                pointers.push((slot, target));
            }
        }
        self.pointers.extend(pointers);
        self.imports.extend(imports);
    }

    /// The functions that run when the file is loaded.
    pub fn constructors(&self) -> Vec<u64> {
        let (start, count) = self.constructors;
        let slots = (0..count).map(|number| start.wrapping_add(8 * number));
        let target = |slot| self.pointer(slot).or_else(|| self.word(slot));
        slots.filter_map(target).collect()
    }

    /// What a word points to in this file once that is loaded.
    pub fn pointer(&self, slot: u64) -> Option<u64> {
        self.pointers.get(&slot).copied()
    }

    fn word(&self, address: u64) -> Option<u64> {
        self.at(address)
            .first_chunk()
            .map(|bytes| u64::from_le_bytes(*bytes))
    }

    /// The file's bytes from an address on.
    fn at(&self, address: u64) -> &[u8] {
        self.in_segment(address, |_| true)
    }

    /// The code from an address on; nothing where there is none.
    pub fn code(&self, address: u64) -> &[u8] {
        self.in_segment(address, |segment| segment.executable)
    }

    fn in_segment(&self, address: u64, wanted: impl Fn(&Segment) -> bool) -> &[u8] {
        let found = self.segments.iter().filter(|segment| wanted(segment));
        let mut found = found.filter_map(|segment| {
            let inside = usize::try_from(address.checked_sub(segment.address)?).ok()?;
            let end = segment.offset.checked_add(segment.size)?;
            let end = end.min(self.bytes.len());
            let start = segment.offset.checked_add(inside)?;
            self.bytes.get(start..end).filter(|part| !part.is_empty())
        });
        found.next().unwrap_or_default()
    }

    /// Whether what a fat binary of GPU code is registered with is at an address.
    pub fn is_gpu_code(&self, address: u64) -> bool {
        self.at(address).starts_with(&FAT_BINARY.to_le_bytes())
    }

    /// The name at an address: one that a kernel can have.
    pub fn text(&self, address: u64) -> Option<&str> {
        let bytes = self.at(address);
        let bytes = &bytes[..bytes.len().min(LONGEST_NAME)];
        let can_be = |byte: &u8| byte.is_ascii_alphanumeric() || b"_$.".contains(byte);
        let length = bytes.iter().position(|byte| !can_be(byte))?;
        let ends = bytes[length] == 0;
        let begins = bytes.first().is_some_and(|first| !first.is_ascii_digit());
        let name = std::str::from_utf8(&bytes[..length]).ok()?;
        (ends && begins && length > 0).then_some(name)
    }

    /// Where a call or an unconditional jump goes, through the linkage table if it does.
    pub fn callee(&self, instruction: &Instruction) -> Callee {
        let through = |instruction: &Instruction| {
            let by_slot = matches!(instruction.code(), Code::Call_rm64 | Code::Jmp_rm64)
                && instruction.is_ip_rel_memory_operand();
            by_slot.then(|| instruction.ip_rel_memory_address())
        };
        if let Some(slot) = through(instruction) {
            return self.behind(slot);
        }
        if instruction.op0_kind() != OpKind::NearBranch64 {
            return Callee::Unknown;
        }
        let target = instruction.near_branch_target();
        let code = self.code(target);
        let mut entry = Decoder::with_ip(64, code, target, DecoderOptions::NONE);
        let mut first = entry.decode();
        if first.code() == Code::Endbr64 {
            first = entry.decode();
        }
        match through(&first).map(|slot| self.behind(slot)) {
            Some(callee) if callee != Callee::Unknown => callee,
            _ if code.is_empty() => Callee::Unknown,
            _ => Callee::Own(target),
        }
    }

    /// What a word leads to when it is called.
    pub fn behind(&self, slot: u64) -> Callee {
        match (self.imports.get(&slot), self.pointer(slot)) {
            (Some(import), _) => Callee::Import(*import),
            (None, Some(target)) => Callee::Own(target),
            (None, None) => Callee::Unknown,
        }
    }

    /// Where the function begins that an address is in, and where the next one does, by the table that exceptions
    /// are unwound with: stripped files have it, too.
    pub fn function_around(&self, address: u64) -> Option<(u64, u64)> {
        /// Offsets of four bytes from the table's own beginning, sorted: what all linkers write.
        const SORTED: [u8; 2] = [0x03, 0x3b];
        let start = self.unwinding?;
        let table = self.at(start);
        if table.first() != Some(&1) || table.get(2..4)? != SORTED {
            return None;
        }
        let count = u32::from_le_bytes(*table.get(8..)?.first_chunk()?) as usize;
        let (entries, _) = table.get(12..)?.as_chunks::<8>();
        let entries = entries.get(..count)?;
        let begin = |entry: &[u8; 8]| {
            let offset = i32::from_le_bytes([entry[0], entry[1], entry[2], entry[3]]);
            start.wrapping_add_signed(offset.into())
        };
        let after = entries.partition_point(|entry| begin(entry) <= address);
        let function = begin(entries.get(after.checked_sub(1)?)?);
        let next = entries.get(after).map_or(u64::MAX, begin);
        Some((function, next))
    }
}

fn import(name: &[u8]) -> Import {
    if name.starts_with(b"__cudaRegisterFunction\0") {
        Import::RegisterFunction
    } else if name.starts_with(b"__cudaGetKernel\0") {
        Import::GetKernel
    } else {
        Import::Other
    }
}

/// The first words of some bytes; 0 for those that are not there.
fn words<const N: usize>(bytes: &[u8]) -> [u64; N] {
    let (all, _) = bytes.as_chunks::<8>();
    std::array::from_fn(|at| all.get(at).map_or(0, |word| u64::from_le_bytes(*word)))
}
