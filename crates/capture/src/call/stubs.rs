//! The functions by which a program's host side launches its kernels: nvcc makes one for each kernel. The code that
//! registers the kernels tells which is whose. Where it cannot be read, the functions' names do: they are the
//! kernel's own (`_Z9vectorAddPKfS0_Pf`) or made from it (`__device_stub__Z9vectorAddPKfS0_Pf`).

mod image;
mod registered;
mod registers;

use super::demangle::demangled;
use super::state::Kernel;
use event::Name;
use image::Image;
use memmap2::Mmap;
use object::{Object, ObjectSection, ObjectSymbol, SymbolKind};
use registered::Registered;
use std::collections::HashMap;
use std::fs::File;

/// Files whose functions are kept, and functions of one file.
const MOST_FILES: usize = 256;
const MOST_FUNCTIONS: usize = 1 << 20;
/// Addresses of one file whose answers are kept.
const MOST_ANSWERS: usize = 64 << 10;
/// Files that are larger are known by the code that registers kernels alone, and texts that are larger are not searched: threads
/// of the program wait for room in their rings meanwhile.
const MOST_BYTES: usize = 512 << 20;
const MOST_TEXT: usize = 32 << 20;
/// What nvcc puts before a kernel's name, without the first underscore of the name.
const STUB: &str = "__device_stub_";

#[derive(Default)]
pub struct Stubs {
    files: HashMap<Name, Kernels>,
}

/// Those of one file.
struct Kernels {
    registered: Option<Registered>,
    /// Read once they are needed: there may be hundreds of thousands.
    functions: Option<Option<Functions>>,
    /// What was asked before: launches come by the million.
    answers: HashMap<StubAddress, Option<Kernel>>,
}

#[derive(Clone, Copy, PartialEq, Eq, Hash)]
enum StubAddress {
    /// Where a function begins.
    Start(u64),
    /// Where a call in it returns to.
    Return(u64),
}

/// The functions of one file by address, and the texts in which kernels are registered by name.
struct Functions {
    /// Address, size, name.
    all: Vec<(u64, u64, Box<str>)>,
    bytes: Mmap,
    texts: Vec<(usize, usize)>,
}

impl Stubs {
    /// The kernel whose function begins at an address of a file.
    pub fn at(&mut self, path: &Name, address: u64) -> Option<Kernel> {
        self.of(path).find(path, StubAddress::Start(address))
    }

    /// The kernel that is launched by the call that returns to an address of a file.
    pub fn around(&mut self, path: &Name, return_address: u64) -> Option<Kernel> {
        self.of(path)
            .find(path, StubAddress::Return(return_address))
    }

    fn of(&mut self, path: &Name) -> &mut Kernels {
        if self.files.len() >= MOST_FILES && !self.files.contains_key(path) {
            self.files.clear();
        }
        let file = self.files.entry(path.clone());
        file.or_insert_with(|| Kernels::new(path))
    }
}

impl Kernels {
    fn new(path: &str) -> Self {
        let image = mapped(path).and_then(Image::new);
        Kernels {
            registered: image.map(Registered::read),
            functions: None,
            answers: HashMap::new(),
        }
    }

    fn find(&mut self, path: &str, place: StubAddress) -> Option<Kernel> {
        if let Some(known) = self.answers.get(&place) {
            return known.clone();
        }
        let registered = self.registered.as_ref().and_then(|registered| match place {
            StubAddress::Start(address) => registered.at(address),
            StubAddress::Return(address) => registered.launched(address),
        });
        let registered = registered.map(|name| Kernel {
            name: demangled(name),
            certain: true,
        });
        let found = registered.or_else(|| {
            let functions = self
                .functions
                .get_or_insert_with(|| Functions::read(path))
                .as_ref()?;
            let name = match place {
                StubAddress::Start(address) => functions.at(address),
                StubAddress::Return(address) => functions.around(address),
            }?;
            let certain = false;
            Some(Kernel { name, certain })
        });
        if self.answers.len() >= MOST_ANSWERS {
            self.answers.clear();
        }
        self.answers.insert(place, found.clone());
        found
    }
}

/// The kernel that a function of the host stands for.
fn kernel_of(function: &str) -> Name {
    demangled(of_stub(function).unwrap_or(function))
}

/// The kernel that a stub was made for, by the stub's name: as it is, or as that of a C++ function, which has its
/// length before it (`_ZL27__device_stub__Z6addOnePfiPfi`).
fn of_stub(function: &str) -> Option<&str> {
    let at = function.find(STUB)?;
    let before = &function[..at];
    let digits = before.len() - before.trim_end_matches(|c: char| c.is_ascii_digit()).len();
    let name = match before[before.len() - digits..].parse::<usize>() {
        Ok(length) => function.get(at..at.checked_add(length)?)?,
        Err(_) => &function[at..],
    };
    name.strip_prefix(STUB).filter(|kernel| !kernel.is_empty())
}

fn mapped(path: &str) -> Option<Mmap> {
    let file = File::open(path).ok()?;
    // SAFETY: only read, and every number in it is checked; a file that is cut short meanwhile is a program that
    // cannot go on either.
    unsafe { Mmap::map(&file) }.ok()
}

impl Functions {
    fn read(path: &str) -> Option<Self> {
        let bytes = mapped(path).filter(|bytes| bytes.len() <= MOST_BYTES)?;
        let (all, texts) = {
            let elf = object::File::parse(&*bytes).ok()?;
            let symbols = elf.symbols().chain(elf.dynamic_symbols());
            let mut all: Vec<(u64, u64, Box<str>)> = symbols
                .filter(|symbol| symbol.is_definition() && symbol.kind() == SymbolKind::Text)
                .filter_map(|symbol| {
                    Some((symbol.address(), symbol.size(), symbol.name().ok()?.into()))
                })
                .take(MOST_FUNCTIONS)
                .collect();
            all.sort();
            let read_only = elf
                .sections()
                .filter(|section| section.name().is_ok_and(|name| name.starts_with(".rodata")));
            let texts = read_only.filter_map(|section| {
                let (start, size) = section.file_range()?;
                let start = usize::try_from(start).ok()?;
                let end = start.checked_add(usize::try_from(size).ok()?)?;
                (end <= bytes.len()).then_some((start, end))
            });
            (all, texts.collect())
        };
        Some(Functions { all, bytes, texts })
    }

    /// The kernel whose function begins at an address.
    fn at(&self, address: u64) -> Option<Name> {
        let (_, name) = self.find(address).filter(|(start, _)| *start == address)?;
        Some(kernel_of(name))
    }

    /// The kernel whose function a call is in: only if kernels of that name are registered, because the compiler
    /// may have put the function into another.
    fn around(&self, return_address: u64) -> Option<Name> {
        let (_, name) = self.find(return_address.wrapping_sub(1))?;
        let is_stub = of_stub(name).is_some() || self.has_text(name);
        is_stub.then(|| kernel_of(name))
    }

    /// The function that an address is in: where it begins, and its name.
    fn find(&self, address: u64) -> Option<(u64, &str)> {
        let after = self.all.partition_point(|(start, ..)| *start <= address);
        let start = self.all.get(after.checked_sub(1)?)?.0;
        let same = self.all[..after].iter().rev();
        // Of several names for one function the kernel's is the mangled one.
        same.take_while(|(at, ..)| *at == start)
            .filter(|(at, size, _)| address - at < (*size).max(1))
            .map(|(at, _, name)| (*at, &**name))
            .max_by_key(|(_, name)| name.starts_with("_Z"))
    }

    /// Whether a name is a text of the program's: nvcc's code registers kernels by it.
    fn has_text(&self, name: &str) -> bool {
        let all = self.texts.iter().map(|(start, end)| end - start);
        if all.fold(0, usize::saturating_add) > MOST_TEXT {
            return false;
        }
        let mut wanted = Vec::with_capacity(name.len() + 2);
        wanted.push(0);
        wanted.extend_from_slice(name.as_bytes());
        wanted.push(0);
        let mut texts = self
            .texts
            .iter()
            .map(|(start, end)| &self.bytes[*start..*end]);
        texts.any(|text| {
            text.starts_with(&wanted[1..]) || text.windows(wanted.len()).any(|part| part == wanted)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stubs_have_the_names_of_their_kernels() {
        let kernel = |function| of_stub(function).map(|name| demangled(name).to_string());
        let plain = Some("addOne(float*, int)".to_owned());
        assert_eq!(kernel("__device_stub__Z6addOnePfi"), plain);
        assert_eq!(kernel("_ZL26__device_stub__Z6addOnePfiPfi"), plain);
        assert_eq!(kernel("_ZL26__device_stub__Z6addOnePfiPfi.cold"), plain);
        // A kernel with C's name; no stubs; lengths that lie.
        assert_eq!(kernel("__device_stub_plain"), Some("plain".to_owned()));
        assert_eq!(kernel("_Z6addOnePfi"), None);
        assert_eq!(kernel("_ZL999__device_stub__Z6addOnePfiPfi"), None);
        assert_eq!(kernel("_ZL3__device_stub__Z6addOnePfiPfi"), None);
        assert_eq!(kernel("__device_stub_"), None);
    }

    #[test]
    fn functions_are_found_by_address_and_texts_decide() {
        let own: Name = std::env::current_exe()
            .expect("known")
            .display()
            .to_string()
            .into();
        let mut stubs = Stubs::default();
        let functions = Functions::read(&own).expect("an ELF file");
        let (address, size, name) = (functions.all.iter())
            .find(|(_, size, name)| *size > 8 && name.starts_with("_ZN"))
            .cloned()
            .expect("a function");
        assert!(size > 8);
        let found = stubs.at(&own, address).expect("found");
        assert_eq!((found.name, found.certain), (demangled(&name), false));
        assert!(stubs.at(&own, address + 1).is_none());
        // No kernel of that name is registered.
        assert!(stubs.around(&own, address + 2).is_none());
        assert!(stubs.at(&"/no/such/file".into(), address).is_none());
        assert!(stubs.at(&file!().into(), address).is_none());
    }
}
