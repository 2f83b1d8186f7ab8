//! System calls on the driver's files, as the ring has them: which file, which struct, before and
//! after. The records' layout is `bpf/syscalls.h`.

use super::EbpfError;
use super::layout::{Head, KIND_SYSCALL_ENTER};
use super::maps::Maps;
use super::objects::{self, Compiled, SYSCALLS, SYSCALLS_BTF};
use crate::ioctl::{DriverFiles, Opened, PLAYED, Payload, Request};
use crate::syscall::{Frame, SystemCall};
use libbpf_rs::{Link, MapCore, MapFlags, Object};
use nvidia_ioctl::{DeviceFile, Version, argument_size};
use std::collections::HashMap;

const PROGRAMS: [&str; 8] = [
    "enter_ioctl",
    "exit_ioctl",
    "enter_mmap",
    "exit_mmap",
    "enter_close",
    "exit_close",
    "enter_openat",
    "exit_openat",
];

const PROGRAMS_BTF: [&str; 2] = ["system_enter", "system_exit"];

/// Bytes before an ioctl's struct in a record's body.
const CALL: usize = 80;
/// Lengths of struct and of what it points to, by the length of the body behind `CALL`.
const AREAS: [(usize, usize); 4] = [(8, 8), (256, 256), (256, 4096), (16384, 16384)];
const LONGEST_PATH: usize = 256;
/// Files of processes that are remembered.
const MOST_FILES: usize = 64 << 10;

/// The programs, attached. Dropped, they are gone.
pub struct System {
    object: Object,
    links: Vec<Link>,
}

impl System {
    pub fn start(maps: &Maps, driver: Option<Version>) -> Result<Self, EbpfError> {
        // Without a driver there are stand-ins only.
        let driver = driver.unwrap_or(PLAYED);
        // A kernel without BTF has tracepoints for each system call. They are no cheaper for all the
        // others, and each takes the kernel a twentieth of a second to take off.
        Self::with(SYSCALLS_BTF, &PROGRAMS_BTF, maps, driver)
            .or_else(|_| Self::with(SYSCALLS, &PROGRAMS, maps, driver))
    }

    fn with(
        compiled: Compiled,
        programs: &[&str],
        maps: &Maps,
        driver: Version,
    ) -> Result<Self, EbpfError> {
        let object = objects::load(compiled, maps, programs, |_| Ok(()))?;
        let mut system = System {
            object,
            links: Vec::new(),
        };
        system.tell_sizes(driver)?;
        system.links = objects::attach_all(&mut system.object)?;
        Ok(system)
    }

    /// nvidia-uvm's requests do not say how long their structs are.
    fn tell_sizes(&self, version: Version) -> Result<(), EbpfError> {
        let map = self.object.maps().find(|map| map.name() == "uvm_sizes");
        for request in 0..256u32 {
            let bytes = argument_size(DeviceFile::Uvm, request, version) as u32;
            if let Some(map) = &map {
                let (key, value) = (request.to_le_bytes(), bytes.to_le_bytes());
                (map.update(&key, &value, MapFlags::ANY)).map_err(|source| EbpfError::Map {
                    name: "uvm_sizes",
                    source,
                })?;
            }
        }
        Ok(())
    }

    /// Tells the programs of files that a process had open before we came.
    pub fn seed(&self, pid: u32, files: &mut Files, now: u64) {
        let map = self.object.maps().find(|map| map.name() == "files");
        let entries = std::fs::read_dir(format!("/proc/{pid}/fd"));
        for entry in entries.into_iter().flatten().flatten() {
            let fd = entry.file_name().to_str().and_then(|fd| fd.parse().ok());
            if let (Some(fd), Some(map)) = (fd, &map)
                && files.of(pid, fd, now).is_some()
            {
                let key = u64::from(pid) << 32 | u64::from(fd as u32);
                let _ = map.update(&key.to_le_bytes(), &1u32.to_le_bytes(), MapFlags::ANY);
            }
        }
    }

    pub fn take_links(&mut self) -> Vec<Link> {
        std::mem::take(&mut self.links)
    }
}

/// Which of the driver's files descriptors are: as they were seen to be opened, or else as /proc
/// says.
pub struct Files {
    opened: HashMap<(u32, i32), Opened>,
    others: DriverFiles,
}

impl Files {
    pub fn new() -> Self {
        Files {
            opened: HashMap::new(),
            others: DriverFiles::new(),
        }
    }

    fn of(&mut self, pid: u32, fd: i32, now: u64) -> Option<Opened> {
        if let Some(known) = self.opened.get(&(pid, fd)) {
            return Some(known.clone());
        }
        let found = self.others.of(pid, fd, now)?;
        self.learn(pid, fd, found.clone());
        Some(found)
    }

    fn learn(&mut self, pid: u32, fd: i32, opened: Opened) {
        if self.opened.len() >= MOST_FILES {
            self.opened.clear();
        }
        self.opened.insert((pid, fd), opened);
    }
}

/// By the path alone: the process may be gone by now.
fn by_path(path: &str) -> Option<Opened> {
    let file = DeviceFile::from_path(path);
    (file != DeviceFile::Other).then(|| Opened {
        file,
        path: path.into(),
        stand_in: !path.starts_with("/dev/nvidia"),
    })
}

/// What a record says, as frames with their times.
pub fn read(head: &Head, body: &[u8], files: &mut Files) -> Vec<(u64, Frame)> {
    read_one(head, body, files).unwrap_or_default()
}

fn read_one(head: &Head, body: &[u8], files: &mut Files) -> Option<Vec<(u64, Frame)>> {
    let (call, rest) = body.split_at_checked(CALL)?;
    let word = |at: usize| {
        let bytes = call
            .get(8 * at..)
            .and_then(|bytes| bytes.first_chunk::<8>());
        bytes.map_or(0, |bytes| u64::from_le_bytes(*bytes))
    };
    let number = i64::from(head.function);
    let (pid, tid) = (head.process, head.thread);
    let begin = |call| Frame::Begin {
        time: head.time,
        pid,
        tid,
        call,
    };
    if number == libc::SYS_openat {
        let (ended, path) = rest.split_first_chunk::<8>()?;
        let ended = u64::from_le_bytes(*ended);
        let path = path.get(..LONGEST_PATH)?;
        let end = path.iter().position(|byte| *byte == 0)?;
        let path = String::from_utf8_lossy(&path[..end]).into_owned();
        let opened = by_path(&path)?;
        let result = head.result.cast_signed();
        if let Ok(fd) = i32::try_from(result)
            && fd >= 0
        {
            files.learn(pid, fd, opened);
        }
        let call = SystemCall::Open {
            name: "openat",
            path,
            flags: word(2),
        };
        let after = Payload::default();
        let end = Frame::End {
            time: ended,
            tid,
            result,
            after,
        };
        return Some(vec![(head.time, begin(call)), (ended, end)]);
    }
    let payload = || {
        let (argument, behind) = AREAS
            .into_iter()
            .find(|(one, two)| one + two == rest.len())?;
        let lengths = word(8) >> 32;
        let bytes = (lengths as usize).min(argument);
        let more = (word(9) as u32 as usize).min(behind);
        let mut payload = Payload {
            argument: rest.get(..bytes)?.to_vec(),
            memory: Vec::new(),
        };
        if more > 0 {
            let part = rest.get(argument..argument + more)?.to_vec();
            payload.memory.push((word(6), part));
        }
        Some(payload)
    };
    if head.kind != KIND_SYSCALL_ENTER {
        let end = Frame::End {
            time: head.time,
            tid,
            result: head.result.cast_signed(),
            after: payload().unwrap_or_default(),
        };
        return Some(vec![(head.time, end)]);
    }
    let call = match number {
        libc::SYS_ioctl => {
            let fd = word(0) as i32;
            SystemCall::Ioctl {
                request: Request {
                    opened: files.of(pid, fd, head.time)?,
                    fd,
                    cmd: word(1) as u32,
                    argument: word(2),
                },
                before: payload()?,
            }
        }
        libc::SYS_mmap => {
            let fd = word(4) as i32;
            SystemCall::Map {
                opened: files.of(pid, fd, head.time)?,
                fd,
                length: word(1),
                protection: word(2),
                offset: word(5),
            }
        }
        libc::SYS_close => {
            let fd = word(0) as i32;
            let opened = files.of(pid, fd, head.time)?;
            files.opened.remove(&(pid, fd));
            SystemCall::Close { opened, fd }
        }
        _ => return None,
    };
    Some(vec![(head.time, begin(call))])
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEADER: &str = include_str!("../../../../bpf/syscalls.h");

    #[test]
    fn lengths_are_those_of_the_header() {
        let number = |name: &str| -> usize {
            let rest = HEADER.split(&format!("#define {name} ")).nth(1);
            let digits = rest.and_then(|rest| rest.lines().next());
            digits
                .and_then(|text| text.trim().parse().ok())
                .expect(name)
        };
        let (short, medium) = (number("SYSTEM_SHORT"), number("SYSTEM_MEDIUM"));
        let long = number("SYSTEM_LONG");
        assert_eq!(
            AREAS,
            [(8, 8), (short, short), (short, medium), (long, long)]
        );
        // Eight words, and four halves of words.
        assert_eq!(CALL, 8 * 8 + 4 * 4);
        assert!(HEADER.contains(&format!("char path[{LONGEST_PATH}];")));
    }

    #[test]
    fn opens_are_remembered_and_damage_is_no_panic() {
        let mut files = Files::new();
        let head = Head {
            time: 5,
            process: u32::MAX,
            thread: 7,
            function: libc::SYS_openat as u32,
            kind: KIND_SYSCALL_ENTER,
            result: 3,
            ..Head::default()
        };
        let mut body = vec![0; CALL + 8 + LONGEST_PATH];
        body[CALL..CALL + 8].copy_from_slice(&9u64.to_le_bytes());
        body[CALL + 8..CALL + 8 + 14].copy_from_slice(b"/dev/nvidiactl");
        let frames = read(&head, &body, &mut files);
        assert_eq!((frames[0].0, frames[1].0), (5, 9));
        let opened = files.of(u32::MAX, 3, 10).expect("known");
        assert_eq!((opened.file, opened.stand_in), (DeviceFile::Control, false));
        for length in 0..body.len() {
            for function in [
                libc::SYS_openat,
                libc::SYS_ioctl,
                libc::SYS_mmap,
                libc::SYS_close,
            ] {
                let function = function as u32;
                read(&Head { function, ..head }, &body[..length], &mut files);
            }
        }
    }
}
