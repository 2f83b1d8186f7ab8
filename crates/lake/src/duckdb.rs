//! The program `duckdb`: where it is, and running it over our views.

use crate::{
    Bounds, Dialect, Error, Result,
    program::{Script, found, is_program, python_package},
};
use std::{
    env,
    ffi::OsString,
    path::{Path, PathBuf},
    process::{Command, ExitStatus, Stdio},
};

/// DuckDB's command-line program.
#[derive(Debug, Clone)]
pub struct DuckDb {
    program: PathBuf,
}

impl DuckDb {
    /// As $DUCKDB says, on the PATH, in the Python environment that is active or has this program, or in the Python
    /// package duckdb-cli.
    pub fn find() -> Result<Self> {
        if let Some(named) = env::var_os("DUCKDB").filter(|named| !named.is_empty()) {
            return Ok(DuckDb {
                program: named.into(),
            });
        }
        let in_package = || {
            let folder = python_package("duckdb_cli")?;
            let places = [folder.join("duckdb"), folder.join("bin/duckdb")];
            places.into_iter().find(|path| is_program(path))
        };
        match found("duckdb").or_else(in_package) {
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
        let script = Script::write(views).map_err(Error::write(env::temp_dir()))?;
        let mut command = self.command(&script, query, options);
        command.status().map_err(|source| self.failed(source))
    }

    /// The rows that a single select gives, as a JSON text. DuckDB may read the files of `folder` and nothing else; it writes
    /// nothing, and is ended when it takes too long or says too much.
    pub fn ask(&self, views: &str, folder: &Path, select: &str, bounds: &Bounds) -> Result<String> {
        let folder = std::path::absolute(folder).map_err(Error::read(folder))?;
        let folder = Dialect::DuckDb.quoted(&folder.display().to_string());
        let shut = format!(
            "set allowed_directories = [{folder}]; set enable_external_access = false; set lock_configuration = true;\n"
        );
        let script = Script::write(&format!("{views}\n{shut}"));
        let script = script.map_err(Error::write(env::temp_dir()))?;
        // As a text: it cannot be more than one statement, nor another than a select.
        let query = format!(
            "select * from query({}) limit {}",
            Dialect::DuckDb.quoted(select.trim().trim_end_matches(';')),
            bounds.rows
        );
        let mut command = self.command(&script, Some(&query), &["-json".into()]);
        bounds
            .run(&mut command)
            .map_err(|source| self.failed(source))?
            .map_err(Error::from)
    }

    fn command(&self, script: &Script, query: Option<&str>, options: &[OsString]) -> Command {
        let mut command = Command::new(&self.program);
        // A prompt is the user's own, with their settings; what a query prints does not depend on them.
        if query.is_some() {
            command.arg("-no-init");
        }
        let read = format!(".read {}", script.path().display());
        command.arg("-cmd").arg(read).args(options);
        if let Some(query) = query {
            command.arg("-c").arg(query).stdin(Stdio::null());
        }
        command
    }

    fn failed(&self, source: std::io::Error) -> Error {
        Error::Start {
            path: self.program.clone(),
            source,
        }
    }
}
