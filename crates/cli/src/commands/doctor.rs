//! `cutrace doctor`: what works on this machine, found out by trying, and what to type about the rest.

use anyhow::Result;
use capture::{doctor, library};
use cuda::mps;
use std::{env, fmt::Write as _, fs, os::unix::ffi::OsStrExt, path::Path, process::ExitCode};

/// One thing, whether it works, and words about it.
struct Finding {
    name: &'static str,
    works: bool,
    words: String,
}

fn finding(name: &'static str, found: Result<String, String>) -> Finding {
    let works = found.is_ok();
    let words = found.unwrap_or_else(|why| why);
    Finding { name, works, words }
}

pub fn run() -> Result<ExitCode> {
    let parts: [(&str, Vec<Finding>); 4] = [
        ("GPU and driver", driver()),
        ("without root", without_root()),
        ("eBPF, as root", ebpf()),
        ("the kernel itself", kernel()),
    ];
    let mut text = String::new();
    for (title, findings) in parts {
        let _ = writeln!(text, "{title}");
        for Finding { name, works, words } in findings {
            let mark = if works { "yes" } else { "no " };
            let _ = writeln!(text, "  {name:<14} {mark}  {words}");
        }
    }
    super::print(text.as_bytes())
}

fn driver() -> Vec<Finding> {
    let version = fs::read_to_string("/proc/driver/nvidia/version").map_err(|_| {
        "no NVIDIA driver is loaded; cutrace softgpu -- CMD runs CUDA programs without one"
            .to_owned()
    });
    let version = version.map(|text| text.lines().next().unwrap_or_default().trim().to_owned());
    let files = match fs::metadata("/dev/nvidiactl") {
        Ok(_) => Ok("/dev/nvidiactl is there".to_owned()),
        Err(_) => Err("no /dev/nvidiactl: nvidia-modprobe makes it".to_owned()),
    };
    let found = library::installed(None, &[]);
    let list = |name: &str| {
        let found = found.iter().filter(|path| {
            let file = path.file_name().unwrap_or_default().to_string_lossy();
            file.starts_with(name)
        });
        let paths: Vec<String> = found.map(|path| path.display().to_string()).collect();
        match paths.is_empty() {
            true => Err(format!("no {name}* along the loader's path")),
            false => Ok(paths.join(", ")),
        }
    };
    vec![
        finding("driver", version),
        finding("device files", files),
        finding("libcuda", list("libcuda.so")),
        finding("libcudart", list("libcudart.so")),
        finding("CUPTI", cupti()),
        finding("GPU alone", alone()),
        finding(
            "managed memory",
            words(
                capture::uvm::available(),
                "faults and migrations (--method uvm)",
            ),
        ),
        finding(
            "NVML",
            words(
                capture::nvml::available().map_err(|why| why.to_string()),
                "samples ten times a second",
            ),
        ),
        finding(
            "FECS",
            words(
                capture::fecs::available(),
                "whose context has the GPU (--method fecs)",
            ),
        ),
    ]
}

/// Whether programs of this user get the GPU through the Multi-Process Service.
fn alone() -> Result<String, String> {
    let folder = env::var_os(mps::FOLDER_VARIABLE).filter(|folder| !folder.is_empty());
    let folder = folder.unwrap_or_else(|| mps::USUAL_FOLDER.into());
    // The kernel's list of local sockets: a folder may outlive its daemon, a socket does not.
    let sockets = fs::read("/proc/net/unix").unwrap_or_default();
    let served = sockets.split(|byte| *byte == b'\n').any(|line| {
        let path = line.rsplit(|byte| *byte == b' ').next().unwrap_or_default();
        mps::is_in(folder.as_bytes(), path)
    });
    match served {
        false => Ok("no MPS control daemon runs for this user".to_owned()),
        true => Err(format!(
            "an MPS control daemon runs ({}): programs are {}",
            folder.display(),
            mps::CLIENT
        )),
    }
}

fn words(available: Result<(), String>, what: &str) -> Result<String, String> {
    available.map(|()| what.to_owned())
}

/// The libcupti that programs without one of their own would get, and its version.
fn cupti() -> Result<String, String> {
    let installed = library::installed(Some("uprobe:libcupti.so*:*"), &[]);
    let toolkits = ["extras/CUPTI/lib64", "lib64"].map(|folder| {
        Path::new("/usr/local/cuda")
            .join(folder)
            .join("libcupti.so")
    });
    let found = (installed.into_iter())
        .chain(toolkits)
        .find_map(|path| Some((fs::canonicalize(&path).ok()?, path)));
    let Some((file, path)) = found else {
        let words = "no libcupti.so along the loader's path or in /usr/local/cuda; one that a program brings is found \
                     when it runs, and without any GPU times are those of events";
        return Err(words.to_owned());
    };
    let name = file.file_name().unwrap_or_default().to_string_lossy();
    let version = name.trim_start_matches("libcupti.so").trim_matches('.');
    let path = path.display();
    Ok(format!(
        "{path}, version {version}: times of work on the GPU"
    ))
}

fn without_root() -> Vec<Finding> {
    let yama = fs::read_to_string("/proc/sys/kernel/yama/ptrace_scope");
    let ptrace = match yama.as_deref().map(str::trim) {
        Ok("3") => {
            Err("ptrace is off until the next boot (kernel.yama.ptrace_scope = 3)".to_owned())
        }
        Ok("2") if !doctor::is_root() => {
            Err("for root only: sudo sysctl kernel.yama.ptrace_scope=1".to_owned())
        }
        Ok(scope) => Ok(format!(
            "--method=syscall (kernel.yama.ptrace_scope = {scope})"
        )),
        Err(_) => Ok("--method=syscall".to_owned()),
    };
    vec![
        finding(
            "preload",
            Ok("every CUDA call, of programs that are started by cutrace".to_owned()),
        ),
        finding("ptrace", ptrace),
        finding(
            "softgpu",
            Ok("a software CUDA device: cutrace demo".to_owned()),
        ),
    ]
}

fn ebpf() -> Vec<Finding> {
    let found = doctor::ebpf();
    found
        .into_iter()
        .map(|(name, result)| finding(name, result))
        .collect()
}

fn kernel() -> Vec<Finding> {
    let release = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    let tracefs = match capture::kernel::Tracefs::find() {
        Some(tracefs) => Ok(tracefs.folder().display().to_string()),
        None if doctor::is_root() => {
            Err("type: mount -t tracefs nodev /sys/kernel/tracing".to_owned())
        }
        None => Err("not mounted, or for root only: try sudo cutrace doctor".to_owned()),
    };
    let btf = match Path::new("/sys/kernel/btf/vmlinux").exists() {
        true => {
            let driver = capture::kernel::Btf::has_module("nvidia");
            let words = if driver { ", and of nvidia" } else { "" };
            Ok(format!("types of the kernel{words}"))
        }
        false => Err("this kernel does not tell its types (CONFIG_DEBUG_INFO_BTF); fentry and names of arguments need it".to_owned()),
    };
    let lockdown = match doctor::lockdown() {
        None => Ok("the kernel is not locked down".to_owned()),
        Some(level) => Err(format!(
            "lockdown is on ({level}): no probes on the kernel's functions; boot with lockdown=none, or without secure boot"
        )),
    };
    let symbols = match doctor::tells_addresses() {
        true => Ok("/proc/kallsyms tells addresses".to_owned()),
        false => {
            Err("/proc/kallsyms tells no addresses to this user (kernel.kptr_restrict)".to_owned())
        }
    };
    vec![
        finding(
            "release",
            Ok(format!("{} {}", release.trim(), env::consts::ARCH)),
        ),
        finding("rights", doctor::rights()),
        finding("tracefs", tracefs),
        finding("BTF", btf),
        finding("symbols", symbols),
        finding("not locked", lockdown),
    ]
}
