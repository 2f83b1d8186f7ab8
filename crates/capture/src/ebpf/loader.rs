//! Where to hear of what a loader loads.
//!
//! A loader calls an empty function of its own, `_dl_debug_state`, whenever its list has changed: for debuggers.
//! Probes go where it comes back from that call, not into the function: preload puts its jump there, and a
//! uprobe on it would run the file's `ret` in the jump's place.

use iced_x86::{Code, Decoder, DecoderOptions};
use memmap2::Mmap;
use object::LittleEndian as LE;
use object::elf::{FileHeader64, SHF_EXECINSTR, SHT_DYNSYM, SHT_SYMTAB, STT_FUNC};
use object::read::elf::{FileHeader, SectionHeader, SectionTable, Sym};
use std::fs::File;
use std::path::Path;

const FUNCTION: &[u8] = b"_dl_debug_state";
/// Loaders call it half a dozen times.
const MOST_CALLS: usize = 64;

type Header = FileHeader64<LE>;

/// What tells of libraries, as places in the file.
#[derive(Debug, PartialEq, Eq)]
pub enum Places {
    /// The instructions after its calls.
    AfterCalls(Vec<u64>),
    /// The function itself: how it is called cannot be told.
    Function(u64),
}

impl Places {
    pub fn offsets(&self) -> &[u64] {
        match self {
            Places::AfterCalls(offsets) => offsets,
            Places::Function(offset) => std::slice::from_ref(offset),
        }
    }
}

pub fn places(path: &Path) -> Option<Places> {
    // SAFETY: a loader's file is not cut while programs run by it.
    let bytes = unsafe { Mmap::map(&File::open(path).ok()?) }.ok()?;
    in_file(&bytes)
}

fn in_file(bytes: &[u8]) -> Option<Places> {
    let header = Header::parse(bytes).ok()?;
    let sections = header.sections(LE, bytes).ok()?;
    let function = function(&sections, bytes)?;
    let code = || {
        let all = sections.iter();
        all.filter(|section| section.sh_flags(LE) & u64::from(SHF_EXECINSTR) != 0)
    };
    let offset = |address: u64| {
        code().find_map(|section| {
            let within = address.checked_sub(section.sh_addr(LE))?;
            (within < section.sh_size(LE)).then(|| section.sh_offset(LE) + within)
        })
    };
    let mut calls = Some(Vec::new());
    for section in code() {
        let found = section.data(LE, bytes).ok();
        let found = found.and_then(|code| after_calls(code, section.sh_addr(LE), function));
        match (&mut calls, found) {
            (Some(calls), Some(found)) => calls.extend(found),
            _ => calls = None,
        }
    }
    let calls = calls.filter(|calls| (1..=MOST_CALLS).contains(&calls.len()));
    let offsets = calls.and_then(|calls| calls.into_iter().map(offset).collect());
    match offsets {
        Some(offsets) => Some(Places::AfterCalls(offsets)),
        None => offset(function).map(Places::Function),
    }
}

fn function(sections: &SectionTable<'_, Header>, bytes: &[u8]) -> Option<u64> {
    [SHT_DYNSYM, SHT_SYMTAB].into_iter().find_map(|kind| {
        let table = sections.symbols(LE, bytes, kind).ok()?;
        let mut symbols = table.iter();
        symbols.find_map(|symbol| {
            let is_it = symbol.st_type() == STT_FUNC
                && !symbol.is_undefined(LE)
                && table.symbol_name(LE, symbol) == Ok(FUNCTION);
            is_it.then(|| symbol.st_value(LE))
        })
    })
}

/// Addresses of the instructions behind calls of a function. None: there are other ways into it, or this is not all
/// code, and an address found might be in the middle of an instruction.
fn after_calls(code: &[u8], address: u64, function: u64) -> Option<Vec<u64>> {
    let mut found = Vec::new();
    let decoder = Decoder::with_ip(64, code, address, DecoderOptions::NONE);
    for instruction in decoder {
        if instruction.is_invalid() {
            return None;
        }
        if instruction.near_branch_target() != function {
            continue;
        }
        match instruction.code() {
            Code::Call_rel32_64 => found.push(instruction.next_ip()),
            _ => return None,
        }
    }
    Some(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every loader here; its bytes before each place are a call of the function.
    #[test]
    fn loaders_are_heard_where_they_come_back_from_the_call() {
        let loaders = ["/lib64/ld-linux-x86-64.so.2", "/lib/ld-musl-x86_64.so.1"];
        for path in loaders.map(Path::new).into_iter().filter(|it| it.exists()) {
            let bytes = std::fs::read(path).expect("readable");
            let Some(Places::AfterCalls(offsets)) = in_file(&bytes) else {
                panic!("{}: {:?}", path.display(), in_file(&bytes));
            };
            for offset in offsets {
                assert_eq!(bytes[offset as usize - 5], 0xe8, "{}", path.display());
            }
        }
    }

    #[test]
    fn what_is_not_understood_is_left_alone() {
        // nop; call 0x100f; ret
        let code = [0x90, 0xe8, 0x09, 0, 0, 0, 0xc3];
        assert_eq!(after_calls(&code, 0x1000, 0x100f), Some(vec![0x1006]));
        assert_eq!(after_calls(&code, 0x1000, 0x1010), Some(Vec::new()));
        // A jump to it has no way back to us.
        let tail = [0x90, 0xe9, 0x09, 0, 0, 0, 0xc3];
        assert_eq!(after_calls(&tail, 0x1000, 0x100f), None);
        // Not code: pusha is none in this mode.
        assert_eq!(after_calls(&[0x60, 0x90], 0x1000, 0x100f), None);
        assert_eq!(in_file(b"no ELF"), None);
        let own = std::fs::read(std::env::current_exe().expect("known")).expect("readable");
        assert_eq!(in_file(&own), None);
    }
}
