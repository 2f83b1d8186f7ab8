//! Where CPython keeps what is of interest, by version. From 3.13 on the interpreter says so itself
//! (`_Py_DebugOffsets`, at the beginning of `_PyRuntime`); for older ones it is written down here.

/// Offsets in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Layout {
    /// From the thread's state to the current frame; by way of another struct where there are two.
    pub current: [Option<u16>; 2],
    pub previous: u16,
    pub code: u16,
    pub instruction: u16,
    pub position: Position,
    pub entry: Entry,
    pub file: u16,
    pub name: u16,
    pub line_table: u16,
    pub first_line: u16,
    /// Where a code object's instructions begin.
    pub instructions: u16,
    pub lines: Lines,
    pub object_type: u16,
    pub bytes_size: u16,
    pub bytes_data: u16,
    pub text_length: u16,
    pub text_state: u16,
    /// Where the characters of a text begin: of ASCII, and of any other.
    pub ascii: u16,
    pub compact: u16,
}

/// How a frame says which instruction it is at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Position {
    /// A number, in so many bytes.
    Index(u8),
    Pointer,
}

/// Which frames the interpreter was entered anew for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Entry {
    All,
    /// Those with this byte set.
    Flagged(u16),
    /// Those before a frame that is none, by its owner at this offset.
    BeforeShim(u16),
}

/// Owners from this on are not Python's.
pub const FIRST_SHIM_OWNER: u8 = 3;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lines {
    /// Up to 3.9: increments of both.
    Increments,
    /// 3.10: ranges.
    Ranges,
    /// From 3.11 on: locations.
    Locations,
}

const CPYTHON_3_9: Layout = Layout {
    current: [Some(24), None],
    previous: 24,
    code: 32,
    instruction: 104,
    position: Position::Index(1),
    entry: Entry::All,
    file: 104,
    name: 112,
    line_table: 120,
    first_line: 40,
    instructions: 0,
    lines: Lines::Increments,
    object_type: 8,
    bytes_size: 16,
    bytes_data: 32,
    text_length: 16,
    text_state: 32,
    ascii: 48,
    compact: 72,
};

const CPYTHON_3_10: Layout = Layout {
    instruction: 96,
    position: Position::Index(2),
    lines: Lines::Ranges,
    ..CPYTHON_3_9
};

const CPYTHON_3_11: Layout = Layout {
    current: [Some(56), Some(8)],
    previous: 48,
    code: 32,
    instruction: 56,
    position: Position::Pointer,
    entry: Entry::Flagged(68),
    file: 112,
    name: 128,
    line_table: 136,
    first_line: 72,
    instructions: 184,
    lines: Lines::Locations,
    ..CPYTHON_3_9
};

const CPYTHON_3_12: Layout = Layout {
    current: [Some(56), Some(0)],
    previous: 8,
    code: 0,
    entry: Entry::BeforeShim(70),
    first_line: 68,
    instructions: 192,
    ascii: 40,
    compact: 56,
    ..CPYTHON_3_11
};

/// By PY_VERSION_HEX.
pub fn written_down(version: u64) -> Option<Layout> {
    match version >> 16 {
        0x0309 => Some(CPYTHON_3_9),
        0x030a => Some(CPYTHON_3_10),
        0x030b => Some(CPYTHON_3_11),
        0x030c => Some(CPYTHON_3_12),
        _ => None,
    }
}

/// Words of `_Py_DebugOffsets` that are read.
pub const WORDS: usize = 96;
const COOKIE: u64 = u64::from_le_bytes(*b"xdebugpy");

/// Which words say what, in one version.
struct Table {
    current: usize,
    /// previous, executable, instruction, locals, owner
    frame: usize,
    /// file, name, qualified name, line table, first line
    code: usize,
    instructions: usize,
    object_type: usize,
    /// size, data
    bytes: usize,
    /// state, length, size of ASCII
    text: usize,
}

const DEBUG_3_13: Table = Table {
    current: 23,
    frame: 29,
    code: 35,
    instructions: 43,
    object_type: 45,
    bytes: 65,
    text: 68,
};

const DEBUG_3_14: Table = Table {
    current: 26,
    frame: 32,
    code: 40,
    instructions: 48,
    object_type: 51,
    bytes: 75,
    text: 78,
};

/// What the interpreter says of itself, from 3.13 on.
pub fn said_by_itself(words: &[u64; WORDS]) -> Option<Layout> {
    if words[0] != COOKIE {
        return None;
    }
    let table = match words[1] >> 16 {
        0x030d => DEBUG_3_13,
        0x030e => DEBUG_3_14,
        _ => return None,
    };
    let word = |at: usize| u16::try_from(*words.get(at)?).ok().filter(|at| *at < 4096);
    let ascii = word(table.text + 2)?;
    Some(Layout {
        current: [Some(word(table.current)?), None],
        previous: word(table.frame)?,
        code: word(table.frame + 1)?,
        instruction: word(table.frame + 2)?,
        position: Position::Pointer,
        entry: Entry::BeforeShim(word(table.frame + 4)?),
        file: word(table.code)?,
        name: word(table.code + 2)?,
        line_table: word(table.code + 3)?,
        first_line: word(table.code + 4)?,
        instructions: word(table.instructions)?,
        lines: Lines::Locations,
        object_type: word(table.object_type)?,
        bytes_size: word(table.bytes)?,
        bytes_data: word(table.bytes + 1)?,
        text_state: word(table.text)?,
        text_length: word(table.text + 1)?,
        ascii,
        compact: ascii + 16,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_that_are_not_known_have_no_layout() {
        assert!(written_down(0x0308_00f0).is_none() && written_down(0x030d_00f0).is_none());
        assert!(written_down(0x030b_02f0).is_some_and(|layout| layout.instructions == 184));
        let mut words = [0; WORDS];
        assert!(said_by_itself(&words).is_none());
        words[0] = COOKIE;
        words[1] = 0x030f_00f0;
        assert!(said_by_itself(&words).is_none());
        words[1] = 0x030d_05f0;
        assert!(said_by_itself(&words).is_some());
        // An offset that no struct has.
        words[23] = 1 << 20;
        assert!(said_by_itself(&words).is_none());
    }
}
