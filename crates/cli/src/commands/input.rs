//! Traces as the commands that look at them read them: one or several, or the newest here.

use anyhow::{Context, Result, bail};
use event::{Meta, Record, Summary};
use render::Output;
use std::{
    fs,
    path::{Path, PathBuf},
};
use trace::Merge;

/// Where `record` puts traces that are given no name.
const FOLDER: &str = "traces";

pub struct Input {
    paths: Vec<PathBuf>,
    merge: Merge,
}

impl Input {
    /// No paths are the newest trace of the folder that `record` writes to.
    pub fn open(mut paths: Vec<PathBuf>) -> Result<Self> {
        if paths.is_empty() {
            let newest = newest(Path::new(FOLDER)).with_context(|| {
                format!(
                    "no trace was named and {FOLDER}/ holds none: record one with cutrace ./app"
                )
            })?;
            eprintln!("cutrace: reading {}", newest.display());
            paths.push(newest);
        }
        let readers = paths
            .iter()
            .map(trace::open)
            .collect::<Result<Vec<_>, _>>()?;
        let merge = Merge::new(readers)?;
        Ok(Input { paths, merge })
    }

    pub fn meta(&self) -> &Meta {
        self.merge.meta()
    }

    /// Reads to the end; what was wrong on the way is said.
    pub fn each(mut self, mut take: impl FnMut(&Record) -> Result<()>) -> Result<Option<Summary>> {
        for record in self.merge.by_ref() {
            take(&record?)?;
        }
        for warning in self.merge.warnings() {
            eprintln!("cutrace: warning: {warning}");
        }
        for (path, reader) in self.paths.iter().zip(self.merge.readers()) {
            for warning in reader.warnings().as_slice() {
                eprintln!("cutrace: warning: {}: {warning}", path.display());
            }
        }
        Ok(self.merge.summary())
    }

    /// Gives everything to an output.
    pub fn show(self, output: &mut dyn Output) -> Result<()> {
        let summary = self.each(|record| Ok(output.record(record)?))?;
        Ok(output.finish(summary.as_ref())?)
    }
}

fn newest(folder: &Path) -> Result<PathBuf> {
    let mut found: Option<(std::time::SystemTime, PathBuf)> = None;
    for entry in fs::read_dir(folder)?.flatten() {
        let path = entry.path();
        let Ok(changed) = entry.metadata().and_then(|data| data.modified()) else {
            continue;
        };
        let newer = found.as_ref().is_none_or(|(latest, _)| changed > *latest);
        if newer && trace::Format::of(&path).is_some() {
            found = Some((changed, path));
        }
    }
    match found {
        Some((_, path)) => Ok(path),
        None => bail!("no .jsonl or .arrows file in {}", folder.display()),
    }
}
