//! Words that several sources have for what they saw.

use crate::{
    notes::Notes,
    preload::{Library, Process, missing},
};
use event::Hooks;
use std::fmt::Write as _;

/// What begins the reason for it.
pub const NO_CALL: &str = "no CUDA call: ";

/// What to say, a line for each kind of thing; one by one for `-v`.
pub fn lines(notes: &Notes, details: &mut String) -> Vec<String> {
    for line in notes.details() {
        let _ = writeln!(details, "cutrace: {line}");
    }
    notes.lines()
}

/// Lines for the curious: who was watched, and what was hooked.
pub fn hooked(processes: &[Process], libraries: &[Library]) -> String {
    let mut lines = String::new();
    for process in processes {
        let _ = writeln!(
            lines,
            "cutrace: process {} (of {}) {}",
            process.pid, process.parent, process.exe
        );
    }
    for library in libraries {
        let _ = writeln!(
            lines,
            "cutrace: {}: {} of {} functions hooked ({})",
            library.path, library.hooked, library.exported, library.method
        );
    }
    for line in missing(libraries) {
        let _ = writeln!(lines, "cutrace: {line}");
    }
    lines
}

/// Each library's name, with what of it was hooked.
pub fn hooks(libraries: &[Library]) -> Vec<(String, Hooks)> {
    let of = |library: &Library| {
        let hooks = Hooks {
            attached: library.hooked,
            total: library.exported,
        };
        (library.short_name().to_owned(), hooks)
    };
    libraries.iter().map(of).collect()
}
