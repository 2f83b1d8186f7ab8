//! Kernels that ran without the probes that were meant for them: counted by library and by reason, for a program
//! may have thousands. Those that exist and did not run are no news.

use super::Notes;
use event::{Name, Record, What};
use ptx::rewrite::readable;
use std::collections::{BTreeMap, HashSet};

/// Libraries, or reasons, that get a line of their own.
const MOST_LINES: usize = 4;
/// Names of kernels that are kept.
const MOST_NAMES: usize = 1 << 16;

/// The kernels that a run launched, by the names that the trace has for them.
#[derive(Debug, Default)]
pub struct Launched(HashSet<Name>);

impl Launched {
    pub fn add(&mut self, record: &Record) {
        if let Record::Meaning(meaning) = record
            && let What::Launch(launch) = &meaning.what
            && self.0.len() < MOST_NAMES
            && !self.0.contains(&launch.kernel)
        {
            self.0.insert(launch.kernel.clone());
        }
    }

    fn has(&self, kernel: &str) -> bool {
        self.0.contains(kernel) || self.0.contains(&crate::demangled(kernel))
    }
}

/// What there is to say, and for `-v` each kernel.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Unprobed {
    pub notes: Vec<String>,
    pub details: Vec<String>,
    /// Kernels with probes that ran, by their mangled names.
    pub probed: Vec<String>,
}

/// What there is for kernels that probes cannot be put into.
const INSTEAD: &str =
    "Probes need PTX; 'cutrace --method cupti CMD' records when such kernels ran on the GPU";

impl Unprobed {
    pub fn of(notes: &Notes, launched: &Launched) -> Self {
        let probed = notes.probed.keys().filter(|kernel| launched.has(kernel));
        let mut found = Unprobed {
            probed: probed.cloned().collect(),
            ..Unprobed::default()
        };
        let without_ptx = ran_by(&notes.sass_only, launched);
        let refused = ran_by(&notes.refused, launched);
        found.add_sass(&without_ptx);
        found.add(&refused, "reasons", |why, kernels| match kernels {
            [kernel] => format!("{kernel} ran without probes: {why}"),
            _ => format!("{} kernels ran without probes: {why}", kernels.len()),
        });
        let nothing_ran = without_ptx.is_empty() && refused.is_empty();
        if nothing_ran && notes.probed.is_empty() && !notes.sass_only.is_empty() {
            found.notes.push(match notes.sass_only.iter().next() {
                Some((kernel, place)) if notes.sass_only.len() == 1 => format!(
                    "nothing was probed: {} is only machine code (SASS) in {}, and did not run",
                    short(kernel),
                    library(place)
                ),
                _ => format!(
                    "nothing was probed: {} kernels match, but they are only machine code (SASS) and did not run",
                    notes.sass_only.len()
                ),
            });
        }
        found
    }

    /// One line, however many there are.
    fn add_sass(&mut self, groups: &BTreeMap<&str, Vec<String>>) {
        let groups = by_count(groups);
        let all: usize = groups.iter().map(|(_, kernels)| kernels.len()).sum();
        let note = match &*groups {
            [] => return,
            [(place, [kernel])] => format!(
                "{kernel} in {} is only machine code (SASS) and ran without probes. {INSTEAD}",
                library(place)
            ),
            groups => {
                let mut parts: Vec<String> = (groups.iter().take(MOST_LINES))
                    .map(|(place, kernels)| format!("{} in {}", kernels.len(), library(place)))
                    .collect();
                if let Some(rest) = groups.get(MOST_LINES..).filter(|rest| !rest.is_empty()) {
                    let kernels: usize = rest.iter().map(|(_, kernels)| kernels.len()).sum();
                    parts.push(format!("{kernels} in {} more libraries", rest.len()));
                }
                format!(
                    "{all} kernels are only machine code (SASS) and ran without probes: {} (-v lists them). {INSTEAD}",
                    parts.join(", ")
                )
            }
        };
        self.notes.push(note);
        if all > 1 {
            for (place, kernels) in groups {
                let lines = kernels
                    .iter()
                    .map(|kernel| format!("no PTX in {place} for {kernel}: it ran without probes"));
                self.details.extend(lines);
            }
        }
    }

    fn add(
        &mut self,
        groups: &BTreeMap<&str, Vec<String>>,
        of: &str,
        words: impl Fn(&str, &[String]) -> String,
    ) {
        let groups = by_count(groups);
        for (place, (name, kernels)) in groups.iter().enumerate() {
            if place < MOST_LINES {
                let more = if kernels.len() > 1 {
                    " (-v lists them)"
                } else {
                    ""
                };
                self.notes.push(format!("{}{more}", words(name, kernels)));
            }
            if kernels.len() > 1 || place >= MOST_LINES {
                let one = |kernel: &String| words(name, std::slice::from_ref(kernel));
                self.details.extend(kernels.iter().map(one));
            }
        }
        let rest = groups.get(MOST_LINES..).unwrap_or_default();
        if !rest.is_empty() {
            let kernels: usize = rest.iter().map(|(_, kernels)| kernels.len()).sum();
            self.notes.push(format!(
                "{kernels} more kernels ran without probes, for {} more {of} (-v lists them)",
                rest.len()
            ));
        }
    }
}

/// Most kernels first.
fn by_count<'a>(groups: &'a BTreeMap<&str, Vec<String>>) -> Vec<(&'a str, &'a [String])> {
    let mut groups: Vec<(&str, &[String])> = (groups.iter())
        .map(|(name, kernels)| (*name, &**kernels))
        .collect();
    groups.sort_by_key(|(name, kernels)| (std::cmp::Reverse(kernels.len()), *name));
    groups
}

/// A library without its folders.
fn library(place: &str) -> &str {
    place.rsplit('/').next().unwrap_or(place)
}

fn short(kernel: &str) -> String {
    names::short_name(&readable(kernel))
}

/// Those that ran, by what is said of them.
fn ran_by<'a>(
    kernels: &'a BTreeMap<String, String>,
    launched: &Launched,
) -> BTreeMap<&'a str, Vec<String>> {
    let mut groups: BTreeMap<&str, Vec<String>> = BTreeMap::new();
    for (kernel, about) in kernels.iter().filter(|(kernel, _)| launched.has(kernel)) {
        groups.entry(about).or_default().push(short(kernel));
    }
    groups
}

#[cfg(test)]
mod tests {
    use super::*;
    use event::{Category, Event, Launch, Layer, Meaning};

    fn launched(kernels: &[&str]) -> Launched {
        let mut launched = Launched::default();
        for kernel in kernels {
            let launch = Launch {
                kernel: (*kernel).into(),
                grid: [1; 3],
                block: [1; 3],
                shared: 0,
            };
            let call = Event::new(1, Layer::Driver, Category::Kernel, "cuLaunchKernel", 5);
            let meaning = Meaning::of(&call, What::Launch(launch));
            launched.add(&Record::Meaning(meaning));
        }
        launched
    }

    fn noted(sass: &[(&str, &str)], refused: &[(&str, &str)]) -> Notes {
        let all = |of: &[(&str, &str)]| {
            let owned = of
                .iter()
                .map(|(name, about)| ((*name).into(), (*about).into()));
            owned.collect()
        };
        Notes {
            sass_only: all(sass),
            refused: all(refused),
            ..Notes::default()
        }
    }

    #[test]
    fn only_what_ran_is_told_by_library() {
        let sass = [
            ("_Z3addPf", "/x/libtorch_cuda.so"),
            ("_Z3mulPf", "/x/libtorch_cuda.so"),
            ("_Z3subPf", "/x/libtorch_cuda.so"),
            ("gemm", "libcublas.so"),
            ("never", "libcudnn.so"),
        ];
        let refused = [("_Z1rv", "it has no registers left"), ("unused", "no")];
        let notes = noted(&sass, &refused);
        let ran = launched(&["add(float*)", "mul(float*)", "gemm", "r()", "other"]);
        let found = Unprobed::of(&notes, &ran);
        assert_eq!(
            found.notes,
            [
                format!(
                    "3 kernels are only machine code (SASS) and ran without probes: 2 in libtorch_cuda.so, 1 in \
                     libcublas.so (-v lists them). {INSTEAD}"
                ),
                "r ran without probes: it has no registers left".to_owned(),
            ]
        );
        assert_eq!(
            found.details,
            [
                "no PTX in /x/libtorch_cuda.so for add: it ran without probes",
                "no PTX in /x/libtorch_cuda.so for mul: it ran without probes",
                "no PTX in libcublas.so for gemm: it ran without probes",
            ]
        );
        let found = Unprobed::of(&notes, &launched(&["gemm"]));
        let only = "gemm in libcublas.so is only machine code (SASS) and ran without probes. ";
        assert_eq!(found.notes, [format!("{only}{INSTEAD}")]);
    }

    #[test]
    fn many_libraries_are_few_lines_and_nothing_is_said_of_nothing() {
        let kernels: Vec<(String, String)> =
            (0..9).map(|n| (format!("k{n}"), format!("l{n}"))).collect();
        let sass: Vec<(&str, &str)> = kernels.iter().map(|(k, l)| (&**k, &**l)).collect();
        let names: Vec<&str> = kernels.iter().map(|(k, _)| &**k).collect();
        let found = Unprobed::of(&noted(&sass, &[]), &launched(&names));
        let libraries = "1 in l0, 1 in l1, 1 in l2, 1 in l3, 5 in 5 more libraries (-v lists them)";
        assert!(found.notes[0].contains(libraries), "{:?}", found.notes);
        assert_eq!((found.notes.len(), found.details.len()), (1, 9));
        let refused: Vec<(&str, &str)> = sass.clone();
        let found = Unprobed::of(&noted(&[], &refused), &launched(&names));
        assert_eq!(found.notes.len(), MOST_LINES + 1);
        let last = "5 more kernels ran without probes, for 5 more reasons (-v lists them)";
        assert_eq!(found.notes[MOST_LINES], last);
        assert_eq!(found.details.len(), 5);
        let nothing = Unprobed::of(&noted(&sass, &[]), &launched(&[]));
        let words = "nothing was probed: 9 kernels match, but they are only machine code (SASS) and did not run";
        assert_eq!(nothing.notes, [words]);
        assert_eq!(
            Unprobed::of(&noted(&[], &[]), &launched(&["x"])),
            Unprobed::default()
        );
    }
}
