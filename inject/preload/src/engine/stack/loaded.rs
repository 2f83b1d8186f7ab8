//! The objects that are loaded, as walking a stack needs them: where their code is, and their
//! unwind information. Written under the loader's lock, read by any thread at any time: rows never
//! move and are never taken away, only marked.

use super::cfi::Unwind;
use super::image::Image;
use crate::engine::{clock, report};
use crate::objects::{Object, file::Mapped};
use crate::sys;
use alloc::vec::Vec;
use core::fmt::Write;
use core::sync::atomic::{AtomicBool, AtomicPtr, AtomicU32, AtomicU64, AtomicUsize, Ordering};

const MOST: usize = 8192;

#[repr(C)]
struct Row {
    live: AtomicBool,
    begin: AtomicU64,
    end: AtomicU64,
    bias: AtomicU64,
    dynamic: AtomicUsize,
    /// Null: none that can be read. Never changes.
    unwind: *const Unwind,
    /// To know the file again when it is loaded again.
    path: *const Vec<u8>,
    identity: Identity,
}

/// What a file is, so far as it matters: where it is in memory does not.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Identity {
    header: u64,
    bytes: u64,
    check: u64,
}

static ROWS: AtomicPtr<Row> = AtomicPtr::new(core::ptr::null_mut());
static COUNT: AtomicUsize = AtomicUsize::new(0);
/// Changes whenever something is unloaded: what was known of its addresses holds no longer.
static GENERATION: AtomicU32 = AtomicU32::new(0);
/// Changes whenever anything is loaded or unloaded.
static CHANGES: AtomicU32 = AtomicU32::new(0);

pub fn start() {
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
    let protection = libc::PROT_READ | libc::PROT_WRITE;
    // SAFETY: a fresh mapping.
    let at = unsafe { sys::map(0, MOST * size_of::<Row>(), protection, flags, None) };
    ROWS.store(at.unwrap_or(0) as *mut Row, Ordering::Release);
}

pub fn generation() -> u32 {
    GENERATION.load(Ordering::Relaxed)
}

pub fn changes() -> u32 {
    CHANGES.load(Ordering::Acquire)
}

fn rows() -> &'static [Row] {
    let (rows, count) = (ROWS.load(Ordering::Acquire), COUNT.load(Ordering::Acquire));
    if rows.is_null() {
        return &[];
    }
    // SAFETY: so many rows have been written.
    unsafe { core::slice::from_raw_parts(rows, count) }
}

fn row_of(address: u64) -> Option<&'static Row> {
    rows().iter().find(|row| {
        row.live.load(Ordering::Acquire)
            && row.begin.load(Ordering::Relaxed) <= address
            && address < row.end.load(Ordering::Relaxed)
    })
}

/// The unwind information for a place in the code, and the place as its object has it.
pub fn unwind_of(address: u64) -> Option<(&'static Unwind, u64)> {
    let row = row_of(address)?;
    // SAFETY: never given back.
    let unwind = unsafe { row.unwind.as_ref() }?;
    Some((
        unwind,
        address.wrapping_sub(row.bias.load(Ordering::Relaxed)),
    ))
}

pub fn is_code(address: u64) -> bool {
    row_of(address).is_some()
}

/// An object has been loaded.
/// Only tells the tracer where an object is.
pub fn say(object: &Object) {
    if let Some(shape) = Shape::of(object) {
        say_loaded(object.bias as u64, &shape, &path_of(object));
    }
}

fn path_of(object: &Object) -> alloc::vec::Vec<u8> {
    match object.path() {
        b"" => b"[program]".to_vec(),
        path => path.to_vec(),
    }
}

pub fn add(object: &Object) {
    let Some(shape) = Shape::of(object) else {
        return;
    };
    let bias = object.bias as u64;
    let path = path_of(object);
    say_loaded(bias, &shape, &path);
    write_row(object, shape, path);
    // Only now: a walk from before this has an earlier number.
    CHANGES.fetch_add(1, Ordering::Release);
}

fn write_row(object: &Object, shape: Shape, path: Vec<u8>) {
    let bias = object.bias as u64;
    let (dynamic, begin, end) = (
        object.dynamic as usize,
        shape.begin.wrapping_add(bias),
        shape.end.wrapping_add(bias),
    );
    let again = rows().iter().find(|row| {
        // SAFETY: never given back.
        let known = unsafe { row.path.as_ref() };
        !row.live.load(Ordering::Relaxed)
            && row.identity == shape.identity
            && known.is_some_and(|known| *known == path)
    });
    if let Some(row) = again {
        row.begin.store(begin, Ordering::Relaxed);
        row.end.store(end, Ordering::Relaxed);
        row.bias.store(bias, Ordering::Relaxed);
        row.dynamic.store(dynamic, Ordering::Relaxed);
        row.live.store(true, Ordering::Release);
        return;
    }
    let (rows, count) = (ROWS.load(Ordering::Relaxed), COUNT.load(Ordering::Relaxed));
    if rows.is_null() || count >= MOST {
        return;
    }
    let identity = shape.identity;
    let row = Row {
        live: AtomicBool::new(true),
        begin: AtomicU64::new(begin),
        end: AtomicU64::new(end),
        bias: AtomicU64::new(bias),
        dynamic: AtomicUsize::new(dynamic),
        unwind: shape.keep_unwind(),
        path: leak(path),
        identity,
    };
    // SAFETY: below the table's end, and not published yet.
    unsafe { rows.add(count).write(row) };
    COUNT.store(count + 1, Ordering::Release);
}

fn leak<T>(value: T) -> *const T {
    alloc::boxed::Box::leak(alloc::boxed::Box::new(value))
}

/// An object has been unloaded.
pub fn remove(bias: usize, dynamic: usize) {
    for row in rows() {
        if row.live.load(Ordering::Relaxed)
            && row.bias.load(Ordering::Relaxed) == bias as u64
            && row.dynamic.load(Ordering::Relaxed) == dynamic
        {
            row.live.store(false, Ordering::Release);
            GENERATION.fetch_add(1, Ordering::Relaxed);
            CHANGES.fetch_add(1, Ordering::Release);
            let mut line = report::Line::<96>::new();
            let begin = row.begin.load(Ordering::Relaxed);
            let _ = writeln!(line, "unloaded {begin:x} {}", clock::now());
            report::say(line.bytes());
        }
    }
}

/// The tracer finds names by this: in the file, for the process may be gone by then.
fn say_loaded(bias: u64, shape: &Shape, path: &[u8]) {
    let mut line = report::Line::<200>::new();
    let (begin, end) = (shape.begin.wrapping_add(bias), shape.end.wrapping_add(bias));
    let _ = write!(line, "loaded {begin:x} {end:x} {bias:x} {} ", clock::now());
    let mut text = line.bytes().to_vec();
    text.extend(path.iter().map(|byte| match byte {
        b'\n' => b'?',
        byte => *byte,
    }));
    text.push(b'\n');
    report::say(&text);
}

/// An object's code and unwind information.
struct Shape {
    file: Option<Mapped>,
    begin: u64,
    end: u64,
    unwind: Option<Unwind>,
    identity: Identity,
}

const PT_GNU_EH_FRAME: u32 = 0x6474_e550;

impl Shape {
    fn of(object: &Object) -> Option<Shape> {
        match Mapped::object(object) {
            Some(file) => {
                let segments: Vec<_> = file.segments().collect();
                let image = |segment: &libc::Elf64_Phdr| {
                    let bytes = file.bytes(segment.p_offset, segment.p_filesz)?;
                    // SAFETY: the mapping is kept with the row.
                    Some(unsafe { Image::new(bytes.as_ptr(), segment.p_vaddr, segment.p_filesz) })
                };
                let mut shape = Shape::from_segments(&segments, image)?;
                shape.file = Some(file);
                Some(shape)
            }
            None if object.path().starts_with(b"linux-vdso") => Shape::of_kernel(object),
            None => None,
        }
    }

    /// The kernel's own object has no file, and never goes away.
    fn of_kernel(object: &Object) -> Option<Shape> {
        // SAFETY: it begins with its header, and both lie in its first page.
        let segments = unsafe {
            let header = (object.bias as *const libc::Elf64_Ehdr).read();
            if !header.e_ident.starts_with(b"\x7fELF\x02\x01") || header.e_phnum > 16 {
                return None;
            }
            let at = object.bias + header.e_phoff as usize;
            core::slice::from_raw_parts(at as *const libc::Elf64_Phdr, header.e_phnum.into())
        };
        let image = |segment: &libc::Elf64_Phdr| {
            let memory = object.bias.wrapping_add(segment.p_vaddr as usize) as *const u8;
            // SAFETY: mapped as long as the process lives.
            Some(unsafe { Image::new(memory, segment.p_vaddr, segment.p_filesz) })
        };
        Shape::from_segments(segments, image)
    }

    fn from_segments(
        segments: &[libc::Elf64_Phdr],
        image: impl Fn(&libc::Elf64_Phdr) -> Option<Image>,
    ) -> Option<Shape> {
        let loads = || {
            segments
                .iter()
                .filter(|segment| segment.p_type == libc::PT_LOAD)
        };
        let code = || loads().filter(|segment| segment.p_flags & libc::PF_X != 0);
        let begin = code().map(|segment| segment.p_vaddr).min()?;
        let end = code()
            .map(|segment| segment.p_vaddr.saturating_add(segment.p_memsz))
            .max()?;
        let header = segments
            .iter()
            .find(|segment| segment.p_type == PT_GNU_EH_FRAME);
        let unwind = header.and_then(|header| {
            let holds = |segment: &&libc::Elf64_Phdr| {
                segment.p_vaddr <= header.p_vaddr
                    && header.p_vaddr < segment.p_vaddr.saturating_add(segment.p_filesz)
            };
            Some(Unwind {
                image: image(loads().find(holds)?)?,
                header: header.p_vaddr,
            })
        });
        let check = segments.iter().fold(0u64, |sum, segment| {
            (sum.rotate_left(7) ^ segment.p_vaddr ^ segment.p_filesz.rotate_left(32))
                .wrapping_mul(0x9e37_79b9_7f4a_7c15)
        });
        Some(Shape {
            file: None,
            begin,
            end,
            unwind,
            identity: Identity {
                header: header.map_or(0, |header| header.p_vaddr),
                bytes: end,
                check,
            },
        })
    }

    /// Keeps the mapping of the file for good, if there is anything in it to be read.
    fn keep_unwind(self) -> *const Unwind {
        match self.unwind {
            Some(unwind) => {
                if let Some(file) = self.file {
                    file.keep();
                }
                leak(unwind)
            }
            None => core::ptr::null(),
        }
    }
}
