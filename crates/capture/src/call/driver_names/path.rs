//! Ways from a handle to a name: the driver's structures differ by version, so the way is looked for.

use super::memory::Reader;
use std::collections::HashMap;

/// Bytes of a structure that are looked at, by how many pointers led to it. Behind the last pointer is text only.
const SIZES: [usize; 4] = [1024, 256, 128, TEXT_ROOM];
/// Behind pointers text begins where a structure does, or soon after.
const TEXT_ROOM: usize = 64;
const WORD: usize = 8;
const MOST_PATHS: usize = 64;
/// Structures that are looked at behind as many pointers.
const MOST_PLACES: usize = 8192;

/// From a handle, through the pointers at these places of structure after structure, to text at a place of the last.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Path {
    pointers: Vec<u16>,
    text: u16,
}

impl Path {
    /// The name it leads to.
    pub fn name(&self, reader: &mut Reader<'_>, handle: u64) -> Option<String> {
        let mut address = handle;
        for place in &self.pointers {
            let word = reader.word(address.checked_add(u64::from(*place))?)?;
            address = Some(word).filter(|word| is_address(*word))?;
        }
        reader.name(address.checked_add(u64::from(self.text))?, &[])
    }
}

/// All paths that lead from a handle to a wanted name, those through fewer pointers first.
pub fn search(
    reader: &mut Reader<'_>,
    handle: u64,
    mut wanted: impl FnMut(&str) -> bool,
) -> Vec<Path> {
    let mut paths = Vec::new();
    let mut blocks: HashMap<(u64, usize), Vec<u8>> = HashMap::new();
    let mut answers: HashMap<String, bool> = HashMap::new();
    let mut places = vec![(handle, Vec::new())];
    for (depth, size) in SIZES.into_iter().enumerate() {
        let mut next = Vec::new();
        for (address, pointers) in places {
            let aligned = address.is_multiple_of(WORD as u64);
            let read = || structure(reader, address, size);
            let block = &*blocks.entry((address, size)).or_insert_with(read);
            let room = match (depth, aligned) {
                (0, _) => size,
                (_, true) => TEXT_ROOM,
                (_, false) => 1,
            };
            for at in (0..block.len().min(room)).step_by(WORD) {
                let Some(name) = reader.name(address.wrapping_add(at as u64), &block[at..]) else {
                    continue;
                };
                let is_wanted = *(answers.entry(name)).or_insert_with_key(|name| wanted(name));
                if is_wanted && paths.len() < MOST_PATHS {
                    paths.push(Path {
                        pointers: pointers.clone(),
                        text: at as u16,
                    });
                }
            }
            if depth + 1 == SIZES.len() || !aligned {
                continue;
            }
            for (number, word) in block.chunks_exact(WORD).enumerate() {
                let word = u64::from_le_bytes(word.try_into().unwrap_or_default());
                // What leads back leads nowhere new.
                if is_address(word)
                    && ![address, handle].contains(&word)
                    && next.len() < MOST_PLACES
                {
                    let mut pointers: Vec<u16> = pointers.clone();
                    pointers.push((number * WORD) as u16);
                    next.push((word, pointers));
                }
            }
        }
        places = next;
    }
    paths
}

/// The bytes of a structure, as far as they are its own. What is behind it is often the next of its kind, or its
/// own name, but not always.
fn structure(reader: &mut Reader<'_>, address: u64, size: usize) -> Vec<u8> {
    let mut block = reader.block(address.wrapping_sub(WORD as u64), size + WORD);
    if block.len() <= WORD {
        return reader.block(address, size);
    }
    let before = block.drain(..WORD).collect::<Vec<u8>>();
    let before = u64::from_le_bytes(before.try_into().unwrap_or_default());
    block.truncate(own_size(before).unwrap_or(size));
    block
}

/// The room of a piece of memory that malloc has given, by the word before it: glibc keeps the whole size there, and three
/// bits, of which the first says that the piece before is in use.
fn own_size(before: u64) -> Option<usize> {
    let whole = usize::try_from(before & !7).ok()?;
    let is_size = before & 1 == 1 && whole.is_multiple_of(16) && (32..=8192).contains(&whole);
    is_size.then(|| whole - WORD)
}

/// Whether a word may be an address of a program's.
fn is_address(word: u64) -> bool {
    (0x1000..1 << 47).contains(&word)
}
