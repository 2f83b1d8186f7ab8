//! Links libcuda.so.1 from the crate's static library, and compiles C programs that load it.

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
    process::Command,
    sync::{Mutex, OnceLock, PoisonError},
};

pub struct Library {
    pub path: PathBuf,
}

impl Library {
    /// The library, linked once a test run.
    pub fn get() -> &'static Self {
        static LIBRARY: OnceLock<Library> = OnceLock::new();
        LIBRARY.get_or_init(|| {
            let path = folder().join("libcuda.so.1");
            let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("exports/link-libcuda");
            run(Command::new(script).arg(archive()).arg(&path));
            Self { path }
        })
    }
}

/// Compiles `tests/driver/NAME.c`, once a test run.
pub fn compile(name: &'static str) -> PathBuf {
    static DONE: Mutex<BTreeMap<&str, PathBuf>> = Mutex::new(BTreeMap::new());
    let mut done = DONE.lock().unwrap_or_else(PoisonError::into_inner);
    let program = done.entry(name).or_insert_with(|| {
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("tests/driver/{name}.c"));
        let program = folder().join(name);
        // Calls without prototypes keep the C short; newer standards have dropped them.
        run(Command::new("cc")
            .args(["-std=gnu17", "-O1", "-w", "-o"])
            .arg(&program)
            .arg(source)
            .args(["-ldl", "-lpthread"]));
        program
    });
    program.clone()
}

fn run(command: &mut Command) {
    let output = command.output().expect("a C compiler is installed");
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
}

fn folder() -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("driver");
    std::fs::create_dir_all(&folder).expect("the target folder is writable");
    folder
}

/// The static library cargo built beside this test: the newest of its name.
fn archive() -> PathBuf {
    let test = std::env::current_exe().expect("the test has a path");
    let deps = test.parent().expect("the test is in a folder");
    let newest = std::fs::read_dir(deps)
        .expect("the folder of the test is readable")
        .filter_map(|entry| entry.ok().map(|entry| entry.path()))
        .filter(|path| {
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            name.starts_with("libsoftgpu_driver") && name.ends_with(".a")
        })
        .max_by_key(|path| path.metadata().and_then(|m| m.modified()).ok());
    newest.expect("cargo built libsoftgpu_driver.a")
}
