//! What a session has to say of itself at its end: what was hooked, what was missed, what it cost.

use super::process::{Library, Processes};
use super::shedding::SheddingReport;
use crate::SinkError;
use crate::call::Totals;
use crate::notes::{Notes, Topic, counted};
use crate::process_name;
use event::{Backend, ClockError, Hooks, Overhead, ProcessName};
use std::collections::BTreeMap;

#[derive(Debug)]
pub struct PreloadReport {
    pub processes: Vec<Process>,
    /// Each library once, as the process that had most of it hooked had it.
    pub libraries: Vec<Library>,
    /// Things a user should know.
    pub notes: Notes,
    /// Calls that became records.
    pub calls: u64,
    /// Calls that were made and are not in the sample.
    pub not_sampled: u64,
    pub lost: u64,
    /// Records that are not quite in the order of time.
    pub late: u64,
    pub clock: ClockError,
    /// What recording took in the program's threads.
    pub overhead: Option<Overhead>,
    /// Records that could not be kept, and why not.
    pub unwritten: u64,
    pub failure: Option<SinkError>,
    /// What was not recorded because it would have cost too much.
    pub shed: Option<SheddingReport>,
}

/// What injected code says of libraries, by the word that it says it with.
static TOPICS: [(&str, Topic); 4] = [
    (
        "hidden-runtime",
        Topic {
            one: "{} links its own CUDA runtime without symbols: its cuda* calls are not seen, its cu* calls are",
            many: "{} libraries link their own CUDA runtime without symbols: their cuda* calls are not seen, their \
                   cu* calls are",
        },
    ),
    (
        "changed-file",
        Topic {
            one: "{} is not hooked: its file was deleted or changed",
            many: "{} libraries are not hooked: their files were deleted or changed",
        },
    ),
    (
        "not-hooked",
        Topic {
            one: "not hooked, {}",
            many: "{} libraries are not hooked",
        },
    ),
    (
        "missed",
        Topic {
            one: "{} is not hooked, its calls are missing: another tracer's probe in the loader (_dl_debug_state) hid \
                  that it was loaded",
            many: "{} libraries are not hooked, their calls are missing: another tracer's probe in the loader \
                   (_dl_debug_state) hid that they were loaded",
        },
    ),
];

/// One program image that said it was there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Process {
    pub pid: u32,
    pub parent: u32,
    pub exe: String,
    pub command: Vec<String>,
}

impl Process {
    /// What it is called.
    pub fn named(&self) -> ProcessName {
        ProcessName {
            pid: self.pid,
            parent: (self.parent != 0).then_some(self.parent),
            name: process_name::short(&self.command, "", &self.exe),
            command: self.command.clone(),
            origin: None,
        }
    }
}

/// Each library once, as the process that had most of it hooked had it.
pub(super) fn libraries(processes: &Processes) -> Vec<Library> {
    let mut libraries: BTreeMap<&str, &Library> = BTreeMap::new();
    for library in processes
        .images()
        .iter()
        .flat_map(|image| image.libraries.values())
    {
        let known = libraries.entry(&library.path).or_insert(library);
        if library.hooked > known.hooked {
            *known = library;
        }
    }
    libraries.into_values().cloned().collect()
}

/// What of each library was hooked, and what not, for the head of the trace.
pub(super) fn backend(libraries: &[Library]) -> Backend {
    let sum = |count: fn(&Library) -> u64| libraries.iter().map(count).fold(0, u64::saturating_add);
    Backend {
        name: "preload".into(),
        hooks: Hooks {
            attached: sum(|library| library.hooked),
            total: sum(|library| library.exported),
        },
        missing: missing(libraries),
    }
}

/// What was left alone in each library, and why.
pub fn missing(libraries: &[Library]) -> Vec<String> {
    let reasons = libraries.iter().flat_map(|library| {
        (library.skipped.iter()).map(|(reason, count)| {
            let functions = counted(*count, "function", "functions");
            format!("{}: {functions}: {reason}", library.short_name())
        })
    });
    reasons.collect()
}

/// Why events were lost.
fn lost_words(lost: u64, by_thread: &BTreeMap<(u32, u32), u64>) -> Vec<String> {
    let full = by_thread
        .values()
        .fold(0u64, |sum, count| sum.saturating_add(*count));
    let events = |count| counted(count, "event was", "events were");
    let mut words = Vec::new();
    if let Some(((pid, tid), most)) = by_thread.iter().max_by_key(|(_, count)| **count) {
        let who = format!("thread {tid} of process {pid}");
        let why = match by_thread.len() {
            1 => format!("{who} filled its ring faster than cutrace could read it"),
            many => format!(
                "{many} threads filled their rings faster than cutrace could read them (most: {most} by {who})"
            ),
        };
        words.push(format!("{} lost: {why}", events(full)));
    }
    if lost > full {
        words.push(format!(
            "{} lost in threads for which no ring could be set up",
            events(lost - full)
        ));
    }
    words
}

/// By what the processes measured when they began; the dearest stands for all.
fn overhead(processes: &Processes, calls: u64) -> Option<Overhead> {
    let costs = processes.images().iter().filter_map(|image| image.cost);
    let dearest = costs.max_by(f64::total_cmp)?;
    Some(Overhead {
        total_ns: (dearest * calls as f64) as u64,
        per_event_ns: dearest,
    })
}

impl PreloadReport {
    pub(super) fn new(
        processes: &Processes,
        totals: Totals,
        clock: ClockError,
        damaged: u64,
    ) -> Self {
        let mut notes = Notes::default();
        for image in processes.images() {
            for (topic, subject) in &image.abouts {
                if let Some((_, topic)) = TOPICS.iter().find(|(name, _)| name == topic) {
                    notes.about(topic, subject);
                }
            }
            image.notes.iter().for_each(|note| notes.say(note));
        }
        if damaged > 0 {
            notes.say(format!(
                "{} invalid data and {} dropped",
                counted(damaged, "ring contained", "rings contained"),
                if damaged == 1 { "was" } else { "were" }
            ));
        }
        for note in lost_words(totals.lost, &totals.lost_by_thread) {
            notes.say(note);
        }
        totals
            .for_cupti
            .note()
            .into_iter()
            .for_each(|note| notes.say(note));
        PreloadReport {
            processes: (processes.images().iter().enumerate())
                .map(|(place, image)| Process {
                    command: processes.command(place).to_vec(),
                    pid: image.pid,
                    parent: image.parent,
                    exe: image.exe.clone(),
                })
                .collect(),
            libraries: libraries(processes),
            notes,
            calls: totals.calls,
            not_sampled: totals.not_sampled,
            lost: totals.lost,
            late: totals.late,
            clock,
            overhead: overhead(processes, totals.recorded),
            unwritten: totals.unwritten,
            failure: totals.failure,
            shed: None,
        }
    }

    /// What was spent in the program's threads beside recording calls.
    pub(super) fn add_overhead(&mut self, nanoseconds: u64) {
        if nanoseconds > 0 {
            let overhead = self.overhead.get_or_insert_default();
            overhead.total_ns = overhead.total_ns.saturating_add(nanoseconds);
        }
    }

    /// Functions hooked, and functions there are, in all libraries.
    pub fn hooks(&self) -> (u64, u64) {
        let sum = |count: fn(&Library) -> u64| {
            self.libraries
                .iter()
                .fold(0u64, |sum, library| sum.saturating_add(count(library)))
        };
        (
            sum(|library| library.hooked),
            sum(|library| library.exported),
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn losses_have_a_cause() {
        assert_eq!(lost_words(0, &BTreeMap::new()), [""; 0]);
        let mut by_thread = BTreeMap::from([((7, 8), 5)]);
        let words = "5 events were lost: thread 8 of process 7 filled its ring faster than cutrace could read it";
        assert_eq!(lost_words(5, &by_thread), [words]);
        by_thread.insert((7, 9), 1);
        let [full, none] = <[String; 2]>::try_from(lost_words(7, &by_thread)).expect("two causes");
        assert!(
            full.ends_with("(most: 5 by thread 8 of process 7)"),
            "{full}"
        );
        assert_eq!(
            none,
            "1 event was lost in threads for which no ring could be set up"
        );
    }
}
