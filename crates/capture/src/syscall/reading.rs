//! Reads what an ioctl points to, when it begins and when it has returned.

use crate::ioctl::{self, Payload, Request};
use crate::ptrace::read_memory;
use nvidia_ioctl::Version;

/// The struct, and what it points to.
pub fn before(tid: libc::pid_t, request: &Request, version: Version) -> Payload {
    let mut first = [(request.argument, vec![0; ioctl::size(request, version)])];
    read_memory(tid, &mut first);
    let [(_, argument)] = first;
    let mut payload = Payload {
        argument,
        memory: Vec::new(),
    };
    for _ in 0..2 {
        let ranges = ioctl::points_to(request, version, &payload);
        if ranges.is_empty() {
            break;
        }
        let mut wanted: Vec<(u64, Vec<u8>)> = (ranges.into_iter())
            .map(|range| (range.address, vec![0; range.length]))
            .collect();
        read_memory(tid, &mut wanted);
        payload.memory.append(&mut wanted);
    }
    payload
}

/// The same places, read again into the same buffers.
pub fn after(tid: libc::pid_t, argument: u64, before: Payload) -> Payload {
    let mut wanted = vec![(argument, before.argument)];
    wanted.extend(before.memory);
    read_memory(tid, &mut wanted);
    let mut wanted = wanted.into_iter();
    Payload {
        argument: wanted.next().map_or_else(Vec::new, |(_, bytes)| bytes),
        memory: wanted.collect(),
    }
}
