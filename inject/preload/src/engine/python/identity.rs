//! Which code object is at an address. Code objects come and go, and a new one may be where an old
//! one was, with the same name in the same file: the lines tell them apart, by some words of their
//! table.

use super::Source;
use super::layout::Layout;

const WORDS: usize = 5;

/// What was read of a code object to know it again.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct Identity {
    pub code: u64,
    name: u64,
    file: u64,
    table: u64,
    size: u64,
    first_line: u32,
    /// Words of the table, as far as it is long enough.
    words: [u64; WORDS],
}

/// Tables longer than this are not looked into.
const LONGEST_TABLE: u64 = 1 << 30;

impl Identity {
    pub(super) fn read(source: &impl Source, layout: &Layout, code: u64) -> Option<Identity> {
        let part = |offset: u16| source.word(code.wrapping_add(offset.into()));
        let first_line = source.bytes(code.wrapping_add(layout.first_line.into()))?;
        let table = part(layout.line_table)?;
        let size = source.word(table.wrapping_add(layout.bytes_size.into()))?;
        let mut words = [0; WORDS];
        for (word, place) in words.iter_mut().zip(places(size)) {
            if let Some(place) = place {
                let bytes = table.wrapping_add(layout.bytes_data.into());
                *word = source.word(bytes.wrapping_add(place))?;
            }
        }
        Some(Identity {
            code,
            name: part(layout.name)?,
            file: part(layout.file)?,
            table,
            size,
            first_line: u32::from_le_bytes(first_line),
            words,
        })
    }

    /// Tells one code object from another at the same place.
    pub fn check(&self) -> u64 {
        let mix =
            |sum: u64, word: u64| (sum.rotate_left(29) ^ word).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let mut sum = mix(self.name, self.file);
        sum = mix(sum, self.first_line.into());
        sum = mix(sum, self.size);
        self.words.iter().fold(sum, |sum, word| mix(sum, *word))
    }

    /// The object that a frame runs is still this one.
    #[inline]
    pub(super) fn holds(&self, source: &impl Source, layout: &Layout) -> bool {
        let part = |offset: u16| source.word(self.code.wrapping_add(offset.into()));
        let first_line = source.bytes(self.code.wrapping_add(layout.first_line.into()));
        if part(layout.line_table) != Some(self.table)
            || part(layout.name) != Some(self.name)
            || part(layout.file) != Some(self.file)
            || first_line != Some(self.first_line.to_le_bytes())
            || source.word(self.table.wrapping_add(layout.bytes_size.into())) != Some(self.size)
        {
            return false;
        }
        let bytes = self.table.wrapping_add(layout.bytes_data.into());
        self.words
            .iter()
            .zip(places(self.size))
            .all(|(word, place)| {
                place.is_none_or(|place| source.word(bytes.wrapping_add(place)) == Some(*word))
            })
    }
}

/// Where the words of a table of this size are. It ends with a NUL and is preceded by its size: eight
/// bytes are always there.
#[inline]
fn places(size: u64) -> [Option<u64>; WORDS] {
    if size >= LONGEST_TABLE {
        return [None; WORDS];
    }
    let last = size.wrapping_sub(7);
    let long = size >= 24;
    [
        Some(last),
        long.then_some(0),
        long.then_some(8),
        long.then_some(last.wrapping_sub(8)),
        (size >= 8).then_some((size / 2).wrapping_sub(4)),
    ]
}
