//! The functions of a library, or of a program with a CUDA runtime inside: names, and where in the
//! file their probes go.

use super::changed::{Change, Changes};
use super::probe_point;
use crate::call::Filter;
use cuda::select::{is_cuda_name, is_library, returns_twice};
use event::Name;
use memmap2::Mmap;
use object::elf::{EM_X86_64, FileHeader64, PF_X, PT_LOAD, SHN_UNDEF, STT_FUNC};
use object::read::elf::{FileHeader, ProgramHeader};
use object::{LittleEndian as LE, read::elf::SymbolTable};
use std::collections::BTreeMap;
use std::fs::File;

/// Names tables of programs with GPU code in them may be long; others are not searched if they are.
const LARGE_NAMES: u64 = 1 << 20;
/// Functions taken of one file, at most.
const MOST_FUNCTIONS: usize = 60_000;
/// Bytes of a function that are looked at, at most.
const MOST_CODE: u64 = 64 << 10;

/// Which functions are wanted.
#[derive(Debug, Clone, Default)]
pub struct Wanted {
    /// Globs over library names, and over their functions.
    pub libraries: Vec<(String, String)>,
    /// What the user asked for, and what tells of it.
    pub filter: Option<Filter>,
    /// No functions of CUDA's besides, but also those that are not exported: a hook names them.
    pub only_named: bool,
    /// None at all.
    pub nothing: bool,
    /// Those whose calls come with their stacks.
    pub stacks: Option<Filter>,
    /// Nanoseconds; shorter calls are not wanted.
    pub shortest: u64,
    /// One call of many is recorded.
    pub sampled: bool,
    /// Launches tell where they come from: their kernels were registered before anybody looked.
    pub callers: bool,
}

impl Wanted {
    fn names_library(&self, path: &str) -> bool {
        let mut globs = self.libraries.iter();
        globs.any(|(library, _)| is_library(library.as_bytes(), path.as_bytes()))
    }

    fn considers(&self, path: &str, name: &str) -> bool {
        let named = |(library, functions): &(String, String)| {
            is_library(library.as_bytes(), path.as_bytes())
                && event::matches_glob(functions.as_bytes(), name.as_bytes())
        };
        !self.only_named && is_cuda_name(name.as_bytes())
            || self.libraries.iter().any(named) && !returns_twice(name.as_bytes())
    }

    /// Whether a function's calls come with their stacks.
    pub fn wants_stack(&self, name: &str) -> bool {
        self.stacks
            .as_ref()
            .is_some_and(|stacks| stacks.wants(name))
    }

    fn wants(&self, name: &str) -> bool {
        self.filter.as_ref().is_none_or(|filter| filter.wants(name))
    }
}

/// A file with functions that are wanted.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Library {
    /// One for each address, by the plainest of its names.
    pub functions: Vec<Function>,
    /// Names that could be asked for, and those that the probes stand for.
    pub exported: u64,
    pub hooked: u64,
    /// Functions that cannot be probed, by reason.
    pub skipped: BTreeMap<String, u64>,
    /// Functions whose returns are left alone: exceptions may be thrown through them.
    pub throwing: u64,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Function {
    pub name: Name,
    /// Where in the file the function begins, and how far behind that its probe is.
    pub entry: u64,
    pub offset: u64,
    /// Whether its return may have a probe, too. That replaces the return address on the stack, which
    /// ends a program that throws an exception through the function.
    pub returns: bool,
    /// Bytes of its first instruction, and from its entry to the end of the one that is probed.
    first: usize,
    probe_end: usize,
}

impl Library {
    /// Leaves out functions that someone has patched in memory. Where the first instruction is the
    /// file's, the probe goes there. How many were left out.
    pub fn leave_changed(&mut self, file: &File, changes: &Changes) -> u64 {
        let before = self.functions.len();
        self.functions.retain_mut(|function| {
            let Function { entry, first, .. } = *function;
            let change = changes.at(file, entry, first, function.probe_end);
            if change == Change::BehindFirst {
                (function.offset, function.probe_end) = (0, first);
            }
            change != Change::AtFirst
        });
        let left = (before - self.functions.len()) as u64;
        if left > 0 {
            self.hooked = self.hooked.saturating_sub(left);
            let why = "patched in memory: another cutrace already records them";
            *self.skipped.entry(why.into()).or_default() += left;
        }
        left
    }
}

struct Candidate<'a> {
    name: &'a str,
    address: u64,
    size: u64,
}

struct Segment {
    address: u64,
    size: u64,
    offset: u64,
}

type Header = FileHeader64<LE>;

/// What is wanted of a file; `shown` is the path its process knows it by. None: nothing in it is, or
/// it is no library of this machine's.
pub fn read(file: &File, shown: &str, wanted: &Wanted) -> Option<Library> {
    // SAFETY: the mapping is only read, and every number in it is checked; a file that is cut short
    // meanwhile would be a library that its own program cannot use either.
    let bytes = unsafe { Mmap::map(file) }.ok()?;
    read_bytes(&bytes, shown, wanted)
}

fn read_bytes(bytes: &[u8], shown: &str, wanted: &Wanted) -> Option<Library> {
    if wanted.nothing {
        return None;
    }
    let header = Header::parse(bytes).ok()?;
    if header.e_machine.get(LE) != EM_X86_64 {
        return None;
    }
    let sections = header.sections(LE, bytes).ok()?;
    let dynamic = sections.symbols(LE, bytes, object::elf::SHT_DYNSYM).ok()?;
    let named = wanted.names_library(shown);
    let exports_cuda = defines(&dynamic, &[b"cuInit", b"cudaMalloc"]);
    let mut found = Vec::new();
    let whole = if exports_cuda || named {
        collect(&dynamic, shown, wanted, false, &mut found);
        if wanted.only_named
            && let Ok(own) = sections.symbols(LE, bytes, object::elf::SHT_SYMTAB)
        {
            collect(&own, shown, wanted, false, &mut found);
        }
        None
    } else {
        let gpu_code = sections.iter().any(|section| {
            let name = sections.section_name(LE, section).unwrap_or_default();
            matches!(
                name,
                b".nv_fatbin" | b"__nv_relfatbin" | b".nvFatBinSegment"
            )
        });
        let table = sections.section_by_name(LE, b".strtab");
        let length = table.map_or(0, |(_, section)| section.sh_size.get(LE));
        if !gpu_code && length > LARGE_NAMES {
            return None;
        }
        let table = sections.symbols(LE, bytes, object::elf::SHT_SYMTAB).ok()?;
        if !defines(&table, &[b"cudaMalloc"]) {
            return None;
        }
        Some(table)
    };
    if let Some(table) = &whole {
        collect(table, shown, wanted, true, &mut found);
    }
    let segments = segments(header, bytes);
    let mut library = choose(found, &segments, bytes, wanted);
    let throws = if is_plain_c(shown) || exports_cuda || whole.is_some() {
        Throws::OnlyMangled
    } else if can_throw(&sections, &dynamic) {
        Throws::Everything
    } else {
        Throws::Nothing
    };
    for function in &mut library.functions {
        function.returns = !throws.through(&function.name);
        library.throwing += u64::from(!function.returns);
    }
    Some(library)
}

/// Which functions of a file exceptions may be thrown through.
#[derive(Clone, Copy)]
enum Throws {
    Nothing,
    /// CUDA's functions are plain C; what is C++ in their libraries is not.
    OnlyMangled,
    Everything,
}

impl Throws {
    fn through(self, name: &str) -> bool {
        match self {
            Throws::Nothing => false,
            Throws::OnlyMangled => name.starts_with("_Z"),
            Throws::Everything => true,
        }
    }
}

/// NVIDIA's libraries are C to their callers, whatever they are written in; and so is the C library,
/// though it has tables for the cancelling of threads.
const PLAIN_C: [&str; 9] = [
    "libcu",
    "libnv",
    "libnccl",
    "libnpp",
    "libc.so",
    "libm.so",
    "libpthread.so",
    "libdl.so",
    "librt.so",
];

fn is_plain_c(path: &str) -> bool {
    let name = path.rsplit('/').next().unwrap_or_default();
    PLAIN_C.iter().any(|begins| name.starts_with(begins))
}

/// Whether exceptions can pass through code of this file: it uses what throws and catches them, or has
/// tables for them that are not C's.
fn can_throw(
    sections: &object::read::elf::SectionTable<'_, Header>,
    dynamic: &SymbolTable<'_, Header>,
) -> bool {
    let names = |which: &[&[u8]]| {
        dynamic.iter().any(|symbol| {
            let name = dynamic.symbol_name(LE, symbol);
            name.is_ok_and(|name| which.contains(&name))
        })
    };
    names(&[
        b"__gxx_personality_v0",
        b"__cxa_throw",
        b"__cxa_rethrow",
        b"_Unwind_RaiseException",
    ]) || sections.section_by_name(LE, b".gcc_except_table").is_some()
        && !names(&[b"__gcc_personality_v0"])
}

fn defines(table: &SymbolTable<'_, Header>, names: &[&[u8]]) -> bool {
    let is_one = |symbol: &object::elf::Sym64<LE>| {
        is_function(symbol)
            && table
                .symbol_name(LE, symbol)
                .is_ok_and(|name| names.contains(&name))
    };
    table.iter().any(is_one)
}

fn is_function(symbol: &object::elf::Sym64<LE>) -> bool {
    symbol.st_type() == STT_FUNC
        && symbol.st_shndx.get(LE) != SHN_UNDEF
        && symbol.st_value.get(LE) != 0
}

fn collect<'a>(
    table: &SymbolTable<'a, Header>,
    shown: &str,
    wanted: &Wanted,
    only_known: bool,
    found: &mut Vec<Candidate<'a>>,
) {
    for symbol in table.iter().filter(|symbol| is_function(symbol)) {
        let name = table.symbol_name(LE, symbol).ok();
        let Some(name) = name.and_then(|name| std::str::from_utf8(name).ok()) else {
            continue;
        };
        if !wanted.considers(shown, name) {
            continue;
        }
        // A program's own functions may be called cudaThis and cudaThat.
        if only_known && (!is_cuda_name(name.as_bytes()) || cuda::function(name).is_none()) {
            continue;
        }
        if found.len() < MOST_FUNCTIONS {
            found.push(Candidate {
                name,
                address: symbol.st_value.get(LE),
                size: symbol.st_size.get(LE),
            });
        }
    }
}

fn segments(header: &Header, bytes: &[u8]) -> Vec<Segment> {
    let headers = header.program_headers(LE, bytes).unwrap_or_default();
    let code = headers
        .iter()
        .filter(|one| one.p_type(LE) == PT_LOAD && one.p_flags(LE) & PF_X != 0);
    code.map(|one| Segment {
        address: one.p_vaddr(LE),
        size: one.p_filesz(LE),
        offset: one.p_offset(LE),
    })
    .collect()
}

fn choose(
    mut found: Vec<Candidate<'_>>,
    segments: &[Segment],
    bytes: &[u8],
    wanted: &Wanted,
) -> Library {
    let mut library = Library {
        exported: found.len() as u64,
        ..Library::default()
    };
    // Of several names for one function the plainest stands for all.
    found.sort_by_key(|one| (one.address, one.name.len(), one.name));
    let mut previous = 0;
    for one in &found {
        if one.address == previous {
            library.hooked += 1;
            continue;
        }
        if !wanted.wants(one.name) {
            continue;
        }
        match place(one, segments, bytes) {
            Ok(place) => {
                previous = one.address;
                library.hooked += 1;
                library.functions.push(Function {
                    name: one.name.into(),
                    entry: place.entry,
                    offset: place.offset,
                    returns: true,
                    first: place.first,
                    probe_end: place.probe_end,
                });
            }
            Err(why) => *library.skipped.entry(why.to_string()).or_default() += 1,
        }
    }
    library
}

/// Where in the file a function is, and where its probe goes.
struct ProbeSite {
    entry: u64,
    offset: u64,
    first: usize,
    probe_end: usize,
}

/// Why a function gets no probe.
#[derive(Debug, Clone, Copy, thiserror::Error)]
enum NoSite {
    #[error("no code at its address")]
    NoCode,
    #[error("its code is not in the file")]
    NotInFile,
}

fn place(one: &Candidate<'_>, segments: &[Segment], bytes: &[u8]) -> Result<ProbeSite, NoSite> {
    let holds = |segment: &&Segment| {
        one.address
            .checked_sub(segment.address)
            .is_some_and(|at| at < segment.size)
    };
    let segment = segments.iter().find(holds).ok_or(NoSite::NoCode)?;
    let within = one.address - segment.address;
    let entry = segment.offset.checked_add(within).ok_or(NoSite::NoCode)?;
    let room = (segment.size - within).min(one.size).min(MOST_CODE);
    let code = usize::try_from(entry).ok().and_then(|start| {
        let end = start.checked_add(usize::try_from(room).ok()?)?;
        bytes.get(start..end)
    });
    let code = code.ok_or(NoSite::NotInFile)?;
    // Of longer ones the end would not be seen.
    let offset = if one.size > MOST_CODE {
        0
    } else {
        probe_point::offset(code)
    };
    Ok(ProbeSite {
        entry,
        offset,
        first: probe_point::instruction_bytes(code, 0),
        probe_end: offset as usize + probe_point::instruction_bytes(code, offset),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::{Path, PathBuf};

    /// Folders of libcuda that scripts/fetch-libcuda has fetched.
    fn drivers() -> Vec<PathBuf> {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/libcuda");
        let versions = std::fs::read_dir(folder).into_iter().flatten().flatten();
        let found: Vec<PathBuf> = versions
            .map(|version| version.path().join("libcuda.so.1"))
            .filter(|path| path.exists())
            .collect();
        if found.is_empty() {
            let required = std::env::var_os("CUTRACE_REQUIRE_ALL").is_some_and(|it| it == "1");
            assert!(!required, "no libcuda here, and everything is required");
            eprintln!("skipped: no libcuda here; scripts/fetch-libcuda fetches them");
        }
        found
    }

    /// objdump's word on where instructions begin, function by function: decoding begins at each entry.
    fn instructions(functions: &[Vec<u8>]) -> std::collections::HashSet<(usize, u64)> {
        // All beginnings one after the other, each padded so that none runs into the next.
        const ROOM: usize = 64;
        let folder = tempfile::tempdir().expect("a folder");
        let cut = folder.path().join("code");
        let mut code = Vec::new();
        for function in functions {
            let mut part = function.clone();
            part.resize(ROOM, 0x90);
            code.extend(part);
        }
        std::fs::write(&cut, &code).expect("written");
        let said = std::process::Command::new("objdump")
            .args([
                "-D",
                "-b",
                "binary",
                "-m",
                "i386:x86-64",
                "--no-show-raw-insn",
                "-w",
            ])
            .arg(&cut)
            .output()
            .expect("objdump");
        let text = String::from_utf8_lossy(&said.stdout);
        text.lines()
            .filter_map(|line| line.trim_start().split_once(':'))
            .filter_map(|(place, _)| usize::from_str_radix(place, 16).ok())
            .map(|place| (place / ROOM, (place % ROOM) as u64))
            .collect()
    }

    /// Drivers that no archive has, by how their exports begin (tests/gpu/exports.py).
    #[test]
    fn every_probe_of_recorded_drivers_is_at_an_instruction_that_others_see_too() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/ebpf/exports");
        for file in std::fs::read_dir(folder).expect("there") {
            let path = file.expect("readable").path();
            let text = std::fs::read_to_string(&path).expect("readable");
            let functions: Vec<(&str, Vec<u8>)> = text
                .lines()
                .map(|line| {
                    let mut words = line.split(' ');
                    let (name, code) = (words.next().expect("a name"), words.nth(1).expect("code"));
                    let byte = |at| u8::from_str_radix(&code[at..at + 2], 16).expect("hexadecimal");
                    (name, (0..code.len()).step_by(2).map(byte).collect())
                })
                .collect();
            assert!(functions.len() > 600, "{}", path.display());
            let codes: Vec<Vec<u8>> = functions.iter().map(|(_, code)| code.clone()).collect();
            let places = instructions(&codes);
            for (number, (name, code)) in functions.iter().enumerate() {
                let offset = probe_point::offset(code);
                assert!(places.contains(&(number, offset)), "{name}: {offset}");
                // A push is emulated: nothing further on is cheaper.
                assert!(code[0] != 0x55 || offset == 0, "{name}: {offset}");
            }
        }
    }

    #[test]
    fn every_probe_of_real_drivers_is_at_an_instruction_that_others_see_too() {
        for path in drivers() {
            let shown = path.display().to_string();
            let file = File::open(&path).expect("there");
            let library = read(&file, &shown, &Wanted::default()).expect("a CUDA library");
            assert!(library.functions.len() > 500, "{shown}");
            assert_eq!(library.hooked, library.exported, "{shown}");
            let bytes = std::fs::read(&path).expect("readable");
            let begins = |function: &Function| {
                let start = function.entry as usize;
                bytes[start..start + 32].to_vec()
            };
            let places = instructions(&library.functions.iter().map(begins).collect::<Vec<_>>());
            let mut moved = 0;
            for (number, function) in library.functions.iter().enumerate() {
                let place = (number, function.offset);
                assert!(places.contains(&place), "{shown}: {}", function.name);
                moved += usize::from(function.offset > 0);
            }
            eprintln!(
                "{shown}: {} functions, {moved} behind their entries",
                library.functions.len()
            );
        }
    }

    #[test]
    fn returns_are_left_alone_where_exceptions_may_pass() {
        let everything = Wanted {
            libraries: vec![("*".into(), "*".into())],
            ..Wanted::default()
        };
        // The loader's name for a library, what of it is read, and whether its returns are probed.
        for (name, returns) in [
            ("libstdc++.so.6", false),
            ("libc.so.6", true),
            ("libz.so.1", true),
        ] {
            let folder = Path::new("/lib/x86_64-linux-gnu");
            let folders = [
                folder,
                Path::new("/usr/lib/x86_64-linux-gnu"),
                Path::new("/lib64"),
            ];
            let Some(path) = folders
                .iter()
                .map(|it| it.join(name))
                .find(|it| it.exists())
            else {
                eprintln!("skipped: no {name} here");
                continue;
            };
            let file = File::open(&path).expect("readable");
            let shown = path.display().to_string();
            let library = read(&file, &shown, &everything).expect("a library");
            assert!(library.functions.len() > 20, "{shown}");
            let probed = library.functions.iter().filter(|one| one.returns).count();
            let expected = if returns { library.functions.len() } else { 0 };
            assert_eq!(probed, expected, "{shown}");
        }
        assert!(is_plain_c("/opt/x/libnccl.so.2") && is_plain_c("libcublasLt.so.12"));
        assert!(!is_plain_c("/libcu/libtorch.so") && !is_plain_c("libstdc++.so.6"));
        assert!(
            Throws::OnlyMangled.through("_ZN5cudnn3runEv")
                && !Throws::OnlyMangled.through("cuInit")
        );
    }

    #[test]
    fn what_is_no_library_is_left_alone() {
        let wanted = Wanted::default();
        for bytes in [&b""[..], b"\x7fELF", &[0x7f; 4096]] {
            assert_eq!(read_bytes(bytes, "x", &wanted), None);
        }
        let own = std::fs::read(std::env::current_exe().expect("known")).expect("readable");
        assert_eq!(read_bytes(&own, "x", &wanted), None);
        for cut in (0..own.len().min(1 << 20)).step_by(4093) {
            let _ = read_bytes(&own[..cut], "x", &wanted);
        }
    }
}
