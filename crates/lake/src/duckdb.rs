//! The program `duckdb`: where it is, and running it over our views.

use crate::{Error, Result};
use std::{
    env,
    ffi::OsString,
    fs,
    io::Write,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
    process::{Command, ExitStatus, Stdio},
};

/// DuckDB's command-line program.
#[derive(Debug, Clone)]
pub struct DuckDb {
    program: PathBuf,
}

impl DuckDb {
    /// As $DUCKDB says, on the PATH, or in the Python environment that is active or has this program.
    pub fn find() -> Result<Self> {
        if let Some(named) = env::var_os("DUCKDB").filter(|named| !named.is_empty()) {
            return Ok(DuckDb {
                program: named.into(),
            });
        }
        let on_path = env::var_os("PATH").map(|path| env::split_paths(&path).collect::<Vec<_>>());
        let own = env::current_exe().ok();
        let own = own.and_then(|own| own.parent().map(Path::to_owned));
        let active = env::var_os("VIRTUAL_ENV").map(|folder| PathBuf::from(folder).join("bin"));
        let folders = on_path.into_iter().flatten().chain(active).chain(own);
        let program = folders
            .map(|folder| folder.join("duckdb"))
            .find(|path| is_program(path));
        match program {
            Some(program) => Ok(DuckDb { program }),
            None => Err(Error::NoDuckDb),
        }
    }

    pub fn program(&self) -> &Path {
        &self.program
    }

    /// Runs a query over the views; with none, DuckDB's own prompt. `options` are DuckDB's: `-json`, `-csv`, `-markdown`.
    pub fn run(
        &self,
        views: &str,
        query: Option<&str>,
        options: &[OsString],
    ) -> Result<ExitStatus> {
        let failed = |source| Error::Start {
            path: self.program.clone(),
            source,
        };
        // By a file: views over many traces are longer than a command line may be.
        let folder = env::temp_dir().join(format!("cutrace-query-{}", std::process::id()));
        let script = Script::write(&folder, views).map_err(Error::write(&folder))?;
        let mut command = Command::new(&self.program);
        // A prompt is the user's own, with their settings; what a query prints does not depend on them.
        if query.is_some() {
            command.arg("-no-init");
        }
        let read = format!(".read {}", script.path.display());
        command.arg("-cmd").arg(read).args(options);
        if let Some(query) = query {
            command.arg("-c").arg(query).stdin(Stdio::null());
        }
        command.status().map_err(failed)
    }
}

fn is_program(path: &Path) -> bool {
    fs::metadata(path).is_ok_and(|found| found.is_file() && found.permissions().mode() & 0o111 != 0)
}

/// The statements that make the views, in a file that only its user reads; gone when this is dropped.
struct Script {
    folder: PathBuf,
    path: PathBuf,
}

impl Script {
    fn write(folder: &Path, text: &str) -> std::io::Result<Self> {
        fs::create_dir(folder)?;
        let script = Script {
            folder: folder.into(),
            path: folder.join("views.sql"),
        };
        fs::set_permissions(folder, fs::Permissions::from_mode(0o700))?;
        fs::File::create_new(&script.path)?.write_all(text.as_bytes())?;
        Ok(script)
    }
}

impl Drop for Script {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.folder);
    }
}
