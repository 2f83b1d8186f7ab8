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

/// CUDA's libraries, or those that a glob of probes (`uprobe:LIB:FUNCTION`) names.
pub fn installed(glob: Option<&str>) -> Vec<PathBuf> {
    let named = glob.and_then(|glob| Some(glob.split_once(':')?.1.rsplit_once(':')?.0));
    if let Some(path) = named.filter(|name| name.starts_with('/')) {
        let path = PathBuf::from(path);
        return path.exists().then_some(path).into_iter().collect();
    }
    let wanted = |file: &str| match named {
        Some(named) => event::matches_glob(named.as_bytes(), file.as_bytes()),
        None => NAMES.iter().any(|name| file.starts_with(name)),
    };
    let more = env::var_os("LD_LIBRARY_PATH").unwrap_or_default();
    let folders = env::split_paths(&more).chain(FOLDERS.iter().map(PathBuf::from));
    let folders = folders.chain(in_wheels());
    let mut seen = BTreeSet::new();
    let mut found = Vec::new();
    for folder in folders {
        let Ok(entries) = fs::read_dir(&folder) else {
            continue;
        };
        for entry in entries.flatten() {
            let name = entry.file_name();
            let Ok(real) = fs::canonicalize(entry.path()) else {
                continue;
            };
            // One library has several names.
            if name.to_str().is_some_and(wanted) && real.is_file() && seen.insert(real) {
                found.push(entry.path());
            }
        }
    }
    found.sort();
    found
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
    let file = fs::File::open(path)?;
    let cache = object::ReadCache::new(file);
    let Ok(elf) = object::File::parse(&cache) else {
        return Ok(Vec::new());
    };
    let names = (elf.dynamic_symbols())
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
