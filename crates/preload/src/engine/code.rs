//! An object's code, and changing it.

use crate::objects::{Object, file::Mapped};
use crate::sys::{self, File};
use crate::text;
use alloc::vec::Vec;

const PAGE: usize = 4096;

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
}

/// The executable parts of an object; what lies between them is not code.
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
        }
    }

    pub fn write(&self, patch: &Patch) {
        match self {
            // SAFETY: the pages are writable.
            Writer::Pages(_) => unsafe { text::store(patch.at, &patch.jump) },
            Writer::Memory(file) => {
                file.write_at(&patch.jump, patch.at as u64);
            }
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
