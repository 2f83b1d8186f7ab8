//! Hooking an object: which functions, their stubs, and the patches.

use super::prologue::{self, MOST_BYTES};
use super::report;
use super::select::{self, Options};
use crate::layout::{
    Entry, HAS_RESULTS, HotItem, HotKind, HotPlan, MAX_FUNCTIONS, SAVES_VECTORS, Stage,
};
use crate::objects::{self, Loader, Object, Symbols, file::Mapped};
use crate::sys;
use crate::text::{self, Near};
use alloc::boxed::Box;
use alloc::collections::BTreeMap;
use alloc::vec::Vec;
use cuda::capture::{Item, When};
use event::ring::PAYLOAD_BYTES;

/// Words copied for functions whose arguments are not known: more than any has.
const UNKNOWN_STACK_WORDS: usize = 24;
/// Runtime functions get new parameters under old names: a few words more than the table says.
const SPARE_STACK_WORDS: usize = 4;
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

/// A function that is ready to be patched.
struct Prepared {
    at: usize,
    jump: [u8; 5],
}

/// How code is changed here.
enum Writer {
    Pages { at: usize, bytes: usize },
    Memory(sys::File),
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
        let (begin, end) = text_range(object, file);
        let mut prepared = Vec::new();
        let mut hooked = 0;
        let mut previous = 0;
        for one in &found {
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
            match self.prepare(object, file, one, number, &mut near, (begin, end)) {
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
                Err(why) => {
                    push_line(&mut lines, &["skipped ", &dec(index), " "], one.name);
                    lines.pop();
                    lines.extend(b" ");
                    push_line(&mut lines, &[why], b"");
                }
            }
        }
        let writer = if near.seal() {
            Writer::open(begin, end)
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
        (begin, end): (usize, usize),
    ) -> Result<Prepared, &'static str> {
        if number >= MAX_FUNCTIONS {
            return Err("too many functions");
        }
        if one.address < begin || one.address >= end {
            return Err("not in the code");
        }
        let room = end - one.address;
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
        let mut stub = [0u8; 20];
        stub[..2].copy_from_slice(&[0x41, 0xbb]);
        stub[2..6].copy_from_slice(&(number as u32).to_le_bytes());
        stub[6..].copy_from_slice(&text::far_jump(self.common));
        let stub_at = near.next();
        let moved_at = stub_at + stub.len().next_multiple_of(16);
        let moved = prologue::relocate(code, one.address as u64, one.size, moved_at as u64)
            .map_err(prologue::Refusal::reason)?;
        let jump = text::near_jump(one.address, stub_at).ok_or("out of reach")?;
        near.push(&stub).ok_or("no room")?;
        near.push(&moved).ok_or("no room")?;
        // SAFETY: below the table's length; nothing calls it yet.
        unsafe {
            self.entries
                .add(number)
                .write(entry(one.name, number as u16, moved_at))
        };
        Ok(Prepared {
            at: one.address,
            jump,
        })
    }
}

impl Writer {
    fn open(begin: usize, end: usize) -> Option<Writer> {
        let at = begin & !4095;
        let bytes = end.next_multiple_of(4096) - at;
        let all = libc::PROT_READ | libc::PROT_WRITE | libc::PROT_EXEC;
        // SAFETY: code stays executable.
        if unsafe { sys::protect(at, bytes, all) } {
            return Some(Writer::Pages { at, bytes });
        }
        let file = sys::File::open(b"/proc/self/mem\0", libc::O_RDWR, 0)?;
        // Try it where nothing changes: the byte that is there.
        // SAFETY: mapped code.
        let byte = unsafe { (begin as *const u8).read() };
        file.write_at(&[byte], begin as u64)
            .then_some(Writer::Memory(file))
    }

    fn method(&self) -> &'static str {
        match self {
            Writer::Pages { .. } => "patch",
            Writer::Memory(_) => "patch-by-kernel",
        }
    }

    fn write(&self, patch: &Prepared) {
        match self {
            // SAFETY: the pages are writable.
            Writer::Pages { .. } => unsafe { text::store(patch.at, &patch.jump) },
            Writer::Memory(file) => {
                file.write_at(&patch.jump, patch.at as u64);
            }
        }
    }

    fn close(self) {
        if let Writer::Pages { at, bytes } = self {
            // SAFETY: as it was.
            unsafe { sys::protect(at, bytes, libc::PROT_READ | libc::PROT_EXEC) };
        }
    }
}

/// The executable part of an object.
fn text_range(object: &Object, file: &Mapped) -> (usize, usize) {
    let mut range = (usize::MAX, 0);
    for segment in file.segments() {
        if segment.p_type == libc::PT_LOAD && segment.p_flags & libc::PF_X != 0 {
            let begin = object.bias.wrapping_add(segment.p_vaddr as usize);
            range.0 = range.0.min(begin);
            range.1 = range.1.max(begin.wrapping_add(segment.p_filesz as usize));
        }
    }
    range
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

type Row = Option<&'static cuda::Function>;

/// A function as the newest and as older runtimes have it.
fn known(name: &[u8]) -> (Row, Row) {
    let Ok(name) = core::str::from_utf8(name) else {
        return (None, None);
    };
    (cuda::function(name), cuda::runtime_function(12, name))
}

fn entry(name: &[u8], number: u16, target: usize) -> Entry {
    let text = core::str::from_utf8(name).unwrap_or("");
    let (newest, older) = known(name);
    let rows = || newest.iter().chain(&older);
    let mut words = rows()
        .map(|row| cuda::capture::stack_words(row))
        .max()
        .unwrap_or(UNKNOWN_STACK_WORDS);
    if cuda::layer(text) == event::Layer::Runtime
        && newest.is_some_and(|row| row.parameters.len() > 4)
    {
        words = words.max(SPARE_STACK_WORDS);
    }
    let plan = cuda::capture::plan(text);
    let payloads = plan.payload_slots();
    let floats = rows().any(|row| {
        row.parameters
            .iter()
            .any(|one| one.kind.kind == cuda::Kind::Float)
    });
    let hot = newest
        .filter(|_| payloads > 0)
        .map(|row| compact(&plan, row));
    let has_results = hot.as_ref().is_some_and(|plan| plan.count > plan.arguments);
    let mut flags = 0;
    if floats {
        flags |= SAVES_VECTORS;
    }
    if has_results {
        flags |= HAS_RESULTS;
    }
    Entry {
        target,
        plan: hot.map_or(core::ptr::null(), |plan| Box::leak(Box::new(plan))),
        slots: 1 + payloads as u8,
        flags,
        stack_words: words.next_multiple_of(2) as u16,
        label: u32::from(number) | (payloads as u32) << 16,
        reserved: 0,
    }
}

/// Where a word is, from the base of the common part's frame: see `stage::hot`.
fn place_in_frame(word: u8) -> i16 {
    let (word, registers) = (i16::from(word), cuda::capture::REGISTER_WORDS as i16);
    if word < registers {
        word * 8 - 80
    } else {
        16 + (word - registers) * 8
    }
}

fn compact(plan: &cuda::capture::Plan, row: &cuda::Function) -> HotPlan {
    let none = HotItem {
        kind: HotKind::Argument,
        whole: false,
        word: 0,
        offset: 0,
        bytes: 0,
        place: 0,
        spot: 0,
    };
    let mut hot = HotPlan {
        always_succeeds: row.returns.kind == cuda::Kind::Void,
        slots: plan.payload_slots() as u8,
        arguments: 0,
        count: 0,
        items: [none; cuda::capture::MAX_ITEMS],
    };
    for (place, item) in plan.placed() {
        let (kind, word, offset) = match item {
            Item::Arg { index } => (HotKind::Argument, index, 0),
            Item::Memory {
                arg,
                offset,
                at: When::Enter,
                ..
            } => (HotKind::MemoryIn, arg, offset),
            Item::Memory {
                arg,
                offset,
                at: When::Exit,
                ..
            } => (HotKind::MemoryOut, arg, offset),
            Item::Text {
                arg,
                at: When::Enter,
                ..
            } => (HotKind::TextIn, arg, 0),
            Item::Text {
                arg,
                at: When::Exit,
                ..
            } => (HotKind::TextOut, arg, 0),
        };
        // A slot has 28 bytes, its commit word, and 32 bytes.
        let (slot, within) = (place / PAYLOAD_BYTES, place % PAYLOAD_BYTES);
        let bytes = item.bytes();
        let in_one_part = within + bytes <= 28 || within >= 28;
        hot.items[usize::from(hot.count)] = HotItem {
            kind,
            whole: in_one_part && matches!(bytes, 4 | 8),
            word: place_in_frame(word),
            offset,
            bytes: bytes as u16,
            place: place as u16,
            spot: (slot * 64 + if within < 28 { within } else { within + 4 }) as u16,
        };
        hot.count += 1;
        hot.arguments += u16::from(kind == HotKind::Argument);
    }
    hot
}
