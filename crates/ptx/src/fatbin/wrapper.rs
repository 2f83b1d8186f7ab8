//! The 24 bytes a program registers: they point at the fatbin.

use super::FatbinError;
use super::bytes::{u32_at, u64_at};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Wrapper {
    /// 1; 2 for relocatable code, where `prelinked` points at a list.
    pub version: u32,
    /// Address of the fatbin; before relocation, whatever the file holds.
    pub data: u64,
    pub prelinked: u64,
}

impl Wrapper {
    pub const MAGIC: u32 = 0x4662_43B1;
    pub const SIZE: usize = 24;

    /// Reads the wrapper at the start of `bytes`.
    pub fn parse(bytes: &[u8]) -> Result<Self, FatbinError> {
        if bytes.len() < Self::SIZE {
            return Err(super::truncated(
                "fatbin wrapper",
                0,
                Self::SIZE as u64,
                bytes.len(),
            ));
        }
        let magic = u32_at(bytes, 0);
        if magic != Self::MAGIC {
            return Err(FatbinError::WrapperMagic(magic));
        }
        Ok(Wrapper {
            version: u32_at(bytes, 4),
            data: u64_at(bytes, 8),
            prelinked: u64_at(bytes, 16),
        })
    }
}
