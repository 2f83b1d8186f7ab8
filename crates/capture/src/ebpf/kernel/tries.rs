//! Attaching for a moment, to find out whether it works.

use super::{
    attach::{self, Constants},
    refusal::Refusal,
};
use crate::{
    ebpf::{EbpfError, maps::Maps, objects},
    kernel::Tracefs,
};
use libbpf_rs::{UprobeMultiOpts, UprobeOpts};
use std::{fs, io};

/// Things to try, with these maps.
pub struct Tries<'a> {
    maps: &'a Maps,
}

/// Why something does not work here.
#[derive(Debug, thiserror::Error)]
pub enum TryError {
    #[error("cannot read cutrace's own memory map")]
    NoMappings,
    #[error("no program")]
    NoProgram,
    /// Without the verifier's log.
    #[error("{}", first_line(.0))]
    Load(#[from] EbpfError),
    #[error(transparent)]
    Uprobe(#[from] libbpf_rs::Error),
    #[error("not in this kernel (needs 6.6): probes are attached one by one, which takes longer")]
    NoUprobeMulti,
    #[error("tracefs is not mounted")]
    NoTracefs,
    #[error("{0}")]
    NoTracepoint(io::Error),
    #[error("the kernel hides its function addresses")]
    NoAddresses,
    #[error(transparent)]
    Refused(Refusal),
    #[error("not in this kernel (needs 5.18 and CONFIG_FPROBE): kprobes are attached one by one")]
    NoKprobeMulti,
    #[error("kprobes are used instead: {}", first_line(.0))]
    NoFentry(EbpfError),
}

fn refused(error: io::Error) -> TryError {
    TryError::Refused(Refusal::Kernel(error))
}

/// A function of our own to put probes on. Nobody calls it.
#[inline(never)]
extern "C" fn target() -> u32 {
    std::hint::black_box(7)
}

impl<'a> Tries<'a> {
    pub fn new(maps: &'a Maps) -> Self {
        Tries { maps }
    }

    pub fn uprobe(&self) -> Result<(), TryError> {
        let place = own_offset().ok_or(TryError::NoMappings)?;
        let object = objects::load(objects::CALLS_PLAIN, self.maps, &["enter_one"], |_| Ok(()))?;
        let program = object
            .progs_mut()
            .find(|program| program.name() == "enter_one");
        let program = program.ok_or(TryError::NoProgram)?;
        let pid = std::process::id() as i32;
        let options = UprobeOpts::default();
        let link = program.attach_uprobe_with_opts(pid, "/proc/self/exe", place as usize, options);
        Ok(link.map(drop)?)
    }

    pub fn uprobe_multi(&self) -> Result<(), TryError> {
        let place = own_offset().ok_or(TryError::NoMappings)?;
        let object = objects::load(objects::CALLS, self.maps, &["enter_multi"], |_| Ok(()));
        let object = object.map_err(|_| TryError::NoUprobeMulti)?;
        let program = object
            .progs_mut()
            .find(|program| program.name() == "enter_multi");
        let program = program.ok_or(TryError::NoProgram)?;
        let options = UprobeMultiOpts {
            offsets: vec![place as usize],
            cookies: vec![0],
            ..UprobeMultiOpts::default()
        };
        let pid = std::process::id() as i32;
        let link = program.attach_uprobe_multi_with_opts(pid, "/proc/self/exe", "", options);
        link.map(drop).map_err(|_| TryError::NoUprobeMulti)
    }

    pub fn tracepoint(&self, tracefs: &Tracefs) -> Result<(), TryError> {
        let point = tracefs.tracepoint("sched", "sched_process_exit");
        let point = point.map_err(TryError::NoTracepoint)?;
        let object = attach::load(self.maps, &["point"], Constants::default())?;
        let attached = attach::tracepoint(&object, "point", point.id, 0);
        attached.map(drop).map_err(refused)
    }

    pub fn kprobe(&self, address: u64) -> Result<(), TryError> {
        let object = attach::load(self.maps, &["kprobe_enter"], Constants::default())?;
        let attached = attach::kprobe(&object, "kprobe_enter", address, 0, false);
        attached.map(drop).map_err(refused)
    }

    pub fn kprobe_multi(&self, address: u64) -> Result<(), TryError> {
        let object = attach::load(self.maps, &["multi_enter"], Constants::default())?;
        let attached = attach::kprobe_multi(&object, "multi_enter", &[address], &[0], false);
        attached
            .map(drop)
            .map_err(|error| match error.raw_os_error() {
                Some(libc::EOPNOTSUPP | libc::EINVAL) => TryError::NoKprobeMulti,
                _ => refused(error),
            })
    }

    pub fn fentry(&self, function: &str) -> Result<(), TryError> {
        let attached = attach::fentry(self.maps, None, function, 0, &["fentry_enter"]);
        attached.map(drop).map_err(TryError::NoFentry)
    }
}

/// A refused program brings the verifier's log, which is long.
pub fn first_line(error: &EbpfError) -> String {
    let text = error.to_string();
    text.lines().next().unwrap_or_default().to_owned()
}

/// Where our own function is in our own file.
fn own_offset() -> Option<u64> {
    let address = target as *const () as u64;
    let maps = fs::read_to_string("/proc/self/maps").ok()?;
    maps.lines().find_map(|line| {
        let mut words = line.split_ascii_whitespace();
        let (start, end) = words.next()?.split_once('-')?;
        let number = |text: &str| u64::from_str_radix(text, 16).ok();
        let (start, end) = (number(start)?, number(end)?);
        let offset = number(words.nth(1)?)?;
        (start..end)
            .contains(&address)
            .then(|| address - start + offset)
    })
}
