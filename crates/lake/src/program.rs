//! Programs of others that answer: where they are, and the file that they get their statements by.

use std::{
    env, fs,
    io::Write,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
    process::Command,
};

/// A program of this name on the PATH, in the Python environment that is active, or beside this program (which a wheel
/// puts into an environment too).
pub fn found(name: &str) -> Option<PathBuf> {
    let on_path = env::var_os("PATH").map(|path| env::split_paths(&path).collect::<Vec<_>>());
    let own = env::current_exe().ok();
    let own = own.and_then(|own| own.parent().map(Path::to_owned));
    let active = ["VIRTUAL_ENV", "CONDA_PREFIX"]
        .into_iter()
        .filter_map(|name| Some(PathBuf::from(env::var_os(name)?).join("bin")));
    let folders = on_path.into_iter().flatten().chain(active).chain(own);
    folders
        .map(|folder| folder.join(name))
        .find(|path| is_program(path))
}

pub fn is_program(path: &Path) -> bool {
    fs::metadata(path).is_ok_and(|found| found.is_file() && found.permissions().mode() & 0o111 != 0)
}

/// The folder of a Python package, if a python3 that is found here has it.
pub fn python_package(name: &str) -> Option<PathBuf> {
    let code = "import importlib.util, sys\n\
                found = importlib.util.find_spec(sys.argv[1])\n\
                print(found.submodule_search_locations[0] if found else '')";
    // Isolated: what lies in the current folder is no package.
    let answer = Command::new(found("python3")?)
        .args(["-I", "-c", code, name])
        .output()
        .ok()?;
    let folder = String::from_utf8(answer.stdout).ok()?;
    let folder = PathBuf::from(folder.trim_end());
    folder.is_absolute().then_some(folder)
}

/// Statements in a file that only its user reads; gone when this is dropped. A file because views over many traces are
/// longer than a command line may be.
pub struct Script {
    folder: PathBuf,
    path: PathBuf,
}

impl Script {
    pub fn write(text: &str) -> std::io::Result<Self> {
        let mut number = 0u32;
        // A folder that somebody has left is not ours.
        let folder = loop {
            let name = format!("cutrace-query-{}-{number}", std::process::id());
            let folder = env::temp_dir().join(name);
            match fs::create_dir(&folder) {
                Ok(()) => break folder,
                Err(why) if why.kind() == std::io::ErrorKind::AlreadyExists && number < 1000 => {
                    number += 1;
                }
                Err(why) => return Err(why),
            }
        };
        let script = Script {
            path: folder.join("views.sql"),
            folder,
        };
        fs::set_permissions(&script.folder, fs::Permissions::from_mode(0o700))?;
        fs::File::create_new(&script.path)?.write_all(text.as_bytes())?;
        Ok(script)
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    /// A folder that is gone with it.
    pub fn folder(&self) -> &Path {
        &self.folder
    }
}

impl Drop for Script {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.folder);
    }
}
