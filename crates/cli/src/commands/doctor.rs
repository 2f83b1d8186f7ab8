//! `cutrace doctor`: what works on this machine, found out by trying, and what to type about the rest.

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
        Ok("a software CUDA device: cutrace demo".to_owned()),
    ));
    let mut text = String::new();
    for (title, part) in [
        ("GPU and driver", Part::Driver),
        ("without root", Part::WithoutRoot),
        ("eBPF, as root", Part::Ebpf),
        ("the kernel itself", Part::Kernel),
    ] {
        let _ = writeln!(text, "{title}");
        for Finding { name, found, .. } in findings.iter().filter(|it| it.part == part) {
            let (mark, words) = match found {
                Ok(words) => ("yes", words.clone()),
                Err(why) => ("no ", why.to_string()),
            };
            let _ = writeln!(text, "  {name:<14} {mark}  {words}");
        }
    }
    super::print(text.as_bytes())
}

/// What the sources need of a GPU.
fn driver() -> Vec<Finding> {
    let version = fs::read_to_string("/proc/driver/nvidia/version").map_err(|_| {
        Obstacle::new(
            "no NVIDIA driver is loaded; cutrace softgpu -- CMD runs CUDA programs without one",
        )
    });
    let version = version.map(|text| text.lines().next().unwrap_or_default().trim().to_owned());
    let files = match fs::metadata("/dev/nvidiactl") {
        Ok(_) => Ok("/dev/nvidiactl is there".to_owned()),
        Err(_) => Err(Obstacle::new("no /dev/nvidiactl: nvidia-modprobe makes it")),
    };
    let found = library::installed(None, &[]);
    let list = |name: &str| {
        let found = found.iter().filter(|path| {
            let file = path.file_name().unwrap_or_default().to_string_lossy();
            file.starts_with(name)
        });
        let paths: Vec<String> = found.map(|path| path.display().to_string()).collect();
        match paths.is_empty() {
            true => Err(Obstacle::new(format!("no {name}* along the loader's path"))),
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
