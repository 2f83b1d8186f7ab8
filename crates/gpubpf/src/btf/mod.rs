//! BTF: the types of a BPF object, and which source line an instruction came from.
//!
//! Not libbpf's reader, which the eBPF back end takes for the kernel's BTF: objects are brought by users and
//! may lie, this crate is fuzzed and has no C in it, and libbpf tells neither source lines nor relocations.

mod decode;
mod error;
mod event;
mod lines;
mod parse;
mod size;

pub use decode::{Field, Value, decode};
pub use error::{BtfError, ExtensionError};
pub use event::{EventType, event_type};
pub use lines::{Extension, LineRecord};

/// Names and source lines longer than this are taken for nonsense: many types may share one long
/// string, and copies of it must not fill the memory.
const LONGEST_STRING: usize = 512;
/// More types, or more source lines, than an object for a GPU has.
const MOST_RECORDS: usize = 100_000;

/// A type's number; 0 is void.
pub type TypeId = u32;

#[derive(Debug, Clone, Default, PartialEq)]
pub struct Btf {
    /// Type 1 is at 0.
    types: Vec<Type>,
    strings: Vec<u8>,
}

#[derive(Debug, Clone, PartialEq)]
pub struct Type {
    /// Empty where a type has no name.
    pub name: String,
    pub kind: Kind,
}

#[derive(Debug, Clone, PartialEq)]
pub enum Kind {
    Int {
        bytes: u32,
        encoding: Encoding,
    },
    Pointer(TypeId),
    Array {
        element: TypeId,
        count: u32,
    },
    /// A struct, or a union: all members at offset 0.
    Struct {
        bytes: u32,
        union: bool,
        members: Vec<Member>,
    },
    Enum {
        bytes: u32,
        values: Vec<(String, i64)>,
    },
    Forward,
    Typedef(TypeId),
    /// const, volatile, restrict, a tag.
    Qualifier(TypeId),
    Function(TypeId),
    Prototype,
    Variable(TypeId),
    /// (type, offset, bytes) of each variable of a section.
    Section(Vec<(TypeId, u32, u32)>),
    Float(u32),
    Tag,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Encoding {
    Unsigned,
    Signed,
    Char,
    Bool,
}

#[derive(Debug, Clone, PartialEq)]
pub struct Member {
    pub name: String,
    pub ty: TypeId,
    pub bit_offset: u32,
    /// 0 for a member that is no bit field.
    pub bits: u32,
}

impl Btf {
    pub fn get(&self, id: TypeId) -> Option<&Type> {
        self.types.get((id as usize).checked_sub(1)?)
    }

    /// Types with their numbers.
    pub fn types(&self) -> impl Iterator<Item = (TypeId, &Type)> {
        (1..).zip(&self.types)
    }

    pub fn string(&self, offset: u32) -> Option<&str> {
        self.string_within(offset, LONGEST_STRING)
    }

    /// A string that may be longer than most.
    pub(super) fn string_within(&self, offset: u32, longest: usize) -> Option<&str> {
        let bytes = self.strings.get(offset as usize..)?;
        let bytes = &bytes[..bytes.len().min(longest)];
        let end = bytes.iter().position(|&byte| byte == 0)?;
        std::str::from_utf8(&bytes[..end]).ok()
    }

    /// The type behind typedefs and qualifiers.
    pub fn resolve(&self, mut id: TypeId) -> Option<(TypeId, &Type)> {
        // A chain longer than this is a cycle.
        for _ in 0..64 {
            let ty = self.get(id)?;
            match ty.kind {
                Kind::Typedef(to) | Kind::Qualifier(to) | Kind::Variable(to) => id = to,
                _ => return Some((id, ty)),
            }
        }
        None
    }
}
