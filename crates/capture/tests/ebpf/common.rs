//! Runs programs under the kernel's eyes and keeps what was seen.

use capture::ebpf::{self, EbpfReport, Options};
use capture::launch::{Command, Exit, Preparation, hold};
use capture::{Nested, Sink, SinkError};
use event::{Backend, Event, Extent, Record};
use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard};

pub const HERE: &str = env!("CARGO_MANIFEST_DIR");

/// Keeps every record.
#[derive(Default)]
pub struct Recorded {
    pub records: Vec<Record>,
    pub backend: Option<Backend>,
}

impl Sink for Recorded {
    fn begin(&mut self, backend: Backend) -> Result<(), SinkError> {
        self.backend = Some(backend);
        Ok(())
    }

    fn write(&mut self, record: &mut Record) -> Result<(), SinkError> {
        self.records.push(record.clone());
        Ok(())
    }

    fn flush(&mut self) -> Result<(), SinkError> {
        Ok(())
    }
}

impl Recorded {
    /// Events that have ended.
    pub fn closed(&self) -> impl Iterator<Item = &Event> {
        self.records.iter().filter_map(|record| match record {
            Record::Event(event) if event.extent != Extent::Open => Some(event),
            _ => None,
        })
    }

    pub fn begun(&self) -> impl Iterator<Item = &Event> {
        self.records.iter().filter_map(|record| match record {
            Record::Event(event) if event.extent == Extent::Open => Some(event),
            _ => None,
        })
    }

    /// How often each function was called, by process.
    pub fn counts(&self) -> HashMap<(u32, String), u64> {
        let mut counts = HashMap::new();
        for event in self.begun() {
            *counts
                .entry((event.pid, event.name.to_string()))
                .or_default() += 1;
        }
        counts
    }

    pub fn lost(&self) -> u64 {
        let lost = self.records.iter().map(|record| match record {
            Record::Lost(lost) => lost.count,
            _ => 0,
        });
        lost.sum()
    }
}

/// False, and a word about it, where it cannot be tested. The tests take turns: they look at how
/// long things take, and at what is left attached.
pub fn ready() -> Option<MutexGuard<'static, ()>> {
    static TURN: Mutex<()> = Mutex::new(());
    if let Err(why) = ebpf::available() {
        let required = std::env::var_os("CUTRACE_REQUIRE_ALL").is_some();
        assert!(!required, "must not be skipped here: {why}");
        eprintln!("skipped: {why}");
        return None;
    }
    Some(TURN.lock().unwrap_or_else(|held| held.into_inner()))
}

/// Runs a command to its end.
pub fn run(options: &Options, words: &[&str]) -> (Exit, Recorded, EbpfReport) {
    let command = Command {
        program: words[0].into(),
        args: words[1..].iter().map(Into::into).collect(),
        environment: Vec::new(),
    };
    let recording = ebpf::start(options, Nested::new(Recorded::default())).expect("started");
    let mut held = hold(&command, &Preparation::default()).expect("held");
    recording.follow(held.pid()).expect("followed");
    held.release().expect("begun");
    let exit = held.wait().expect("ended");
    let (kept, report) = recording.finish();
    (exit, kept.into_inner(), report)
}

/// A program of these tests, or of preload's.
pub fn compile(source: &str, output: &str, flags: &[&str]) -> PathBuf {
    let folder = Path::new(HERE).join("../../target/tmp/ebpf");
    std::fs::create_dir_all(&folder).expect("a folder");
    let own = Path::new(HERE).join("tests/ebpf").join(source);
    let others = Path::new(HERE)
        .join("../../inject/preload/tests/programs")
        .join(source);
    let source = if own.exists() { own } else { others };
    let output = folder.join(output);
    let plus = source.extension().is_some_and(|ending| ending == "cpp");
    let built = std::process::Command::new(if plus { "c++" } else { "cc" })
        .args(["-O1", "-g", "-o"])
        .arg(&output)
        .arg(&source)
        .args(flags)
        .status()
        .expect("a compiler");
    assert!(built.success(), "{}", source.display());
    output
}

/// libcuda.so.1 of each version that scripts/fetch-libcuda has fetched.
pub fn drivers() -> Vec<PathBuf> {
    let folder = Path::new(HERE).join("../../target/libcuda");
    let versions = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let mut found: Vec<PathBuf> = versions
        .map(|version| version.path().join("libcuda.so.1"))
        .filter(|path| path.exists())
        .collect();
    found.sort();
    if found.is_empty() {
        let required = std::env::var_os("CUTRACE_REQUIRE_ALL").is_some();
        assert!(!required, "no libcuda here, and everything is required");
        eprintln!("skipped: no libcuda here; scripts/fetch-libcuda fetches them");
    }
    found
}
