//! `cutrace doctor`: what can be recorded on this machine, found out by trying, and what to type about the rest.

use crate::without_numbers;
use anyhow::Result;
use capture::{
    library,
    source::{Finding, Obstacle, Part, SOURCES},
};
use std::{fmt::Write as _, fs, process::ExitCode};

pub fn run() -> Result<ExitCode> {
    let mut findings = driver();
    findings.extend(SOURCES.all().flat_map(|source| source.findings()));
    findings.push(Finding::new(
        Part::WithoutRoot,
        "softgpu",
        Ok("CUDA programs run without a GPU: cutrace --sim ./app".to_owned()),
    ));
    let mut text = format!("{}\n", Abilities::of(&findings).in_words());
    for (title, part) in [
        ("GPU and driver", Part::Driver),
        ("Without root", Part::WithoutRoot),
        ("With root: eBPF", Part::Ebpf),
        ("The kernel", Part::Kernel),
    ] {
        let _ = writeln!(text, "\n{title}");
        for Finding { name, found, .. } in findings.iter().filter(|it| it.part == part) {
            let (mark, words) = match found {
                Ok(words) => ("yes", words.clone()),
                Err(why) => ("no ", why.to_string()),
            };
            let _ = writeln!(text, "  {name:<14} {mark}  {}", without_numbers(&words));
        }
    }
    super::print(text.as_bytes())
}

/// What a user wants to know first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Abilities {
    /// Programs can use a GPU.
    gpu: bool,
    /// ptrace works.
    syscalls: bool,
    /// BPF programs may be loaded.
    rights: bool,
    /// Functions of libraries can be probed, which attaching takes.
    libraries: bool,
    /// Functions of the kernel and its modules can be probed.
    functions: bool,
}

impl Abilities {
    fn of(findings: &[Finding]) -> Self {
        let works = |names: &[&str]| {
            let mut named = findings.iter().filter(|it| names.contains(&it.name));
            named.any(|it| it.found.is_ok())
        };
        Abilities {
            // A device file alone may be left over from a driver that is gone.
            gpu: works(&["NVML"]) || works(&["driver"]) && works(&["device files"]),
            syscalls: works(&["ptrace"]),
            rights: works(&["rights"]),
            libraries: works(&["uprobe", "uprobe_multi", "session"]),
            functions: works(&["kprobe", "kprobe_multi", "fentry"]),
        }
    }

    /// One line: what works without more ado, then what needs root or cannot work.
    fn in_words(self) -> String {
        let mut things = vec!["CUDA calls", "GPU times"];
        things.extend(self.syscalls.then_some("system calls"));
        let things = list(&things);
        let begin = match self.gpu {
            true => format!("Ready: {things} can be recorded here"),
            false => {
                format!("No GPU here, but softgpu is ready: cutrace --sim ./app records {things}")
            }
        };
        let attaching = "attaching to running programs";
        let driver = "functions of the kernel driver";
        let rest = match (self.rights, self.libraries, self.functions) {
            // Without a GPU there is no driver to look into.
            (false, ..) if !self.gpu => format!("; {attaching} needs root"),
            (true, true, _) if !self.gpu => format!("; {attaching} works"),
            (true, false, _) if !self.gpu => format!("; {attaching} does not work here"),
            (false, ..) => format!("; {attaching} and recording {driver} need root"),
            (true, true, true) => format!(", so can {driver} and running programs"),
            (true, true, false) => format!("; {attaching} works, recording {driver} does not"),
            (true, false, true) => {
                format!("; {driver} can be recorded, {attaching} does not work")
            }
            (true, false, false) => {
                format!("; {attaching} does not work here, nor does recording {driver}")
            }
        };
        format!("{begin}{rest}.")
    }
}

/// `a, b and c`
fn list(things: &[&str]) -> String {
    match things {
        [first @ .., last] if !first.is_empty() => format!("{} and {last}", first.join(", ")),
        _ => things.concat(),
    }
}

/// What the sources need of a GPU.
fn driver() -> Vec<Finding> {
    let version = fs::read_to_string("/proc/driver/nvidia/version")
        .map_err(|_| Obstacle::new("no NVIDIA driver is loaded"));
    let version = version.map(|text| text.lines().next().unwrap_or_default().trim().to_owned());
    let files = match fs::metadata("/dev/nvidiactl") {
        Ok(_) => Ok("/dev/nvidiactl exists".to_owned()),
        Err(_) => Err(Obstacle::new("no /dev/nvidiactl; nvidia-modprobe makes it")),
    };
    let found = library::installed(None, &[]);
    let list = |name: &str| {
        let found = found.iter().filter(|path| {
            let file = path.file_name().unwrap_or_default().to_string_lossy();
            file.starts_with(name)
        });
        let paths: Vec<String> = found.map(|path| path.display().to_string()).collect();
        match paths.is_empty() {
            true => Err(Obstacle::new(format!("no {name}* where the loader looks"))),
            false => Ok(paths.join(", ")),
        }
    };
    let lines = [
        ("driver", version),
        ("device files", files),
        ("libcuda", list("libcuda.so")),
        ("libcudart", list("libcudart.so")),
    ];
    let lines = lines.into_iter();
    lines
        .map(|(name, found)| Finding::new(Part::Driver, name, found))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALL: Abilities = Abilities {
        gpu: true,
        syscalls: true,
        rights: true,
        libraries: true,
        functions: true,
    };

    #[test]
    fn the_first_line_says_what_works() {
        let user = Abilities {
            rights: false,
            libraries: false,
            functions: false,
            ..ALL
        };
        for (found, words) in [
            (
                ALL,
                "Ready: CUDA calls, GPU times and system calls can be recorded here, so can functions of the kernel driver and \
                 running programs.",
            ),
            (
                user,
                "Ready: CUDA calls, GPU times and system calls can be recorded here; attaching to running programs and \
                 recording functions of the kernel driver need root.",
            ),
            (
                Abilities { gpu: false, ..user },
                "No GPU here, but softgpu is ready: cutrace --sim ./app records CUDA calls, GPU times and system calls; \
                 attaching to running programs needs root.",
            ),
            (
                Abilities { gpu: false, ..ALL },
                "No GPU here, but softgpu is ready: cutrace --sim ./app records CUDA calls, GPU times and system calls; \
                 attaching to running programs works.",
            ),
            (
                Abilities {
                    functions: false,
                    syscalls: false,
                    ..ALL
                },
                "Ready: CUDA calls and GPU times can be recorded here; attaching to running programs works, recording \
                 functions of the kernel driver does not.",
            ),
            (
                Abilities {
                    libraries: false,
                    functions: false,
                    ..ALL
                },
                "Ready: CUDA calls, GPU times and system calls can be recorded here; attaching to running programs does not \
                 work here, nor does recording functions of the kernel driver.",
            ),
        ] {
            assert_eq!(found.in_words(), words);
        }
    }

    #[test]
    fn abilities_are_those_that_were_found() {
        let finding = |name, works: bool| {
            let found = if works {
                Ok(String::new())
            } else {
                Err(Obstacle::new(""))
            };
            Finding::new(Part::Ebpf, name, found)
        };
        let findings = [
            finding("device files", false),
            finding("NVML", true),
            finding("ptrace", true),
            finding("rights", true),
            finding("uprobe", false),
            finding("uprobe_multi", true),
            finding("kprobe", false),
        ];
        let wanted = Abilities {
            functions: false,
            ..ALL
        };
        assert_eq!(Abilities::of(&findings), wanted);
    }
}
