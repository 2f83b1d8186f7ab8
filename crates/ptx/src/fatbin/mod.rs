//! NVIDIA fat binaries: the container nvcc puts device code in, one entry for each architecture.
//!
//! A fatbin is one or more headers, each followed by its entries. In a program a wrapper points at
//! it; following that pointer is the caller's business, [`Fatbin::total_size`] says how far.

mod bytes;
mod compression;
mod elf;
mod entry;
mod select;
mod wrapper;

pub use compression::{Compression, MAX_PAYLOAD};
pub use elf::{Section, SectionKind, sections};
pub(crate) use entry::before_nul;
pub use entry::{Architecture, Entry, EntryKind};
pub use wrapper::Wrapper;

use bytes::{u16_at, u32_at, u64_at};

/// First word of every fatbin header.
pub const MAGIC: u32 = 0xBA55_ED50;
/// Bytes of a header: what [`Fatbin::total_size`] needs.
pub const HEADER_SIZE: usize = 16;
/// No toolkit puts more entries in one fatbin: a limit on memory.
const MAX_ENTRIES: usize = 1 << 16;

#[derive(Debug, thiserror::Error)]
pub enum FatbinError {
    #[error("not a fatbin: it starts with {0:#010x}, not {MAGIC:#010x}")]
    Magic(u32),
    #[error("not a fatbin wrapper: it starts with {0:#010x}")]
    WrapperMagic(u32),
    #[error("{what} at offset {offset} needs {needed} bytes, {left} are left")]
    Truncated {
        what: &'static str,
        offset: usize,
        needed: u64,
        left: usize,
    },
    #[error("{what} at offset {offset} has an invalid size of {size}")]
    HeaderSize {
        what: &'static str,
        offset: usize,
        size: u64,
    },
    #[error("more than {MAX_ENTRIES} entries")]
    TooManyEntries,
    #[error("the entry unpacks to {0} bytes: the limit is {MAX_PAYLOAD}")]
    TooLarge(u64),
    #[error("the entry unpacks to {found} bytes, its header says {expected}")]
    UnpackedSize { found: u64, expected: u64 },
    #[error("cannot unpack the entry ({method}): {reason}")]
    Unpack {
        method: &'static str,
        reason: String,
    },
    #[error("the entry holds {0}, not PTX")]
    NotPtx(&'static str),
    #[error("the entry's {0} is stored scrambled: only NVIDIA's linker reads it")]
    Scrambled(&'static str),
    #[error("not an ELF file: {0}")]
    Elf(#[from] object::read::Error),
}

/// A fatbin's entries; payloads stay where they are until asked for.
#[derive(Debug, Clone)]
pub struct Fatbin<'a> {
    entries: Vec<Entry<'a>>,
}

impl<'a> Fatbin<'a> {
    /// Reads header after header to the end of `bytes`; zeros between them are padding.
    pub fn parse(bytes: &'a [u8]) -> Result<Self, FatbinError> {
        let mut entries = Vec::new();
        let mut at = 0;
        loop {
            let end = at + Self::total_size(&bytes[at..])?;
            let Some(inside) = bytes.get(..end) else {
                let needed = (end - at) as u64;
                return Err(truncated("fatbin", at, needed, bytes.len() - at));
            };
            at += usize::from(u16_at(bytes, at + 6));
            while at < end {
                if entries.len() == MAX_ENTRIES {
                    return Err(FatbinError::TooManyEntries);
                }
                let (entry, next) = Entry::parse(inside, at)?;
                entries.push(entry);
                at = next;
            }
            at += bytes[end..].iter().take_while(|b| **b == 0).count();
            if at == bytes.len() {
                return Ok(Fatbin { entries });
            }
        }
    }

    /// How many bytes the fatbin takes whose first [`HEADER_SIZE`] bytes are given.
    pub fn total_size(bytes: &[u8]) -> Result<usize, FatbinError> {
        if bytes.len() < HEADER_SIZE {
            return Err(truncated(
                "fatbin header",
                0,
                HEADER_SIZE as u64,
                bytes.len(),
            ));
        }
        let magic = u32_at(bytes, 0);
        if magic != MAGIC {
            return Err(FatbinError::Magic(magic));
        }
        let header = u64::from(u16_at(bytes, 6));
        let size = header
            .checked_add(u64_at(bytes, 8))
            .and_then(|size| usize::try_from(size).ok());
        match size {
            Some(size) if header >= HEADER_SIZE as u64 && size <= isize::MAX as usize => Ok(size),
            _ => Err(FatbinError::HeaderSize {
                what: "fatbin header",
                offset: 0,
                size: header,
            }),
        }
    }

    pub fn entries(&self) -> &[Entry<'a>] {
        &self.entries
    }
}

fn truncated(what: &'static str, offset: usize, needed: u64, left: usize) -> FatbinError {
    FatbinError::Truncated {
        what,
        offset,
        needed,
        left,
    }
}
