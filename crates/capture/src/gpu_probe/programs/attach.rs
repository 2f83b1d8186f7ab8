//! Where programs of an object are attached, if not where their sections say.

use std::{cell::RefCell, str::FromStr};

/// `--attach PROGRAM=KIND:TARGET`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AttachTo {
    pub program: String,
    /// As a section says it: `uprobe/LIB:FUNCTION`, `kprobe/KERNEL`.
    section: String,
}

const KINDS: [&str; 4] = ["uprobe", "uretprobe", "kprobe", "kretprobe"];
const LAUNCH: &str = "cudaLaunchKernel";

/// Why a text says nothing about where a program goes.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum AttachToError {
    #[error("PROGRAM=uprobe:LIB:FUNCTION, uretprobe:…, kprobe:KERNEL or kretprobe:KERNEL")]
    Form,
    #[error("{0} runs on the GPU: attach it with kprobe:KERNEL or kretprobe:KERNEL")]
    RunsOnGpu(String),
}

impl FromStr for AttachTo {
    type Err = AttachToError;

    fn from_str(text: &str) -> Result<AttachTo, AttachToError> {
        let (program, place) = text.split_once('=').ok_or(AttachToError::Form)?;
        let (kind, target) = place.split_once(':').ok_or(AttachToError::Form)?;
        if program.is_empty() || target.is_empty() || !KINDS.contains(&kind) {
            return Err(AttachToError::Form);
        }
        if program.starts_with("cuda__") && kind.starts_with('u') {
            return Err(AttachToError::RunsOnGpu(program.to_owned()));
        }
        Ok(AttachTo {
            program: program.to_owned(),
            section: format!("{kind}/{target}"),
        })
    }
}

/// Where each program of an object goes, with what there is to say about it.
pub struct Places<'a> {
    wanted: &'a [AttachTo],
    /// The object speaks of launches.
    is_about_launches: bool,
    found: RefCell<Vec<Program>>,
}

struct Program {
    name: String,
    is_moved: bool,
    note: Option<String>,
}

impl<'a> Places<'a> {
    pub fn new(wanted: &'a [AttachTo], object: &[u8]) -> Places<'a> {
        let mut windows = object.windows(LAUNCH.len());
        Places {
            wanted,
            is_about_launches: windows.any(|window| window == LAUNCH.as_bytes()),
            found: RefCell::default(),
        }
    }

    /// Another section for a program.
    pub fn section(&self, program: &str, section: &str) -> Option<String> {
        let wanted = self.wanted.iter().find(|one| one.program == program);
        let (moved, note) = match wanted {
            Some(wanted) => (Some(wanted.section.clone()), None),
            None => self.by_default(program, section),
        };
        let note = note.or_else(|| meant(program, moved.as_deref().unwrap_or(section)));
        self.found.borrow_mut().push(Program {
            name: program.to_owned(),
            is_moved: wanted.is_some(),
            note,
        });
        moved
    }

    /// bpftime's loaders say where a bare uprobe goes; for launches there is one place.
    fn by_default(&self, program: &str, section: &str) -> (Option<String>, Option<String>) {
        if !matches!(section, "uprobe" | "uretprobe") {
            return (None, None);
        }
        let name: String = program.chars().filter(|letter| *letter != '_').collect();
        let name = name.to_lowercase();
        let is_launch = name.contains("cudalaunch") || name.contains("launchkernel");
        if !is_launch && !self.is_about_launches {
            return (None, None);
        }
        let note = format!(
            "program {program}: its section ({section}) names no function, so it is attached to {section}:{LAUNCH} \
             (--attach {program}={section}:LIB:FUNCTION attaches it elsewhere)"
        );
        (Some(format!("{section}/{LAUNCH}")), Some(note))
    }

    /// Whether another place was asked for than the section says.
    pub fn is_moved(&self, program: &str) -> bool {
        let found = self.found.borrow();
        found.iter().any(|one| one.name == program && one.is_moved)
    }

    pub fn notes(&self) -> Vec<String> {
        let found = self.found.borrow();
        found.iter().filter_map(|one| one.note.clone()).collect()
    }

    /// A program that was to be attached and is not in the object, in words.
    pub fn missing(&self) -> Option<String> {
        let found = self.found.borrow();
        let is_there = |name: &str| found.iter().any(|one| one.name == name);
        let wanted = self.wanted.iter().find(|one| !is_there(&one.program))?;
        let names: Vec<&str> = found.iter().map(|one| one.name.as_str()).collect();
        Some(format!(
            "--attach {}: the object has no such program; it has {}",
            wanted.program,
            names.join(", ")
        ))
    }
}

/// What a section's name stands for, if it is not the kernel's own.
fn meant(program: &str, section: &str) -> Option<String> {
    let (kind, name) = section.split_once('/')?;
    let kernel = gpubpf::kernel_meant(name);
    let is_on_gpu = program.starts_with("cuda__") && kind.starts_with('k');
    (is_on_gpu && kernel != name).then(|| {
        format!(
            "program {program}: {name} is read as the kernel {}",
            ptx::rewrite::readable(kernel)
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_read() {
        let read = |text: &str| text.parse::<AttachTo>().map(|one| one.section);
        assert_eq!(
            read("p=uprobe:libcudart.so:cudaMalloc").as_deref(),
            Ok("uprobe/libcudart.so:cudaMalloc")
        );
        assert_eq!(
            read("cuda__p=kretprobe:vectorAdd").as_deref(),
            Ok("kretprobe/vectorAdd")
        );
        for bad in [
            "p",
            "p=",
            "=uprobe:f",
            "p=uprobe",
            "p=uprobe:",
            "p=usdt:a:b",
            "cuda__p=uprobe:f",
        ] {
            assert!(read(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn a_bare_uprobe_is_for_launches_if_it_says_so() {
        let none = Places::new(&[], b"");
        let launch = none.section("uprobe_cuda_launch", "uprobe");
        assert_eq!(launch.as_deref(), Some("uprobe/cudaLaunchKernel"));
        assert_eq!(none.section("anything", "uprobe"), None);
        assert_eq!(none.section("uprobe_cuda_launch", "uprobe/f"), None);
        assert_eq!(none.notes().len(), 1);
        let about = Places::new(&[], b".. cudaLaunchKernel called at ..");
        assert!(about.section("anything", "uretprobe").is_some());
        let wanted = ["x=uprobe:f".parse().expect("a place")];
        let missing = Places::new(&wanted, b"");
        missing.section("y", "uprobe/f");
        assert!(
            missing
                .missing()
                .is_some_and(|text| text.ends_with("it has y"))
        );
    }

    #[test]
    fn a_stub_is_said_to_stand_for_its_kernel() {
        let places = Places::new(&[], b"");
        assert_eq!(places.section("cuda__p", "kprobe/cuda__Z1kPf"), None);
        let note = "program cuda__p: cuda__Z1kPf is read as the kernel k(float*)";
        assert_eq!(places.notes(), [note]);
    }
}
