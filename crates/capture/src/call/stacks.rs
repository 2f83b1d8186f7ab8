//! The stacks that a thread's calls come from: what the injected library wrote down of each, and
//! the frames it means. Frames of the Python interpreter are shown as what they interpret.

use super::loaded::Objects;
use super::symbols::Symbols;
use event::note::{MARK_DEEP, MARK_GUESSED, MARK_LOST, MARK_SIGNAL, Note, PythonFrame};
use event::{Frame, FrameKind, Name, Stack};
use std::collections::HashMap;

/// Bounds what a program with ever new stacks makes us keep of each thread.
const MOST_STACKS: usize = 64 << 10;
const MOST_CODES: usize = 64 << 10;

#[derive(Default)]
pub struct Stacks {
    stacks: HashMap<u32, Known>,
    codes: HashMap<u32, Code>,
}

enum Known {
    Raw { native: Vec<u64>, python: Vec<u64> },
    Named(Stack),
}

struct Code {
    name: Name,
    file: Name,
}

/// The function that interprets, and that the frames it interprets are shown in place of.
const INTERPRETER: &str = "_PyEval_EvalFrameDefault";
/// Where each instruction has a function of its own, it is called by that one.
const INSTRUCTION: &str = "_TAIL_CALL_";
/// Calls inside traced calls pass through it.
const OWN_LIBRARY: &str = "/libcutrace_preload.so";

impl Stacks {
    pub fn note(&mut self, note: Note, payload: &[u8]) {
        match note {
            Note::Known { .. } => {}
            Note::Stack { stack, native, .. } => {
                let mut native: Vec<u64> = words(payload).take(native.into()).collect();
                let python = words(payload).skip(native.len()).collect();
                native.shrink_to_fit();
                if self.stacks.len() >= MOST_STACKS {
                    self.stacks.clear();
                }
                self.stacks.insert(stack, Known::Raw { native, python });
            }
            Note::Code { code, name, .. } => {
                let (name, file) = payload.split_at(usize::from(name).min(payload.len()));
                let text = |bytes| String::from_utf8_lossy(bytes).into();
                if self.codes.len() >= MOST_CODES {
                    self.codes.clear();
                }
                let (name, file) = (text(name), text(file));
                self.codes.insert(code, Code { name, file });
            }
        }
    }

    pub fn is_named(&self, stack: u32) -> bool {
        matches!(self.stacks.get(&stack), Some(Known::Named(_)))
    }

    /// The frames of a stack, innermost first.
    pub fn frames(
        &mut self,
        stack: u32,
        time: u64,
        objects: &Objects,
        symbols: &mut Symbols,
    ) -> Stack {
        match self.stacks.get(&stack) {
            None => Stack::from([cut("stack no longer available")]),
            Some(Known::Named(frames)) => frames.clone(),
            Some(Known::Raw { native, python }) => {
                let native = native_frames(native, time, objects, symbols);
                let frames = Stack::from(merged(native, self.python_frames(python)));
                self.stacks.insert(stack, Known::Named(frames.clone()));
                frames
            }
        }
    }

    /// Python's frames, in groups: each was interpreted by one native frame.
    fn python_frames(&self, words: &[u64]) -> Vec<Vec<Frame>> {
        let mut groups = vec![Vec::new()];
        for word in words {
            let found = PythonFrame::from_word(*word);
            let frame = match self.codes.get(&found.code) {
                Some(code) => Frame {
                    kind: FrameKind::Python,
                    symbol: Some(code.name.clone()),
                    file: Some(code.file.clone()),
                    line: Some(found.line).filter(|line| *line > 0),
                    ..Frame::default()
                },
                None if found.code == 0 => cut("more Python frames not recorded"),
                None => cut("unknown Python frame"),
            };
            if let Some(group) = groups.last_mut() {
                group.push(frame);
            }
            if found.entry {
                groups.push(Vec::new());
            }
        }
        groups.retain(|group| !group.is_empty());
        groups
    }
}

fn words(payload: &[u8]) -> impl Iterator<Item = u64> + '_ {
    let eight = |chunk: &[u8]| chunk.try_into().map(u64::from_le_bytes).unwrap_or(0);
    payload.chunks_exact(8).map(eight)
}

fn cut(why: &str) -> Frame {
    Frame {
        kind: FrameKind::Cut,
        symbol: Some(why.into()),
        ..Frame::default()
    }
}

fn native_frames(
    addresses: &[u64],
    time: u64,
    objects: &Objects,
    symbols: &mut Symbols,
) -> Vec<Frame> {
    let mut frames = Vec::with_capacity(addresses.len());
    let mut interrupted = false;
    for &address in addresses {
        match address {
            MARK_DEEP => frames.push(cut("more frames not recorded")),
            MARK_LOST => frames.push(cut("callers unknown")),
            MARK_GUESSED => frames.push(cut("frames may be missing here")),
            MARK_SIGNAL => frames.push(Frame {
                symbol: Some("<signal handler called>".into()),
                ..Frame::default()
            }),
            _ => {
                // A return address may be the first of the next function.
                let inside = address.wrapping_sub(u64::from(!interrupted));
                push(&mut frames, address, inside, time, objects, symbols);
            }
        }
        interrupted = address == MARK_SIGNAL;
    }
    frames
}

fn push(
    frames: &mut Vec<Frame>,
    address: u64,
    inside: u64,
    time: u64,
    objects: &Objects,
    symbols: &mut Symbols,
) {
    let Some(object) = objects.at(inside, time) else {
        frames.push(Frame {
            address,
            ..Frame::default()
        });
        return;
    };
    if object.path.ends_with(OWN_LIBRARY) {
        return;
    }
    let named = symbols.frames(&object.path, inside.wrapping_sub(object.bias));
    frames.extend(named.iter().map(|frame| Frame {
        address,
        offset: (frame.offset).map(|offset| offset + (address - inside)),
        ..frame.clone()
    }));
}

/// Puts Python's frames where their interpreter is. Where it is not to be seen, they come first.
fn merged(native: Vec<Frame>, groups: Vec<Vec<Frame>>) -> Vec<Frame> {
    let named = |frame: &Frame, name: &str| {
        let symbol = frame.symbol.as_deref();
        symbol.is_some_and(|symbol| symbol.starts_with(name))
    };
    let interprets = |frame: &Frame| named(frame, INTERPRETER);
    let mut groups = groups.into_iter();
    let mut frames = Vec::new();
    if !native.iter().any(interprets) {
        frames.extend(groups.by_ref().flatten());
    }
    for frame in native {
        if !interprets(&frame) || frame.kind == FrameKind::Inlined {
            frames.push(frame);
            continue;
        }
        let Some(group) = groups.next() else {
            frames.push(frame);
            continue;
        };
        // The function of one instruction, or what was inlined into the interpreter.
        while frames.last().is_some_and(|inner| {
            inner.module == frame.module
                && (inner.symbol.is_none()
                    || named(inner, INSTRUCTION)
                    || (inner.kind == FrameKind::Inlined && inner.address == frame.address))
        }) {
            frames.pop();
        }
        frames.extend(group);
    }
    // The native stack was cut before the last of them.
    frames.extend(groups.flatten());
    frames
}

#[cfg(test)]
mod tests {
    use super::*;

    fn native(names: &[&str]) -> Vec<Frame> {
        let frame = |name: &&str| Frame {
            address: 1,
            symbol: Some((*name).into()).filter(|_| !name.is_empty()),
            module: Some("/bin/python3".into()),
            ..Frame::default()
        };
        names.iter().map(frame).collect()
    }

    fn names(frames: &[Frame]) -> Vec<&str> {
        frames
            .iter()
            .map(|frame| frame.symbol.as_deref().unwrap_or("?"))
            .collect()
    }

    #[test]
    fn python_stands_where_it_is_interpreted() {
        let groups = || vec![native(&["inner", "outer"]), native(&["<module>"])];
        let stack = native(&["cfun", INTERPRETER, "call", "", INTERPRETER, "main"]);
        let all = merged(stack, groups());
        assert_eq!(
            names(&all),
            ["cfun", "inner", "outer", "call", "<module>", "main"]
        );
        let cut_short = merged(native(&["cfun", INTERPRETER]), groups());
        assert_eq!(names(&cut_short), ["cfun", "inner", "outer", "<module>"]);
        let unseen = merged(native(&["cfun", "main"]), groups());
        assert_eq!(
            names(&unseen),
            ["inner", "outer", "<module>", "cfun", "main"]
        );
        let without = merged(native(&["cfun", INTERPRETER, "main"]), Vec::new());
        assert_eq!(names(&without), ["cfun", INTERPRETER, "main"]);
    }

    #[test]
    fn notes_become_frames() {
        let mut stacks = Stacks::default();
        let code = Note::Code {
            code: 5,
            name: 4,
            file: 4,
        };
        stacks.note(code, b"fun a.py");
        let frame = PythonFrame {
            code: 5,
            line: 12,
            entry: true,
        };
        let mut payload = 0x5000u64.to_le_bytes().to_vec();
        payload.extend(MARK_LOST.to_le_bytes());
        payload.extend(frame.word().to_le_bytes());
        let note = Note::Stack {
            stack: 1,
            native: 2,
            python: 1,
        };
        stacks.note(note, &payload);
        let mut symbols = Symbols::default();
        let mut frames = |stack| stacks.frames(stack, 0, &Objects::default(), &mut symbols);
        let found = frames(1);
        assert_eq!(found[0].kind, FrameKind::Python);
        assert_eq!(
            (found[0].symbol.as_deref(), found[0].line),
            (Some("fun "), Some(12))
        );
        assert_eq!((found[1].address, &found[1].symbol), (0x5000, &None));
        assert_eq!((found[2].kind, found.len()), (FrameKind::Cut, 3));
        assert_eq!(frames(2)[0].kind, FrameKind::Cut);
        // Less than it says.
        stacks.note(note, &payload[..7]);
        let empty = stacks.frames(1, 0, &Objects::default(), &mut symbols);
        assert!(empty.is_empty());
    }
}
