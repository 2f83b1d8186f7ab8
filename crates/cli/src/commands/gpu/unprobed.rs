//! Kernels that ran without the probes that were meant for them: counted by library and by reason, for a program
//! may have thousands. Those that exist and did not run are no news.

use capture::gpu_probe::Notes;
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
        self.0.contains(kernel) || self.0.contains(&capture::demangled(kernel))
    }
}

/// What there is to say, and for `-v` each kernel.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Unprobed {
    pub notes: Vec<String>,
    pub details: Vec<String>,
}

impl Unprobed {
    pub fn of(notes: &Notes, launched: &Launched) -> Self {
        let mut found = Unprobed::default();
        let without_ptx = ran_by(&notes.sass_only, launched);
        let refused = ran_by(&notes.refused, launched);
        found.add(&without_ptx, "libraries", |place, kernels| match kernels {
            [kernel] => format!("no PTX in {place} for {kernel}: it ran without probes"),
            _ => format!(
                "{} kernels of {place} ran without probes: it has no PTX for them",
                kernels.len()
            ),
        });
        found.add(&refused, "reasons", |why, kernels| match kernels {
            [kernel] => format!("{kernel} ran without probes: {why}"),
            _ => format!("{} kernels ran without probes: {why}", kernels.len()),
        });
        let nothing_ran = without_ptx.is_empty() && refused.is_empty();
        if nothing_ran && notes.probed.is_empty() && !notes.sass_only.is_empty() {
            found.notes.push(match notes.sass_only.iter().next() {
                Some((kernel, place)) if notes.sass_only.len() == 1 => format!(
                    "nothing was probed: {} has no PTX in {place}, and did not run",
                    readable(kernel)
                ),
                _ => format!(
                    "nothing was probed: {} kernels match and have no PTX, and none of them ran",
                    notes.sass_only.len()
                ),
            });
        }
        found
    }

    fn add(
        &mut self,
        groups: &BTreeMap<&str, Vec<String>>,
        of: &str,
        words: impl Fn(&str, &[String]) -> String,
    ) {
        let mut groups: Vec<(&str, &[String])> = (groups.iter())
            .map(|(name, kernels)| (*name, &**kernels))
            .collect();
        groups.sort_by_key(|(name, kernels)| (std::cmp::Reverse(kernels.len()), *name));
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
                "{kernels} more kernels ran without probes, of {} more {of} (-v lists them)",
                rest.len()
            ));
        }
    }
}

/// Those that ran, by what is said of them.
fn ran_by<'a>(
    kernels: &'a BTreeMap<String, String>,
    launched: &Launched,
) -> BTreeMap<&'a str, Vec<String>> {
    let mut groups: BTreeMap<&str, Vec<String>> = BTreeMap::new();
    for (kernel, about) in kernels.iter().filter(|(kernel, _)| launched.has(kernel)) {
        groups.entry(about).or_default().push(readable(kernel));
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
            ("_Z3addPf", "libtorch_cuda.so"),
            ("_Z3mulPf", "libtorch_cuda.so"),
            ("_Z3subPf", "libtorch_cuda.so"),
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
                "2 kernels of libtorch_cuda.so ran without probes: it has no PTX for them (-v lists them)",
                "no PTX in libcublas.so for gemm: it ran without probes",
                "r() ran without probes: it has no registers left",
            ]
        );
        assert_eq!(
            found.details,
            [
                "no PTX in libtorch_cuda.so for add(float*): it ran without probes",
                "no PTX in libtorch_cuda.so for mul(float*): it ran without probes",
            ]
        );
    }

    #[test]
    fn many_libraries_are_few_lines_and_nothing_is_said_of_nothing() {
        let kernels: Vec<(String, String)> =
            (0..9).map(|n| (format!("k{n}"), format!("l{n}"))).collect();
        let sass: Vec<(&str, &str)> = kernels.iter().map(|(k, l)| (&**k, &**l)).collect();
        let names: Vec<&str> = kernels.iter().map(|(k, _)| &**k).collect();
        let found = Unprobed::of(&noted(&sass, &[]), &launched(&names));
        assert_eq!(found.notes.len(), MOST_LINES + 1);
        let last = "5 more kernels ran without probes, of 5 more libraries (-v lists them)";
        assert_eq!(found.notes[MOST_LINES], last);
        assert_eq!(found.details.len(), 5);
        let nothing = Unprobed::of(&noted(&sass, &[]), &launched(&[]));
        let words = "nothing was probed: 9 kernels match and have no PTX, and none of them ran";
        assert_eq!(nothing.notes, [words]);
        assert_eq!(
            Unprobed::of(&noted(&[], &[]), &launched(&["x"])),
            Unprobed::default()
        );
    }
}
