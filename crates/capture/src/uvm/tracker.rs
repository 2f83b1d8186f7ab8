//! The driver's side of it: who fills the queue of one process's managed memory, through
//! /dev/nvidia-uvm-tools and the process's own descriptor of /dev/nvidia-uvm.

use super::entry::{KINDS, Layout};
use super::queue::{self, Queue};
use std::fs::{self, File};
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::sync::Arc;

pub const TOOLS: &str = "/dev/nvidia-uvm-tools";
const UVM: &str = "/dev/nvidia-uvm";

// UVM's ioctls are plain numbers, the same on the descriptors of both files.
const INIT_EVENT_TRACKER: libc::c_ulong = 56;
const ENABLE_EVENTS: libc::c_ulong = 58;
const UUID_TABLE: libc::c_ulong = 64;
const FLUSH_EVENTS: libc::c_ulong = 67;
const INIT_EVENT_TRACKER_V2: libc::c_ulong = 76;
const UUID_TABLE_V2: libc::c_ulong = 77;
/// More than a table has.
const MOST_PROCESSORS: usize = 512;

/// Where a driver puts the layout's number into a tracker's request: branches differ.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum TrackerRequest {
    /// 565 and later: a call of its own.
    V2,
    /// Until 545, and later for the first layout.
    V1,
}

/// What the driver answers inside of its structs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Refused {
    #[error("NV_STATUS {0:#x}")]
    Status(u32),
    #[error("errno {0}")]
    Errno(i32),
}

#[repr(C)]
#[derive(Default)]
struct InitParams {
    queue: u64,
    entries: u64,
    control: u64,
    processor: [u8; 16],
    all_processors: u32,
    uvm_fd: u32,
    status: u32,
    /// Some branches have more behind it.
    more: [u32; 8],
}

#[repr(C)]
#[derive(Default)]
struct MaskParams {
    mask: u64,
    status: u32,
    more: [u32; 2],
}

/// What the driver tells of one process.
pub struct Tracker {
    pub queue: Arc<Queue>,
    /// Closed first: the driver writes no more after that.
    tools: File,
    uvm: OwnedFd,
    process: OwnedFd,
}

impl Tracker {
    /// Asks for a process's events, by a queue of so many entries if the driver has room for it. None: it
    /// has no managed memory (yet).
    pub fn attach(pid: u32, entries: u32) -> io::Result<Option<Tracker>> {
        let numbers = uvm_descriptors(pid);
        if numbers.is_empty() {
            return Ok(None);
        }
        let process = pidfd(pid)?;
        let mut refused = None;
        for number in numbers {
            let uvm = get_descriptor(&process, number)?;
            match Tracker::open(&process, &uvm, entries) {
                Ok(tracker) => return Ok(Some(tracker)),
                Err(why) => refused = Some(why),
            }
        }
        refused.map_or(Ok(None), Err)
    }

    fn open(process: &OwnedFd, uvm: &OwnedFd, entries: u32) -> io::Result<Tracker> {
        let mut refused = None;
        // A queue is memory that stays where it is: there may not be so much.
        for entries in queue::smaller(entries) {
            for (request, layout) in [
                (TrackerRequest::V2, Layout::Second),
                (TrackerRequest::V1, Layout::First),
            ] {
                let tools = File::options().read(true).write(true).open(TOOLS)?;
                let tracker = Tracker {
                    tools,
                    uvm: uvm.try_clone()?,
                    process: process.try_clone()?,
                    queue: Arc::new(Queue::new(layout, entries)?),
                };
                match tracker.start(request) {
                    Ok(()) => return Ok(tracker),
                    Err(why) => refused = Some(why),
                }
            }
        }
        let why = refused.unwrap_or(Refused::Errno(libc::ENOTTY));
        Err(io::Error::other(why))
    }

    fn start(&self, request: TrackerRequest) -> Result<(), Refused> {
        let mut params = InitParams {
            queue: self.queue.address(),
            entries: self.queue.entries.into(),
            control: self.queue.control_address(),
            all_processors: 1,
            uvm_fd: self.uvm.as_raw_fd().cast_unsigned(),
            ..InitParams::default()
        };
        let command = match request {
            TrackerRequest::V2 => INIT_EVENT_TRACKER_V2,
            TrackerRequest::V1 => INIT_EVENT_TRACKER,
        };
        let tools = self.tools.as_raw_fd();
        // SAFETY: the struct is as long as any branch's, and the memory it names lives as long as
        // the descriptor.
        unsafe { call(tools, command, (&raw mut params).cast()) }?;
        answered(params.status)?;
        let mut params = MaskParams {
            mask: KINDS,
            ..MaskParams::default()
        };
        // SAFETY: as above.
        unsafe { call(tools, ENABLE_EVENTS, (&raw mut params).cast()) }?;
        answered(params.status)
    }

    pub fn has_ended(&self) -> bool {
        let mut poll = libc::pollfd {
            fd: self.process.as_raw_fd(),
            events: libc::POLLIN,
            revents: 0,
        };
        // SAFETY: one descriptor, and no waiting.
        unsafe { libc::poll(&mut poll, 1, 0) == 1 }
    }

    /// Hands on what the driver knows but has not put into the queue: finished migrations.
    pub fn flush(&self) -> Result<(), Refused> {
        let mut params = [0u32; 4];
        // SAFETY: the struct is longer than the driver's.
        unsafe {
            call(
                self.uvm.as_raw_fd(),
                FLUSH_EVENTS,
                params.as_mut_ptr().cast(),
            )
        }?;
        answered(params[0])
    }

    /// The UUIDs of the processors that the process uses, by number; zeros where there is none.
    pub fn processors(&self) -> Result<Vec<[u8; 16]>, Refused> {
        let mut table = vec![[0u8; 16]; MOST_PROCESSORS];
        let mut params = MaskParams {
            mask: table.as_mut_ptr() as u64,
            ..MaskParams::default()
        };
        let command = match self.queue.layout {
            Layout::First => UUID_TABLE,
            Layout::Second => UUID_TABLE_V2,
        };
        // SAFETY: the table is longer than any the driver writes.
        unsafe { call(self.uvm.as_raw_fd(), command, (&raw mut params).cast()) }?;
        answered(params.status)?;
        let last = table.iter().rposition(|uuid| *uuid != [0; 16]);
        table.truncate(last.map_or(0, |last| last + 1));
        Ok(table)
    }
}

fn answered(status: u32) -> Result<(), Refused> {
    match status {
        0 => Ok(()),
        status => Err(Refused::Status(status)),
    }
}

/// # Safety
/// What the argument points to is as the command wants it.
unsafe fn call(
    fd: RawFd,
    command: libc::c_ulong,
    params: *mut libc::c_void,
) -> Result<(), Refused> {
    // SAFETY: by contract.
    if unsafe { libc::ioctl(fd, command as _, params) } < 0 {
        let why = io::Error::last_os_error().raw_os_error();
        return Err(Refused::Errno(why.unwrap_or(0)));
    }
    Ok(())
}

/// The numbers under which a process has /dev/nvidia-uvm open.
fn uvm_descriptors(pid: u32) -> Vec<RawFd> {
    let entries = fs::read_dir(format!("/proc/{pid}/fd"));
    let numbers = entries.into_iter().flatten().flatten().filter_map(|entry| {
        let is_uvm = fs::read_link(entry.path()).is_ok_and(|path| path.as_os_str() == UVM);
        is_uvm.then(|| entry.file_name().to_str()?.parse().ok())?
    });
    let mut numbers: Vec<RawFd> = numbers.collect();
    numbers.sort_unstable();
    numbers
}

fn pidfd(pid: u32) -> io::Result<OwnedFd> {
    // SAFETY: a plain system call.
    let fd = unsafe { libc::syscall(libc::SYS_pidfd_open, pid, 0) };
    owned(fd)
}

/// A descriptor for the same open file: allowed to those who may trace the process.
fn get_descriptor(process: &OwnedFd, number: RawFd) -> io::Result<OwnedFd> {
    // SAFETY: a plain system call.
    let fd = unsafe { libc::syscall(libc::SYS_pidfd_getfd, process.as_raw_fd(), number, 0) };
    owned(fd)
}

fn owned(fd: libc::c_long) -> io::Result<OwnedFd> {
    match RawFd::try_from(fd) {
        // SAFETY: just opened, and nobody else's.
        Ok(fd) if fd >= 0 => Ok(unsafe { OwnedFd::from_raw_fd(fd) }),
        _ => Err(io::Error::last_os_error()),
    }
}
