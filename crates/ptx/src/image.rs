//! What a program hands to the driver as a module: PTX, a fatbin, a wrapper or a cubin.

use std::borrow::Cow;

use crate::fatbin::{self, Wrapper};
use crate::token::{Kind, Lexer};

/// ELF machine number of NVIDIA's cubins.
const EM_CUDA: u16 = 190;

/// What the first four bytes say; enough to know how to find the length behind a raw pointer:
/// [`Fatbin::total_size`](fatbin::Fatbin::total_size), [`Wrapper::SIZE`], the ELF header, or for
/// text the terminating NUL.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Magic {
    Fatbin,
    Wrapper,
    Elf,
    /// None of the others: PTX if anything.
    Text,
}

impl Magic {
    pub fn of(bytes: [u8; 4]) -> Magic {
        match u32::from_le_bytes(bytes) {
            fatbin::MAGIC => Magic::Fatbin,
            Wrapper::MAGIC => Magic::Wrapper,
            _ if bytes == *b"\x7fELF" => Magic::Elf,
            _ => Magic::Text,
        }
    }
}

#[derive(Debug, Clone, PartialEq)]
pub enum Image<'a> {
    /// The text, up to its NUL.
    Ptx(Cow<'a, str>),
    Fatbin(&'a [u8]),
    Wrapper(Wrapper),
    /// SASS only: nothing to interpret or rewrite.
    Cubin(&'a [u8]),
    /// An ELF file for another machine, such as a host object.
    Elf(&'a [u8]),
    Other,
}

impl<'a> Image<'a> {
    pub fn detect(bytes: &'a [u8]) -> Image<'a> {
        match bytes
            .first_chunk()
            .map_or(Magic::Text, |first| Magic::of(*first))
        {
            Magic::Fatbin => Image::Fatbin(bytes),
            Magic::Wrapper => Wrapper::parse(bytes).map_or(Image::Other, Image::Wrapper),
            Magic::Elf => match bytes.get(18..20) {
                Some(machine) if machine == EM_CUDA.to_le_bytes() => Image::Cubin(bytes),
                _ => Image::Elf(bytes),
            },
            Magic::Text => {
                let text = String::from_utf8_lossy(fatbin::before_nul(bytes));
                match starts_as_ptx(&text) {
                    true => Image::Ptx(text),
                    false => Image::Other,
                }
            }
        }
    }
}

/// PTX starts with `.version`, comments and blanks aside.
fn starts_as_ptx(text: &str) -> bool {
    let first = Lexer::new(text).and_then(|mut lexer| lexer.next_token());
    first.is_ok_and(|token| token.kind == Kind::Dotted && token.text(text) == ".version")
}
