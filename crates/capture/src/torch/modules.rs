//! `--modules`: Python finds a `sitecustomize` of ours, which has PyTorch call hooks around each module's forward.

use std::{
    env,
    ffi::{CString, OsString},
    fs, io,
    os::unix::{ffi::OsStringExt, fs::PermissionsExt},
    path::PathBuf,
};

const SCRIPT: &str = include_str!("sitecustomize.py");
const VARIABLE: &str = "PYTHONPATH";

/// A folder with the script, for as long as the program runs.
pub struct Hooks {
    folder: PathBuf,
}

impl Hooks {
    pub fn create() -> io::Result<Hooks> {
        let pattern = env::temp_dir().join("cutrace.modules.XXXXXX");
        let pattern = CString::new(pattern.into_os_string().into_vec())?;
        let mut name = pattern.into_bytes_with_nul();
        // SAFETY: a text that ends in NUL, of which the letters at its end are changed.
        if unsafe { libc::mkdtemp(name.as_mut_ptr().cast()) }.is_null() {
            return Err(io::Error::last_os_error());
        }
        name.pop();
        let hooks = Hooks {
            folder: OsString::from_vec(name).into(),
        };
        // The program may run as another user; there is nothing to hide.
        fs::set_permissions(&hooks.folder, fs::Permissions::from_mode(0o755))?;
        fs::write(hooks.folder.join("sitecustomize.py"), SCRIPT)?;
        Ok(hooks)
    }

    /// Ours first: it imports the one that would have been found without it.
    pub fn variable(&self) -> (OsString, OsString) {
        let mut path = OsString::from(&self.folder);
        if let Some(existing) = env::var_os(VARIABLE).filter(|path| !path.is_empty()) {
            path.push(":");
            path.push(existing);
        }
        (VARIABLE.into(), path)
    }
}

impl Drop for Hooks {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.folder);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_folder_goes_when_the_run_is_over() {
        let hooks = Hooks::create().expect("a folder");
        let (name, path) = hooks.variable();
        assert_eq!(name, VARIABLE);
        let path = path.into_string().expect("UTF-8");
        let folder = PathBuf::from(path.split(':').next().expect("a folder"));
        assert!(folder.join("sitecustomize.py").exists());
        drop(hooks);
        assert!(!folder.exists());
    }
}
