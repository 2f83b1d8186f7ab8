//! Where a libcupti may be: loaded already, in the loader's path, in the running Python's packages,
//! in a toolkit.

use crate::wanted::variable;
use std::{
    cmp::Reverse,
    collections::BTreeSet,
    fs,
    path::{Path, PathBuf},
};

/// All there are, the likeliest first. What the program has loaded is the only one that will do:
/// two CUPTIs in one process do not see each other.
pub fn candidates() -> Vec<PathBuf> {
    let mapped = mapped_files();
    if let Some(loaded) = mapped.iter().find(|path| is_cupti(path)) {
        return vec![loaded.clone()];
    }
    let mut found: Vec<PathBuf> = Vec::new();
    let mut add = |path: PathBuf| {
        if !found.contains(&path) {
            found.push(path);
        }
    };
    // What the loader finds, it finds by itself: in the order of the versions that are in use.
    for name in ["libcupti.so.13", "libcupti.so.12"] {
        add(name.into());
    }
    for folder in package_folders(&mapped) {
        for package in entries(&folder.join("nvidia")) {
            libraries(&package.join("lib"))
                .into_iter()
                .for_each(&mut add);
        }
    }
    for folder in toolkit_folders() {
        libraries(&folder).into_iter().for_each(&mut add);
    }
    add("libcupti.so".into());
    found
}

fn is_cupti(path: &Path) -> bool {
    let name = path.file_name().unwrap_or_default().as_encoded_bytes();
    name.starts_with(b"libcupti.so")
}

/// The libcupti.so.* of a folder, newest first.
fn libraries(folder: &Path) -> Vec<PathBuf> {
    let mut found: Vec<PathBuf> = (entries(folder).into_iter())
        .filter(|path| is_cupti(path) && path.extension().is_some_and(|end| end != "so"))
        .collect();
    found.sort_by_key(|path| Reverse(version(path)));
    found
}

/// The numbers at the end of a library's name.
fn version(path: &Path) -> Vec<u32> {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let numbers = name.trim_start_matches("libcupti.so").split('.');
    let numbers: Vec<u32> = numbers.filter_map(|part| part.parse().ok()).collect();
    // libcupti.so.2025.3.1 says nothing that the link to it does not say better.
    if numbers.first().is_some_and(|first| *first > 1000) {
        return Vec::new();
    }
    numbers
}

fn entries(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    entries.map(|entry| entry.path()).collect()
}

fn mapped_files() -> BTreeSet<PathBuf> {
    let maps = fs::read_to_string("/proc/self/maps").unwrap_or_default();
    let paths = maps
        .lines()
        .filter_map(|line| line.find('/').map(|at| &line[at..]));
    paths.map(PathBuf::from).collect()
}

/// The folders of packages of the Python that runs here: those that its extension modules come
/// from, and those beside its program.
fn package_folders(mapped: &BTreeSet<PathBuf>) -> BTreeSet<PathBuf> {
    let of_modules = mapped.iter().flat_map(|path| {
        path.ancestors()
            .filter(|folder| folder.ends_with("site-packages") || folder.ends_with("dist-packages"))
            .map(Path::to_path_buf)
    });
    let mut found: BTreeSet<PathBuf> = of_modules.collect();
    let program = fs::read_link("/proc/self/exe").ok();
    let beside_program = program.as_deref().and_then(|path| path.ancestors().nth(2));
    let homes = [
        beside_program.map(Path::to_path_buf),
        variable("VIRTUAL_ENV").map(PathBuf::from),
    ];
    for home in homes.into_iter().flatten() {
        for folder in entries(&home.join("lib")) {
            let is_python = folder
                .file_name()
                .is_some_and(|name| name.as_encoded_bytes().starts_with(b"python"));
            if is_python {
                found.insert(folder.join("site-packages"));
            }
        }
    }
    found
}

fn toolkit_folders() -> Vec<PathBuf> {
    let named = ["CUDA_HOME", "CUDA_PATH", "CUDA_ROOT"];
    let mut homes: Vec<PathBuf> = (named.into_iter())
        .filter_map(variable)
        .map(PathBuf::from)
        .collect();
    homes.push("/usr/local/cuda".into());
    let mut numbered: Vec<PathBuf> = (entries(Path::new("/usr/local")).into_iter())
        .filter(|path| {
            let name = path.file_name().unwrap_or_default().as_encoded_bytes();
            name.starts_with(b"cuda-")
        })
        .collect();
    numbered.sort();
    homes.extend(numbered.into_iter().rev());
    homes.push("/opt/cuda".into());
    let inside = ["extras/CUPTI/lib64", "lib64", "targets/x86_64-linux/lib"];
    homes
        .iter()
        .flat_map(|home| inside.iter().map(move |folder| home.join(folder)))
        .chain(["/usr/lib/x86_64-linux-gnu".into()])
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn libraries_are_told_by_name_and_sorted_by_version() {
        let folder = tempfile::tempdir().expect("a folder");
        for name in [
            "libcupti.so",
            "libcupti.so.12",
            "libcupti.so.11.8",
            "libcupti.so.2025.3.1",
            "libcupti.so.13",
            "libcupti_static.a",
            "libother.so.1",
        ] {
            fs::write(folder.path().join(name), "").expect("writable");
        }
        let found: Vec<String> = (libraries(folder.path()).iter())
            .map(|path| {
                path.file_name()
                    .unwrap_or_default()
                    .to_string_lossy()
                    .into_owned()
            })
            .collect();
        assert_eq!(
            found,
            [
                "libcupti.so.13",
                "libcupti.so.12",
                "libcupti.so.11.8",
                "libcupti.so.2025.3.1"
            ]
        );
    }

    #[test]
    fn packages_of_the_running_python_are_found_by_its_modules() {
        let mapped = [
            "/v/lib/python3.12/site-packages/torch/lib/libtorch_cpu.so",
            "/usr/lib/libc.so.6",
        ];
        let mapped = mapped.iter().map(PathBuf::from).collect();
        let found = package_folders(&mapped);
        assert!(
            found.contains(Path::new("/v/lib/python3.12/site-packages")),
            "{found:?}"
        );
    }
}
