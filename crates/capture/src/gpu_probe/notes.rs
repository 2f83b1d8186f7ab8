//! What the library in the traced program noted down.

use super::clock::DeviceClock;
use crate::preload::folder::read_left;
use event::ClockPair;
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

/// More than a process notes down.
const MOST_BYTES: u64 = 256 << 20;

#[derive(Debug, Clone, Default)]
pub struct Notes {
    /// Kernels with probes, by name.
    pub probed: BTreeMap<String, KernelNotes>,
    /// Kernels that were meant and left alone, with the reason.
    pub refused: BTreeMap<String, String>,
    /// Kernels that were meant and have no PTX, with where they are.
    pub sass_only: BTreeMap<String, String>,
    /// All kernels that were loaded.
    pub seen: BTreeSet<String>,
    /// (pid, context) → (device, multiprocessors, name)
    pub contexts: BTreeMap<(u32, u32), (u32, u64, String)>,
    pub clocks: BTreeMap<(u32, u32), DeviceClock>,
    /// Anything else, for people.
    pub words: Vec<String>,
    /// What could not be set up: probes did not run.
    pub failures: Vec<String>,
}

/// What probes did to a kernel.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct KernelNotes {
    /// `name=value` of everything that was said: `entries`, `registers`, …
    pub facts: BTreeMap<String, String>,
}

impl Notes {
    pub fn read(folder: &Path) -> Notes {
        let mut notes = Notes::default();
        let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
        for entry in entries {
            let name = entry.file_name();
            let Some(pid) = (name.to_str())
                .and_then(|name| name.strip_prefix("notes."))
                .and_then(|pid| pid.parse().ok())
            else {
                continue;
            };
            let text = read_left(&entry.path(), MOST_BYTES).unwrap_or_default();
            for line in String::from_utf8_lossy(&text).lines() {
                notes.line(pid, line);
            }
        }
        notes
    }

    fn line(&mut self, pid: u32, line: &str) -> Option<()> {
        let (word, rest) = line.split_once(' ')?;
        let (first, after) = rest.split_once(' ').unwrap_or((rest, ""));
        match word {
            "probed" | "needs" => {
                let kernel = self.probed.entry(first.to_owned()).or_default();
                for fact in after.split(' ') {
                    if let Some((name, value)) = fact.split_once('=') {
                        kernel.facts.insert(name.to_owned(), value.to_owned());
                    }
                }
            }
            "refused" => {
                self.refused.insert(first.to_owned(), after.to_owned());
            }
            "fallback" => {
                self.probed.remove(first);
                self.refused.insert(first.to_owned(), after.to_owned());
            }
            "sass" => {
                self.sass_only.insert(first.to_owned(), after.to_owned());
            }
            "seen" | "seen-sass" => {
                self.seen.insert(rest.to_owned());
            }
            "context" => {
                let fact = |name: &str| {
                    let from = after.split(' ').find_map(|word| word.strip_prefix(name));
                    from.map(str::to_owned)
                };
                let device = fact("device=")?.parse().ok()?;
                let multiprocessors = fact("multiprocessors=")?.parse().ok()?;
                let name = after.split_once("name=").map_or("", |(_, name)| name);
                let key = (pid, first.parse().ok()?);
                self.contexts
                    .insert(key, (device, multiprocessors, name.to_owned()));
            }
            "clock" => {
                let numbers: Vec<u64> = after
                    .split(' ')
                    .filter_map(|one| one.parse().ok())
                    .collect();
                let &[source, host, margin] = numbers.as_slice() else {
                    return None;
                };
                let key = (pid, first.parse().ok()?);
                self.clocks.entry(key).or_default().add(ClockPair {
                    source,
                    host,
                    margin,
                });
            }
            "failed" => self.failures.push(rest.to_owned()),
            _ => self.words.push(rest.to_owned()),
        }
        Some(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn notes_are_read() {
        let folder = tempfile::tempdir().expect("a folder");
        let text = "seen _Z1kv\nprobed _Z1kv entries=1 returns=2\nneeds _Z1kv registers=8/12\n\
            sass _Z1sv /lib/libx.so\nrefused _Z1rv because\ncontext 0 device=1 multiprocessors=132 name=NVIDIA H200\n\
            clock 0 100 200 5\nnote well then\nfailed no room\nprobed _Z1fv entries=1\nfallback _Z1fv the driver refuses it\nnonsense\n";
        std::fs::write(folder.path().join("notes.42"), text).expect("written");
        let notes = Notes::read(folder.path());
        assert_eq!(notes.probed["_Z1kv"].facts["registers"], "8/12");
        assert_eq!(notes.probed.len(), 1);
        assert_eq!(notes.sass_only["_Z1sv"], "/lib/libx.so");
        assert_eq!(notes.refused["_Z1fv"], "the driver refuses it");
        assert_eq!(notes.contexts[&(42, 0)], (1, 132, "NVIDIA H200".to_owned()));
        assert_eq!(notes.clocks[&(42, 0)].host(150), Some(250));
        assert_eq!(notes.words, ["well then"]);
        assert_eq!(notes.failures, ["no room"]);
    }
}
