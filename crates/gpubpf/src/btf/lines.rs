//! The .BTF.ext section: source lines of instructions, and CO-RE relocations.

use super::parse::{Cursor, MAGIC};
use super::{Btf, ExtensionError, MOST_RECORDS, TypeId};

/// A section's name, and all of them together: they may overlap, and each is copied.
pub(super) const LONGEST_SECTION: usize = 64 << 10;
pub(super) const MOST_LETTERS: usize = 4 << 20;

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
    pub fn parse(bytes: &[u8], btf: &Btf) -> Result<Extension, ExtensionError> {
        read(bytes, btf).unwrap_or(Err(ExtensionError::CutShort))
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

/// None where the section ends too early, or is none.
fn read(bytes: &[u8], btf: &Btf) -> Option<Result<Extension, ExtensionError>> {
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
    let lines = read_part(part, btf, 16, |btf, words| LineRecord {
        offset: words[0],
        file: btf.string(words[1]).unwrap_or_default().to_owned(),
        line: words[3] >> 10,
        column: words[3] & 0x3ff,
        text: btf.string(words[2]).unwrap_or_default().trim().to_owned(),
    })?;
    match lines {
        Ok(lines) => extension.lines = lines,
        Err(why) => return Some(Err(why)),
    }
    // The oldest form of the header ends here.
    if header_length >= 32 {
        let (offset, length) = (header.u32()?, header.u32()?);
        let part = Cursor::part(body, offset, length)?;
        match read_part(part, btf, 16, |_, words| (words[0], words[1]))? {
            Ok(relocations) => extension.relocations = relocations,
            Err(why) => return Some(Err(why)),
        }
    }
    Some(Ok(extension))
}

/// The records of each section, by its name.
type BySection<T> = Vec<(String, Vec<T>)>;

/// A table by section: the size of a record, then for each section its name, how many, the records.
fn read_part<T>(
    part: &[u8],
    btf: &Btf,
    least: u32,
    mut record: impl FnMut(&Btf, &[u32; 4]) -> T,
) -> Option<Result<BySection<T>, ExtensionError>> {
    let mut sections = Vec::new();
    let mut cursor = Cursor { bytes: part };
    if part.is_empty() {
        return Some(Ok(sections));
    }
    let size = cursor.u32()?;
    if size < least || !size.is_multiple_of(4) {
        return None;
    }
    let (mut total, mut letters) = (0, 0);
    while !cursor.bytes.is_empty() {
        let (name, count) = (cursor.u32()?, cursor.u32()?);
        // A section is named after its kernel, and a template's name has thousands of letters.
        let Some(name) = btf.string_within(name, LONGEST_SECTION) else {
            return Some(Err(ExtensionError::LongSection));
        };
        let name = name.to_owned();
        letters += name.len();
        if letters > MOST_LETTERS {
            return Some(Err(ExtensionError::LongSections));
        }
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
            records.push(record(btf, &first));
        }
        sections.push((name, records));
    }
    Some(Ok(sections))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// One section with this name and no lines.
    fn parse(name: &str) -> Result<Extension, ExtensionError> {
        let btf = Btf {
            strings: [b"\0", name.as_bytes(), b"\0"].concat(),
            ..Btf::default()
        };
        let words: [u32; 9] = [MAGIC, 24, 0, 0, 0, 12, 16, 1, 0];
        let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
        Extension::parse(&bytes, &btf)
    }

    #[test]
    fn sections_have_names_as_long_as_templates_make_them() {
        for letters in [1, 512, 4096, LONGEST_SECTION - 1] {
            let name = "k".repeat(letters);
            let found = parse(&name).unwrap_or_else(|why| panic!("{letters}: {why}"));
            assert_eq!(found.lines, [(name, Vec::new())]);
        }
        let why = parse(&"k".repeat(LONGEST_SECTION)).expect_err("too long");
        assert_eq!(why, ExtensionError::LongSection);
        let why = why.to_string();
        assert!(why.contains("longer than 65536 bytes"), "{why}");
        assert!(Extension::parse(&[1, 2, 3], &Btf::default()).is_err());
    }
}
