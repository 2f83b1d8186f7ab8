//! The words of a sequence: what is opened, mapped and asked, with names in place of the handles,
//! descriptors and addresses that differ from run to run.

/// A driver file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum File {
    Control,
    Gpu,
    Uvm,
}

/// The name of a handle, descriptor, range group or mapping. Each kind counts for itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Slot {
    /// Lives as long as the process.
    Session(u8),
    /// Lives as long as its context.
    Context(u8),
}

#[derive(Clone, Copy, Debug)]
pub enum Step {
    Open {
        fd: Slot,
        file: File,
        flags: i32,
    },
    Close {
        fd: Slot,
    },
    Map {
        fd: Slot,
        length: usize,
        protection: i32,
        mapping: Slot,
    },
    Ask(Request<'static>),
}

/// One ioctl: what the struct holds when the driver has answered. Words not named are zero.
#[derive(Clone, Copy, Debug)]
pub struct Request<'a> {
    pub fd: Slot,
    pub number: u32,
    pub size: usize,
    pub words: &'a [Word],
    /// The parameters that the struct points to (at byte 16); size 0 where there are none.
    pub parameters_size: usize,
    pub parameters: &'a [Word],
}

#[derive(Clone, Copy, Debug)]
pub struct Word {
    pub offset: usize,
    pub value: Value,
}

#[derive(Clone, Copy, Debug)]
pub enum Value {
    U32(u32),
    U64(u64),
    /// A client: the root of a process's objects.
    Client(u8),
    Handle(Slot),
    Fd(Slot),
    Group(Slot),
    Mapping(Slot),
    /// An address in the host's memory that the request only mentions.
    Host(u8),
    /// The GPU's UUID, 16 bytes.
    Uuid,
}

pub const fn open(fd: Slot, file: File, flags: i32) -> Step {
    Step::Open { fd, file, flags }
}

pub const fn close(fd: Slot) -> Step {
    Step::Close { fd }
}

pub const fn map(fd: Slot, length: usize, protection: i32, mapping: Slot) -> Step {
    Step::Map {
        fd,
        length,
        protection,
        mapping,
    }
}

pub const fn ask(
    fd: Slot,
    number: u32,
    size: usize,
    words: &'static [Word],
    parameters_size: usize,
    parameters: &'static [Word],
) -> Step {
    Step::Ask(Request {
        fd,
        number,
        size,
        words,
        parameters_size,
        parameters,
    })
}

const fn at(offset: usize, value: Value) -> Word {
    Word { offset, value }
}

pub const fn word(offset: usize, value: u32) -> Word {
    at(offset, Value::U32(value))
}

pub const fn long(offset: usize, value: u64) -> Word {
    at(offset, Value::U64(value))
}

pub const fn client(offset: usize, number: u8) -> Word {
    at(offset, Value::Client(number))
}

pub const fn handle(offset: usize, slot: Slot) -> Word {
    at(offset, Value::Handle(slot))
}

pub const fn fd(offset: usize, slot: Slot) -> Word {
    at(offset, Value::Fd(slot))
}

pub const fn group(offset: usize, slot: Slot) -> Word {
    at(offset, Value::Group(slot))
}

pub const fn mapping(offset: usize, slot: Slot) -> Word {
    at(offset, Value::Mapping(slot))
}

pub const fn host(offset: usize, number: u8) -> Word {
    at(offset, Value::Host(number))
}

pub const fn uuid(offset: usize) -> Word {
    at(offset, Value::Uuid)
}
