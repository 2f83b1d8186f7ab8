use super::*;
use memmap2::{Mmap, MmapOptions};
use object::{Object, ObjectSymbol};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Code of nvcc's shape: a constructor that registers two kernels, one of which is launched by a function that the
/// compiler has put it into, beside another.
const PROGRAM: &str = r#"
typedef unsigned long size;
int __cudaRegisterFunction(void **, const void *, char *, const char *, int, void *, void *, void *, void *, int *);
void **__cudaRegisterFatBinary(void *);
int __cudaGetKernel(void **, const void *);
int __cudaLaunchKernel(void *, size, size, void **, size, void *);
static struct { int magic, version; void *data, *more; } wrapper = { 0x466243b1, 1, 0, 0 };
static void *one, *two;
static char got_one, got_two;
__attribute__((noinline)) static void addOne(float *p) { asm volatile("" :: "r"(p)); }
__attribute__((noinline)) static void scale(float *p) { asm volatile("" :: "r"(p)); }
__attribute__((noinline)) static void helper(void **handle) {
    __cudaRegisterFunction(handle, (void *)addOne, (char *)"_Z6addOnePf", "_Z6addOnePf", -1, 0, 0, 0, 0, 0);
    __cudaRegisterFunction(handle, (void *)scale, (char *)"_Z5scalePf", "_Z5scalePf", -1, 0, 0, 0, 0, 0);
    __cudaRegisterFunction(handle, (void *)&wrapper, (char *)"variable", "variable", -1, 0, 0, 0, 0, 0);
}
__attribute__((constructor)) static void all(void) { helper(__cudaRegisterFatBinary(&wrapper)); }
int launch(int which) {
    if (which) {
        if (__builtin_expect(!got_one, 0)) got_one = __cudaGetKernel(&one, (void *)addOne) == 0;
        __cudaLaunchKernel(one, 1, 1, 0, 0, 0);
    } else {
        if (__builtin_expect(!got_two, 0)) got_two = __cudaGetKernel(&two, (void *)scale) == 0;
        __cudaLaunchKernel(two, 1, 1, 0, 0, 0);
    }
    addOne(0);
    scale(0);
    return which;
}
"#;

fn compiled(folder: &Path, flags: &[&str]) -> PathBuf {
    let (source, made) = (folder.join("a.c"), folder.join("a.so"));
    std::fs::write(&source, PROGRAM).expect("written");
    let mut command = Command::new("cc");
    command.args(["-shared", "-fPIC", "-o"]);
    let built = command.args([&made, &source]).args(flags).output();
    let built = built.expect("a compiler");
    assert!(built.status.success(), "{built:?}");
    made
}

fn read(bytes: &[u8]) -> Option<Registered> {
    let mut copy = MmapOptions::new()
        .len(bytes.len().max(1))
        .map_anon()
        .expect("memory");
    copy[..bytes.len()].copy_from_slice(bytes);
    let copy: Mmap = copy.make_read_only().expect("memory");
    Image::new(copy).map(Registered::read)
}

fn of_file(path: &Path) -> Registered {
    read(&std::fs::read(path).expect("a file")).expect("an ELF file")
}

fn names(registered: &Registered) -> BTreeMap<u64, String> {
    let named = |host: &u64| Some((*host, registered.at(*host)?.to_owned()));
    registered.names.keys().filter_map(named).collect()
}

/// What calls return to anywhere in a function, and the kernel that is launched there.
fn launches(registered: &Registered, start: u64, size: usize) -> Vec<String> {
    let code = &registered.image.code(start)[..size];
    let calls = Decoder::with_ip(64, code, start, DecoderOptions::NONE).into_iter();
    let calls = calls.filter(is_call);
    calls
        .filter_map(|call| registered.launched(call.next_ip()).map(str::to_owned))
        .collect()
}

#[test]
fn kernels_are_found_where_they_are_registered_and_launched() {
    for flags in [
        &["-O2", "-s"][..],
        &["-O0", "-s"],
        &["-O2", "-s", "-fno-plt"],
    ] {
        let folder = tempfile::tempdir().expect("a folder");
        let path = compiled(folder.path(), flags);
        let registered = of_file(&path);
        let found: Vec<String> = names(&registered).into_values().collect();
        assert_eq!(found, ["_Z6addOnePf", "_Z5scalePf"], "{flags:?}");
        let bytes = std::fs::read(&path).expect("a file");
        let elf = object::File::parse(&*bytes).expect("an ELF file");
        let launch = elf
            .dynamic_symbols()
            .find(|symbol| symbol.name() == Ok("launch"))
            .expect("exported");
        let size = usize::try_from(launch.size()).expect("small");
        let mut launched = launches(&registered, launch.address(), size);
        launched.sort();
        assert_eq!(launched, ["_Z5scalePf", "_Z6addOnePf"], "{flags:?}");
    }
}

/// What nvcc makes, with its runtime linked in: with symbols, which say what is right, and stripped.
#[test]
fn kernels_of_stripped_programs_are_those_of_their_symbols() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let folder = root.join("target/programs/static");
    let Ok(programs) = std::fs::read_dir(&folder) else {
        let required = std::env::var_os("CUTRACE_REQUIRE_ALL");
        assert!(required.is_none_or(|value| value != "1"), "no programs");
        eprintln!("skipped: the test programs are not built; type: make programs");
        return;
    };
    let own = tempfile::tempdir().expect("a folder");
    let stripped = own.path().join("stripped");
    let mut kernels = 0;
    for program in programs.map(|entry| entry.expect("a file").path()) {
        let bytes = std::fs::read(&program).expect("a file");
        let elf = object::File::parse(&*bytes).expect("an ELF file");
        let stubs: Vec<_> = elf
            .symbols()
            .filter_map(|symbol| {
                let name = symbol.name().ok().filter(|name| !name.contains(".cold"))?;
                let kernel = super::super::of_stub(name).filter(|_| symbol.size() > 0)?;
                let is_code = symbol.kind() == object::SymbolKind::Text;
                let size = usize::try_from(symbol.size()).ok()?;
                is_code.then(|| (symbol.address(), size, kernel.to_owned()))
            })
            .collect();
        let mut strip = Command::new("strip");
        let status = strip.arg("-o").args([&stripped, &program]).status();
        assert!(status.expect("strip").success());
        let (whole, registered) = (of_file(&program), of_file(&stripped));
        assert_eq!(names(&whole), names(&registered), "{}", program.display());
        assert_eq!(
            registered.names.is_empty(),
            stubs.is_empty(),
            "{}",
            program.display()
        );
        for (start, size, kernel) in stubs {
            let launched = launches(&registered, start, size);
            // Lambdas have names of nvcc's own in those of stubs, from here on.
            let sure = kernel.find("Unv").unwrap_or(kernel.len());
            let same = |name: &String| *name == kernel || name.starts_with(&kernel[..sure]);
            assert!(!launched.is_empty(), "{kernel}");
            assert!(launched.iter().all(same), "{kernel}: {launched:?}");
            kernels += 1;
        }
        for (host, kernel) in names(&registered) {
            let symbol = elf.symbols().find(|symbol| {
                symbol.address() == host && symbol.kind() == object::SymbolKind::Text
            });
            let name = symbol.expect("a symbol").name().expect("a name").to_owned();
            // Those that are static have an L in their names on the host, and lambdas other types.
            let same = name == kernel || name.replacen('L', "", 1) == kernel;
            assert!(same || name.contains("__nv_"), "{name} {kernel}");
        }
    }
    assert!(kernels > 10, "{kernels}");
}

#[test]
fn damaged_files_are_read_to_an_end() {
    let folder = tempfile::tempdir().expect("a folder");
    let bytes = std::fs::read(compiled(folder.path(), &["-O2", "-s"])).expect("a file");
    let try_all = |bytes: &[u8]| {
        let Some(registered) = read(bytes) else {
            return;
        };
        let _ = names(&registered);
        for address in [0, 1, 0x1000, 0x1100, u64::MAX]
            .into_iter()
            .chain((0x1050..0x1200).step_by(7))
        {
            let _ = registered.launched(address);
        }
    };
    for length in (0..bytes.len()).step_by(61) {
        try_all(&bytes[..length]);
    }
    // Headers and tables word by word, then code and tables byte by byte with a fixed row of odd numbers.
    for at in (0..bytes.len().min(0x400)).step_by(4) {
        for value in [0, 0x7fff_ffff, u32::MAX] {
            let mut damaged = bytes.clone();
            damaged[at..at + 4].copy_from_slice(&value.to_le_bytes());
            try_all(&damaged);
        }
    }
    let mut random = 0x9e37_79b9_7f4a_7c15_u64;
    for _ in 0..200 {
        let mut damaged = bytes.clone();
        for _ in 0..40 {
            random ^= random << 13;
            random ^= random >> 7;
            random ^= random << 17;
            let at = usize::try_from(random >> 16).expect("64 bits") % damaged.len();
            damaged[at] = random.to_le_bytes()[0];
        }
        try_all(&damaged);
    }
}
