//! Whether a library that `--lib` names can be found: where loaders look, among what the command's programs
//! need, beside them, in Python's packages. A program may load one from anywhere, by its path; who knows
//! that says so with --allow-missing-lib.

use crate::{
    launch::found_in_path,
    library::{loader_folders, needs},
    source::RunOptions,
};
use cuda::select::is_library;
use std::{
    collections::BTreeSet,
    env,
    ffi::OsStr,
    fs::{self, File},
    io::Read,
    path::{Path, PathBuf},
};

/// Files of packages that are looked at, at most: what takes longer is not worth it.
const MOST_FILES: usize = 400_000;
/// Libraries whose own needs are followed.
const MOST_LIBRARIES: usize = 2_000;

/// Why a library that is asked for would not be hooked.
#[derive(Debug, thiserror::Error)]
pub enum SoughtError {
    #[error("--lib {glob}: give the file's name without its folder: --lib '{name}:GLOB'")]
    HasFolder { glob: String, name: String },
    #[error(
        "--lib {glob}: no such library where loaders look, among what the program needs, or beside it{} \
         (if the program loads it from elsewhere later, add --allow-missing-lib)",
        meant.as_deref().map_or(String::new(), |name| format!("; did you mean lib{name}.so?"))
    )]
    NotFound { glob: String, meant: Option<String> },
}

/// An error unless it is found. `folders`: where the program will find libraries besides.
pub fn library(run: &RunOptions, folders: Vec<PathBuf>, glob: &str) -> Result<(), SoughtError> {
    if glob.contains('/') {
        let name = Path::new(glob).file_name().unwrap_or_default();
        return Err(SoughtError::HasFolder {
            glob: glob.to_owned(),
            name: name.display().to_string(),
        });
    }
    let mut search = Search::default();
    if let Some(pid) = run.pid() {
        search.process(pid);
    } else {
        search.command(run);
    }
    search.folders.extend(folders);
    search.folders.extend(loader_folders());
    if search.finds(glob) || search.is_in_packages(glob) {
        return Ok(());
    }
    let names: Vec<String> = search.names().collect();
    // What all of them have in common makes none alike.
    let short = |name: &str| {
        let name = name.split(".so").next().unwrap_or(name);
        name.strip_prefix("lib").unwrap_or(name).to_owned()
    };
    let wanted = short(glob.trim_end_matches('*'));
    let shorts: BTreeSet<String> = names.iter().map(|name| short(name)).collect();
    let meant = names::misspelt(&wanted, shorts.iter().map(String::as_str));
    Err(SoughtError::NotFound {
        glob: glob.to_owned(),
        meant: meant.map(Into::into),
    })
}

#[derive(Default)]
struct Search {
    folders: BTreeSet<PathBuf>,
    /// Names that programs ask for, found or not.
    needed: BTreeSet<String>,
    pythons: Vec<PathBuf>,
}

impl Search {
    /// The program, and those that it is given to run.
    fn command(&mut self, run: &RunOptions) {
        let command = run.command();
        self.word(&command.program);
        for argument in &command.args {
            self.word(argument);
            // sh -c 'python train.py'
            for word in argument.to_string_lossy().split_whitespace() {
                self.word(OsStr::new(word));
                // uv run train.py
                if word.ends_with(".py") {
                    self.word(OsStr::new("python3"));
                    self.word(OsStr::new(".venv/bin/python"));
                }
            }
        }
    }

    fn word(&mut self, word: &OsStr) {
        if let Some(path) = found_in_path(word) {
            self.file(&path);
            if let Some(path) = interpreter(&path) {
                self.file(&path);
            }
        }
    }

    fn file(&mut self, path: &Path) {
        if let Some(name) = path.file_name().and_then(OsStr::to_str) {
            self.needed.insert(name.to_owned());
            if name.starts_with("python") {
                self.pythons.push(path.to_owned());
            }
        }
        let real = fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
        for path in [path, &real] {
            let folder = path.parent().unwrap_or(Path::new("."));
            self.folders.insert(folder.to_owned());
            self.folders.insert(folder.join("../lib"));
        }
        self.follow(&real);
    }

    /// What a program needs, what that needs, and so on.
    fn follow(&mut self, program: &Path) {
        let usual = loader_folders();
        let mut waiting = vec![program.to_owned()];
        let mut followed = BTreeSet::new();
        while let Some(path) = waiting.pop() {
            if followed.len() > MOST_LIBRARIES || !followed.insert(path.clone()) {
                continue;
            }
            let Some(needs) = needs(&path) else {
                continue;
            };
            for name in needs.libraries {
                let mut places = needs.folders.iter().chain(&usual);
                let found = places.find(|folder| folder.join(&name).is_file());
                waiting.extend(found.map(|folder| folder.join(&name)));
                self.needed.insert(name);
            }
            self.folders.extend(needs.folders);
        }
    }

    fn process(&mut self, pid: u32) {
        if let Ok(program) = fs::read_link(format!("/proc/{pid}/exe")) {
            self.file(&program);
        }
        let mapped = fs::read_to_string(format!("/proc/{pid}/maps")).unwrap_or_default();
        for line in mapped.lines() {
            if let Some(at) = line.find('/') {
                let path = Path::new(&line[at..]);
                let name = path.file_name().and_then(OsStr::to_str);
                self.needed.extend(name.map(str::to_owned));
            }
        }
    }

    fn names(&self) -> impl Iterator<Item = String> {
        let files = (self.folders.iter())
            .filter_map(|folder| fs::read_dir(folder).ok())
            .flat_map(|entries| entries.flatten())
            .filter_map(|entry| entry.file_name().into_string().ok())
            .filter(|name| name.contains(".so"));
        files.chain(self.needed.iter().cloned())
    }

    fn finds(&self, glob: &str) -> bool {
        self.names()
            .any(|name| is_library(glob.as_bytes(), name.as_bytes()))
    }

    /// Python's packages bring libraries, which they load by their paths.
    fn is_in_packages(&self, glob: &str) -> bool {
        let mut waiting: Vec<PathBuf> = Vec::new();
        let more = env::var_os("PYTHONPATH").unwrap_or_default();
        if self.pythons.is_empty() {
            return false;
        }
        waiting.extend(env::split_paths(&more));
        let prefixes = self.pythons.iter().flat_map(|python| {
            let real = fs::canonicalize(python).unwrap_or_default();
            [python.clone(), real]
        });
        let prefixes = prefixes.filter_map(|python| Some(python.parent()?.parent()?.to_owned()));
        let other = env::var_os("VIRTUAL_ENV").map(PathBuf::from);
        for prefix in prefixes.chain(other).chain(["/usr/local".into()]) {
            let versions = fs::read_dir(prefix.join("lib")).into_iter().flatten();
            for version in versions.flatten() {
                if version.file_name().to_string_lossy().starts_with("python") {
                    let packages = ["site-packages", "dist-packages"];
                    waiting.extend(packages.map(|name| version.path().join(name)));
                }
            }
        }
        let mut files = 0;
        while let Some(folder) = waiting.pop() {
            for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
                files += 1;
                if files > MOST_FILES {
                    // Nobody knows: then it is not certain that it is missing.
                    return true;
                }
                if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                    waiting.push(entry.path());
                } else if let Some(name) = entry.file_name().to_str()
                    && name.contains(".so")
                    && is_library(glob.as_bytes(), name.as_bytes())
                {
                    return true;
                }
            }
        }
        false
    }
}

/// Who runs a script: `#!/usr/bin/env python3`
fn interpreter(path: &Path) -> Option<PathBuf> {
    let mut head = String::new();
    let file = File::open(path).ok().filter(|_| path.is_file())?;
    file.take(256).read_to_string(&mut head).ok()?;
    let mut words = head.strip_prefix("#!")?.lines().next()?.split_whitespace();
    let first = words.next()?;
    let name = match first.ends_with("/env") {
        true => words.find(|word| !word.starts_with('-'))?,
        false => first,
    };
    found_in_path(OsStr::new(name))
}
