//! `cutrace ioctl`: one request to the driver, decoded by hand.

use crate::arguments::Ioctl;
use anyhow::Result;
use event::{Arg, Value};
use nvidia_ioctl::{self, Decoded, DeviceFile, Ioc, IoctlCall, Known, Memory, Subject, Version};
use std::fmt::Write as _;
use std::{fs, process::ExitCode};

/// Columns of names, so that values stand below each other.
const WIDTH: usize = 14;

/// The oldest branch that the tables know.
const OLDEST: u32 = 535;

/// Where the driver tells its version.
const PROC: &str = "/proc/driver/nvidia/version";

pub fn run(options: Ioctl) -> Result<ExitCode> {
    let here = fs::read_to_string(PROC).ok();
    let here = here.and_then(|text| Version::from_proc(&text));
    super::print(describe(&options, here).as_bytes())
}

fn describe(options: &Ioctl, here: Option<Version>) -> String {
    let newest = Version::NEWEST.branch;
    let (version, from) = match (options.version, here) {
        (Some(version), _) if !(OLDEST..=newest).contains(&version.branch) => {
            let words = format!("cutrace knows {OLDEST} to {newest}, and takes the nearest");
            (version, words)
        }
        (Some(version), _) => (version, "given by --driver".into()),
        (None, Some(version)) => (version, "this machine's".into()),
        (None, None) => {
            let words = "the newest that cutrace knows; --driver VERSION chooses another";
            (Version::NEWEST, words.into())
        }
    };
    let (file, why) = match options.file {
        Some(file) => (file, ""),
        None => guess(options.cmd, version),
    };
    let bytes = options.bytes.as_deref().unwrap_or_default();
    let memory = parameters(options, bytes);
    let decoded = nvidia_ioctl::decode(&IoctlCall {
        file,
        cmd: options.cmd,
        version,
        before: bytes,
        after: options.bytes.as_deref(),
        memory: memory.as_slice(),
        memory_after: memory.as_slice(),
    });

    let mut text = decoded.line() + "\n";
    let mut row = |name: &str, value: &str| {
        let _ = writeln!(text, "  {name:<WIDTH$} {value}");
    };
    row("request", &request(options.cmd, file));
    row("file", &format!("{}{why}", file_name(file)));
    if file != DeviceFile::Other {
        row("driver", &format!("{version} ({from})"));
        row("name", decoded.name.unwrap_or("unknown"));
    }
    if decoded.name.is_none()
        && let Some(truth) = truth(options.cmd, file, version)
    {
        row("known", &truth);
    }
    for (name, value) in subject(&decoded, version) {
        row(name, &value);
    }
    for arg in &decoded.args {
        fields(&mut text, arg, 1);
    }
    let mut row = |name: &str, value: &str| {
        let _ = writeln!(text, "  {name:<WIDTH$} {value}");
    };
    if let Some(status) = decoded.status {
        row("status", &status.to_string());
    }
    if let Some(doubt) = &decoded.doubt {
        row("doubt", doubt);
    }
    let size = nvidia_ioctl::argument_size(file, options.cmd, version);
    match &options.bytes {
        None if decoded.name.is_some() && size > 0 => {
            let advice = format!("{size}: type them after CMD to see the fields");
            row("bytes", &advice);
        }
        Some(bytes) if bytes.len() < size => {
            row("doubt", &format!("{} of {size} bytes given", bytes.len()));
        }
        _ => {}
    }
    text
}

/// Requests that documents on tracing the driver name and no driver has had, and what is meant.
const INVENTED: [(u32, &str); 4] = [
    (
        0xc004_4601,
        "documents call it memory allocation: that is NV_ESC_RM_ALLOC (0xc030462b) with a class of memory",
    ),
    (
        0xc004_4602,
        "documents call it memory free: that is NV_ESC_RM_FREE (0xc0104629)",
    ),
    (
        0xc004_4621,
        "documents call it kernel launch: launches make no request, they are written to mapped memory",
    ),
    (
        0xc004_4630,
        "documents call it synchronize: programs wait in user space, or by poll() on a file that NV_ESC_ALLOC_OS_EVENT was asked for",
    ),
];

/// What is known about a request without a name.
fn truth(cmd: u32, file: DeviceFile, version: Version) -> Option<String> {
    let newest = Version::NEWEST.branch;
    let number = u32::from(Ioc::split(cmd).number);
    match file {
        DeviceFile::Control | DeviceFile::Gpu(_) if Ioc::split(cmd).kind == b'F' => {
            let all = nvidia_ioctl::known(Known::Escapes, version);
            let (nearest, name) = all.min_by_key(|(known, _)| known.abs_diff(number))?;
            let meant = INVENTED.iter().find(|(known, _)| *known == cmd);
            let meant = meant.map_or_else(
                || format!("the nearest number is {nearest:#04x}, {name}"),
                |(_, meant)| (*meant).to_owned(),
            );
            Some(format!(
                "no driver from {OLDEST} to {newest} has had a request {number:#04x}; {meant}"
            ))
        }
        DeviceFile::Control | DeviceFile::Gpu(_) | DeviceFile::Other => Some(format!(
            "no request of NVIDIA's driver: its type is 'F' ({:#x}); nvidia-uvm's are bare numbers",
            b'F'
        )),
        DeviceFile::Uvm | DeviceFile::UvmTools => None,
    }
}

/// What --params says lies where the struct points.
fn parameters<'a>(options: &'a Ioctl, bytes: &[u8]) -> Option<Memory<'a>> {
    let pointer = bytes.get(16..24)?.try_into().ok().map(u64::from_le_bytes)?;
    let bytes = options.parameters.as_deref()?;
    Some(Memory {
        address: pointer,
        bytes,
    })
}

/// The file that a request belongs to, by its number.
fn guess(cmd: u32, version: Version) -> (DeviceFile, &'static str) {
    let bare =
        Ioc::split(cmd).kind == 0 && nvidia_ioctl::argument_size(DeviceFile::Uvm, cmd, version) > 0;
    match Ioc::split(cmd).kind {
        b'F' => (
            DeviceFile::Control,
            " (by the type 'F'; another: --path FILE)",
        ),
        _ if bare => (
            DeviceFile::Uvm,
            " (by the bare number; another: --path FILE)",
        ),
        _ => (DeviceFile::Other, " (another: --path FILE, --uvm)"),
    }
}

fn request(cmd: u32, file: DeviceFile) -> String {
    if file.is_uvm() {
        format!("{cmd} ({cmd:#x}), a bare number")
    } else {
        format!("{cmd:#x}: {}", Ioc::split(cmd))
    }
}

fn file_name(file: DeviceFile) -> String {
    match file {
        DeviceFile::Control => "/dev/nvidiactl".to_owned(),
        DeviceFile::Gpu(number) => format!("/dev/nvidia{number}"),
        DeviceFile::Uvm => "/dev/nvidia-uvm".to_owned(),
        DeviceFile::UvmTools => "/dev/nvidia-uvm-tools".to_owned(),
        DeviceFile::Other => "of another driver".to_owned(),
    }
}

fn subject(decoded: &Decoded, version: Version) -> Vec<(&'static str, String)> {
    let named = |name: Option<&str>| name.unwrap_or("unknown").to_owned();
    match decoded.subject {
        None => Vec::new(),
        Some(Subject::Class { id, name }) => vec![("class", format!("{id:#06x} {}", named(name)))],
        // Of one without a name the parts are among the arguments.
        Some(Subject::Control { id, name: None, .. }) => vec![("control", format!("{id:#010x}"))],
        Some(Subject::Control { id, name, .. }) => {
            let class = id >> 16;
            let class = format!(
                "{class:#06x} {}",
                named(nvidia_ioctl::class_name(class, version))
            );
            vec![
                ("control", format!("{id:#010x} {}", named(name))),
                ("of class", class),
            ]
        }
    }
}

/// A field, and the fields in it one step further in.
fn fields(text: &mut String, arg: &Arg, depth: usize) {
    let indent = "  ".repeat(depth);
    let width = (WIDTH + 2).saturating_sub(indent.len());
    // Writing to a String cannot fail. The words are the tables' own, or made printable.
    let _ = match &arg.value {
        Value::Map(inner) => {
            let _ = writeln!(text, "{indent}{}", arg.name);
            for arg in inner {
                fields(text, arg, depth + 1);
            }
            Ok(())
        }
        value => writeln!(
            text,
            "{indent}{:<width$} {}",
            arg.name,
            nvidia_ioctl::shown(value)
        ),
    };
}
