//! Libraries that are installed, and the functions they offer: for lists. What a program really maps
//! is looked for when it runs.

use object::{
    LittleEndian as LE, Object, ObjectSymbol, ReadRef, SymbolKind, elf,
    read::elf::{FileHeader, ProgramHeader},
};
use std::{
    collections::BTreeSet,
    env, fs, io,
    path::{Path, PathBuf},
};

/// Where loaders look, besides LD_LIBRARY_PATH.
const FOLDERS: [&str; 8] = [
    "/usr/local/nvidia/lib64",
    "/usr/local/cuda/lib64",
    "/usr/lib/x86_64-linux-gnu",
    "/usr/lib/x86_64-linux-gnu/nvidia/current",
    "/usr/lib64",
    "/usr/lib",
    "/lib64",
    "/usr/lib/wsl/lib",
];
/// The names and folders of one file, far more than any has.
const MOST_TEXT: u64 = 64 << 20;
const NAMES: [&str; 2] = ["libcuda.so.1", "libcudart.so."];

/// CUDA's libraries, or those that a glob of probes (`uprobe:LIB:FUNCTION`) names; `first` are folders that are
/// looked into before the usual ones.
pub fn installed(glob: Option<&str>, first: &[PathBuf]) -> Vec<PathBuf> {
    match glob.and_then(|glob| Some(glob.split_once(':')?.1.rsplit_once(':')?.0)) {
        Some(library) => find(library, first),
        None => in_folders(first, |file| {
            NAMES.iter().any(|name| file.starts_with(name))
        }),
    }
}

/// Libraries and programs by a name or a path, either of which may have globs. Without a version, any matches:
/// `libcuda.so` finds libcuda.so.1. A path also finds what folders of `first` have under its name.
pub fn find(library: &str, first: &[PathBuf]) -> Vec<PathBuf> {
    let path = Path::new(library);
    let named = path.file_name().and_then(|name| name.to_str());
    let named = named.unwrap_or(library);
    if !library.contains('/') {
        return in_folders(first, |file| is_named(named, file));
    }
    let mut found = LibraryPaths::default();
    for folder in first {
        found.add_from(folder, |file| is_named(named, file));
    }
    for path in expand(path) {
        found.add(path);
    }
    found.sorted()
}

/// What to say when nothing was found.
pub fn not_found(library: &str) -> String {
    match library.contains('/') {
        true => format!("no such file: {library}"),
        false => format!(
            "library {library} is neither on the loader's path nor in a Python wheel; give its full path"
        ),
    }
}

/// Whether a file's name is the wanted one, or that with a version: `libcuda.so` is libcuda.so.1, too.
fn is_named(wanted: &str, file: &str) -> bool {
    event::matches_glob(wanted.as_bytes(), file.as_bytes())
        || (wanted.ends_with(".so")
            && event::matches_glob(format!("{wanted}.*").as_bytes(), file.as_bytes()))
}

fn in_folders(first: &[PathBuf], wanted: impl Fn(&str) -> bool) -> Vec<PathBuf> {
    let more = env::var_os("LD_LIBRARY_PATH").unwrap_or_default();
    let folders = first.iter().cloned().chain(env::split_paths(&more));
    let folders = folders.chain(FOLDERS.iter().map(PathBuf::from));
    let mut found = LibraryPaths::default();
    for folder in folders.chain(in_wheels()) {
        found.add_from(&folder, &wanted);
    }
    found.sorted()
}

/// Files, each once: one library has several names.
#[derive(Default)]
struct LibraryPaths {
    seen: BTreeSet<PathBuf>,
    paths: Vec<PathBuf>,
}

impl LibraryPaths {
    fn add(&mut self, path: PathBuf) {
        if let Ok(real) = fs::canonicalize(&path)
            && real.is_file()
            && self.seen.insert(real)
        {
            self.paths.push(path);
        }
    }

    fn add_from(&mut self, folder: &Path, wanted: impl Fn(&str) -> bool) {
        for path in sorted(folder) {
            let name = path.file_name().and_then(|name| name.to_str());
            if name.is_some_and(&wanted) {
                self.add(path);
            }
        }
    }

    fn sorted(mut self) -> Vec<PathBuf> {
        self.paths.sort();
        self.paths
    }
}

/// What is in a folder, by name: of several names for one file always the same is taken.
fn sorted(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let mut paths: Vec<PathBuf> = entries.map(|entry| entry.path()).collect();
    paths.sort();
    paths
}

/// Paths that one path of a glob may mean: more would be a mistake.
const MOST_PATHS: usize = 4096;

/// The files that a path with globs means. A name without a version means any.
fn expand(path: &Path) -> Vec<PathBuf> {
    let mut folders = vec![PathBuf::new()];
    let mut parts = path.components().peekable();
    while let Some(part) = parts.next() {
        let text = part.as_os_str().to_str().unwrap_or_default();
        let is_last = parts.peek().is_none();
        let is_glob = text.contains(['*', '?']);
        let mut next = Vec::new();
        for folder in folders {
            let exact = folder.join(part);
            // A library of that very name is meant, not its other versions.
            if !is_glob && (!is_last || exact.exists()) {
                next.push(exact);
                continue;
            }
            let here = match folder.as_os_str().is_empty() {
                true => Path::new("."),
                false => &folder,
            };
            for entry in sorted(here) {
                let name = entry.file_name().and_then(|name| name.to_str());
                let name = name.unwrap_or_default();
                let is_meant = match is_last {
                    true => is_named(text, name),
                    false => event::matches_glob(text.as_bytes(), name.as_bytes()),
                };
                if is_meant && next.len() < MOST_PATHS {
                    next.push(folder.join(name));
                }
            }
        }
        folders = next;
    }
    folders
}

/// Where Python's packages bring libraries: `site-packages/nvidia/*/lib`, and a package's own.
fn in_wheels() -> Vec<PathBuf> {
    let mut roots = vec![PathBuf::from("/usr/local/lib"), PathBuf::from("/usr/lib")];
    roots.extend(env::var_os("VIRTUAL_ENV").map(|folder| PathBuf::from(folder).join("lib")));
    let below = |folder: &Path| {
        let entries = fs::read_dir(folder).into_iter().flatten().flatten();
        entries.map(|entry| entry.path()).collect::<Vec<_>>()
    };
    let is_python = |path: &PathBuf| {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        name.starts_with("python3")
    };
    let mut found = Vec::new();
    for python in roots.iter().flat_map(|root| below(root)).filter(is_python) {
        for packages in ["site-packages", "dist-packages"] {
            let packages = python.join(packages);
            found.extend(
                below(&packages.join("nvidia"))
                    .iter()
                    .map(|part| part.join("lib")),
            );
            found.push(packages.join("torch/lib"));
        }
    }
    found
}

/// The functions that a library exports, sorted; none of a file that is no library.
pub fn functions(path: &Path) -> io::Result<Vec<String>> {
    functions_of(path, false)
}

/// Those that can be hooked: what is not exported has a name, too, unless the file is stripped.
pub fn all_functions(path: &Path) -> io::Result<Vec<String>> {
    functions_of(path, true)
}

fn functions_of(path: &Path, all: bool) -> io::Result<Vec<String>> {
    let file = fs::File::open(path)?;
    let cache = object::ReadCache::new(file);
    let Ok(elf) = object::File::parse(&cache) else {
        return Ok(Vec::new());
    };
    let own = all.then(|| elf.symbols()).into_iter().flatten();
    let names = (elf.dynamic_symbols().chain(own))
        .filter(|symbol| symbol.is_definition() && symbol.kind() == SymbolKind::Text)
        .filter_map(|symbol| symbol.name().ok().map(str::to_owned));
    Ok(names.collect::<BTreeSet<_>>().into_iter().collect())
}

/// What a program or library asks its loader for.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Needs {
    pub libraries: Vec<String>,
    /// Where to look first (RUNPATH, RPATH); `$ORIGIN` is the file's own folder.
    pub folders: Vec<PathBuf>,
}

/// None for what is no ELF file, or cannot be read.
pub fn needs(path: &Path) -> Option<Needs> {
    let cache = object::ReadCache::new(fs::File::open(path).ok()?);
    let header = object::elf::FileHeader64::<LE>::parse(&cache).ok()?;
    let segments = header.program_headers(LE, &cache).ok()?;
    let mut needs = Needs::default();
    let dynamic = (segments.iter()).find_map(|one| one.dynamic(LE, &cache).ok().flatten());
    // A static one needs nothing.
    let Some(dynamic) = dynamic else {
        return Some(needs);
    };
    let value = |tag: u32| {
        let mut all = dynamic.iter();
        all.find(|one| one.d_tag.get(LE) == u64::from(tag))
            .map(|one| one.d_val.get(LE))
    };
    let (at, size) = (value(elf::DT_STRTAB)?, value(elf::DT_STRSZ)?);
    let place = segments.iter().find_map(|one| {
        let inside = at.checked_sub(one.p_vaddr.get(LE))?;
        (one.p_type.get(LE) == elf::PT_LOAD && inside < one.p_filesz.get(LE))
            .then(|| one.p_offset.get(LE) + inside)
    })?;
    let texts = (&cache).read_bytes_at(place, size.min(MOST_TEXT)).ok()?;
    let text = |at: u64| {
        let rest = texts.get(usize::try_from(at).ok()?..)?;
        let end = rest.iter().position(|byte| *byte == 0)?;
        std::str::from_utf8(&rest[..end]).ok()
    };
    let own = path.parent().unwrap_or(Path::new("."));
    for one in dynamic {
        let Some(text) = text(one.d_val.get(LE)) else {
            continue;
        };
        match u32::try_from(one.d_tag.get(LE)) {
            Ok(elf::DT_NEEDED) => needs.libraries.push(text.into()),
            Ok(elf::DT_RUNPATH | elf::DT_RPATH) => {
                let folders = text.split(':').map(|folder| {
                    let own = own.to_string_lossy();
                    PathBuf::from(folder.replace("${ORIGIN}", &own).replace("$ORIGIN", &own))
                });
                needs.folders.extend(folders);
            }
            _ => {}
        }
    }
    Some(needs)
}

/// Where loaders look by themselves: LD_LIBRARY_PATH, what the system's configuration names, the usual places.
pub fn loader_folders() -> Vec<PathBuf> {
    let more = env::var_os("LD_LIBRARY_PATH").unwrap_or_default();
    let mut found: Vec<PathBuf> = env::split_paths(&more).collect();
    let parts = fs::read_dir("/etc/ld.so.conf.d").into_iter().flatten();
    let parts = parts.flatten().map(|entry| entry.path());
    for file in parts.chain([PathBuf::from("/etc/ld.so.conf")]) {
        let text = fs::read_to_string(file).unwrap_or_default();
        let folders = text.lines().filter(|line| line.starts_with('/'));
        found.extend(folders.map(|line| PathBuf::from(line.trim())));
    }
    found.extend(["/lib/x86_64-linux-gnu", "/lib", "/usr/local/lib"].map(PathBuf::from));
    found.extend(FOLDERS.map(PathBuf::from));
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_have_globs_and_names_have_versions() {
        let folder = env::temp_dir().join(format!("cutrace-find-{}", std::process::id()));
        let made = |name: &str| {
            let path = folder.join(name);
            fs::create_dir_all(path.parent().expect("a folder")).expect("made");
            fs::write(&path, name).expect("written");
            path
        };
        let first = made("x86/libcuda.so.1");
        let other = made("arm/libcuda.so.550.1");
        let third = made("arm/libother.so");
        std::os::unix::fs::symlink(&first, folder.join("x86/libcuda.so.580")).expect("linked");
        let found = |text: &str| find(&format!("{}/{text}", folder.display()), &[]);
        assert_eq!(found("x86/libcuda.so"), std::slice::from_ref(&first));
        assert_eq!(found("*/libcuda.so"), [other.clone(), first.clone()]);
        assert_eq!(
            found("*/lib*.so"),
            [other.clone(), third.clone(), first.clone()]
        );
        assert_eq!(found("x86/libcuda.so.1"), std::slice::from_ref(&first));
        assert_eq!(found("*/libnothing.so"), Vec::<PathBuf>::new());
        assert_eq!(found("x86/lib?uda.so.1"), std::slice::from_ref(&first));
        // A name along the loader's path, in a folder that comes first.
        let arm = [folder.join("arm")];
        assert!(find("libother.so", &arm).contains(&third));
        assert!(find("/nowhere/*/libcuda.so", &arm).contains(&other));
        fs::remove_dir_all(&folder).expect("removed");
    }

    #[test]
    fn programs_say_what_they_need() {
        let own = env::current_exe().expect("known");
        let found = needs(&own).expect("an ELF file");
        let has_libc = found.libraries.iter().any(|name| name == "libc.so.6");
        assert!(has_libc, "{found:?}");
        assert_eq!(needs(Path::new(file!())), None);
        let folders = loader_folders();
        let has = |folder: &PathBuf| folder.join("libc.so.6").exists();
        assert!(folders.iter().any(has), "{folders:?}");
    }
}
