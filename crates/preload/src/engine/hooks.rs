//! Hooking an object: which functions, their stubs, and the patches.

use super::code::{self, Part, Patch, Writer};
use super::entry::{entry, known};
use super::prologue::{self, JUMP, MOST_BYTES};
use super::report;
use super::select::{self, Options};
use crate::layout::{Entry, MAX_FUNCTIONS, Stage};
use crate::objects::{self, Loader, Object, Symbols, file::Mapped};
use crate::sys;
use crate::text::{self, Near};
use alloc::collections::BTreeMap;
use alloc::vec::Vec;

/// Stub and moved beginning of one function.
const ROOM: usize = 16 + MOST_BYTES + 16;
/// Bytes of an entry that are compared with the file.
const COMPARED: u64 = 16;

pub struct Hooks {
    entries: *mut Entry,
    common: usize,
    loader: *const Loader,
    options: Options,
    modules: Vec<Module>,
    libraries: Vec<Library>,
    functions: usize,
}

/// An object as it was seen in the loader's list.
struct Module {
    bias: usize,
    dynamic: usize,
    near: Option<(usize, usize)>,
    seen: bool,
}

/// A library under its path; its functions keep their numbers when it is loaded again.
struct Library {
    path: Vec<u8>,
    numbers: BTreeMap<Vec<u8>, u16>,
}

struct Candidate {
    name: &'static [u8],
    address: usize,
    size: usize,
}

impl Hooks {
    pub fn new(stage: &Stage, options: Options) -> Hooks {
        Hooks {
            entries: stage.entries,
            common: stage.common,
            loader: stage.loader,
            options,
            modules: Vec::new(),
            libraries: Vec::new(),
            functions: 0,
        }
    }

    pub fn scan(&mut self) {
        for module in &mut self.modules {
            module.seen = false;
        }
        // SAFETY: the loader's lock is held, and its list is complete.
        for object in unsafe { objects::objects(self.loader) } {
            let key = (object.bias, object.dynamic as usize);
            let known = self
                .modules
                .iter_mut()
                .find(|module| (module.bias, module.dynamic) == key);
            if let Some(module) = known {
                module.seen = true;
                continue;
            }
            let near = self.consider(&object);
            self.modules.push(Module {
                bias: key.0,
                dynamic: key.1,
                near,
                seen: true,
            });
        }
        self.modules.retain(|module| {
            if let (false, Some((at, bytes))) = (module.seen, module.near) {
                // SAFETY: the library is gone, and with it all that jumped there.
                unsafe { sys::unmap(at, bytes) };
            }
            module.seen
        });
    }

    fn consider(&mut self, object: &Object) -> Option<(usize, usize)> {
        let path = object.path();
        let exports_cuda = object.defines(b"cuInit") || object.defines(b"cudaMalloc");
        let named = self.options.names_library(path);
        let is_static = !exports_cuda && objects::file::has_static_runtime(object);
        if !exports_cuda && !is_static && objects::file::hides_runtime(object) {
            let mut lines = Vec::new();
            let words = [
                "note a CUDA runtime is linked in without symbols, so cuda* calls are not seen (cu* calls are): ",
            ];
            push_line(&mut lines, &words, &path_of(object));
            report::say(&lines);
        }
        if !(exports_cuda || named || is_static) {
            return None;
        }
        let Some(file) = Mapped::object(object) else {
            let mut lines = Vec::new();
            push_line(
                &mut lines,
                &["note not hooked, its file is gone or has changed: "],
                path,
            );
            report::say(&lines);
            return None;
        };
        let mut found = Vec::new();
        if exports_cuda || named {
            self.collect(&object.symbols(), object.bias, path, false, &mut found);
        }
        if is_static {
            self.collect(&file.symbols(object), object.bias, path, true, &mut found);
        }
        if found.is_empty() {
            return None;
        }
        self.hook(object, &file, found)
    }

    fn collect(
        &self,
        symbols: &Symbols,
        bias: usize,
        path: &[u8],
        only_known: bool,
        found: &mut Vec<Candidate>,
    ) {
        for (symbol, name) in symbols.iter() {
            if !symbol.is_defined_function() || !self.options.considers(path, name) {
                continue;
            }
            // A program's own functions may be called cudaThis and cudaThat.
            if only_known && (!select::is_cuda_name(name) || known(name).0.is_none()) {
                continue;
            }
            found.push(Candidate {
                name,
                address: bias.wrapping_add(symbol.value as usize),
                size: symbol.size as usize,
            });
        }
    }

    fn hook(
        &mut self,
        object: &Object,
        file: &Mapped,
        mut found: Vec<Candidate>,
    ) -> Option<(usize, usize)> {
        let exported = found.len();
        // Of several names for one function the plainest stands for all.
        found.sort_by_key(|one| (one.address, one.name.len(), one.name));
        let (index, library) = self.library(object);
        let wanted = found
            .iter()
            .filter(|one| self.options.wants(one.name))
            .count();
        let first = found.first()?.address;
        let mut lines = Vec::new();
        let Some(mut near) = Near::reserve(first, wanted * ROOM + 4096) else {
            refuse_all(
                &mut lines,
                index,
                exported,
                object,
                "no free memory within reach",
            );
            report::say(&lines);
            return None;
        };
        let parts = code::parts(object, file);
        let mut prepared = Vec::new();
        let mut hooked = 0;
        let mut previous = 0;
        for (place, one) in found.iter().enumerate() {
            if one.address == previous {
                hooked += 1;
                continue;
            }
            if !self.options.wants(one.name) {
                continue;
            }
            let number = match self.libraries[library].numbers.get(one.name) {
                Some(number) => usize::from(*number),
                None => self.functions,
            };
            let next = found[place..]
                .iter()
                .find(|next| next.address > one.address);
            if next.is_some_and(|next| next.address < one.address + JUMP) {
                skip(
                    &mut lines,
                    index,
                    one.name,
                    "another function begins inside",
                );
                continue;
            }
            match self.prepare(object, file, one, number, &mut near, &parts) {
                Ok(patch) => {
                    prepared.push(patch);
                    previous = one.address;
                    hooked += 1;
                    if number == self.functions {
                        self.functions += 1;
                        let numbers = &mut self.libraries[library].numbers;
                        numbers.insert(one.name.to_vec(), number as u16);
                        push_line(
                            &mut lines,
                            &["function ", &dec(number), " ", &dec(index), " "],
                            one.name,
                        );
                    }
                }
                Err(why) => skip(&mut lines, index, one.name, why),
            }
        }
        let writer = if near.seal() {
            Writer::open(&parts)
        } else {
            None
        };
        let Some(writer) = writer else {
            let (at, bytes) = near.range();
            // SAFETY: nothing jumps there.
            unsafe { sys::unmap(at, bytes) };
            lines.clear();
            refuse_all(
                &mut lines,
                index,
                exported,
                object,
                "this process may not change code",
            );
            report::say(&lines);
            return None;
        };
        let mut head = Vec::new();
        let method = writer.method();
        push_line(
            &mut head,
            &[
                "library ",
                &dec(index),
                " hooked=",
                &dec(hooked),
                " exported=",
                &dec(exported),
                " method=",
                method,
                " path=",
            ],
            &path_of(object),
        );
        head.extend(&lines);
        // Said before the first call can be recorded.
        report::say(&head);
        for patch in &prepared {
            writer.write(patch);
        }
        writer.close();
        Some(near.range())
    }

    fn library(&mut self, object: &Object) -> (usize, usize) {
        let path = path_of(object);
        let at = self
            .libraries
            .iter()
            .position(|library| library.path == path);
        let at = at.unwrap_or_else(|| {
            self.libraries.push(Library {
                path,
                numbers: BTreeMap::new(),
            });
            self.libraries.len() - 1
        });
        (at, at)
    }

    fn prepare(
        &mut self,
        object: &Object,
        file: &Mapped,
        one: &Candidate,
        number: usize,
        near: &mut Near,
        parts: &[Part],
    ) -> Result<Patch, &'static str> {
        if number >= MAX_FUNCTIONS {
            return Err("too many functions");
        }
        let inside = |part: &&Part| (part.begin..part.end).contains(&one.address);
        let Some(part) = parts.iter().find(inside) else {
            return Err("not in the code");
        };
        let room = part.end - one.address;
        let shown = room.min(one.size.max(COMPARED as usize)).min(1 << 20);
        // SAFETY: within the mapped code.
        let code = unsafe { core::slice::from_raw_parts(one.address as *const u8, shown) };
        let in_file = (one.address - object.bias) as u64;
        let same = file
            .at_address(in_file, COMPARED.min(shown as u64))
            .is_some_and(|bytes| code.starts_with(bytes));
        if !same {
            return Err("changed in memory (a breakpoint or another hook)");
        }
        // mov r11d, number; jmp common
        let stub_at = near.next();
        let mut stub = [0x41, 0xbb].to_vec();
        stub.extend((number as u32).to_le_bytes());
        match text::near_jump(stub_at + stub.len(), self.common) {
            // Without the address as data a call touches one line less.
            Some(jump) => stub.extend(jump),
            None => stub.extend(text::far_jump(self.common)),
        }
        let moved_at = stub_at + stub.len().next_multiple_of(16);
        let moved = prologue::relocate(code, one.address as u64, one.size, moved_at as u64)
            .map_err(prologue::Refusal::reason)?;
        let jump = text::near_jump(one.address, stub_at).ok_or("out of reach")?;
        near.push(&stub).ok_or("no room")?;
        near.push(&moved).ok_or("no room")?;
        // SAFETY: below the table's length; nothing calls it yet.
        unsafe {
            let row = self.entries.add(number);
            if number == self.functions {
                row.write(entry(one.name, object.path(), number as u16, moved_at));
            } else {
                (*row).target = moved_at;
            }
        }
        Ok(Patch {
            at: one.address,
            jump,
        })
    }
}

fn path_of(object: &Object) -> Vec<u8> {
    let path = object.path();
    if path.is_empty() {
        b"[program]".to_vec()
    } else {
        path.to_vec()
    }
}

fn refuse_all(lines: &mut Vec<u8>, index: usize, exported: usize, object: &Object, why: &str) {
    let counts = [
        "library ",
        &dec(index),
        " hooked=0 exported=",
        &dec(exported),
        " method=none path=",
    ];
    push_line(lines, &counts, &path_of(object));
    push_line(lines, &["note not hooked, ", why, ": "], &path_of(object));
}

fn skip(lines: &mut Vec<u8>, library: usize, name: &[u8], why: &str) {
    push_line(lines, &["skipped ", &dec(library), " "], name);
    lines.pop();
    push_line(lines, &[" ", why], b"");
}

fn push_line(lines: &mut Vec<u8>, words: &[&str], last: &[u8]) {
    for word in words {
        lines.extend(word.as_bytes());
    }
    lines.extend(
        last.iter()
            .map(|byte| if *byte == b'\n' { b'?' } else { *byte }),
    );
    lines.push(b'\n');
}

fn dec(number: usize) -> alloc::string::String {
    alloc::format!("{number}")
}
