//! One ioctl as a tracer saw it, and what it takes to understand it: which struct, which memory.

use super::file::{DeviceFile, Ioc};
use super::layout::{Struct, number};
use super::tables::{self, Named};
use super::version::Version;

/// Structs and what they point to are read up to so many bytes.
pub const MOST_BYTES: usize = 16 << 10;

pub(super) const RM_ALLOC_MEMORY: u8 = 0x27;
pub(super) const RM_ALLOC_OBJECT: u8 = 0x28;
pub(super) const RM_FREE: u8 = 0x29;
pub(super) const RM_CONTROL: u8 = 0x2a;
pub(super) const RM_ALLOC: u8 = 0x2b;
pub(super) const RM_DUP_OBJECT: u8 = 0x34;
pub(super) const RM_VID_HEAP_CONTROL: u8 = 0x4a;
pub(super) const RM_MAP_MEMORY: u8 = 0x4e;
pub(super) const CARD_INFO: u8 = 200;
pub(super) const XFER: u8 = 211;
pub(super) const ATTACH_GPUS: u8 = 212;

/// One ioctl.
#[derive(Debug, Clone, Copy)]
pub struct IoctlCall<'a> {
    pub file: DeviceFile,
    pub cmd: u32,
    pub version: Version,
    /// The struct when the program called: as much as could be read.
    pub before: &'a [u8],
    /// The struct when the driver had answered; none while it has not.
    pub after: Option<&'a [u8]>,
    /// What the struct points to ([`wanted`]), when the program called.
    pub memory: &'a [Memory<'a>],
    /// The same places when the driver had answered.
    pub memory_after: &'a [Memory<'a>],
}

/// Some of the program's memory.
#[derive(Debug, Clone, Copy)]
pub struct Memory<'a> {
    pub address: u64,
    pub bytes: &'a [u8],
}

/// Memory that a tracer should read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Range {
    pub address: u64,
    /// At most [`MOST_BYTES`].
    pub length: usize,
}

/// How many bytes to read at an ioctl's argument: UVM's requests do not carry their size.
pub fn argument_size(file: DeviceFile, cmd: u32, version: Version) -> usize {
    if !file.is_uvm() {
        return usize::from(Ioc::split(cmd).size);
    }
    let row = tables::uvm().find(cmd, version);
    let size = row.and_then(|row| tables::structure(row.structs.first()?, version));
    size.map_or(0, |made| made.size.min(MOST_BYTES))
}

/// The memory that a call's struct points to and that is not among `call.memory` yet. Ask again
/// when it has been read: a wrapped request points to a struct that points further. Two rounds are
/// enough. Read the same ranges after the call for `memory_after`.
pub fn wanted(call: &IoctlCall<'_>) -> Vec<Range> {
    let request = Request::new(call);
    let mut ranges = Vec::new();
    if call.file.is_frontend() && Ioc::split(call.cmd).number == XFER && !request.wrapped {
        ranges.extend(xfer(call.before).map(|xfer| xfer.range()));
    }
    ranges.extend(request.points_to());
    ranges.retain(|range| {
        let held = |memory: &Memory<'_>| memory.address == range.address;
        range.address != 0 && range.length != 0 && !call.memory.iter().any(held)
    });
    ranges
}

struct Xfer {
    number: u8,
    size: usize,
    pointer: u64,
}

impl Xfer {
    fn range(&self) -> Range {
        Range {
            address: self.pointer,
            length: self.size,
        }
    }
}

/// What a request to transfer another one holds.
fn xfer(bytes: &[u8]) -> Option<Xfer> {
    Some(Xfer {
        number: u8::try_from(number(bytes, 0, 4)?).ok()?,
        size: usize::try_from(number(bytes, 4, 4)?).ok()?.min(MOST_BYTES),
        pointer: number(bytes, 8, 8)?,
    })
}

/// A call with its name, its struct and its parameters found.
pub(super) struct Request<'a> {
    pub file: DeviceFile,
    pub version: Version,
    /// Without the wrapping.
    pub cmd: u32,
    /// It came inside another request.
    pub wrapped: bool,
    pub named: Option<&'static Named>,
    /// Bytes of the struct, as the request says.
    pub size: usize,
    pub structure: Option<&'static Struct>,
    pub before: &'a [u8],
    pub after: Option<&'a [u8]>,
    pub parameters: Option<Parameters<'a>>,
    /// What does not fit together.
    pub doubt: Option<String>,
}

/// The parameters of a control or an allocation.
#[derive(Clone, Copy)]
pub(super) struct Parameters<'a> {
    pub structure: Option<&'static Struct>,
    pub before: &'a [u8],
    pub after: Option<&'a [u8]>,
}

impl Parameters<'_> {
    /// A number as it is now.
    pub fn number(&self, path: &str) -> Option<u64> {
        self.structure?
            .number(self.after.unwrap_or(self.before), path)
    }
}

impl<'a> Request<'a> {
    pub fn new(call: &IoctlCall<'a>) -> Request<'a> {
        let ioc = Ioc::split(call.cmd);
        let mut request = Request {
            file: call.file,
            version: call.version,
            cmd: call.cmd,
            wrapped: false,
            named: None,
            size: usize::from(ioc.size),
            structure: None,
            before: call.before,
            after: call.after,
            parameters: None,
            doubt: None,
        };
        if call.file.is_frontend() && ioc.number == XFER {
            request.unwrap_xfer(call);
        }
        request.find_name();
        request.find_structure();
        request.find_parameters(call);
        request
    }

    /// The number among the driver's requests; UVM's are whole words.
    pub fn number(&self) -> u8 {
        Ioc::split(self.cmd).number
    }

    pub fn is(&self, number: u8) -> bool {
        self.file.is_frontend() && self.number() == number
    }

    /// A number in the struct, as it is now.
    pub fn field(&self, path: &str) -> Option<u64> {
        self.structure?
            .number(self.after.unwrap_or(self.before), path)
    }

    pub fn word(&self, path: &str) -> Option<u32> {
        self.field(path)?.try_into().ok()
    }

    /// Of the names that structs have for a field, the first that this one has.
    pub fn first_word(&self, paths: &[&str]) -> Option<u32> {
        paths.iter().find_map(|path| self.word(path))
    }

    fn unwrap_xfer(&mut self, call: &IoctlCall<'a>) {
        let Some(xfer) = xfer(call.before) else {
            return;
        };
        // A request inside a request inside a request is refused by the driver.
        let Some(inner) = find(call.memory, xfer.pointer).filter(|_| xfer.number != XFER) else {
            return;
        };
        self.wrapped = true;
        self.size = xfer.size;
        let size = u32::try_from(xfer.size).unwrap_or(0).min(0x3fff);
        self.cmd = 0xc000_4600 | size << 16 | u32::from(xfer.number);
        self.before = truncated(inner, xfer.size);
        let after = find(call.memory_after, xfer.pointer);
        self.after = after.map(|bytes| truncated(bytes, xfer.size));
    }

    fn find_name(&mut self) {
        self.named = match self.file {
            DeviceFile::Other => None,
            file if file.is_uvm() => tables::uvm().find(self.cmd, self.version),
            _ => tables::escapes().find(self.number().into(), self.version),
        };
    }

    /// The version's layout; the one that has the request's size where that is another's.
    fn find_structure(&mut self) {
        let Some(named) = self.named else { return };
        let usual = |name: &&'static str| tables::structure(name, self.version);
        let Some(first) = named.structs.first().and_then(usual) else {
            return;
        };
        self.structure = Some(first);
        if self.file.is_uvm() || self.is(CARD_INFO) || first.size == self.size {
            return;
        }
        if let Some(fitting) = named
            .structs
            .iter()
            .filter_map(usual)
            .find(|made| made.size == self.size)
        {
            self.structure = Some(fitting);
            return;
        }
        let other =
            (named.structs.iter()).find_map(|name| tables::structure_of_size(name, self.size));
        let (name, usual, size, version) = (first.name, first.size, self.size, self.version);
        self.structure = other.or(Some(first));
        self.doubt = Some(match other {
            Some(_) => {
                format!(
                    "{name} of {size} bytes belongs to another version: driver {version} has {usual}"
                )
            }
            None => format!("{size} bytes, but {name} of driver {version} has {usual}"),
        });
    }

    fn find_parameters(&mut self, call: &IoctlCall<'a>) {
        let Some(range) = self.points_to() else {
            return;
        };
        let Some(before) = find(call.memory, range.address) else {
            return;
        };
        let after = find(call.memory_after, range.address);
        let structure = self.parameter_structure(range.length);
        // libcuda often leaves the size to the class: a tracer may have read more than there is.
        let known = structure.map_or(range.length, |made| made.size.min(range.length));
        self.parameters = Some(Parameters {
            structure,
            before: truncated(before, known),
            after: after.map(|bytes| truncated(bytes, known)),
        });
    }

    /// Where the struct points to parameters.
    fn points_to(&self) -> Option<Range> {
        let before = |path| self.structure?.number(self.before, path);
        let (pointer, size) = if self.is(RM_CONTROL) {
            (before("params")?, before("paramsSize")?)
        } else if self.is(RM_ALLOC) {
            (before("pAllocParms")?, before("paramsSize")?)
        } else {
            return None;
        };
        let mut length = usize::try_from(size).ok()?.min(MOST_BYTES);
        if length == 0 && self.is(RM_ALLOC) {
            length = self.class_structure()?.size.min(MOST_BYTES);
        }
        (pointer != 0 && length != 0).then_some(Range {
            address: pointer,
            length,
        })
    }

    fn class_structure(&self) -> Option<&'static Struct> {
        let class = self.structure?.word(self.before, "hClass")?;
        let row = tables::classes().find(class, self.version)?;
        tables::structure(row.structs.first()?, self.version)
    }

    fn parameter_structure(&self, length: usize) -> Option<&'static Struct> {
        let usual = if self.is(RM_ALLOC) {
            self.class_structure()?
        } else {
            // Serialised parameters are no struct.
            if self.structure?.number(self.before, "flags")? & FINN_SERIALISED != 0 {
                return None;
            }
            let row = self.control()?.1?;
            tables::structure(row.structs.first()?, self.version)?
        };
        if usual.size == length {
            return Some(usual);
        }
        tables::structure_of_size(usual.name, length).or(Some(usual))
    }

    /// The command of an RM_CONTROL, with its name where it has one.
    pub fn control(&self) -> Option<(u32, Option<&'static Named>)> {
        if !self.is(RM_CONTROL) {
            return None;
        }
        let id = self.structure?.word(self.before, "cmd")?;
        Some((id, tables::controls().find(id, self.version)))
    }

    /// The class that is allocated.
    pub fn class(&self) -> Option<u32> {
        let paths = match self.number() {
            _ if !self.file.is_frontend() => return None,
            RM_ALLOC | RM_ALLOC_OBJECT => "hClass",
            RM_ALLOC_MEMORY => "params.hClass",
            _ => return None,
        };
        self.structure?.word(self.before, paths)
    }
}

/// A flag of RM_CONTROL.
const FINN_SERIALISED: u64 = 0x4;

fn find<'a>(memory: &[Memory<'a>], address: u64) -> Option<&'a [u8]> {
    let found = memory.iter().find(|memory| memory.address == address);
    found.map(|memory| memory.bytes)
}

fn truncated(bytes: &[u8], length: usize) -> &[u8] {
    &bytes[..bytes.len().min(length)]
}
