//! The head of a trace: what was run, and on which machine.

use crate::{clock::monotonic, identity, process_name, source::RunOptions};
use event::{Gpu, Host, Meta};
use std::{fs, time::SystemTime};

/// `cutrace`: which version writes it.
pub fn head(run: &RunOptions, cutrace: &str, start_ns: u64) -> Meta {
    Meta {
        cutrace: cutrace.into(),
        command: match run.pid() {
            Some(pid) => process_name::of_running(pid).map_or_else(Vec::new, |it| it.command),
            None => run.words(),
        },
        pid: run.pid(),
        start_ns,
        start_unix_ns: unix_time_at(start_ns),
        host: host(),
        identity: match run.pid() {
            Some(pid) => identity::of_running(pid),
            None => identity::of_this_process(),
        },
        driver: if run.simulate { None } else { driver() },
        gpus: if run.simulate {
            vec![softgpu()]
        } else {
            identity::gpus()
        },
        ..Meta::default()
    }
}

fn host() -> Host {
    let kernel = |name: &str| {
        let text = fs::read_to_string(format!("/proc/sys/kernel/{name}")).ok()?;
        Some(text.trim().to_owned())
    };
    Host {
        name: kernel("hostname").unwrap_or_default(),
        os: os_name().unwrap_or_else(|| std::env::consts::OS.into()),
        kernel: kernel("osrelease").unwrap_or_default(),
        arch: std::env::consts::ARCH.into(),
        cpus: std::thread::available_parallelism()
            .ok()
            .and_then(|count| count.get().try_into().ok()),
        boot_id: kernel("random/boot_id"),
    }
}

fn os_name() -> Option<String> {
    let text = fs::read_to_string("/etc/os-release").ok()?;
    let line = text
        .lines()
        .find_map(|line| line.strip_prefix("PRETTY_NAME="))?;
    Some(line.trim_matches('"').to_owned())
}

/// The version of the loaded kernel driver.
fn driver() -> Option<String> {
    let version = fs::read_to_string("/sys/module/nvidia/version").ok()?;
    Some(version.trim().to_owned())
}

fn softgpu() -> Gpu {
    Gpu {
        index: 0,
        name: "softgpu".into(),
        simulated: true,
        ..Gpu::default()
    }
}

/// Nanoseconds since 1970 at an earlier moment of CLOCK_MONOTONIC.
fn unix_time_at(earlier: u64) -> Option<u64> {
    let since = monotonic().checked_sub(earlier)?;
    let unix = SystemTime::now()
        .duration_since(SystemTime::UNIX_EPOCH)
        .ok()?;
    u64::try_from(unix.as_nanos()).ok()?.checked_sub(since)
}
