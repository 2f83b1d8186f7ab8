//! Handles followed through refusals, duplicates, the older heap requests and frees from above.

use super::layouts::version;
use super::versions::bytes;
use nvidia_ioctl::{Decoded, DeviceFile, Handles, IoctlCall, Memory};

const CLIENT: u32 = 0xc1d0_0001;
const ALLOC: u32 = 0xc030_462b;
const FREE: u32 = 0xc010_4629;

struct Driver(Handles);

impl Driver {
    /// A call that was answered with the struct it was made with.
    fn call(&mut self, cmd: u32, outer: &[u8], parameters: &[u8]) -> (Decoded, Vec<String>) {
        let memory = [Memory {
            address: 0x1000,
            bytes: parameters,
        }];
        let (decoded, facts) = self.0.returned(&IoctlCall {
            file: DeviceFile::Control,
            cmd,
            version: version("580"),
            before: outer,
            after: Some(outer),
            memory: &memory,
            memory_after: &memory,
        });
        (decoded, facts.iter().map(ToString::to_string).collect())
    }

    fn alloc(&mut self, parent: u32, handle: u32, class: u32, status: u32) -> Vec<String> {
        let root = if class == 0x41 { 0 } else { CLIENT };
        let outer = bytes(
            48,
            &[
                (0, root),
                (4, parent),
                (8, handle),
                (12, class),
                (16, 0x1000),
                (40, status),
            ],
        );
        // The size of memory; nothing that matters to other classes.
        self.call(ALLOC, &outer, &bytes(128, &[(64, 4096)])).1
    }

    fn free(&mut self, client: u32, handle: u32) -> (String, Vec<String>) {
        let outer = bytes(16, &[(0, client), (8, handle)]);
        let (decoded, facts) = self.call(FREE, &outer, &[]);
        (decoded.line(), facts)
    }

    fn start() -> Driver {
        let mut driver = Driver(Handles::default());
        driver.alloc(0, CLIENT, 0x41, 0);
        driver.alloc(CLIENT, 2, 0x80, 0);
        driver
    }
}

#[test]
fn what_was_refused_is_not_there() {
    let mut driver = Driver::start();
    assert_eq!(driver.alloc(2, 3, 0x40, 0x51), [] as [&str; 0]);
    assert!(driver.0.get(CLIENT, 3).is_none());
    let (line, facts) = driver.free(CLIENT, 3);
    assert_eq!((&*line, facts.len()), ("RM_FREE 0x3 → ok", 0));
}

#[test]
fn a_duplicate_holds_no_memory_of_its_own() {
    let mut driver = Driver::start();
    let made = driver.alloc(2, 3, 0x40, 0);
    assert_eq!(
        made,
        ["vram allocated: client=0xc1d00001 object=0x3 requested=4096 bytes=4096"]
    );
    let other = CLIENT + 1;
    let dup = bytes(28, &[(0, other), (4, 9), (8, 7), (12, CLIENT), (16, 3)]);
    assert!(driver.call(0xc01c_4634, &dup, &[]).1.is_empty());
    let (line, facts) = driver.free(other, 7);
    assert_eq!(line, "RM_FREE mem:0x7(NV01_MEMORY_LOCAL_USER) → ok");
    assert!(facts.is_empty(), "the original is still there: {facts:?}");
    let (_, facts) = driver.free(CLIENT, 3);
    assert_eq!(
        facts,
        ["vram freed: client=0xc1d00001 object=0x3 bytes=4096"]
    );
}

#[test]
fn freeing_a_device_frees_what_is_below() {
    let mut driver = Driver::start();
    driver.alloc(2, 3, 0xa06c, 0);
    driver.alloc(3, 4, 0xc86f, 0);
    driver.alloc(2, 5, 0x3e, 0);
    let (_, mut facts) = driver.free(CLIENT, 2);
    facts.sort();
    assert_eq!(
        facts,
        [
            "channel destroyed: client=0xc1d00001 object=0x4",
            "host memory freed: client=0xc1d00001 object=0x5 bytes=4096",
            "tsg destroyed: client=0xc1d00001 object=0x3",
        ]
    );
    assert_eq!(driver.0.len(), 1, "the client stays");
}

#[test]
fn the_older_heap_requests_are_followed_too() {
    let mut driver = Driver::start();
    let heap = |function, words: &[(usize, u32)]| {
        bytes(
            184,
            &[&[(0, CLIENT), (4, 2), (8, function)], words].concat(),
        )
    };
    let video = heap(2, &[(44, 6), (88, 8192)]);
    let system = heap(2, &[(44, 7), (56, 1 << 25), (88, 4096)]);
    assert_eq!(
        [&video, &system].map(|request| driver.call(0xc0b8_464a, request, &[]).1.concat()),
        [
            "vram allocated: client=0xc1d00001 object=0x6 requested=8192 bytes=8192",
            "host memory allocated: client=0xc1d00001 object=0x7 requested=4096 bytes=4096",
        ]
    );
    let free = heap(3, &[(44, 6)]);
    let freed = driver.call(0xc0b8_464a, &free, &[]).1;
    assert_eq!(
        freed,
        ["vram freed: client=0xc1d00001 object=0x6 bytes=8192"]
    );
}

#[test]
fn while_a_call_is_under_way_nothing_is_learned() {
    let mut driver = Driver::start();
    let outer = bytes(48, &[(0, CLIENT), (4, 2), (8, 3), (12, 0x40)]);
    let call = IoctlCall {
        file: DeviceFile::Control,
        cmd: ALLOC,
        version: version("580"),
        before: &outer,
        after: None,
        memory: &[],
        memory_after: &[],
    };
    let early = driver.0.decode(&call);
    assert_eq!(early.line(), "RM_ALLOC NV01_MEMORY_LOCAL_USER 0x3");
    assert!(driver.0.returned(&call).1.is_empty());
    assert!(driver.0.get(CLIENT, 3).is_none());
}
