//! What a program hands to the driver as device code: its length, its PTX, its kernels.

use object::read::elf::FileHeader;
use ptx::fatbin::{EntryKind, Fatbin, HEADER_SIZE, Wrapper};
use ptx::image::Magic;
use std::ffi::{CStr, c_void};

/// What can be learned of an image.
pub enum Code {
    /// The PTX that the driver would take for a device.
    Ptx(String),
    /// Code for particular GPUs only: the kernels it has.
    Sass(Vec<String>),
    /// The same, and the code itself: its PTX may be somewhere else.
    Cubin(Vec<String>, Vec<u8>),
    Unknown,
}

/// Of an image whose length only the image itself tells.
///
/// # Safety
/// `image` is what the driver would take.
pub unsafe fn at(image: *const c_void, sm: u32) -> Code {
    let start = image.cast::<u8>();
    if start.is_null() {
        return Code::Unknown;
    }
    let bytes = |from: *const u8, count: usize| unsafe { std::slice::from_raw_parts(from, count) };
    // A text may be shorter than four bytes: its NUL ends it.
    let mut first = [0; 4];
    for (index, byte) in first.iter_mut().enumerate() {
        *byte = unsafe { start.add(index).read() };
        if *byte == 0 {
            break;
        }
    }
    let fatbin = |from: *const u8| match Fatbin::total_size(bytes(from, HEADER_SIZE)) {
        Ok(size) => of_fatbin(bytes(from, size), sm),
        Err(_) => Code::Unknown,
    };
    match Magic::of(first) {
        Magic::Wrapper => match Wrapper::parse(bytes(start, Wrapper::SIZE)) {
            Ok(wrapper) if wrapper.data != 0 => fatbin(wrapper.data as *const u8),
            _ => Code::Unknown,
        },
        Magic::Fatbin => fatbin(start),
        Magic::Elf => {
            let header = bytes(start, 64);
            match elf_size(header) {
                Some(size) => of_cubin(bytes(start, size)),
                None => Code::Unknown,
            }
        }
        Magic::Text => {
            let text = unsafe { CStr::from_ptr(start.cast()) };
            of_text(text.to_bytes())
        }
    }
}

/// Of an image whose length is known.
pub fn of(bytes: &[u8], sm: u32) -> Code {
    let first = bytes.first_chunk().copied().unwrap_or([0; 4]);
    match Magic::of(first) {
        Magic::Fatbin => of_fatbin(bytes, sm),
        Magic::Elf => of_cubin(bytes),
        Magic::Text => {
            let end = bytes
                .iter()
                .position(|byte| *byte == 0)
                .unwrap_or(bytes.len());
            of_text(&bytes[..end])
        }
        Magic::Wrapper => Code::Unknown,
    }
}

fn of_text(bytes: &[u8]) -> Code {
    match std::str::from_utf8(bytes) {
        Ok(text) if text.contains(".version") => Code::Ptx(text.to_owned()),
        _ => Code::Unknown,
    }
}

fn of_cubin(bytes: &[u8]) -> Code {
    let names = cubin_kernels(bytes);
    match crate::triton::cache() {
        Some(_) => Code::Cubin(names, bytes.to_vec()),
        None => Code::Sass(names),
    }
}

fn of_fatbin(bytes: &[u8], sm: u32) -> Code {
    let Ok(fatbin) = Fatbin::parse(bytes) else {
        return Code::Unknown;
    };
    if let Some(Ok(text)) = fatbin.best_ptx(sm).map(|entry| entry.text()) {
        return Code::Ptx(text.into_owned());
    }
    let mut names = Vec::new();
    for entry in fatbin.entries() {
        if entry.kind() == EntryKind::Elf
            && let Ok(payload) = entry.payload()
        {
            names.extend(cubin_kernels(&payload));
        }
    }
    names.sort();
    names.dedup();
    Code::Sass(names)
}

/// How long a cubin is: up to the end of its section and program headers.
fn elf_size(header: &[u8]) -> Option<usize> {
    let word = |at: usize| Some(u64::from_le_bytes(*header.get(at..)?.first_chunk()?));
    let half = |at: usize| {
        Some(u64::from(u16::from_le_bytes(
            *header.get(at..)?.first_chunk()?,
        )))
    };
    let (program, section) = (word(32)?, word(40)?);
    let programs = program.checked_add(half(54)? * half(56)?)?;
    let sections = section.checked_add(half(58)? * half(60)?)?;
    usize::try_from(programs.max(sections))
        .ok()
        .filter(|size| *size < 1 << 32)
}

/// Kernels of a cubin have a section of code each.
fn cubin_kernels(bytes: &[u8]) -> Vec<String> {
    let read = || -> object::Result<Vec<String>> {
        let header = object::elf::FileHeader64::<object::Endianness>::parse(bytes)?;
        let endian = header.endian()?;
        let sections = header.sections(endian, bytes)?;
        let mut names = Vec::new();
        for section in sections.iter() {
            let name = String::from_utf8_lossy(sections.section_name(endian, section)?);
            if let Some(kernel) = name.strip_prefix(".nv.info.") {
                names.push(kernel.to_owned());
            }
        }
        Ok(names)
    };
    read().unwrap_or_default()
}
