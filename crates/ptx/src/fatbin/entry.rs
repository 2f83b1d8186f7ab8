//! One entry of a fatbin: code for one architecture, as PTX, SASS or LTO-IR.

use std::borrow::Cow;

use super::bytes::{u16_at, u32_at, u64_at};
use super::compression::{self, Compression};
use super::{FatbinError, truncated};

/// The fields every entry has; some headers are longer, and carry strings behind them.
const FIELDS: usize = 64;

mod flag {
    pub const LZ4: u64 = 0x2000;
    pub const ZSTD: u64 = 0x8000;
    /// Set on LTO-IR, with a key at offset 48 of the header.
    pub const SCRAMBLED: u64 = 0x1_0000;
    pub const ARCH_SPECIFIC: u64 = 0x10_0000;
    pub const FAMILY_SPECIFIC: u64 = 0x20_0000;
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EntryKind {
    Ptx,
    /// SASS in a cubin.
    Elf,
    LtoIr,
    Other(u16),
}

impl EntryKind {
    pub fn name(self) -> &'static str {
        match self {
            EntryKind::Ptx => "PTX",
            EntryKind::Elf => "SASS (a cubin)",
            EntryKind::LtoIr => "LTO-IR",
            EntryKind::Other(_) => "code of an unknown kind",
        }
    }
}

/// What devices code runs on: `sm_90` and later, `sm_90a` only, or `sm_100f` and its family.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Architecture {
    Generic,
    /// Suffix `a`.
    Specific,
    /// Suffix `f`.
    Family,
}

#[derive(Debug, Clone)]
pub struct Entry<'a> {
    /// The entry's header with the strings it carries.
    header: &'a [u8],
    /// As stored, without its padding if compressed.
    stored: &'a [u8],
}

impl<'a> Entry<'a> {
    /// The entry at `at`, and where the next one starts.
    pub(super) fn parse(bytes: &'a [u8], at: usize) -> Result<(Self, usize), FatbinError> {
        let left = bytes.len() - at;
        if left < FIELDS {
            return Err(truncated("entry header", at, FIELDS as u64, left));
        }
        let header_size = u64::from(u32_at(bytes, at + 4));
        if header_size < FIELDS as u64 {
            let what = "entry header";
            return Err(FatbinError::HeaderSize {
                what,
                offset: at,
                size: header_size,
            });
        }
        let padded = u64_at(bytes, at + 8);
        let needed = header_size.saturating_add(padded);
        if needed > left as u64 {
            return Err(truncated("entry", at, needed, left));
        }
        // Both fit: `needed` is at most the length of a slice.
        let payload = at + header_size as usize;
        let next = payload + padded as usize;
        let mut entry = Entry {
            header: &bytes[at..payload],
            stored: &bytes[payload..next],
        };
        if entry.compression() != Compression::None {
            let compressed = u32_at(entry.header, 16) as usize;
            let Some(stored) = entry.stored.get(..compressed) else {
                return Err(truncated(
                    "compressed entry",
                    payload,
                    compressed as u64,
                    padded as usize,
                ));
            };
            entry.stored = stored;
        }
        Ok((entry, next))
    }

    pub fn kind(&self) -> EntryKind {
        match u16_at(self.header, 0) {
            1 => EntryKind::Ptx,
            2 => EntryKind::Elf,
            8 => EntryKind::LtoIr,
            other => EntryKind::Other(other),
        }
    }

    /// (major, minor); for PTX that of its ISA.
    pub fn version(&self) -> (u16, u16) {
        (u16_at(self.header, 26), u16_at(self.header, 24))
    }

    /// 90 for sm_90 and compute_90.
    pub fn sm(&self) -> u32 {
        u32_at(self.header, 28)
    }

    pub fn architecture(&self) -> Architecture {
        match self.flags() {
            flags if flags & flag::ARCH_SPECIFIC != 0 => Architecture::Specific,
            flags if flags & flag::FAMILY_SPECIFIC != 0 => Architecture::Family,
            _ => Architecture::Generic,
        }
    }

    pub fn flags(&self) -> u64 {
        u64_at(self.header, 40)
    }

    pub fn compression(&self) -> Compression {
        // Headers may set a flag and still store the payload raw: a size of 0 says so.
        match self.flags() {
            _ if u32_at(self.header, 16) == 0 => Compression::None,
            flags if flags & flag::LZ4 != 0 => Compression::Lz4,
            flags if flags & flag::ZSTD != 0 => Compression::Zstd,
            _ => Compression::None,
        }
    }

    /// The source file, where the compiler noted it.
    pub fn name(&self) -> Option<Cow<'a, str>> {
        self.string(u32_at(self.header, 32), u32_at(self.header, 36))
    }

    /// Options the code was compiled with, to be repeated when PTX is compiled at load.
    pub fn options(&self) -> Option<Cow<'a, str>> {
        let at = u32_at(self.header, 20) as usize;
        if at < FIELDS {
            return None;
        }
        self.string(
            u32_at(self.header, at),
            u32_at(self.header, at.saturating_add(4)),
        )
    }

    /// A string in the header; None where there is none, or it points outside.
    fn string(&self, offset: u32, len: u32) -> Option<Cow<'a, str>> {
        let (start, len) = (offset as usize, len as usize);
        let text = self.header.get(start..start.checked_add(len)?)?;
        let text = text
            .split(|b| *b == 0)
            .next()
            .filter(|text| !text.is_empty())?;
        Some(String::from_utf8_lossy(text))
    }

    /// The bytes as the fatbin holds them.
    pub fn stored(&self) -> &'a [u8] {
        self.stored
    }

    /// How long the header says [`payload`](Self::payload) will be.
    pub fn unpacked_size(&self) -> u64 {
        match self.compression() {
            Compression::None => self.stored.len() as u64,
            _ => u64_at(self.header, 56),
        }
    }

    /// The code, unpacked if need be; raw entries may end in padding.
    pub fn payload(&self) -> Result<Cow<'a, [u8]>, FatbinError> {
        if self.flags() & flag::SCRAMBLED != 0 {
            return Err(FatbinError::Scrambled(self.kind().name()));
        }
        compression::unpack(self.compression(), self.stored, self.unpacked_size())
    }

    /// A PTX entry's text, without the zeros behind it.
    pub fn text(&self) -> Result<Cow<'a, str>, FatbinError> {
        if self.kind() != EntryKind::Ptx {
            return Err(FatbinError::NotPtx(self.kind().name()));
        }
        Ok(match self.payload()? {
            Cow::Borrowed(bytes) => String::from_utf8_lossy(before_nul(bytes)),
            Cow::Owned(bytes) => {
                Cow::Owned(String::from_utf8_lossy(before_nul(&bytes)).into_owned())
            }
        })
    }
}

pub(crate) fn before_nul(bytes: &[u8]) -> &[u8] {
    bytes.split(|b| *b == 0).next().unwrap_or(bytes)
}
