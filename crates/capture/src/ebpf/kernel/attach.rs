//! Attaching a program, by each of the ways that kernels offer. A link lives as long as its file.

use crate::ebpf::{
    EbpfError,
    maps::Maps,
    objects::{self, KERNEL},
};
use libbpf_rs::{
    Object, OpenObject,
    libbpf_sys::{self, bpf_link_create_opts},
};
use std::{
    fs, io,
    os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd},
    path::Path,
};

/// How a function came to be hooked.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Means {
    /// All in one link, through ftrace.
    KprobeMulti,
    /// Through a trampoline of its own.
    Fentry,
    /// One link each.
    Kprobe,
    Tracepoint,
}

impl Means {
    pub fn as_str(self) -> &'static str {
        match self {
            Means::KprobeMulti => "kprobe_multi",
            Means::Fentry => "fentry",
            Means::Kprobe => "kprobe",
            Means::Tracepoint => "tracepoint",
        }
    }
}

/// What the programs learn when they are loaded: `struct constants` of kernel.bpf.c.
#[derive(Debug, Clone, Copy, Default)]
pub struct Constants {
    pub cookie: u64,
    pub off_cookie: u64,
    pub next_thread: u32,
    pub last_state: u32,
}

impl Constants {
    fn put(&self, object: &mut OpenObject) {
        let mut bytes = Vec::with_capacity(24);
        bytes.extend(self.cookie.to_le_bytes());
        bytes.extend(self.off_cookie.to_le_bytes());
        bytes.extend(self.next_thread.to_le_bytes());
        bytes.extend(self.last_state.to_le_bytes());
        for mut map in object.maps_mut() {
            let is_ours = map.name().to_string_lossy().ends_with(".rodata");
            if is_ours
                && let Some(value) = map.initial_value_mut()
                && value.len() >= bytes.len()
            {
                value[..bytes.len()].copy_from_slice(&bytes);
            }
        }
    }
}

/// Loads programs that are attached to many places.
pub fn load(maps: &Maps, programs: &[&str], constants: Constants) -> Result<Object, EbpfError> {
    objects::load(KERNEL, maps, programs, |open| {
        constants.put(open);
        Ok(())
    })
}

/// The file of a loaded program.
fn program(object: &Object, name: &str) -> io::Result<i32> {
    let found = object.progs().find(|program| program.name() == name);
    let found = found.ok_or_else(|| io::Error::from(io::ErrorKind::NotFound))?;
    Ok(found.as_fd().as_raw_fd())
}

/// Functions by their addresses, each with its cookie, in one link.
pub fn kprobe_multi(
    object: &Object,
    name: &str,
    addresses: &[u64],
    cookies: &[u64],
    at_return: bool,
) -> io::Result<OwnedFd> {
    let mut options = options();
    options.__bindgen_anon_1.kprobe_multi =
        libbpf_sys::bpf_link_create_opts__bindgen_ty_1__bindgen_ty_2 {
            flags: if at_return {
                libbpf_sys::BPF_F_KPROBE_MULTI_RETURN
            } else {
                0
            },
            cnt: addresses.len().min(cookies.len()) as u32,
            syms: std::ptr::null_mut(),
            addrs: addresses.as_ptr(),
            cookies: cookies.as_ptr(),
        };
    link(
        program(object, name)?,
        0,
        libbpf_sys::BPF_TRACE_KPROBE_MULTI,
        &options,
    )
}

/// One function by its address.
pub fn kprobe(
    object: &Object,
    name: &str,
    address: u64,
    cookie: u64,
    at_return: bool,
) -> io::Result<Attached> {
    const FOLDER: &str = "/sys/bus/event_source/devices/kprobe";
    let number = |file: &str| fs::read_to_string(Path::new(FOLDER).join(file));
    let kind: u32 = (number("type")?.trim().parse())
        .map_err(|_| io::Error::from(io::ErrorKind::InvalidData))?;
    let text = number("format/retprobe")?;
    let bit: u32 = (text.trim().strip_prefix("config:"))
        .and_then(|bit| bit.parse().ok())
        .filter(|bit| *bit < 64)
        .ok_or_else(|| io::Error::from(io::ErrorKind::InvalidData))?;
    let mut attributes = libbpf_sys::perf_event_attr {
        type_: kind,
        size: size_of::<libbpf_sys::perf_event_attr>() as u32,
        config: u64::from(at_return) << bit,
        ..Default::default()
    };
    // No name: the address says which of several functions of one name is meant.
    attributes.__bindgen_anon_4.config2 = address;
    perf_event(object, name, attributes, cookie)
}

/// A tracepoint by its number.
pub fn tracepoint(object: &Object, name: &str, id: u32, cookie: u64) -> io::Result<Attached> {
    const TRACEPOINT: u32 = 2;
    let attributes = libbpf_sys::perf_event_attr {
        type_: TRACEPOINT,
        size: size_of::<libbpf_sys::perf_event_attr>() as u32,
        config: id.into(),
        ..Default::default()
    };
    perf_event(object, name, attributes, cookie)
}

/// A function through its trampoline: programs are loaded for it alone. The object keeps them.
pub fn fentry(
    maps: &Maps,
    module: Option<&str>,
    function: &str,
    cookie: u64,
    programs: &[&str],
) -> Result<(Object, Vec<OwnedFd>), EbpfError> {
    let target = match module {
        Some(module) => format!("{module}:{function}"),
        None => function.to_owned(),
    };
    let constants = Constants {
        cookie,
        ..Constants::default()
    };
    let object = objects::load(KERNEL, maps, programs, |open| {
        constants.put(open);
        for mut program in open.progs_mut() {
            if programs.iter().any(|name| program.name() == *name) {
                program.set_attach_target(0, Some(target.clone()))?;
            }
        }
        Ok(())
    })?;
    let mut links = Vec::new();
    for name in programs {
        let attached = program(&object, name).and_then(|file| {
            // The kind of attachment was fixed when it was loaded.
            let kind = if *name == "fexit_return" {
                libbpf_sys::BPF_TRACE_FEXIT
            } else {
                libbpf_sys::BPF_TRACE_FENTRY
            };
            link(file, 0, kind, &options())
        });
        links.push(attached.map_err(|source| EbpfError::Attach {
            what: target.clone(),
            source: source.into(),
        })?);
    }
    Ok((object, links))
}

/// A link, and the event that it is on.
#[derive(Debug)]
pub struct Attached {
    _link: OwnedFd,
    _event: OwnedFd,
}

fn perf_event(
    object: &Object,
    name: &str,
    attributes: libbpf_sys::perf_event_attr,
    cookie: u64,
) -> io::Result<Attached> {
    let program = program(object, name)?;
    const CLOSE_ON_EXEC: libc::c_ulong = 8;
    // SAFETY: the attributes outlive the call; the file is new and nobody else's.
    let event = unsafe {
        let file = libc::syscall(
            libc::SYS_perf_event_open,
            &raw const attributes,
            -1,
            0,
            -1,
            CLOSE_ON_EXEC,
        );
        if file < 0 {
            return Err(io::Error::last_os_error());
        }
        OwnedFd::from_raw_fd(file as i32)
    };
    let mut options = options();
    options.__bindgen_anon_1.perf_event =
        libbpf_sys::bpf_link_create_opts__bindgen_ty_1__bindgen_ty_1 { bpf_cookie: cookie };
    let link = link(
        program,
        event.as_raw_fd(),
        libbpf_sys::BPF_PERF_EVENT,
        &options,
    )?;
    const ENABLE: libc::c_ulong = 0x2400;
    // SAFETY: a request without an argument, on a file that is ours.
    if unsafe { libc::ioctl(event.as_raw_fd(), ENABLE, 0) } < 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(Attached {
        _link: link,
        _event: event,
    })
}

fn options() -> bpf_link_create_opts {
    bpf_link_create_opts {
        sz: size_of::<bpf_link_create_opts>() as _,
        ..Default::default()
    }
}

fn link(
    program: i32,
    target: i32,
    kind: libbpf_sys::bpf_attach_type,
    options: &bpf_link_create_opts,
) -> io::Result<OwnedFd> {
    // SAFETY: the options, and what they point to, outlive the call; the file is new.
    unsafe {
        let file = libbpf_sys::bpf_link_create(program, target, kind, options);
        if file < 0 {
            return Err(io::Error::from_raw_os_error(-file));
        }
        Ok(OwnedFd::from_raw_fd(file))
    }
}
