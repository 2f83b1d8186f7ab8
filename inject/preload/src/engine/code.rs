//! An object's code, and changing it.

use super::changes;
use crate::objects::{Object, file::Mapped};
use crate::sys::{self, File};
use crate::text;
use alloc::vec::Vec;

const PAGE: usize = 4096;
const BREAKPOINT: u8 = 0xcc;
/// Bytes of a function that are compared with the file: as many as a jump behind its first instruction needs.
const COMPARED: usize = 32;
/// Bytes of a function that are looked at, whatever its size is said to be.
const LEAST: usize = 16;
const MOST: usize = 1 << 20;

/// A part of an object that can be executed.
#[derive(Clone, Copy)]
pub struct Part {
    pub begin: usize,
    pub end: usize,
    protection: i32,
}

/// A function that is ready to be patched.
pub struct Patch {
    pub at: usize,
    /// What is there before, and comes back.
    pub before: [u8; 5],
    pub jump: [u8; 5],
}

impl Patch {
    pub fn is_there(&self) -> bool {
        // SAFETY: code of a loaded object.
        unsafe { (self.at as *const [u8; 5]).read_volatile() == self.jump }
    }
}

/// How code is changed in this process.
pub enum Writer {
    Pages(Vec<Part>),
    Memory(File),
    /// By the tracer, which reads of it in the table of changes.
    Tracer,
}

/// The executable parts of an object; what is between them is not code.
pub fn parts(object: &Object, file: &Mapped) -> Vec<Part> {
    let mut parts = Vec::new();
    for segment in file.segments() {
        if segment.p_type == libc::PT_LOAD && segment.p_flags & libc::PF_X != 0 {
            let begin = object.bias.wrapping_add(segment.p_vaddr as usize);
            let writable = segment.p_flags & libc::PF_W != 0;
            parts.push(Part {
                begin,
                end: begin.wrapping_add(segment.p_filesz as usize),
                protection: libc::PROT_READ
                    | libc::PROT_EXEC
                    | if writable { libc::PROT_WRITE } else { 0 },
            });
        }
    }
    parts
}

/// A function's code, as it is in the file; Err if it was changed in memory. A uprobe's breakpoint
/// on the first instruction is no such change: it is gone when a jump behind it is reached.
pub fn original(
    object: &Object,
    file: &Mapped,
    parts: &[Part],
    (address, size): (usize, usize),
) -> Result<Vec<u8>, &'static str> {
    let inside = |part: &&Part| (part.begin..part.end).contains(&address);
    let part = parts.iter().find(inside).ok_or("not in the code")?;
    let shown = (part.end - address).min(size.max(LEAST)).min(MOST);
    // SAFETY: within the mapped code.
    let mut code = unsafe { core::slice::from_raw_parts(address as *const u8, shown) }.to_vec();
    let mut in_file = [0; COMPARED];
    let in_file = &mut in_file[..shown.min(COMPARED)];
    file.read_address((address - object.bias) as u64, in_file)
        .ok_or("not in the code")?;
    if code.first() == Some(&BREAKPOINT) {
        code[0] = in_file[0];
    }
    code.starts_with(in_file)
        .then_some(code)
        .ok_or("changed in memory (a breakpoint or another hook)")
}

/// The bytes of a function's code that a jump takes the place of.
pub fn jump_bytes(code: &[u8], at: usize) -> Option<[u8; 5]> {
    code.get(at..at + 5)?.try_into().ok()
}

impl Part {
    fn protect(&self, protection: i32) -> bool {
        let at = self.begin & !(PAGE - 1);
        let bytes = self.end.next_multiple_of(PAGE) - at;
        // SAFETY: code, which stays executable.
        unsafe { sys::protect(at, bytes, protection) }
    }
}

impl Writer {
    /// None: the kernel refuses every way.
    pub fn open(parts: &[Part]) -> Option<Writer> {
        if changes::are_deferred() {
            return Some(Writer::Tracer);
        }
        let all = libc::PROT_READ | libc::PROT_WRITE | libc::PROT_EXEC;
        let opened = parts.iter().take_while(|part| part.protect(all)).count();
        if opened == parts.len() {
            return Some(Writer::Pages(parts.to_vec()));
        }
        for part in &parts[..opened] {
            part.protect(part.protection);
        }
        // The kernel lets a process write its own memory this way even where code is read-only.
        let file = File::open(b"/proc/self/mem\0", libc::O_RDWR, 0)?;
        let first = parts.first()?.begin;
        // Tried where nothing changes: with the byte that is there.
        // SAFETY: mapped code.
        let byte = unsafe { (first as *const u8).read() };
        file.write_at(&[byte], first as u64)
            .then_some(Writer::Memory(file))
    }

    pub fn method(&self) -> &'static str {
        match self {
            Writer::Pages(_) => "patch",
            Writer::Memory(_) => "patch-by-kernel",
            Writer::Tracer => "patch-by-tracer",
        }
    }

    pub fn write(&self, patch: &Patch) {
        match self {
            // SAFETY: the pages are writable.
            Writer::Pages(_) => unsafe { text::store(patch.at, &patch.jump) },
            Writer::Memory(file) => {
                file.write_at(&patch.jump, patch.at as u64);
            }
            Writer::Tracer => {}
        }
    }

    pub fn close(self) {
        if let Writer::Pages(parts) = self {
            for part in parts {
                part.protect(part.protection);
            }
        }
    }
}
