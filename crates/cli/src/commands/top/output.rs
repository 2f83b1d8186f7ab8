//! What the command prints while the screen is shown: it goes to a file, and its end can be looked at.

use crate::say::say;
use anyhow::{Context, Result};
use std::{
    collections::VecDeque,
    fs::{self, File},
    io::{self, Read, Seek, SeekFrom, Write},
    os::unix::fs::OpenOptionsExt,
    path::{Path, PathBuf},
};

/// Up to this size it is printed at the end, as if it had come then.
const SHORT: u64 = 64 << 10;
/// Lines that can be looked at.
const MOST_LINES: usize = 200;
/// What is read at once; of more, only the end.
const PIECE: u64 = 64 << 10;

pub struct CommandOutput {
    file: File,
    path: PathBuf,
    /// The user named it.
    is_named: bool,
}

impl CommandOutput {
    pub fn create(named: Option<&Path>) -> Result<Self> {
        let mut options = File::options();
        options.read(true).append(true).mode(0o600);
        let (path, file) = match named {
            Some(path) => (path.to_owned(), options.create(true).open(path)),
            None => {
                let name = format!("cutrace-top-{}.out", std::process::id());
                let path = std::env::temp_dir().join(name);
                let made = options.create_new(true).open(&path);
                (path, made)
            }
        };
        let file = file.with_context(|| format!("cannot write {}", path.display()))?;
        Ok(CommandOutput {
            file,
            path,
            is_named: named.is_some(),
        })
    }

    pub fn file(&self) -> &File {
        &self.file
    }

    pub fn reader(&self) -> Tail {
        Tail {
            file: File::open(&self.path).ok(),
            read: 0,
            lines: VecDeque::new(),
            shown: Vec::new(),
        }
    }

    /// The screen is gone: a short output is printed, a long one stays in its file.
    pub fn finish(self) {
        let size = self.file.metadata().map_or(0, |found| found.len());
        if self.is_named || size > SHORT {
            say!(
                "cutrace: the command's output is in {}",
                self.path.display()
            );
            return;
        }
        let mut text = Vec::new();
        let read = File::open(&self.path).and_then(|file| file.take(SHORT).read_to_end(&mut text));
        if read.is_ok() {
            let mut out = io::stdout();
            let _ = out.write_all(&text).and_then(|()| out.flush());
            let _ = fs::remove_file(&self.path);
        }
    }
}

/// The last lines of a file that grows.
pub struct Tail {
    file: Option<File>,
    read: u64,
    lines: VecDeque<String>,
    shown: Vec<String>,
}

impl Tail {
    /// Reads what is new.
    pub fn look(&mut self) {
        let Some(file) = &mut self.file else { return };
        let Ok(size) = file.metadata().map(|found| found.len()) else {
            return;
        };
        let from = self.read.max(size.saturating_sub(PIECE));
        let mut new = Vec::new();
        let read = file
            .seek(SeekFrom::Start(from))
            .and_then(|_| file.take(PIECE).read_to_end(&mut new));
        if read.is_err() || new.is_empty() {
            return;
        }
        self.read = from + new.len() as u64;
        let text = String::from_utf8_lossy(&new);
        for (place, line) in text.split('\n').enumerate() {
            let line = line
                .rsplit('\r')
                .find(|part| !part.is_empty())
                .unwrap_or("");
            match self.lines.back_mut() {
                // The rest of a line that was not whole.
                Some(last) if place == 0 && from > 0 => last.push_str(line),
                _ => self.lines.push_back(line.to_owned()),
            }
            if self.lines.len() > MOST_LINES {
                self.lines.pop_front();
            }
        }
        self.shown = self
            .lines
            .iter()
            .map(|line| without_escapes(line))
            .collect();
        while self.shown.last().is_some_and(String::is_empty) {
            self.shown.pop();
        }
    }

    pub fn lines(&self) -> &[String] {
        &self.shown
    }
}

/// Colours and cursor movements are the terminal's, not ours to pass on.
fn without_escapes(line: &str) -> String {
    let mut plain = String::new();
    let mut letters = line.chars().take(4_096).peekable();
    while let Some(letter) = letters.next() {
        if letter == '\x1b' && letters.peek() == Some(&'[') {
            letters.next();
            for inside in letters.by_ref() {
                if ('@'..='~').contains(&inside) {
                    break;
                }
            }
        } else {
            plain.push(if letter == '\t' { ' ' } else { letter });
        }
    }
    render::printable(&plain)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_end_of_a_growing_file_is_shown() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("out");
        let output = CommandOutput::create(Some(&path)).expect("made");
        let mut tail = output.reader();
        let write = |text: &str| output.file().write_all(text.as_bytes()).expect("written");
        write("one\ntw");
        tail.look();
        assert_eq!(tail.lines(), ["one", "tw"]);
        write("o\n\x1b[31mred\x1b[0m 1%\r50%\rdone\n");
        tail.look();
        assert_eq!(tail.lines(), ["one", "two", "done"]);
        (0..1_000).for_each(|number| write(&format!("{number}\n")));
        tail.look();
        assert_eq!(tail.lines().last().map(String::as_str), Some("999"));
        assert!(tail.lines().len() <= MOST_LINES);
        assert_eq!(without_escapes("\x1b[1;31ma\tb\x07"), "a b?");
    }
}
