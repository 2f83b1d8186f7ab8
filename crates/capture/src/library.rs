//! Libraries that are installed, and the functions they offer: for lists. What a program really maps
//! is looked for when it runs.

use object::{Object, ObjectSymbol, SymbolKind};
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
