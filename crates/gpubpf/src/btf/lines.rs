//! The .BTF.ext section: source lines of instructions, and CO-RE relocations.

use super::parse::{Cursor, MAGIC};
use super::{Btf, MOST_RECORDS, TypeId};

/// The source line an instruction came from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LineRecord {
    /// Byte offset in the section.
    pub offset: u32,
    pub file: String,
    pub line: u32,
    pub column: u32,
    /// The line's text, where BTF keeps it.
    pub text: String,
}

/// What .BTF.ext says, by section.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Extension {
    pub lines: Vec<(String, Vec<LineRecord>)>,
    /// Instructions (byte offsets) that CO-RE would have to change, and the type each is about.
    pub relocations: Vec<(String, Vec<(u32, TypeId)>)>,
}

impl Extension {
    pub fn parse(bytes: &[u8], btf: &Btf) -> Result<Extension, String> {
        read(bytes, btf).ok_or_else(|| "it is cut short or no .BTF.ext".into())
    }

    pub fn lines_of(&self, section: &str) -> &[LineRecord] {
        find(&self.lines, section)
    }

    pub fn relocations_of(&self, section: &str) -> &[(u32, TypeId)] {
        find(&self.relocations, section)
    }
}

fn find<'a, T>(parts: &'a [(String, Vec<T>)], section: &str) -> &'a [T] {
    let part = parts.iter().find(|(name, _)| name == section);
    part.map_or(&[], |(_, records)| records)
}

fn read(bytes: &[u8], btf: &Btf) -> Option<Extension> {
    let mut header = Cursor { bytes };
    if header.u32()? & 0xffff != MAGIC {
        return None;
    }
    let header_length = header.u32()?;
    let _functions = (header.u32()?, header.u32()?);
    let (line_offset, line_length) = (header.u32()?, header.u32()?);
    let body = bytes.get(header_length as usize..)?;
    let mut extension = Extension::default();
    let part = Cursor::part(body, line_offset, line_length)?;
    extension.lines = read_part(part, btf, 16, |btf, words| {
        Some(LineRecord {
            offset: words[0],
            file: btf.string(words[1]).unwrap_or_default().to_owned(),
            line: words[3] >> 10,
            column: words[3] & 0x3ff,
            text: btf.string(words[2]).unwrap_or_default().trim().to_owned(),
        })
    })?;
    // The oldest form of the header ends here.
    if header_length >= 32 {
        let (offset, length) = (header.u32()?, header.u32()?);
        let part = Cursor::part(body, offset, length)?;
        extension.relocations = read_part(part, btf, 16, |_, words| Some((words[0], words[1])))?;
    }
    Some(extension)
}

/// A table by section: the size of a record, then for each section its name, how many, the records.
fn read_part<T>(
    part: &[u8],
    btf: &Btf,
    least: u32,
    mut record: impl FnMut(&Btf, &[u32; 4]) -> Option<T>,
) -> Option<Vec<(String, Vec<T>)>> {
    let mut sections = Vec::new();
    let mut cursor = Cursor { bytes: part };
    if part.is_empty() {
        return Some(sections);
    }
    let size = cursor.u32()?;
    if size < least || !size.is_multiple_of(4) {
        return None;
    }
    let mut total = 0;
    while !cursor.bytes.is_empty() {
        let (name, count) = (cursor.u32()?, cursor.u32()?);
        let name = btf.string(name)?.to_owned();
        total += count as usize;
        if total > MOST_RECORDS || sections.len() > MOST_RECORDS / 16 {
            return None;
        }
        let mut records = Vec::new();
        for _ in 0..count {
            let (bytes, rest) = cursor.bytes.split_at_checked(size as usize)?;
            cursor.bytes = rest;
            let mut words = Cursor { bytes };
            let first = [words.u32()?, words.u32()?, words.u32()?, words.u32()?];
            records.push(record(btf, &first)?);
        }
        sections.push((name, records));
    }
    Some(sections)
}
