//! What is wrong with an object's BTF.

use super::{MOST_RECORDS, TypeId, lines};
use thiserror::Error;

/// Of section .BTF.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum BtfError {
    #[error("it is truncated")]
    CutShort,
    #[error("it is big-endian (compile with -target bpf on a little-endian machine, or bpfel)")]
    BigEndian,
    #[error("it has no BTF magic")]
    NoMagic,
    #[error("it has more than {MOST_RECORDS} types")]
    TooManyTypes,
    #[error("type {id}: unknown kind {kind}")]
    UnknownKind { id: TypeId, kind: u32 },
}

/// Of section .BTF.ext.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum ExtensionError {
    #[error("it is truncated or not a .BTF.ext")]
    CutShort,
    #[error(
        "a section's name is longer than {} bytes, or not text",
        lines::LONGEST_SECTION
    )]
    LongSection,
    #[error(
        "its sections' names are longer than {} bytes together",
        lines::MOST_LETTERS
    )]
    LongSections,
}
