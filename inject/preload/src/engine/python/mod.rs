//! Python's frames of the calling thread, for CPython 3.9 to 3.14.
//!
//! A thread's frames are its own while it is in C code, whether it holds the interpreter's lock or
//! not, and they keep their code objects alive. New code objects are read through the kernel and
//! believed only if their type is that of code objects: an interpreter that is built otherwise
//! costs Python's frames, never the program.

mod identity;
mod layout;
mod lines;
mod memo;
mod text;

use crate::engine::report;
use crate::objects::Object;
use crate::sys;
use core::sync::atomic::{AtomicBool, AtomicPtr, Ordering};
use identity::Identity;
use layout::{Entry, FIRST_SHIM_OWNER, Layout, Position};
pub use memo::{PythonMemos, Trail};
pub use text::Text;

/// Where an interpreter is, and how it keeps its frames.
struct Interpreter {
    bias: usize,
    layout: Layout,
    /// `PyGILState_GetThisThreadState`: reads a thread's own variable and nothing else.
    thread_state: extern "C" fn() -> u64,
    code_type: u64,
    /// Frames were found where they must be: from then on they are read directly.
    proven: AtomicBool,
}

static INTERPRETER: AtomicPtr<Interpreter> = AtomicPtr::new(core::ptr::null_mut());

/// A frame as it was found.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct CodeFrame {
    /// The code object; 0: there were more frames than are kept.
    pub code: u64,
    /// Tells one code object from another at the same place.
    pub check: u64,
    /// The instruction, in bytes from the first; negative: not known.
    offset: i64,
    pub entry: bool,
}

impl CodeFrame {
    /// What tells frames of one code object apart.
    pub fn mark(&self) -> u64 {
        (self.offset as u64) << 1 | u64::from(self.entry)
    }
}

/// Looks whether an object is an interpreter. It may not be initialised, nor even relocated yet.
pub fn consider(object: &Object) {
    let find = |name: &[u8]| object.address_of(name);
    let (Some(state), Some(code_type)) =
        (find(b"PyGILState_GetThisThreadState"), find(b"PyCode_Type"))
    else {
        return;
    };
    let Some(layout) = layout_of(object) else {
        report::say(b"note Python frames are not shown: only CPython 3.9 to 3.14 is supported\n");
        return;
    };
    let interpreter = Interpreter {
        bias: object.bias,
        layout,
        // SAFETY: CPython's function takes nothing and returns a pointer.
        thread_state: unsafe { core::mem::transmute::<usize, extern "C" fn() -> u64>(state) },
        code_type: code_type as u64,
        proven: AtomicBool::new(false),
    };
    let kept = alloc::boxed::Box::leak(alloc::boxed::Box::new(interpreter));
    INTERPRETER.store(kept, Ordering::Release);
}

fn layout_of(object: &Object) -> Option<Layout> {
    let find = |name: &[u8]| object.address_of(name);
    let version = match find(b"Py_Version") {
        // SAFETY: a constant of the object's.
        Some(at) => unsafe { (at as *const u64).read() },
        // Before 3.11 by what is there and what is not.
        None if find(b"PyIter_Send").is_some() => 0x030a_0000,
        None if find(b"PyFrame_GetBack").is_some() => 0x0309_0000,
        None => return None,
    };
    layout::written_down(version).or_else(|| {
        let runtime = find(b"_PyRuntime")?;
        // SAFETY: `_PyRuntime` is far longer, and begins with what never changes.
        let words = unsafe { (runtime as *const [u64; layout::WORDS]).read() };
        layout::said_by_itself(&words)
    })
}

/// The interpreter has been unloaded.
pub fn forget(bias: usize) {
    if interpreter().is_some_and(|known| known.bias == bias) {
        INTERPRETER.store(core::ptr::null_mut(), Ordering::Release);
    }
}

fn interpreter() -> Option<&'static Interpreter> {
    // SAFETY: never given back.
    unsafe { INTERPRETER.load(Ordering::Acquire).as_ref() }
}

/// Whether this process has an interpreter whose frames can be read.
pub fn is_here() -> bool {
    !INTERPRETER.load(Ordering::Relaxed).is_null()
}

/// Reading memory, one way or another.
trait Source {
    fn bytes<const N: usize>(&self, address: u64) -> Option<[u8; N]>;

    fn word(&self, address: u64) -> Option<u64> {
        self.bytes(address).map(u64::from_le_bytes)
    }
}

/// Memory that is there.
struct Direct;

impl Source for Direct {
    fn bytes<const N: usize>(&self, address: u64) -> Option<[u8; N]> {
        if !(4096..1 << 47).contains(&address) {
            return None;
        }
        // SAFETY: only for the frames of the calling thread, in a layout that has been checked.
        Some(unsafe { (address as *const [u8; N]).read_unaligned() })
    }
}

/// Memory that may not be there.
struct Careful;

impl Source for Careful {
    fn bytes<const N: usize>(&self, address: u64) -> Option<[u8; N]> {
        let mut bytes = [0; N];
        (sys::read_own_memory(address as usize, &mut bytes) == N).then_some(bytes)
    }
}

/// The hash of the calling thread's frames, if these are ones that were walked before. `epoch` says
/// which interpreter it was.
pub fn known(memos: &mut PythonMemos, epoch: u32) -> Option<u64> {
    let Some(interpreter) = interpreter() else {
        return Some(0);
    };
    if !interpreter.proven.load(Ordering::Relaxed) {
        return None;
    }
    let state = (interpreter.thread_state)();
    if state == 0 {
        return Some(0);
    }
    let layout = &interpreter.layout;
    let innermost = current(&Direct, layout, state)?;
    memos.find(layout, innermost, epoch)
}

/// The calling thread's frames, innermost first; how many. A signal handler may have interrupted
/// the interpreter half-way through a change.
pub fn walk(out: &mut [CodeFrame], in_signal: bool, mut trail: Option<&mut Trail>) -> usize {
    if let Some(trail) = &mut trail {
        trail.clear();
    }
    let Some(interpreter) = interpreter() else {
        return 0;
    };
    let state = (interpreter.thread_state)();
    if state == 0 {
        return 0;
    }
    if in_signal || !interpreter.proven.load(Ordering::Relaxed) {
        walk_from(&Careful, interpreter, state, out, None)
    } else {
        walk_from(&Direct, interpreter, state, out, trail)
    }
}

/// What tells one list of frames from another.
pub fn hash_of(frames: &[CodeFrame], mix: impl Fn(u64, u64) -> u64) -> u64 {
    frames.iter().fold(0, |hash, found| {
        mix(mix(hash, found.code ^ found.check), found.mark())
    })
}

/// The innermost frame; 0: there is none.
fn current(source: &impl Source, layout: &Layout, state: u64) -> Option<u64> {
    let mut frame = state;
    for offset in layout.current.into_iter().flatten() {
        frame = source.word(frame.wrapping_add(offset.into()))?;
    }
    Some(frame)
}

fn walk_from(
    source: &impl Source,
    interpreter: &Interpreter,
    state: u64,
    out: &mut [CodeFrame],
    mut trail: Option<&mut Trail>,
) -> usize {
    let layout = &interpreter.layout;
    let Some(mut frame) = current(source, layout, state) else {
        return 0;
    };
    let last = out.len().saturating_sub(1);
    let mut count = 0;
    // Frames that are not Python's are passed over, but not without end.
    for _ in 0..2 * out.len() {
        if frame == 0 {
            if let Some(trail) = &mut trail {
                trail.is_whole();
            }
            return count;
        }
        let Some(next) = one(source, layout, frame, out, &mut count, last, &mut trail) else {
            return count;
        };
        if count > last {
            return count;
        }
        frame = next;
    }
    count
}

/// Takes one frame; the one before it.
fn one(
    source: &impl Source,
    layout: &Layout,
    frame: u64,
    out: &mut [CodeFrame],
    count: &mut usize,
    last: usize,
    trail: &mut Option<&mut Trail>,
) -> Option<u64> {
    let at = |offset: u16| frame.wrapping_add(offset.into());
    let previous = source.word(at(layout.previous))?;
    let kind = match layout.entry {
        Entry::All => 1,
        Entry::Flagged(offset) | Entry::BeforeShim(offset) => source.bytes::<1>(at(offset))?[0],
    };
    let entry = match layout.entry {
        Entry::All | Entry::Flagged(_) => kind != 0,
        Entry::BeforeShim(_) => {
            if kind >= FIRST_SHIM_OWNER {
                if let Some(before) = out.get_mut(count.wrapping_sub(1)) {
                    before.entry = true;
                }
                if let Some(trail) = trail {
                    trail.shim(frame, previous, kind);
                }
                return Some(previous);
            }
            false
        }
    };
    if *count == last {
        put(
            out,
            count,
            CodeFrame {
                code: 0,
                check: 0,
                offset: -1,
                entry: false,
            },
        );
        return None;
    }
    let executable = source.word(at(layout.code))?;
    // Tagged from 3.14 on; objects are aligned.
    let code = executable & !7;
    let identity = Identity::read(source, layout, code)?;
    let check = identity.check();
    let instruction = instruction(source, layout, frame)?;
    let offset = match layout.position {
        Position::Index(unit) => i64::from(instruction as i32) * i64::from(unit),
        Position::Pointer => {
            let begin = code.wrapping_add(layout.instructions.into());
            instruction.wrapping_sub(begin) as i64
        }
    };
    if let Some(trail) = trail {
        trail.frame(memo::Frame {
            frame,
            previous,
            executable,
            instruction,
            kind,
            identity,
        });
    }
    put(
        out,
        count,
        CodeFrame {
            code,
            check,
            offset,
            entry,
        },
    );
    Some(previous)
}

/// Where a frame is, as it says it itself.
fn instruction(source: &impl Source, layout: &Layout, frame: u64) -> Option<u64> {
    let at = frame.wrapping_add(layout.instruction.into());
    match layout.position {
        Position::Index(_) => Some(u32::from_le_bytes(source.bytes(at)?).into()),
        Position::Pointer => source.word(at),
    }
}

fn put(out: &mut [CodeFrame], count: &mut usize, found: CodeFrame) {
    if let Some(to) = out.get_mut(*count) {
        *to = found;
        *count += 1;
    }
}

/// A code object's name and file. False: it is none, and no frame is believed from now on.
pub fn describe(found: &CodeFrame, text: &mut Text) -> bool {
    let Some(interpreter) = interpreter() else {
        return false;
    };
    let mut read = || {
        let layout = &interpreter.layout;
        let part = |offset: u16| Careful.word(found.code.wrapping_add(offset.into()));
        if part(layout.object_type)? != interpreter.code_type {
            return None;
        }
        text.read(&Careful, layout, part(layout.name)?, part(layout.file)?)
    };
    let described = read().is_some();
    interpreter.proven.fetch_or(described, Ordering::Relaxed);
    // Once the program has given up system calls nothing new can be read, and that says nothing.
    if !described
        && !sys::is_quiet()
        && !INTERPRETER
            .swap(core::ptr::null_mut(), Ordering::AcqRel)
            .is_null()
    {
        report::note(
            b"note Python frames are not shown: this interpreter stores them differently\n",
        );
    }
    described
}

/// Lines longer in instructions than this are not looked for.
const LONGEST_CODE: i64 = 1 << 24;

/// The line a frame is at; 0: not known.
pub fn line(found: &CodeFrame) -> u32 {
    let Some(interpreter) = interpreter().filter(|_| found.code != 0) else {
        return 0;
    };
    let layout = &interpreter.layout;
    let read = || {
        let first = Careful.bytes(found.code.wrapping_add(layout.first_line.into()))?;
        let table = Careful.word(found.code.wrapping_add(layout.line_table.into()))?;
        let size = Careful.word(table.wrapping_add(layout.bytes_size.into()))?;
        let offset = u32::try_from(found.offset.min(LONGEST_CODE)).ok()?;
        let mut bytes = Chunked {
            next: table.wrapping_add(layout.bytes_data.into()),
            left: size,
            chunk: [0; 128],
            at: 0,
            filled: 0,
        };
        lines::line_at(layout.lines, u32::from_le_bytes(first), offset, || {
            bytes.next()
        })
    };
    read().unwrap_or(0)
}

/// A table's bytes, a few at a time.
struct Chunked {
    next: u64,
    left: u64,
    chunk: [u8; 128],
    at: usize,
    filled: usize,
}

impl Chunked {
    fn next(&mut self) -> Option<u8> {
        if self.at == self.filled {
            let wanted = self.left.min(self.chunk.len() as u64) as usize;
            let chunk = self
                .chunk
                .get_mut(..wanted)
                .filter(|chunk| !chunk.is_empty())?;
            self.filled = sys::read_own_memory(self.next as usize, chunk);
            self.at = 0;
            self.next = self.next.wrapping_add(self.filled as u64);
            self.left -= self.filled as u64;
        }
        let byte = self.chunk.get(..self.filled)?.get(self.at).copied()?;
        self.at += 1;
        Some(byte)
    }
}
