//! An ioctl on the driver's files becomes an event, whether ptrace or eBPF saw it.
//!
//! A back end reads the struct and what it points to when the call begins and again when it
//! returns ([`Payload`]); names, handles and facts come from `nvidia_ioctl`.

mod errno;
mod files;
#[cfg(test)]
mod tests;

pub use errno::errno_name;
pub use files::{DriverFiles, Opened};

use event::{Arg, Category, Event, Ioctl, Kind, Layer, Name, Status, Value};
use nvidia_ioctl::{Fact, Handles, IoctlCall, Memory, Range, Version, argument_size, wanted};

/// An ioctl that was made.
#[derive(Debug, Clone)]
pub struct Request {
    /// Whose file it is, and how it was opened.
    pub opened: Opened,
    pub fd: i32,
    pub cmd: u32,
    /// The third argument: nearly always where the struct is.
    pub argument: u64,
}

/// Memory of the program, as it was at one moment: as much as could be read.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Payload {
    /// At the ioctl's argument.
    pub argument: Vec<u8>,
    /// What the struct points to, by address.
    pub memory: Vec<(u64, Vec<u8>)>,
}

impl Payload {
    fn memory(&self) -> Vec<Memory<'_>> {
        let all = self.memory.iter();
        all.map(|(address, bytes)| Memory {
            address: *address,
            bytes,
        })
        .collect()
    }
}

/// How many bytes to read at the argument.
pub fn size(request: &Request, version: Version) -> usize {
    argument_size(request.opened.file, request.cmd, version)
}

/// What else to read, as far as it is not in the payload yet. Ask twice: a wrapped request points
/// to a struct that points further.
pub fn points_to(request: &Request, version: Version, before: &Payload) -> Vec<Range> {
    wanted(&call(request, version, before, &before.memory()))
}

fn call<'a>(
    request: &Request,
    version: Version,
    before: &'a Payload,
    memory: &'a [Memory<'a>],
) -> IoctlCall<'a> {
    IoctlCall {
        file: request.opened.file,
        cmd: request.cmd,
        version,
        before: &before.argument,
        after: None,
        memory,
        memory_after: &[],
    }
}

/// Turns ioctls into events, and follows the driver's handles through them.
#[derive(Debug)]
pub struct Decoder {
    driver: Driver,
    handles: Handles,
}

/// Which version's structs programs use.
#[derive(Debug, Clone, Copy)]
pub struct Driver {
    pub version: Version,
    /// The version is the loaded driver's, or libcuda has told it: no guess.
    certain: bool,
    /// libcuda has told it to a stand-in.
    told: bool,
}

/// What softgpu plays: a recording of this driver.
pub const PLAYED: Version = Version {
    branch: 580,
    minor: 159,
    patch: 4,
};

impl Driver {
    /// The loaded one; None is one that nobody knows. What libcuda then says of itself decides.
    pub fn new(loaded: Option<Version>) -> Self {
        Driver {
            version: loaded.unwrap_or(Version::NEWEST),
            certain: loaded.is_some(),
            told: false,
        }
    }

    /// Call it with every request.
    pub fn learn(&mut self, request: &Request, before: &Payload) {
        let stand_in = request.opened.stand_in;
        match told_version(request, before) {
            Some(version) if !self.certain || stand_in => {
                (self.version, self.certain, self.told) = (version, true, stand_in);
            }
            None if stand_in && !self.told => self.version = PLAYED,
            _ => {}
        }
    }
}

impl Decoder {
    /// For this driver; None is one that nobody knows. What libcuda then says of itself decides.
    pub fn new(driver: Option<Version>) -> Self {
        Decoder {
            driver: Driver::new(driver),
            handles: Handles::default(),
        }
    }

    pub fn version(&self) -> Version {
        self.driver.version
    }

    /// The event of a call that has begun.
    pub fn begun(&mut self, id: u64, start: u64, request: &Request, before: &Payload) -> Event {
        self.driver.learn(request, before);
        let memory = before.memory();
        let decoded = (self.handles).decode(&call(request, self.driver.version, before, &memory));
        let mut event = Event::new(id, Layer::Syscall, decoded.category, "ioctl", start);
        event.kind = Kind::Ioctl;
        event.args = vec![
            Arg::new("fd", request.fd),
            Arg::new("path", request.opened.path.clone()),
        ];
        if request.opened.stand_in {
            event.args.push(Arg::new("stand_in", true));
        }
        event.ioctl = Some(Box::new(Ioctl {
            cmd: request.cmd.into(),
            decoded: decoded.map(request.opened.file),
        }));
        event
    }

    /// Completes the event of a call that has returned; `result` is the system call's, negative
    /// for an error.
    pub fn returned(
        &mut self,
        event: &mut Event,
        request: &Request,
        (before, after): (&Payload, &Payload),
        result: i64,
    ) -> Vec<Fact> {
        let (memory, memory_after) = (before.memory(), after.memory());
        let (decoded, facts) = self.handles.returned(&IoctlCall {
            after: Some(&after.argument),
            memory_after: &memory_after,
            ..call(request, self.driver.version, before, &memory)
        });
        let mut map = decoded.map(request.opened.file);
        if !facts.is_empty() {
            map.push(Arg::new(
                "facts",
                facts.iter().map(told).collect::<Vec<_>>(),
            ));
        }
        event.ioctl = Some(Box::new(Ioctl {
            cmd: request.cmd.into(),
            decoded: map,
        }));
        event.status = status(result, request.opened.stand_in);
        facts
    }
}

/// libcuda tells the driver its version before anything else: where no driver is loaded, or its
/// files are stand-ins, that is what there is to know.
fn told_version(request: &Request, before: &Payload) -> Option<Version> {
    const CHECK_VERSION: u32 = 210;
    if !request.opened.file.is_frontend() || request.cmd & 0xff != CHECK_VERSION {
        return None;
    }
    let text = before.argument.get(8..)?;
    let end = (text.iter().position(|byte| *byte == 0)).unwrap_or(text.len());
    std::str::from_utf8(&text[..end]).ok()?.parse().ok()
}

/// A plain system call on the driver's files.
pub fn plain(id: u64, start: u64, name: &'static str, category: Category) -> Event {
    Event::new(id, Layer::Syscall, category, name, start)
}

/// What a system call returned. A stand-in file has no ioctls: its answer is in the struct.
pub fn status(result: i64, stand_in: bool) -> Option<Status> {
    let code = if (-4095..0).contains(&result) {
        -result
    } else {
        0
    };
    if stand_in && code == i64::from(libc::ENOTTY) {
        return None;
    }
    let name = (code != 0).then(|| errno_name(code)).flatten();
    Some(Status {
        code,
        name: name.map(Name::from),
    })
}

fn told(fact: &Fact) -> Value {
    let mut args = vec![Arg::new("fact", fact.name())];
    args.extend(fact.args());
    Value::Map(args)
}

/// The version of the loaded kernel driver.
pub fn loaded_driver() -> Option<Version> {
    Version::from_proc(&std::fs::read_to_string("/proc/driver/nvidia/version").ok()?)
}
