//! The head of a trace: what was run, and on which machine.

use crate::arguments::Record;
use capture::{clock::monotonic, process_name};
use event::{Gpu, Host, Meta};
use std::{fs, time::SystemTime};

pub fn of_run(options: &Record, start_ns: u64) -> Meta {
    Meta {
        cutrace: env!("CARGO_PKG_VERSION").into(),
        command: match options.pid {
            Some(pid) => process_name::of_running(pid).map_or_else(Vec::new, |it| it.command),
            None => command(options),
        },
        pid: options.pid,
        start_ns,
        start_unix_ns: unix_time_at(start_ns),
        host: host(),
        driver: if options.simulate { None } else { driver() },
        gpus: if options.simulate {
            vec![softgpu()]
        } else {
            Vec::new()
        },
        ..Meta::default()
    }
}

/// The command's words; none if the whole machine is traced.
pub fn command(options: &Record) -> Vec<String> {
    let words = std::iter::once(&options.program).chain(&options.arguments);
    let words = words.skip_while(|word| word.is_empty());
    words
        .map(|word| word.to_string_lossy().into_owned())
        .collect()
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
