//! The decoder of the driver's ioctls: any bytes on any file and version give words, and memory
//! stays bounded. A seed is a file and a version, then calls: number, struct before and after, what
//! it points to before and after, each with its length.
#![no_main]

use nvidia_ioctl::{
    IoctlCall, DeviceFile, Handles, MOST_BYTES, Memory, Version, argument_size, wanted,
};
use libfuzzer_sys::fuzz_target;

const FILES: [DeviceFile; 5] = [
    DeviceFile::Control,
    DeviceFile::Gpu(0),
    DeviceFile::Uvm,
    DeviceFile::UvmTools,
    DeviceFile::Other,
];
const BRANCHES: [u32; 10] = [470, 535, 545, 550, 560, 570, 580, 590, 595, 610];

fn take<'a>(bytes: &mut &'a [u8], count: usize) -> &'a [u8] {
    let (front, rest) = bytes.split_at(count.min(bytes.len()));
    *bytes = rest;
    front
}

/// Two bytes of length, then so many.
fn block<'a>(bytes: &mut &'a [u8]) -> &'a [u8] {
    let length = take(bytes, 2).iter().rev().fold(0, |sum, byte| sum << 8 | usize::from(*byte));
    take(bytes, length)
}

fuzz_target!(|bytes: &[u8]| {
    let mut rest = bytes;
    let [file, branch, minor] = *take(&mut rest, 3) else {
        return;
    };
    let version = Version {
        branch: BRANCHES[usize::from(branch) % BRANCHES.len()],
        minor: minor.into(),
        patch: 0,
    };
    let file = FILES[usize::from(file) % FILES.len()];
    let mut handles = Handles::default();
    while !rest.is_empty() {
        let cmd = take(&mut rest, 4).iter().rev().fold(0, |sum, byte| sum << 8 | u32::from(*byte));
        let [before, after, inner, reply] = std::array::from_fn(|_| block(&mut rest));
        let mut call = IoctlCall {
            file,
            cmd,
            version,
            before,
            after: Some(after),
            memory: &[],
            memory_after: &[],
        };
        assert!(argument_size(file, cmd, version) <= MOST_BYTES);
        let memory: Vec<[Memory<'_>; 2]> = wanted(&call)
            .iter()
            .map(|range| {
                assert!(range.length <= MOST_BYTES);
                [inner, reply].map(|bytes| Memory { address: range.address, bytes })
            })
            .collect();
        let (now, then): (Vec<_>, Vec<_>) = memory.iter().map(|[now, then]| (*now, *then)).unzip();
        call.memory = &now;
        call.memory_after = &then;
        let early = handles.decode(&IoctlCall { after: None, ..call });
        assert!(early.status.is_none());
        let (decoded, facts) = handles.returned(&call);
        let line = decoded.line_with_details();
        assert!(!line.is_empty() && !line.chars().any(char::is_control));
        assert!(decoded.map(file).len() < 16);
        for fact in facts {
            assert!(!fact.to_string().is_empty());
        }
    }
});
