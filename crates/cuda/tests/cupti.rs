//! Records of every version of CUPTI that is known (`fixtures/cupti`), read by one set of offsets.

use cuda::cupti::{self, Activity};

/// A value for each field.
fn mark(field: &str) -> u64 {
    1 + field
        .bytes()
        .fold(0u64, |sum, byte| (sum * 31 + u64::from(byte)) % 100)
}

#[test]
fn every_version_is_read_alike() {
    let layouts = include_str!("../../../fixtures/cupti/layouts.txt");
    let mut versions = std::collections::BTreeSet::new();
    for line in layouts.lines() {
        let mut words = line.split(' ');
        let (version, kind) = (words.next().unwrap_or(""), words.next().unwrap_or(""));
        let size: usize = words
            .next()
            .and_then(|size| size.parse().ok())
            .expect("a size");
        let number = match kind {
            "Kernel" => cupti::CONCURRENT_KERNEL,
            "Memcpy" => cupti::MEMCPY,
            "MemcpyPtoP" => cupti::MEMCPY2,
            "Memset" => cupti::MEMSET,
            "API" => cupti::DRIVER,
            "Overhead" => cupti::OVERHEAD,
            "Synchronization" => cupti::SYNCHRONIZATION,
            "UnifiedMemoryCounter" => cupti::UNIFIED_MEMORY_COUNTER,
            kind => panic!("{kind} is not known"),
        };
        let mut bytes = vec![0u8; size];
        for word in words {
            let (field, at) = word.split_once('=').expect("a field and its place");
            let at: usize = at.parse().expect("a place");
            // Marks are small: their first byte is all of them, whatever the field's width.
            bytes[at] = mark(field) as u8;
        }
        bytes[..4].copy_from_slice(&number.to_le_bytes());
        check(&Activity::read(&bytes), line);
        versions.insert(version.to_owned());
    }
    assert!(versions.len() >= 10, "{versions:?}");
}

fn check(record: &Activity, line: &str) {
    let m = |field: &str| mark(field);
    let w = |field: &str| mark(field) as u32;
    let place = |place: &cupti::WorkPlacement| {
        let found = [
            u64::from(place.device),
            u64::from(place.context),
            u64::from(place.stream),
            u64::from(place.correlation),
            u64::from(place.graph),
            place.start,
            place.end,
            place.node,
        ];
        let fields = [
            "deviceId",
            "contextId",
            "streamId",
            "correlationId",
            "graphId",
            "start",
            "end",
            "graphNodeId",
        ];
        assert_eq!(found, fields.map(mark), "{line}");
    };
    match record {
        Activity::Kernel(kernel) => {
            place(&kernel.place);
            assert_eq!(kernel.name, m("name"), "{line}");
            assert_eq!(u64::from(kernel.registers), m("registersPerThread"));
            assert_eq!((kernel.grid[0], kernel.block[0]), (w("gridX"), w("blockX")));
            let memory = (kernel.static_shared, kernel.dynamic_shared, kernel.local);
            let marks = (
                w("staticSharedMemory"),
                w("dynamicSharedMemory"),
                w("localMemoryPerThread"),
            );
            assert_eq!(memory, marks, "{line}");
        }
        Activity::Copy(copy) => {
            place(&copy.place);
            assert_eq!(copy.bytes, m("bytes"), "{line}");
            let kinds = (copy.kind.into(), copy.from.into(), copy.to.into());
            assert_eq!(kinds, (m("copyKind"), m("srcKind"), m("dstKind")), "{line}");
            if let Some(devices) = copy.devices {
                assert_eq!(devices, (w("srcDeviceId"), w("dstDeviceId")), "{line}");
            }
        }
        Activity::Fill(fill) => {
            place(&fill.place);
            assert_eq!((fill.bytes, fill.value), (m("bytes"), w("value")), "{line}");
            assert_eq!(u64::from(fill.memory), m("memoryKind"), "{line}");
        }
        Activity::Call(call) => {
            let found = (call.number, call.thread, call.correlation);
            assert_eq!(found, (w("cbid"), w("threadId"), w("correlationId")));
            assert_eq!((call.start, call.end), (m("start"), m("end")), "{line}");
        }
        Activity::Overhead(overhead) => {
            let found = (overhead.kind, overhead.start, overhead.end);
            assert_eq!(found, (w("overheadKind"), m("start"), m("end")), "{line}");
        }
        Activity::Synchronisation(sync) => {
            let found = [
                sync.kind,
                sync.correlation,
                sync.context,
                sync.stream,
                sync.event,
            ];
            let fields = [
                "type",
                "correlationId",
                "contextId",
                "streamId",
                "cudaEventId",
            ];
            assert_eq!(found, fields.map(w), "{line}");
            assert_eq!((sync.start, sync.end), (m("start"), m("end")), "{line}");
        }
        Activity::Counter(counter) => {
            let found = (counter.kind, counter.from, counter.to);
            assert_eq!(found, (w("counterKind"), w("srcId"), w("dstId")), "{line}");
            let found = [counter.value, counter.start, counter.end, counter.address];
            assert_eq!(
                found,
                ["value", "start", "end", "address"].map(mark),
                "{line}"
            );
        }
        Activity::Other(kind) => panic!("{kind} was not understood: {line}"),
    }
}
