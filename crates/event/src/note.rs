//! Notes in a ring: slots with [`FLAG_NOTE`](crate::ring::FLAG_NOTE) that say where the next call
//! comes from.
//!
//! A stack is written once for each thread and gets a number; later calls from there only name it.
//! Python's code objects are written likewise, for the stacks that pass through them. Numbers are
//! never used twice in a ring, and what a note refers to has been written before it.
//!
//! In a note's slot `function` and `stack_pointer` are those of the call it belongs to,
//! `args[0]` is [`Note::head`], `args[1]` is [`Note::sizes`]. What it holds is in the payload
//! slots behind it.

/// What a note says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Note {
    /// The call comes from a stack that is known.
    Known { stack: u32 },
    /// The call comes from a new stack: so many native frames of 8 bytes, each a return address
    /// or one of the marks below, then so many of Python's ([`PythonFrame`]).
    Stack {
        stack: u32,
        native: u16,
        python: u16,
    },
    /// A code object: the bytes of its name, then those of its file's.
    Code { code: u32, name: u16, file: u16 },
}

/// Native frames of one stack.
pub const MOST_NATIVE: usize = 128;
/// Frames of Python's of one stack.
pub const MOST_PYTHON: usize = 128;
pub const NAME_BYTES: usize = 240;
pub const FILE_BYTES: usize = 480;
/// Payload slots of the longest note.
pub const MOST_PAYLOADS: usize =
    ((MOST_NATIVE + MOST_PYTHON) * 8).div_ceil(crate::ring::PAYLOAD_BYTES);

/// In place of a return address: there were more frames than are kept.
pub const MARK_DEEP: u64 = 1;
/// Nothing tells how the frame before was called.
pub const MARK_LOST: u64 = 2;
/// The frame before has no unwind information; the next was found by the frame pointer, and some
/// may be missing in between.
pub const MARK_GUESSED: u64 = 3;
/// The frame before was interrupted by a signal, not called.
pub const MARK_SIGNAL: u64 = 4;

impl Note {
    pub fn head(self) -> u64 {
        let (kind, number) = match self {
            Note::Known { stack } => (1, stack),
            Note::Stack { stack, .. } => (2, stack),
            Note::Code { code, .. } => (3, code),
        };
        kind << 32 | u64::from(number)
    }

    pub fn sizes(self) -> u64 {
        let (first, second) = match self {
            Note::Known { .. } => (0, 0),
            Note::Stack { native, python, .. } => (native, python),
            Note::Code { name, file, .. } => (name, file),
        };
        u64::from(first) | u64::from(second) << 16
    }

    /// None: no note that this version writes.
    pub fn from_words(head: u64, sizes: u64) -> Option<Note> {
        let number = head as u32;
        let (first, second) = (sizes as u16, (sizes >> 16) as u16);
        match head >> 32 {
            1 => Some(Note::Known { stack: number }),
            2 => Some(Note::Stack {
                stack: number,
                native: first,
                python: second,
            }),
            3 => Some(Note::Code {
                code: number,
                name: first,
                file: second,
            }),
            _ => None,
        }
    }

    /// Bytes behind it.
    pub fn bytes(self) -> usize {
        match self {
            Note::Known { .. } => 0,
            Note::Stack { native, python, .. } => 8 * (usize::from(native) + usize::from(python)),
            Note::Code { name, file, .. } => usize::from(name) + usize::from(file),
        }
    }
}

/// A frame of Python's, in 8 bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PythonFrame {
    /// 0: there were more than are kept.
    pub code: u32,
    /// 0: not known.
    pub line: u32,
    /// The interpreter was entered anew for it: the frame belongs to the innermost native frame of
    /// the interpreter that is left, and is its last.
    pub entry: bool,
}

impl PythonFrame {
    const ENTRY: u64 = 1 << 63;

    pub fn word(self) -> u64 {
        let line = u64::from(self.line & 0x7fff_ffff) << 32;
        u64::from(self.code) | line | if self.entry { Self::ENTRY } else { 0 }
    }

    pub fn from_word(word: u64) -> PythonFrame {
        PythonFrame {
            code: word as u32,
            line: (word >> 32) as u32 & 0x7fff_ffff,
            entry: word & Self::ENTRY != 0,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn notes_and_frames_are_words() {
        for note in [
            Note::Known { stack: u32::MAX },
            Note::Stack {
                stack: 7,
                native: 128,
                python: 1,
            },
            Note::Code {
                code: 1,
                name: 5,
                file: u16::MAX,
            },
        ] {
            assert_eq!(Note::from_words(note.head(), note.sizes()), Some(note));
        }
        assert_eq!(Note::from_words(0, 0), None);
        for frame in [(1, 0x7fff_ffff, true), (u32::MAX, 0, false)] {
            let frame = PythonFrame {
                code: frame.0,
                line: frame.1,
                entry: frame.2,
            };
            assert_eq!(PythonFrame::from_word(frame.word()), frame);
        }
    }
}
