//! What the tracer should know: one line each, in a file of this process.

use std::fs::File;
use std::io::Write;
use std::path::Path;

pub struct Notes {
    file: Option<File>,
}

impl Notes {
    pub fn open(folder: &Path) -> Notes {
        let path = folder.join(format!("notes.{}", std::process::id()));
        let file = File::options().create(true).append(true).open(path).ok();
        Notes { file }
    }

    /// A word that says what follows, and the rest of the line.
    pub fn say(&mut self, word: &str, rest: &str) {
        if let Some(file) = &mut self.file {
            let rest = rest.replace(['\n', '\r'], " ");
            let _ = file.write_all(format!("{word} {rest}\n").as_bytes());
        }
    }
}
