//! Where a call comes from: called by `stage::stack` before the call is recorded, walks the stack
//! of the calling thread and leaves a note in its ring.
//!
//! A stack is written once and named from then on, and a walk is made once as long as nothing that it
//! read has changed, so that a call from a known place costs a comparison and one slot.

mod cfi;
pub mod chains;
mod expression;
mod image;
mod inputs;
mod loaded;
mod memo;
mod memory;
mod note;
mod unwind;
mod walker;

use super::rings::AT_WORK;
use super::{clock, generation, python};
use crate::layout::{Caller, MAX_FUNCTIONS, Stage, Thread};
use crate::objects::Object;
use crate::sys;
use core::sync::atomic::{AtomicU64, Ordering, compiler_fence};
use event::note::{Note, PythonFrame};
use inputs::Recorder;
use memory::Memory;
use note::NotedCall;
use walker::{Room, Walker};

pub fn start(stage: &Stage) {
    loaded::start();
    let note: extern "C" fn(*mut Thread, *mut usize, *const Caller, u32) = note_stack;
    // SAFETY: the stage's variable lives as long as the process.
    unsafe { (*stage.note_stack).store(note as *mut (), Ordering::Release) };
}

// What is loaded changes last: what was remembered of another interpreter goes with it.
pub fn add_object(object: &Object) {
    python::consider(object);
    loaded::add(object);
}

/// Python's lines are wanted, and nothing else of stacks.
pub fn add_interpreter(object: &Object) {
    python::consider(object);
}

/// Says where an object is, without walking stacks in it.
pub fn say_object(object: &Object) {
    loaded::say(object);
}

pub fn remove_object(bias: usize, dynamic: usize) {
    python::forget(bias);
    loaded::remove(bias, dynamic);
}

/// Functions whose callers' stacks are wanted, by number: a bit each. Where code may not be changed
/// all functions come through here.
static WANTED: [AtomicU64; MAX_FUNCTIONS / 64] = [const { AtomicU64::new(0) }; MAX_FUNCTIONS / 64];

pub fn want(function: usize) {
    if let Some(word) = WANTED.get(function / 64) {
        word.fetch_or(1 << (function % 64), Ordering::Relaxed);
    }
}

/// Those of which only the lines of Python are wanted: no native frame is walked.
static PYTHON_ONLY: [AtomicU64; MAX_FUNCTIONS / 64] =
    [const { AtomicU64::new(0) }; MAX_FUNCTIONS / 64];

pub fn want_python(function: usize) {
    if let Some(word) = PYTHON_ONLY.get(function / 64) {
        word.fetch_or(1 << (function % 64), Ordering::Relaxed);
        want(function);
    }
}

fn has(set: &[AtomicU64], function: u32) -> bool {
    let word = set.get(function as usize / 64);
    word.is_some_and(|word| word.load(Ordering::Relaxed) >> (function % 64) & 1 == 1)
}

extern "C" fn note_stack(
    thread: *mut Thread,
    kept: *mut usize,
    caller: *const Caller,
    function: u32,
) {
    // SAFETY: the calling thread's own; signal handlers only see them between whole steps.
    let (thread, kept, caller) = unsafe { (&mut *thread, &mut *kept, &*caller) };
    if !has(&WANTED, function) {
        return;
    }
    let python_only = has(&PYTHON_ONLY, function);
    if python_only && !python::is_here() {
        return;
    }
    // Recording has ended, or cannot begin.
    if sys::QUIET.load(Ordering::Relaxed) && generation::settled().is_none() {
        return;
    }
    let Some(walker) = walker::of_thread(kept, generation::expected()) else {
        return;
    };
    // A walk that was left by a longjmp out of a signal handler is not under way any more.
    let own = walker.own_stack;
    if walker.depth > 0
        && own.holds(caller.rsp)
        && own.holds(walker.began)
        && caller.rsp >= walker.began
    {
        walker.depth = 0;
    }
    let depth = walker.depth;
    if depth >= 2 {
        return;
    }
    walker.depth = depth + 1;
    if depth == 0 {
        walker.began = caller.rsp;
    }
    compiler_fence(Ordering::SeqCst);
    let begin = (!sys::is_quiet()).then(sys::ticks);
    let call = NotedCall {
        function: function as u16,
        // The call's own record has the stack pointer at its entry.
        stack_pointer: (caller.rsp as u32).wrapping_sub(8),
        time: 0,
    };
    if python_only {
        if depth == 0 {
            note_python(thread, walker, call);
        }
    } else if depth == 0 {
        note_new_or_known(thread, walker, caller, call);
    } else {
        note_once(thread, walker, caller, call);
    }
    compiler_fence(Ordering::SeqCst);
    walker.depth = depth;
    if let Some(begin) = begin {
        super::rings::spent_since(thread, begin);
    }
}

fn note_new_or_known(thread: &mut Thread, walker: &mut Walker, caller: &Caller, call: NotedCall) {
    walker.keep_up();
    walker.find_stack(caller.rsp);
    let epoch = walker.epoch;
    let native = match walker.own_stack.holds(caller.rsp) {
        true => walker.memos.find(caller, epoch),
        false => None,
    };
    let (native_hash, mut walked) = match native {
        Some(hash) => (hash, None),
        None => {
            let walked = walk_native(walker, caller, true);
            (walked.hash, Some(walked))
        }
    };
    let in_signal = walked.as_ref().is_some_and(|walked| walked.in_signal);
    let python = match in_signal {
        true => None,
        false => python::known(&mut walker.python_memos, epoch),
    };
    let (python_hash, mut frames) = match python {
        Some(hash) => (hash, None),
        None => {
            let (hash, frames) = walk_python(walker, in_signal);
            (hash, Some(frames))
        }
    };
    let hash = mix(native_hash, python_hash);
    if let Some(stack) = walker::stack(&mut walker.stacks, hash) {
        note::write(thread, call, Note::Known { stack }, [&[], &[]]);
        return;
    }
    // Both parts are known, but not together, or no longer: now they are written down.
    let native = *walked.get_or_insert_with(|| walk_native(walker, caller, false));
    let frames = *frames.get_or_insert_with(|| walk_python(walker, in_signal).1);
    AT_WORK.fetch_add(1, Ordering::SeqCst);
    note_new(thread, walker, call, hash, native.count, frames);
    AT_WORK.fetch_sub(1, Ordering::SeqCst);
}

/// Keeps lists of Python's frames apart from whole stacks.
const PYTHON: u64 = 0x7079;

/// A list of Python's frames, and no other. A thread without any leaves no note.
fn note_python(thread: &mut Thread, walker: &mut Walker, call: NotedCall) {
    walker.keep_up();
    let (python, frames) = match python::known(&mut walker.python_memos, walker.epoch) {
        Some(0) => return,
        Some(hash) => (hash, None),
        None => match walk_python(walker, false) {
            (_, 0) => return,
            (hash, frames) => (hash, Some(frames)),
        },
    };
    let hash = mix(PYTHON, python);
    if let Some(stack) = walker::stack(&mut walker.stacks, hash) {
        note::write(thread, call, Note::Known { stack }, [&[], &[]]);
        return;
    }
    let frames = frames.unwrap_or_else(|| walk_python(walker, false).1);
    AT_WORK.fetch_add(1, Ordering::SeqCst);
    note_new(thread, walker, call, hash, 0, frames);
    AT_WORK.fetch_sub(1, Ordering::SeqCst);
}

#[derive(Clone, Copy)]
struct NativeWalk {
    hash: u64,
    count: usize,
    in_signal: bool,
}

/// Leaves the native frames in the walker's room.
fn walk_native(walker: &mut Walker, caller: &Caller, remember: bool) -> NativeWalk {
    let [room, _] = &mut walker.rooms;
    let mut memory = Memory::new(walker.own_stack, &mut room.chunk);
    let mut recorder = Recorder::new(remember.then_some(&mut walker.inputs), caller.rsp);
    let rules = Some(&mut walker.rules[..]);
    let walked = unwind::walk(caller, &mut memory, rules, &mut recorder, &mut room.native);
    let frames = room.native.iter().take(walked.count);
    let hash = frames.fold(0, |hash, address| mix(hash, *address));
    let own = walker.own_stack.holds(caller.rsp) && !memory.left_own_stack;
    if remember && own && walker.inputs.complete && !walked.in_signal {
        (walker.memos).keep(caller, walker.epoch, &walker.inputs, hash);
    }
    NativeWalk {
        hash,
        count: walked.count,
        in_signal: walked.in_signal,
    }
}

/// Leaves Python's frames in the walker's room; their hash and how many.
fn walk_python(walker: &mut Walker, in_signal: bool) -> (u64, usize) {
    let [room, _] = &mut walker.rooms;
    let frames = python::walk(&mut room.python, in_signal, Some(&mut walker.trail));
    let hash = python::hash_of(room.python.get(..frames).unwrap_or(&[]), mix);
    walker.python_memos.keep(&walker.trail, walker.epoch, hash);
    (hash, frames)
}

/// Writes a stack down that has not been met before.
fn note_new(
    thread: &mut Thread,
    walker: &mut Walker,
    call: NotedCall,
    hash: u64,
    native: usize,
    mut frames: usize,
) {
    let call = NotedCall {
        time: clock::now(),
        ..call
    };
    let [room, _] = &mut walker.rooms;
    for (found, word) in room.python.iter_mut().zip(&mut room.words).take(frames) {
        let code = match walker::code(&mut walker.codes, found.code, found.check) {
            Some(code) => code,
            None => {
                let code = walker.next_code;
                let mut text = python::Text::new();
                if found.code != 0 && !python::describe(found, &mut text) {
                    // What cannot be read is no code object: the rest is not believed either.
                    frames = 0;
                    break;
                }
                if !write_code(thread, call, &text, code) {
                    // No room: another time.
                    return;
                }
                walker.next_code = code.wrapping_add(1).max(1);
                walker::keep_code(&mut walker.codes, found.code, found.check, code);
                code
            }
        };
        let frame = PythonFrame {
            code: if found.code == 0 { 0 } else { code },
            line: python::line(found),
            entry: found.entry,
        };
        *word = frame.word();
    }
    let stack = walker.next_stack;
    if write_stack(thread, call, room, stack, native, frames) {
        walker.next_stack = stack.wrapping_add(1).max(1);
        walker::keep_stack(&mut walker.stacks, hash, stack);
    }
}

/// In a signal handler that interrupted a walk: nothing that the walk uses is touched.
fn note_once(thread: &mut Thread, walker: &mut Walker, caller: &Caller, call: NotedCall) {
    let call = NotedCall {
        time: clock::now(),
        ..call
    };
    let own_stack = walker.own_stack;
    let [_, room] = &mut walker.rooms;
    let mut memory = Memory::new(own_stack, &mut room.chunk);
    let mut recorder = Recorder::new(None, 0);
    let walked = unwind::walk(caller, &mut memory, None, &mut recorder, &mut room.native);
    // From the other end: the interrupted walk may be about to use the next number.
    let stack = u32::MAX - (call.time as u32 >> 1);
    write_stack(thread, call, room, stack, walked.count, 0);
}

fn write_stack(
    thread: &mut Thread,
    call: NotedCall,
    room: &Room,
    stack: u32,
    native: usize,
    python: usize,
) -> bool {
    let note = Note::Stack {
        stack,
        native: native as u16,
        python: python as u16,
    };
    let parts = [
        bytes_of(&room.native, native),
        bytes_of(&room.words, python),
    ];
    note::write(thread, call, note, parts)
}

fn write_code(thread: &mut Thread, call: NotedCall, text: &python::Text, code: u32) -> bool {
    let note = Note::Code {
        code,
        name: text.name().len() as u16,
        file: text.file().len() as u16,
    };
    note::write(thread, call, note, [text.name(), text.file()])
}

fn bytes_of(words: &[u64], count: usize) -> &[u8] {
    let words = words.get(..count).unwrap_or(&[]);
    // SAFETY: plain numbers may be read as bytes.
    unsafe { core::slice::from_raw_parts(words.as_ptr().cast(), size_of_val(words)) }
}

fn mix(hash: u64, word: u64) -> u64 {
    let word = word.wrapping_mul(0x87c3_7b91_1142_53d5);
    let word = word ^ word >> 31;
    (hash.rotate_left(27) ^ word).wrapping_mul(0x4cf5_ad43_2745_937f)
}
