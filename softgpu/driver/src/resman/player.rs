//! Plays steps: real open, mmap and ioctl system calls, with the reply already in place.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::ptr;

use super::device_files::DeviceFiles;
use super::numbers::RM_FREE;
use super::sequences::{FDS, GROUPS, HANDLES, HOSTS, MAPPINGS};
use super::steps::{Request, Slot, Step, Value, Word};

/// As the driver of this device reports itself to `cuDeviceGetUuid`.
pub const UUID: [u8; 16] = *b"softgpu-device-0";

/// Where client handles and object handles start.
const FIRST_CLIENT: u32 = 0xc1d0_0001;
const FIRST_HANDLE: u32 = 0x5c00_0001;
/// Address space between two host addresses that requests mention.
const HOST_SPACING: usize = 2 << 20;

/// The handles, descriptors, groups and mappings of a session or of a context.
#[derive(Default)]
pub struct Names {
    handles: Vec<u32>,
    fds: Vec<Option<OwnedFd>>,
    groups: Vec<u64>,
    mappings: Vec<Option<Mapping>>,
}

impl Names {
    /// `scope`: 0 for a session, 1 for a context.
    fn with_room(scope: usize) -> Self {
        let (mut fds, mut mappings) = (Vec::new(), Vec::new());
        fds.resize_with(FDS[scope], || None);
        mappings.resize_with(MAPPINGS[scope], || None);
        Self {
            handles: vec![0; HANDLES[scope]],
            fds,
            groups: vec![0; GROUPS[scope]],
            mappings,
        }
    }

    pub fn of_context() -> Self {
        Self::with_room(1)
    }
}

/// Memory mapped from a stand-in file, unmapped when dropped.
pub struct Mapping {
    address: *mut libc::c_void,
    length: usize,
}

// Nobody reads or writes through it: it is an address to show and to unmap.
unsafe impl Send for Mapping {}
unsafe impl Sync for Mapping {}

impl Mapping {
    fn new(fd: i32, length: usize, protection: i32, offset: u64) -> io::Result<Self> {
        let offset = i64::try_from(offset).map_err(io::Error::other)?;
        let address = unsafe {
            libc::mmap(
                ptr::null_mut(),
                length,
                protection,
                libc::MAP_SHARED,
                fd,
                offset,
            )
        };
        if address == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        Ok(Self { address, length })
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        unsafe { libc::munmap(self.address, self.length) };
    }
}

pub struct Player {
    files: DeviceFiles,
    session: Names,
    /// Handles given back. libcuda takes the lowest free one.
    free_handles: BinaryHeap<Reverse<u32>>,
    next_handle: u32,
    next_group: u64,
    host_base: u64,
    outer: Vec<u64>,
    parameters: Vec<u64>,
}

impl Player {
    pub fn new() -> io::Result<Self> {
        let files = DeviceFiles::create()?;
        // Address space only: what these addresses stand for is libcuda's own business.
        let length = HOSTS * HOST_SPACING;
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
        let host = unsafe { libc::mmap(ptr::null_mut(), length, libc::PROT_NONE, flags, -1, 0) };
        if host == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        Ok(Self {
            files,
            session: Names::with_room(0),
            free_handles: BinaryHeap::new(),
            next_handle: FIRST_HANDLE,
            next_group: 0,
            host_base: host as u64,
            outer: Vec::new(),
            parameters: Vec::new(),
        })
    }

    /// Steps that concern the session alone.
    pub fn play_session(&mut self, steps: &[Step]) -> io::Result<()> {
        self.play(steps, &mut Names::default())
    }

    pub fn play(&mut self, steps: &[Step], context: &mut Names) -> io::Result<()> {
        for step in steps {
            match *step {
                Step::Open { fd, file, flags } => {
                    let opened = self.files.open(file, flags)?;
                    if let Some(place) = self.names(fd, context).fds.get_mut(index(fd)) {
                        *place = Some(opened);
                    }
                }
                Step::Close { fd } => {
                    if let Some(place) = self.names(fd, context).fds.get_mut(index(fd)) {
                        *place = None;
                    }
                }
                Step::Map {
                    fd,
                    length,
                    protection,
                    mapping,
                } => {
                    let made = Mapping::new(self.descriptor(fd, context), length, protection, 0)?;
                    if let Some(place) = self
                        .names(mapping, context)
                        .mappings
                        .get_mut(index(mapping))
                    {
                        *place = Some(made);
                    }
                }
                Step::Ask(request) => self.ask(&request, context),
            }
        }
        Ok(())
    }

    /// One ioctl about the session's objects.
    pub fn ask_session(&mut self, request: &Request<'_>) {
        self.ask(request, &mut Names::default());
    }

    fn ask(&mut self, request: &Request<'_>, context: &mut Names) {
        let mut outer = std::mem::take(&mut self.outer);
        let mut parameters = std::mem::take(&mut self.parameters);
        self.fill(
            &mut parameters,
            request.parameters_size,
            request.parameters,
            context,
        );
        self.fill(&mut outer, request.size, request.words, context);
        if request.parameters_size > 0 && outer.len() > 2 {
            outer[2] = parameters.as_ptr() as u64;
        }
        let fd = self.descriptor(request.fd, context);
        // A plain file answers ENOTTY. The struct already holds the driver's answer.
        unsafe {
            libc::ioctl(
                fd,
                libc::c_ulong::from(request.number) as _,
                outer.as_mut_ptr(),
            )
        };
        self.forget(request, context);
        self.outer = outer;
        self.parameters = parameters;
    }

    /// Lays the words out in a zeroed buffer (of words of eight bytes, for the alignment).
    fn fill(&mut self, buffer: &mut Vec<u64>, size: usize, words: &[Word], context: &mut Names) {
        buffer.clear();
        buffer.resize(size.div_ceil(8), 0);
        for word in words {
            let (bytes, length) = self.bytes(word.value, context);
            for (at, byte) in (word.offset..word.offset + length).zip(bytes) {
                if let Some(place) = buffer.get_mut(at / 8) {
                    *place |= u64::from(byte) << (at % 8 * 8);
                }
            }
        }
    }

    fn bytes(&mut self, value: Value, context: &mut Names) -> ([u8; 16], usize) {
        let long = match value {
            Value::U32(value) => return short(value),
            Value::Client(number) => return short(FIRST_CLIENT + u32::from(number)),
            Value::Handle(slot) => return short(self.handle(slot, context)),
            Value::Fd(slot) => return short(self.descriptor(slot, context).cast_unsigned()),
            Value::Uuid => return (UUID, UUID.len()),
            Value::U64(value) => value,
            Value::Group(slot) => self.group(slot, context),
            Value::Mapping(slot) => {
                let mapped = self.names(slot, context).mappings.get(index(slot));
                mapped
                    .and_then(Option::as_ref)
                    .map_or(0, |mapping| mapping.address as u64)
            }
            Value::Host(number) => self.host_base + (usize::from(number) * HOST_SPACING) as u64,
        };
        let mut bytes = [0; 16];
        bytes[..8].copy_from_slice(&long.to_le_bytes());
        (bytes, 8)
    }

    /// The handle of a slot; a slot not seen before gets the lowest free one.
    pub fn handle(&mut self, slot: Slot, context: &mut Names) -> u32 {
        match self.names(slot, context).handles.get(index(slot)) {
            Some(0) => {
                let handle = self.take_handle();
                self.names(slot, context).handles[index(slot)] = handle;
                handle
            }
            Some(&handle) => handle,
            None => 0,
        }
    }

    pub fn take_handle(&mut self) -> u32 {
        if let Some(Reverse(handle)) = self.free_handles.pop() {
            return handle;
        }
        self.next_handle = self.next_handle.wrapping_add(1);
        self.next_handle.wrapping_sub(1)
    }

    pub fn release_handle(&mut self, handle: u32) {
        self.free_handles.push(Reverse(handle));
    }

    fn group(&mut self, slot: Slot, context: &mut Names) -> u64 {
        let next = self.next_group + 1;
        match self.names(slot, context).groups.get_mut(index(slot)) {
            Some(group) if *group == 0 => {
                *group = next;
                self.next_group = next;
                next
            }
            Some(group) => *group,
            None => 0,
        }
    }

    pub fn take_group(&mut self) -> u64 {
        self.next_group += 1;
        self.next_group
    }

    /// What a request destroys may be used again.
    fn forget(&mut self, request: &Request<'_>, context: &mut Names) {
        if request.number != RM_FREE {
            return;
        }
        if let Some(Word {
            value: Value::Handle(slot),
            ..
        }) = request.words.iter().find(|word| word.offset == 8)
        {
            let handle = self.handle(*slot, context);
            self.release_handle(handle);
            if let Some(place) = self.names(*slot, context).handles.get_mut(index(*slot)) {
                *place = 0;
            }
        }
    }

    fn descriptor(&mut self, slot: Slot, context: &mut Names) -> i32 {
        let found = self.names(slot, context).fds.get(index(slot));
        found
            .and_then(Option::as_ref)
            .map_or(-1, OwnedFd::as_raw_fd)
    }

    fn names<'a>(&'a mut self, slot: Slot, context: &'a mut Names) -> &'a mut Names {
        match slot {
            Slot::Session(_) => &mut self.session,
            Slot::Context(_) => context,
        }
    }

    /// Maps part of a session's file, at an offset that says which address to use.
    pub fn map(&mut self, fd: Slot, length: usize, offset: u64) -> io::Result<Mapping> {
        let fd = self.descriptor(fd, &mut Names::default());
        Mapping::new(fd, length, libc::PROT_READ | libc::PROT_WRITE, offset)
    }
}

fn index(slot: Slot) -> usize {
    match slot {
        Slot::Session(number) | Slot::Context(number) => usize::from(number),
    }
}

fn short(value: u32) -> ([u8; 16], usize) {
    let mut bytes = [0; 16];
    bytes[..4].copy_from_slice(&value.to_le_bytes());
    (bytes, 4)
}
