//! Where the dictionaries of an Arrow stream are: a batch in the middle needs those before it.

use super::codec::{Bytes, Damaged, varint, zigzag};
use arrow_ipc::MessageHeader;
use std::{fs::File, io, os::unix::fs::FileExt};

/// A message with texts, or with more of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Dictionary {
    pub offset: u64,
    pub length: u64,
    id: i64,
    /// It adds to the one before.
    delta: bool,
}

/// What is known of an Arrow stream without reading its columns.
#[derive(Debug, Default)]
pub struct StreamLayout {
    /// Bytes of the schema.
    pub head: u64,
    pub dictionaries: Vec<Dictionary>,
}

const LARGEST_HEADER: u32 = 16 << 20;
/// More messages than a trace has.
const MOST: usize = 4 << 20;

/// Looks through the messages, reading their headers only. What is damaged ends the search: nothing behind it is read
/// by anybody.
pub fn find(file: &File) -> io::Result<StreamLayout> {
    let mut found = StreamLayout::default();
    let (mut offset, mut header) = (0u64, Vec::new());
    loop {
        let mut prefix = [0; 8];
        if !read(file, &mut prefix, offset)? || prefix[..4] != [0xff; 4] {
            return Ok(found);
        }
        let size = u32::from_le_bytes([prefix[4], prefix[5], prefix[6], prefix[7]]);
        if size == 0 || size > LARGEST_HEADER {
            return Ok(found);
        }
        header.resize(size as usize, 0);
        if !read(file, &mut header, offset + 8)? {
            return Ok(found);
        }
        let Ok(message) = arrow_ipc::root_as_message(&header) else {
            return Ok(found);
        };
        let body = u64::try_from(message.bodyLength()).ok();
        let Some(length) = body.and_then(|body| body.checked_add(8 + u64::from(size))) else {
            return Ok(found);
        };
        let Some(next) = offset.checked_add(length) else {
            return Ok(found);
        };
        match message.header_type() {
            MessageHeader::Schema if offset == 0 => found.head = next,
            MessageHeader::DictionaryBatch if found.dictionaries.len() < MOST => {
                if let Some(dictionary) = message.header_as_dictionary_batch() {
                    found.dictionaries.push(Dictionary {
                        offset,
                        length,
                        id: dictionary.id(),
                        delta: dictionary.isDelta(),
                    });
                }
            }
            MessageHeader::RecordBatch => {}
            _ => return Ok(found),
        }
        offset = next;
    }
}

/// False if the file ends before.
fn read(file: &File, buffer: &mut [u8], offset: u64) -> io::Result<bool> {
    match file.read_exact_at(buffer, offset) {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => Ok(false),
        Err(error) => Err(error),
    }
}

/// Those that a batch at `offset` needs, in the order of the file: for each dictionary the last whole one, and what was added
/// to it.
pub fn in_force(all: &[Dictionary], offset: u64) -> Vec<Dictionary> {
    let before = &all[..all.partition_point(|dictionary| dictionary.offset < offset)];
    let mut whole = Vec::new();
    let mut needed: Vec<Dictionary> = Vec::new();
    for dictionary in before.iter().rev() {
        if whole.contains(&dictionary.id) {
            continue;
        }
        if !dictionary.delta {
            whole.push(dictionary.id);
        }
        needed.push(*dictionary);
    }
    needed.reverse();
    needed
}

pub fn encode(out: &mut Vec<u8>, all: &[Dictionary]) {
    varint(out, all.len() as u64);
    let (mut before, mut last) = (0, 0);
    for dictionary in all {
        varint(out, dictionary.offset - before);
        varint(out, dictionary.length);
        zigzag(out, dictionary.id.wrapping_sub(last));
        out.push(dictionary.delta.into());
        (before, last) = (dictionary.offset, dictionary.id);
    }
}

pub fn decode(bytes: &mut Bytes<'_>, end: u64) -> Result<Vec<Dictionary>, Damaged> {
    let count = bytes.count()?;
    let mut all = Vec::with_capacity(count.min(1 << 16));
    let (mut offset, mut id) = (0u64, 0i64);
    for number in 0..count {
        let step = bytes.varint()?;
        if step == 0 && number > 0 {
            return Err(Damaged);
        }
        offset = offset.checked_add(step).ok_or(Damaged)?;
        let length = bytes.varint()?;
        if offset.checked_add(length).is_none_or(|last| last > end) {
            return Err(Damaged);
        }
        id = id.wrapping_add(bytes.zigzag()?);
        let delta = match bytes.byte()? {
            0 => false,
            1 => true,
            _ => return Err(Damaged),
        };
        all.push(Dictionary {
            offset,
            length,
            id,
            delta,
        });
    }
    Ok(all)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_batch_needs_the_last_whole_ones_and_what_was_added() {
        let message = |offset, id, delta| Dictionary {
            offset,
            length: 8,
            id,
            delta,
        };
        let all = [
            message(10, 1, false),
            message(20, 2, false),
            message(30, 1, true),
            message(40, 2, false),
            message(50, 2, true),
            message(60, 1, false),
        ];
        let offsets = |offset| {
            let needed = in_force(&all, offset);
            needed.iter().map(|d| d.offset).collect::<Vec<_>>()
        };
        assert_eq!(offsets(15), [10]);
        assert_eq!(offsets(45), [10, 30, 40]);
        assert_eq!(offsets(55), [10, 30, 40, 50]);
        assert_eq!(offsets(99), [40, 50, 60]);
        let mut out = Vec::new();
        encode(&mut out, &all);
        assert_eq!(decode(&mut Bytes::new(&out), 68), Ok(all.to_vec()));
        assert_eq!(decode(&mut Bytes::new(&out), 67), Err(Damaged));
    }
}
