//! An object's file: what is not mapped, or may have been changed in memory.

use super::{Object, Symbol, Symbols};
use crate::sys::{self, File};

/// Larger symbol tables are not read: no CUDA program's is.
const MAX_TABLE: u64 = 256 << 20;
/// A table of names this large is searched only if the object has GPU code in it.
const LARGE_NAMES: u64 = 8 << 20;

const SHT_SYMTAB: u32 = 2;
const MOST_SECTIONS: usize = 96;

/// A file mapped for reading.
pub struct Mapped {
    at: usize,
    bytes: usize,
    file: File,
}

impl Drop for Mapped {
    fn drop(&mut self) {
        // SAFETY: nothing outlives it.
        unsafe { sys::unmap(self.at, self.bytes) }
    }
}

fn open(object: &Object) -> Option<File> {
    let path = object.path();
    if path.is_empty() {
        return File::open(b"/proc/self/exe\0", libc::O_RDONLY, 0);
    }
    // The kernel's own object has a name, but no file.
    if !path.contains(&b'/') {
        return None;
    }
    let mut buffer = [0u8; 4096];
    buffer.get_mut(..path.len())?.copy_from_slice(path);
    File::open(buffer.get(..=path.len())?, libc::O_RDONLY, 0)
}

/// What the names in a file say: in large files it takes long to find out.
#[derive(Debug, Clone, Copy, Default)]
pub struct FileNames {
    /// Functions of the CUDA runtime that it does not export: a runtime that is linked in, or stubs for one.
    pub has_runtime: bool,
    has_gpu_code: bool,
    /// What GPU code is registered with is linked in.
    registers: bool,
}

impl FileNames {
    pub fn of(object: &Object) -> FileNames {
        open(object).map_or_else(FileNames::default, FileNames::in_file)
    }

    pub fn in_file(file: File) -> FileNames {
        let Some((header, (sections, count))) = sections(&file) else {
            return FileNames::default();
        };
        let sections = &sections[..count];
        let has_gpu_code = has_gpu_code(&file, &header, sections);
        let none = FileNames {
            has_gpu_code,
            ..FileNames::default()
        };
        let Some((symbols, names)) = symbol_tables(sections) else {
            return none;
        };
        if symbols.sh_size == 0 || (names.sh_size > LARGE_NAMES && !has_gpu_code) {
            return none;
        }
        let Some(mapped) = Mapped::of(file) else {
            return none;
        };
        let Some(names) = mapped.bytes(names.sh_offset, names.sh_size) else {
            return none;
        };
        let has_runtime = contains(names, b"\0cudaMalloc\0");
        FileNames {
            has_runtime,
            has_gpu_code,
            registers: !has_runtime
                && has_gpu_code
                && contains(names, b"\0__cudaRegisterFatBinary\0"),
        }
    }

    /// Whether the object has GPU code, and no CUDA runtime in sight that it could be registered with:
    /// neither symbols of a static one, nor imports from a shared one.
    pub fn hide_runtime(&self, object: &Object) -> bool {
        let register = |name: &[u8]| name == b"__cudaRegisterFatBinary";
        self.has_gpu_code
            && !self.registers
            && !object.symbols().iter().any(|(_, name)| register(name))
    }
}

/// Which file an object was loaded from, and which file a path leads to.
pub fn identity(object: &Object) -> Option<(u64, u64)> {
    open(object)?.identity()
}

/// Whether what is linked in is NVIDIA's own: all that is inside of it has names like these.
pub fn is_nvidias_runtime(object: &Object) -> bool {
    names_contain(object, &[b"\0libcudart_static_", b"\0__cudart"])
}

/// Whether one of these is among the names of the file's full symbol table.
fn names_contain(object: &Object, wanted: &[&[u8]]) -> bool {
    let Some(file) = open(object) else {
        return false;
    };
    let Some((symbols, names, gpu_code)) = find_tables(&file) else {
        return false;
    };
    if symbols.sh_size == 0 || (names.sh_size > LARGE_NAMES && !gpu_code) {
        return false;
    }
    let Some(mapped) = Mapped::of(file) else {
        return false;
    };
    let names = mapped.bytes(names.sh_offset, names.sh_size);
    names.is_some_and(|names| wanted.iter().any(|wanted| contains(names, wanted)))
}

fn contains(text: &[u8], wanted: &[u8]) -> bool {
    // The middle of the name tells more than the NUL before it.
    let (first, mark) = (wanted[0], wanted[wanted.len() - 2]);
    let mark_at = wanted.len() - 2;
    let mut at = 0;
    while let Some(window) = text.get(at..at + wanted.len()) {
        if window[mark_at] == mark && window[0] == first && window == wanted {
            return true;
        }
        at += 1;
    }
    false
}

type Sections = ([libc::Elf64_Shdr; MOST_SECTIONS], usize);

fn sections(file: &File) -> Option<(libc::Elf64_Ehdr, Sections)> {
    let mut header = [0u8; size_of::<libc::Elf64_Ehdr>()];
    if file.read_at(&mut header, 0) != header.len() || !header.starts_with(b"\x7fELF\x02\x01") {
        return None;
    }
    // SAFETY: plain numbers.
    let header: libc::Elf64_Ehdr = unsafe { core::mem::transmute(header) };
    if usize::from(header.e_shentsize) != size_of::<libc::Elf64_Shdr>() {
        return None;
    }
    // All headers at once: every process pays for this, for each of its objects.
    let mut bytes = [0u8; MOST_SECTIONS * size_of::<libc::Elf64_Shdr>()];
    let count = usize::from(header.e_shnum).min(MOST_SECTIONS);
    let wanted = bytes.get_mut(..count * size_of::<libc::Elf64_Shdr>())?;
    if file.read_at(wanted, header.e_shoff) != wanted.len() {
        return None;
    }
    // SAFETY: plain numbers.
    let sections: [libc::Elf64_Shdr; MOST_SECTIONS] = unsafe { core::mem::transmute(bytes) };
    Some((header, (sections, count)))
}

/// The headers of .symtab and its names.
fn symbol_tables(sections: &[libc::Elf64_Shdr]) -> Option<(libc::Elf64_Shdr, libc::Elf64_Shdr)> {
    let symbols = sections
        .iter()
        .find(|section| section.sh_type == SHT_SYMTAB)?;
    let names = sections.get(symbols.sh_link as usize)?;
    let are_usual = symbols.sh_size <= MAX_TABLE && names.sh_size <= MAX_TABLE;
    are_usual.then_some((*symbols, *names))
}

/// The same, and whether there is a section of GPU code.
fn find_tables(file: &File) -> Option<(libc::Elf64_Shdr, libc::Elf64_Shdr, bool)> {
    let (header, (sections, count)) = sections(file)?;
    let sections = sections.get(..count)?;
    let (symbols, names) = symbol_tables(sections)?;
    Some((symbols, names, has_gpu_code(file, &header, sections)))
}

fn has_gpu_code(file: &File, header: &libc::Elf64_Ehdr, sections: &[libc::Elf64_Shdr]) -> bool {
    let Some(names) = sections.get(usize::from(header.e_shstrndx)) else {
        return false;
    };
    let mut text = [0u8; 2048];
    let length = text.len().min(names.sh_size as usize);
    let read = file.read_at(&mut text[..length], names.sh_offset);
    contains(&text[..read], b"\0.nv_fatbin\0")
}

impl Mapped {
    fn of(file: File) -> Option<Mapped> {
        let bytes = file.size() as usize;
        if bytes == 0 {
            return None;
        }
        // SAFETY: a fresh private mapping, read only.
        let at = unsafe {
            sys::map(
                0,
                bytes,
                libc::PROT_READ,
                libc::MAP_PRIVATE,
                Some((&file, 0)),
            )
        }?;
        Some(Mapped { at, bytes, file })
    }

    /// The file of a loaded object; none if what is there now is not what was loaded.
    pub fn object(object: &Object) -> Option<Mapped> {
        let mapped = Mapped::of(open(object)?)?;
        let same = mapped.segments().any(|segment| {
            segment.p_type == libc::PT_DYNAMIC
                && object.bias.wrapping_add(segment.p_vaddr as usize) == object.dynamic as usize
        });
        same.then_some(mapped)
    }

    /// Keeps the mapping for good, but no file open: the program would see that.
    pub fn keep(self) {
        let mut kept = core::mem::ManuallyDrop::new(self);
        // SAFETY: it is not used again.
        unsafe { core::ptr::drop_in_place(&mut kept.file) };
    }

    pub fn bytes(&self, offset: u64, count: u64) -> Option<&'static [u8]> {
        let end = offset.checked_add(count)?;
        if end > self.bytes as u64 {
            return None;
        }
        // SAFETY: inside the mapping, which callers keep while they look at it.
        Some(unsafe {
            core::slice::from_raw_parts((self.at + offset as usize) as *const u8, count as usize)
        })
    }

    fn value<T: Copy>(&self, offset: u64) -> Option<T> {
        let bytes = self.bytes(offset, size_of::<T>() as u64)?;
        // SAFETY: only used with structs of plain numbers.
        Some(unsafe { bytes.as_ptr().cast::<T>().read_unaligned() })
    }

    pub fn segments(&self) -> impl Iterator<Item = libc::Elf64_Phdr> + '_ {
        let header: Option<libc::Elf64_Ehdr> = self.value(0);
        let (at, count) = header
            .filter(|header| header.e_ident.starts_with(b"\x7fELF\x02\x01"))
            .map_or((0, 0), |header| (header.e_phoff, header.e_phnum));
        (0..u64::from(count)).filter_map(move |index| {
            self.value(at.checked_add(index * size_of::<libc::Elf64_Phdr>() as u64)?)
        })
    }

    /// Reads what the file has for an address (before the bias is added). Read, not taken from the mapping: the
    /// kernel puts the breakpoints of uprobes into every private mapping of a file, also into one for reading.
    pub fn read_address(&self, address: u64, buffer: &mut [u8]) -> Option<()> {
        let count = buffer.len() as u64;
        let segment = self.segments().find(|segment| {
            segment.p_type == libc::PT_LOAD
                && segment.p_vaddr <= address
                && address.saturating_add(count) <= segment.p_vaddr.saturating_add(segment.p_filesz)
        })?;
        let offset = segment.p_offset.checked_add(address - segment.p_vaddr)?;
        (self.file.read_at(buffer, offset) == buffer.len()).then_some(())
    }

    /// The full symbol table, if the file was not stripped.
    pub fn symbols(&self, object: &Object) -> Symbols {
        let tables = open(object).and_then(|file| find_tables(&file));
        let Some((symbols, names, _)) = tables else {
            return Symbols::NONE;
        };
        let found = (
            self.bytes(symbols.sh_offset, symbols.sh_size),
            self.bytes(names.sh_offset, names.sh_size),
        );
        let (Some(table), Some(strings)) = found else {
            return Symbols::NONE;
        };
        Symbols {
            table: table.as_ptr().cast(),
            count: table.len() / size_of::<Symbol>(),
            strings: strings.as_ptr(),
            string_bytes: strings.len(),
        }
    }
}
