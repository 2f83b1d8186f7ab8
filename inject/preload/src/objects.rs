//! The objects that the dynamic loader has mapped, read from its own list and from their dynamic
//! sections in memory. Works while the loader is in the middle of its work: nothing is asked of it.

pub mod file;

use core::ffi::CStr;

/// What PyTorch's library of operators defines: `at::addGlobalCallback(at::RecordFunctionCallback)`.
pub const TORCH: &[u8] = b"_ZN2at17addGlobalCallbackENS_22RecordFunctionCallbackE";

/// The loader's `r_debug`.
#[repr(C)]
pub struct Loader {
    pub version: i32,
    pub first: *const LinkMap,
    /// A function that the loader calls whenever the list changes.
    pub changed: usize,
    pub state: i32,
    pub base: usize,
    /// From version 2 on: the next namespace (dlmopen).
    pub next: *const Loader,
}

/// The list is complete, not half-way through a change.
pub const CONSISTENT: i32 = 0;

#[repr(C)]
pub struct LinkMap {
    /// What is added to addresses in the file.
    pub bias: usize,
    pub name: *const core::ffi::c_char,
    pub dynamic: *const Dynamic,
    pub next: *const LinkMap,
    pub previous: *const LinkMap,
}

#[repr(C)]
pub struct Dynamic {
    pub tag: i64,
    pub value: usize,
}

/// An ELF64 symbol.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct Symbol {
    pub name: u32,
    pub info: u8,
    pub other: u8,
    pub section: u16,
    pub value: u64,
    pub size: u64,
}

impl Symbol {
    pub fn is_defined_function(&self) -> bool {
        self.info & 0xf == STT_FUNC && self.section != 0 && self.value != 0
    }
}

const STT_FUNC: u8 = 2;
const DT_PLTRELSZ: i64 = 2;
const DT_HASH: i64 = 4;
const DT_STRTAB: i64 = 5;
const DT_SYMTAB: i64 = 6;
const DT_RELA: i64 = 7;
const DT_RELASZ: i64 = 8;
const DT_STRSZ: i64 = 10;
const DT_DEBUG: i64 = 21;
const DT_JMPREL: i64 = 23;
const DT_GNU_HASH: i64 = 0x6fff_fef5;

/// One object of the loader's list.
#[derive(Clone, Copy)]
pub struct Object {
    pub bias: usize,
    pub dynamic: *const Dynamic,
    name: *const core::ffi::c_char,
}

/// Where the loader's list is, from the program's own dynamic section.
///
/// # Safety
/// `headers` are the `count` program headers of the running program.
pub unsafe fn find_loader(headers: *const libc::Elf64_Phdr, count: usize) -> Option<*const Loader> {
    // SAFETY: by contract.
    let headers = unsafe { core::slice::from_raw_parts(headers, count) };
    let find = |kind| headers.iter().find(|header| header.p_type == kind);
    let own = find(libc::PT_PHDR).map_or(0, |header| header.p_vaddr as usize);
    // Without PT_PHDR the program is not position-independent.
    let bias = if own == 0 {
        0
    } else {
        headers.as_ptr() as usize - own
    };
    let dynamic = find(libc::PT_DYNAMIC)?.p_vaddr as usize + bias;
    // SAFETY: the program's dynamic section is mapped and ends with a null tag.
    let loader = unsafe { value(dynamic as *const Dynamic, DT_DEBUG) }? as *const Loader;
    (!loader.is_null()).then_some(loader)
}

unsafe fn value(mut dynamic: *const Dynamic, tag: i64) -> Option<usize> {
    if dynamic.is_null() {
        return None;
    }
    // A bound, in case the end is missing.
    for _ in 0..512 {
        let entry = unsafe { &*dynamic };
        if entry.tag == tag {
            return Some(entry.value);
        }
        if entry.tag == 0 {
            return None;
        }
        dynamic = unsafe { dynamic.add(1) };
    }
    None
}

/// Every object of every namespace.
///
/// # Safety
/// The loader's list must not change meanwhile: its lock is held, or the process is starting.
pub unsafe fn objects(loader: *const Loader) -> impl Iterator<Item = Object> {
    let mut loader = loader;
    let mut link = unsafe { (*loader).first };
    core::iter::from_fn(move || {
        while link.is_null() {
            let this = unsafe { &*loader };
            if this.version < 2 || this.next.is_null() {
                return None;
            }
            loader = this.next;
            link = unsafe { (*loader).first };
        }
        let map = unsafe { &*link };
        link = map.next;
        Some(Object {
            bias: map.bias,
            dynamic: map.dynamic,
            name: map.name,
        })
    })
}

impl Object {
    /// The path it was loaded from; empty for the program itself.
    pub fn path(&self) -> &[u8] {
        if self.name.is_null() {
            return b"";
        }
        // SAFETY: the loader's string lives as long as the object.
        unsafe { CStr::from_ptr(self.name) }.to_bytes()
    }

    fn pointer(&self, tag: i64) -> Option<usize> {
        // SAFETY: the dynamic section of a mapped object.
        let found = unsafe { value(self.dynamic, tag) }?;
        // glibc adds the bias in place, others leave the section as it was.
        Some(if found < self.bias {
            found + self.bias
        } else {
            found
        })
    }

    /// The dynamic symbols with their names.
    pub fn symbols(&self) -> Symbols {
        let table = self.pointer(DT_SYMTAB);
        let strings = self.pointer(DT_STRTAB);
        // SAFETY: as in `pointer`; this one is a size.
        let bytes = unsafe { value(self.dynamic, DT_STRSZ) };
        match (table, strings, bytes) {
            (Some(table), Some(strings), Some(bytes)) => Symbols {
                table: table as *const Symbol,
                count: self.symbol_count(),
                strings: strings as *const u8,
                string_bytes: bytes,
            },
            _ => Symbols::NONE,
        }
    }

    /// Visits the addresses of the object's relocations, those of its procedure links too.
    pub fn relocations(&self, mut visit: impl FnMut(usize)) {
        for (table, size) in [(DT_RELA, DT_RELASZ), (DT_JMPREL, DT_PLTRELSZ)] {
            // SAFETY: as in `pointer`; this one is a size.
            let bytes = unsafe { value(self.dynamic, size) }.unwrap_or(0);
            if let Some(table) = self.pointer(table) {
                let count = bytes / size_of::<libc::Elf64_Rela>();
                (0..count).for_each(|index| visit(table + index * size_of::<libc::Elf64_Rela>()));
            }
        }
    }

    fn symbol_count(&self) -> usize {
        if let Some(hash) = self.pointer(DT_HASH) {
            // SAFETY: the second word of the classic table is the number of symbols.
            return unsafe { (hash as *const u32).add(1).read() } as usize;
        }
        self.gnu_hash().map_or(0, |hash| hash.count())
    }

    fn gnu_hash(&self) -> Option<GnuHash> {
        let at = self.pointer(DT_GNU_HASH)? as *const u32;
        // SAFETY: the header is four words.
        let header = unsafe { at.cast::<[u32; 4]>().read_unaligned() };
        let [buckets, first, words, shift] = header;
        let bloom = unsafe { at.add(4) } as *const u64;
        let table = unsafe { bloom.add(words as usize) } as *const u32;
        Some(GnuHash {
            buckets,
            first,
            words,
            shift,
            bloom,
            table,
        })
    }

    /// Whether it defines a function of this name.
    pub fn defines(&self, name: &[u8]) -> bool {
        self.find(name, Symbol::is_defined_function).is_some()
    }

    /// Where a function that it defines is in memory, and its size.
    pub fn function(&self, name: &[u8]) -> Option<(usize, usize)> {
        let symbol = self.find(name, Symbol::is_defined_function)?;
        let address = self.bias.wrapping_add(symbol.value as usize);
        Some((address, symbol.size as usize))
    }

    /// Where what it defines under this name is in memory.
    pub fn address_of(&self, name: &[u8]) -> Option<usize> {
        let is_defined = |symbol: &Symbol| symbol.section != 0 && symbol.value != 0;
        let symbol = self.find(name, is_defined)?;
        Some(self.bias.wrapping_add(symbol.value as usize))
    }

    fn find(&self, name: &[u8], is_it: impl Fn(&Symbol) -> bool) -> Option<Symbol> {
        let symbols = self.symbols();
        let look = |index: usize| {
            let (symbol, found) = symbols.get(index)?;
            (found == name && is_it(&symbol)).then_some(symbol)
        };
        match self.gnu_hash() {
            Some(hash) => hash.chain(name).find_map(look),
            None => (0..symbols.count).find_map(look),
        }
    }
}

/// A table of symbols, in memory or in a mapped file.
#[derive(Clone, Copy)]
pub struct Symbols {
    pub table: *const Symbol,
    pub count: usize,
    pub strings: *const u8,
    pub string_bytes: usize,
}

impl Symbols {
    pub const NONE: Symbols = Symbols {
        table: core::ptr::null(),
        count: 0,
        strings: core::ptr::null(),
        string_bytes: 0,
    };

    pub fn get(&self, index: usize) -> Option<(Symbol, &'static [u8])> {
        if index >= self.count {
            return None;
        }
        // SAFETY: the tables are as long as they say, and stay mapped while they are used.
        let symbol = unsafe { self.table.add(index).read_unaligned() };
        let at = symbol.name as usize;
        if at >= self.string_bytes {
            return None;
        }
        let rest =
            unsafe { core::slice::from_raw_parts(self.strings.add(at), self.string_bytes - at) };
        let end = rest.iter().position(|byte| *byte == 0)?;
        Some((symbol, &rest[..end]))
    }

    /// Where a symbol is.
    pub fn address_of(&self, index: usize) -> usize {
        self.table.wrapping_add(index) as usize
    }

    pub fn iter(&self) -> impl Iterator<Item = (Symbol, &'static [u8])> + '_ {
        (0..self.count).filter_map(|index| self.get(index))
    }
}

struct GnuHash {
    buckets: u32,
    first: u32,
    words: u32,
    shift: u32,
    bloom: *const u64,
    table: *const u32,
}

impl GnuHash {
    unsafe fn link(&self, index: u32) -> u32 {
        let at = (self.buckets + index - self.first) as usize;
        unsafe { self.table.add(at).read() }
    }

    /// One more than the last symbol that a chain reaches.
    fn count(&self) -> usize {
        let bucket = |at| unsafe { self.table.add(at as usize).read() };
        let last = (0..self.buckets).map(bucket).max().unwrap_or(0);
        if last < self.first || last == 0 {
            return self.first as usize;
        }
        let mut index = last;
        // SAFETY: every chain ends with an odd hash.
        while unsafe { self.link(index) } & 1 == 0 {
            index += 1;
        }
        index as usize + 1
    }

    /// Symbols that may have this name.
    fn chain(&self, name: &[u8]) -> impl Iterator<Item = usize> + '_ {
        let hash = name.iter().fold(5381u32, |hash, byte| {
            hash.wrapping_mul(33).wrapping_add((*byte).into())
        });
        let mut index = self.bucket_of(hash);
        core::iter::from_fn(move || {
            while index != 0 {
                let this = index;
                // SAFETY: within a chain.
                let found = unsafe { self.link(this) };
                index = if found & 1 == 1 { 0 } else { this + 1 };
                if found | 1 == hash | 1 {
                    return Some(this as usize);
                }
            }
            None
        })
    }

    fn bucket_of(&self, hash: u32) -> u32 {
        if self.words == 0 || self.buckets == 0 {
            return 0;
        }
        // SAFETY: the filter and the buckets are as long as the header says.
        let word = unsafe { self.bloom.add(((hash / 64) % self.words) as usize).read() };
        let bits = (1u64 << (hash % 64)) | (1u64 << ((hash >> (self.shift & 31)) % 64));
        if word & bits != bits {
            return 0;
        }
        let index = unsafe { self.table.add((hash % self.buckets) as usize).read() };
        if index < self.first { 0 } else { index }
    }
}
