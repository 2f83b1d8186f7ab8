//! Python's texts, as UTF-8, in a fixed place.

use super::Source;
use super::layout::Layout;
use event::note::{FILE_BYTES, NAME_BYTES};

/// A code object's name and file.
pub struct Text {
    name: [u8; NAME_BYTES],
    name_bytes: usize,
    file: [u8; FILE_BYTES],
    file_bytes: usize,
}

impl Text {
    #[allow(clippy::new_without_default)] // nothing is made by default here
    pub fn new() -> Text {
        Text {
            name: [0; NAME_BYTES],
            name_bytes: 0,
            file: [0; FILE_BYTES],
            file_bytes: 0,
        }
    }

    pub fn name(&self) -> &[u8] {
        self.name.get(..self.name_bytes).unwrap_or(&[])
    }

    pub fn file(&self) -> &[u8] {
        self.file.get(..self.file_bytes).unwrap_or(&[])
    }

    pub(super) fn read(
        &mut self,
        source: &impl Source,
        layout: &Layout,
        name: u64,
        file: u64,
    ) -> Option<()> {
        self.name_bytes = read(source, layout, name, &mut self.name)?;
        self.file_bytes = read(source, layout, file, &mut self.file)?;
        Some(())
    }
}

const KIND_SHIFT: u32 = 2;
const COMPACT: u32 = 1 << 5;
const ASCII: u32 = 1 << 6;

/// What was written; a text that does not fit is cut.
fn read(source: &impl Source, layout: &Layout, text: u64, out: &mut [u8]) -> Option<usize> {
    let at = |offset: u16| text.wrapping_add(offset.into());
    let length = source.word(at(layout.text_length))?;
    let state = u32::from_le_bytes(source.bytes(at(layout.text_state))?);
    let width = u64::from(state >> KIND_SHIFT & 7);
    if state & COMPACT == 0 || !matches!(width, 1 | 2 | 4) || length > 1 << 20 {
        return None;
    }
    let begin = at(if state & ASCII != 0 {
        layout.ascii
    } else {
        layout.compact
    });
    let mut used = 0;
    for index in 0..length {
        let place = begin.wrapping_add(index * width);
        let code = match width {
            1 => u32::from(source.bytes::<1>(place)?[0]),
            2 => u16::from_le_bytes(source.bytes(place)?).into(),
            _ => u32::from_le_bytes(source.bytes(place)?),
        };
        let character = char::from_u32(code).unwrap_or(char::REPLACEMENT_CHARACTER);
        let Some(room) = out.get_mut(used..used + character.len_utf8()) else {
            break;
        };
        used += character.encode_utf8(room).len();
    }
    Some(used)
}
