//! What an object's file tells about a CUDA runtime in it.

use std::{fs, os::fd::AsRawFd, path::Path};

use object::{
    Endianness, Object as _, ObjectSection as _, ObjectSymbol as _, ObjectSymbolTable as _,
    elf::{DT_SONAME, FileHeader64, STT_FUNC},
    read::elf::{Dyn as _, ElfFile64, FileHeader as _, SectionHeader as _},
};

/// Internal functions of NVIDIA's static runtime begin so.
const INTERNAL: &[u8] = b"libcudart_static_";
/// Two texts of its error tables, which nothing else has both of: not libraries of stubs that only forward.
const TEXTS: [&[u8]; 2] = [b"cudaErrorCudartUnloading\0", b"driver shutting down\0"];
const REGISTER: &str = "__cudaRegisterFatBinary";

/// One of the runtime's functions, at its address in the file.
pub struct Function {
    pub name: String,
    pub address: u64,
    pub size: u64,
}

pub enum Runtime {
    /// None, or a shared one.
    NotLinkedIn,
    LinkedIn(Vec<Function>),
    WithoutSymbols,
}

/// Looks for a linked-in runtime. What cannot be read has none.
pub fn runtime_in(path: &Path) -> Runtime {
    let Some(mapped) = Mapped::of(path) else {
        return Runtime::NotLinkedIn;
    };
    let bytes = mapped.bytes();
    // Every process pays for this, for each of its objects: most have neither symbols nor GPU code.
    let Some((names, gpu_code)) = worth_reading(bytes) else {
        return Runtime::NotLinkedIn;
    };
    let named = names.is_some_and(|names| contains(names, b"cudaMalloc\0"));
    if !named && !gpu_code {
        return Runtime::NotLinkedIn;
    }
    let Ok(file) = ElfFile64::<Endianness>::parse(bytes) else {
        return Runtime::NotLinkedIn;
    };
    // A runtime of its own, softgpu's for one.
    if soname(&file).is_some_and(|name| name.starts_with(b"libcudart.so")) {
        return Runtime::NotLinkedIn;
    }
    let is_internal = names.is_some_and(|names| contains(names, INTERNAL));
    if !is_internal && !has_texts(&file) {
        return Runtime::NotLinkedIn;
    }
    let functions = if named { functions(&file) } else { Vec::new() };
    let registers = functions.iter().any(|function| function.name == REGISTER);
    match (functions.is_empty(), gpu_code) {
        (false, gpu_code) if registers || !gpu_code => Runtime::LinkedIn(functions),
        _ if imports_runtime(&file) || !gpu_code => Runtime::NotLinkedIn,
        _ => Runtime::WithoutSymbols,
    }
}

/// The names of the symbol table, if there is one, and whether there is GPU code. None if neither.
fn worth_reading(bytes: &[u8]) -> Option<(Option<&[u8]>, bool)> {
    let header = FileHeader64::<Endianness>::parse(bytes).ok()?;
    let endian = header.endian().ok()?;
    let sections = header.sections(endian, bytes).ok()?;
    let gpu_code = sections.section_by_name(endian, b".nv_fatbin").is_some();
    let table = sections
        .iter()
        .find(|section| section.sh_type(endian) == object::elf::SHT_SYMTAB);
    let names = table
        .and_then(|table| sections.section(table.link(endian)).ok())
        .and_then(|names| names.data(endian, bytes).ok());
    (names.is_some() || gpu_code).then_some((names, gpu_code))
}

/// The functions with names like the runtime's: some may be the program's own.
fn functions(file: &ElfFile64<Endianness>) -> Vec<Function> {
    let Some(table) = file.symbol_table() else {
        return Vec::new();
    };
    let mut functions: Vec<Function> = table
        .symbols()
        .filter(|symbol| symbol.elf_symbol().st_type() == STT_FUNC && !symbol.is_undefined())
        .filter_map(|symbol| {
            let name = symbol.name().ok().filter(|name| is_public(name))?;
            Some(Function {
                name: name.to_owned(),
                address: symbol.address(),
                size: symbol.size(),
            })
        })
        .collect();
    functions.sort_by(|a, b| (&a.name, a.address).cmp(&(&b.name, b.address)));
    functions.dedup_by_key(|function| function.address);
    functions
}

/// A name of the CUDA runtime: cudaMalloc, __cudaRegisterFunction.
fn is_public(name: &str) -> bool {
    let after = name
        .strip_prefix("__cuda")
        .or_else(|| name.strip_prefix("cuda"));
    after.is_some_and(|after| {
        after.starts_with(|c: char| c.is_ascii_uppercase())
            && after
                .bytes()
                .all(|c| c.is_ascii_alphanumeric() || c == b'_')
    })
}

fn soname<'a>(file: &ElfFile64<'a, Endianness>) -> Option<&'a [u8]> {
    let (endian, data) = (file.endian(), file.data());
    let sections = file.elf_section_table();
    let (entries, names) = sections.dynamic(endian, data).ok()??;
    let names = sections.strings(endian, data, names).ok()?;
    let entry = (entries.iter()).find(|entry| entry.d_tag(endian) == u64::from(DT_SONAME))?;
    names.get(entry.d_val(endian) as u32).ok()
}

fn imports_runtime(file: &ElfFile64<Endianness>) -> bool {
    file.dynamic_symbols()
        .any(|symbol| symbol.name() == Ok(REGISTER))
}

fn has_texts(file: &ElfFile64<Endianness>) -> bool {
    TEXTS.iter().all(|text| {
        file.sections()
            .filter(|section| section.name().is_ok_and(|name| name.starts_with(".rodata")))
            .any(|section| section.data().is_ok_and(|data| contains(data, text)))
    })
}

fn contains(text: &[u8], wanted: &[u8]) -> bool {
    // SAFETY: both are slices.
    let found = unsafe {
        libc::memmem(
            text.as_ptr().cast(),
            text.len(),
            wanted.as_ptr().cast(),
            wanted.len(),
        )
    };
    !found.is_null()
}

/// A file mapped for reading.
struct Mapped {
    start: *mut libc::c_void,
    length: usize,
}

impl Mapped {
    fn of(path: &Path) -> Option<Mapped> {
        let file = fs::File::open(path).ok()?;
        let found = file.metadata().ok().filter(fs::Metadata::is_file)?;
        let length = usize::try_from(found.len()).ok().filter(|&n| n > 0)?;
        // SAFETY: a fresh private mapping, read only.
        let start = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                length,
                libc::PROT_READ,
                libc::MAP_PRIVATE,
                file.as_raw_fd(),
                0,
            )
        };
        (start != libc::MAP_FAILED).then_some(Mapped { start, length })
    }

    fn bytes(&self) -> &[u8] {
        // SAFETY: mapped as long as this lives.
        unsafe { std::slice::from_raw_parts(self.start.cast(), self.length) }
    }
}

impl Drop for Mapped {
    fn drop(&mut self) {
        // SAFETY: nothing outlives it.
        unsafe { libc::munmap(self.start, self.length) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_the_runtime() {
        for name in [
            "cudaMalloc",
            "__cudaRegisterFatBinary",
            "cudaLaunchKernel_ptsz",
        ] {
            assert!(is_public(name), "{name}");
        }
        for name in [
            "cuda",
            "cudart_init",
            "cudaMalloc.cold",
            "mycudaMalloc",
            "cuMemAlloc_v2",
        ] {
            assert!(!is_public(name), "{name}");
        }
    }

    #[test]
    fn this_program_has_no_runtime() {
        let found = runtime_in(Path::new("/proc/self/exe"));
        assert!(matches!(found, Runtime::NotLinkedIn));
        assert!(matches!(
            runtime_in(Path::new("/dev/zero")),
            Runtime::NotLinkedIn
        ));
        assert!(matches!(
            runtime_in(Path::new("/nowhere")),
            Runtime::NotLinkedIn
        ));
    }
}
