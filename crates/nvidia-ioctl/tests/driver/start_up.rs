//! What the decoder makes of a real libcuda's start-up and of single API calls.

use super::recording::{decoded, read};
use nvidia_ioctl::{
    DeviceFile, Fact, Handles, IoctlCall, ObjectKind, Subject, argument_size, decode,
};
use std::collections::BTreeMap;

#[test]
fn nothing_is_unknown_but_a_few_controls() {
    let calls = decoded();
    assert_eq!(calls.len(), 1309);
    let (mut controls, mut named) = (0, 0);
    for (recorded, decoded, _) in &calls {
        assert!(decoded.name.is_some(), "{:#x} has no name", recorded.cmd);
        assert_eq!(decoded.doubt, None, "{}", decoded.line());
        match decoded.subject {
            Some(Subject::Class { id, name }) => assert!(name.is_some(), "class {id:#x}"),
            Some(Subject::Control { id, name, group }) => {
                controls += 1;
                // NV2081_BINAPI's commands have no groups.
                assert!(group.is_some() || id == 0x2081_0108, "{id:#x}");
                named += u32::from(name.is_some());
            }
            None => {}
        }
    }
    // The rest are closed commands, which nothing public names.
    assert_eq!((controls, named), (326, 321));
    assert!(f64::from(named) / f64::from(controls) >= 0.95);
}

#[test]
fn counts_are_those_of_a_start_up() {
    let mut counts: BTreeMap<String, u32> = BTreeMap::new();
    for (recorded, decoded, _) in decoded() {
        if recorded.during == "cuInit" || recorded.during == "cuDevicePrimaryCtxRetain" {
            let key = decoded
                .subject
                .map_or_else(|| decoded.short_name(), Subject::short);
            *counts.entry(key).or_default() += 1;
        }
    }
    for (name, count) in [
        ("CLIENT_GET_ADDR_SPACE_TYPE", 30),
        ("GET_CLASS_ENGINEID", 28),
        ("FIFO_GET_CHANNELLIST", 20),
        ("GPFIFO_GET_WORK_SUBMIT_TOKEN", 20),
        ("GR_GET_TPC_MASK", 8),
        ("GR_GET_CTX_BUFFER_SIZE", 8),
        ("GPFIFO_SCHEDULE", 4),
        ("GR_SET_CTXSW_PREEMPTION_MODE", 1),
        ("SET_TIMESLICE", 1),
        ("REGISTER_VA_SPACE", 1),
        ("HOPPER_CHANNEL_GPFIFO_A", 20),
        ("HOPPER_DMA_COPY_A", 20),
        ("HOPPER_COMPUTE_A", 8),
        ("NV01_EVENT_OS_EVENT", 8),
        ("KEPLER_CHANNEL_GROUP_A", 4),
    ] {
        assert_eq!(counts.get(name), Some(&count), "{name}");
    }
}

/// What PyTorch asks beyond libcuda's own start-up on an H200 with driver 580.159.04, as often as its
/// inference program does; the other 211 controls of that run have names in the headers.
#[test]
fn commands_without_a_name_say_what_they_are_about() {
    let line = |control: u32| {
        let mut bytes = [0u8; 32];
        bytes[8..12].copy_from_slice(&control.to_le_bytes());
        decode(&IoctlCall {
            file: DeviceFile::Control,
            cmd: 0xc020_462a,
            version: super::recording::version(),
            before: &bytes,
            after: None,
            memory: &[],
            memory_after: &[],
        })
    };
    let asked = [
        (0x2080_0145, 1, "GpuAcquireComputeModeReservation"),
        (0x2080_8159, 1, "0x20808159(GPU_LEGACY_NON_PRIVILEGED)"),
        (0x2080_8162, 1, "0x20808162(GPU_LEGACY_NON_PRIVILEGED)"),
        (0x2080_9001, 2, "0x20809001(CLK_LEGACY_NON_PRIVILEGED)"),
        (0x2080_9009, 2, "0x20809009(CLK_LEGACY_NON_PRIVILEGED)"),
        (0x2080_9038, 1, "0x20809038(CLK_LEGACY_NON_PRIVILEGED)"),
        (0x2080_9064, 2, "0x20809064(CLK_LEGACY_NON_PRIVILEGED)"),
        (0x2080_a026, 2, "0x2080a026(PERF_LEGACY_NON_PRIVILEGED)"),
        (0x2080_a084, 2, "0x2080a084(PERF_LEGACY_NON_PRIVILEGED)"),
        (0x2081_0108, 1, "0x20810108"),
    ];
    let mut unnamed = 0;
    for (control, times, words) in asked {
        let decoded = line(control);
        assert_eq!(decoded.line(), format!("RM_CONTROL 0x0 {words}"));
        if decoded.subject.and_then(Subject::name).is_none() {
            unnamed += times;
        }
    }
    assert_eq!(unnamed, 14, "of 226");
}

/// The lines and facts of one API call, with addresses as recorded.
fn during(call: &str) -> String {
    let mut text = String::new();
    for (_, decoded, facts) in decoded()
        .iter()
        .filter(|(recorded, ..)| recorded.during == call)
    {
        text += &decoded.line_with_details();
        text.push('\n');
        for fact in facts {
            text += &format!("    {fact}\n");
        }
    }
    text
}

#[test]
fn memory_calls_read_as_they_should() {
    for call in [
        "cuMemAlloc 4000000",
        "cuMemFree 4000000",
        "cuMemAllocHost 4096",
        "cuMemHostRegister 1MiB",
        "cuMemAllocManaged 1MiB",
        "cuMemPrefetchAsync 64MiB",
    ] {
        insta::assert_snapshot!(call.replace(' ', "_"), during(call));
    }
}

#[test]
fn a_context_tells_its_facts() {
    let calls = decoded();
    let facts: Vec<&Fact> = (calls.iter())
        .filter(|(recorded, ..)| recorded.during == "cuDevicePrimaryCtxRetain")
        .flat_map(|(_, _, facts)| facts)
        .collect();
    let count = |name: &str| facts.iter().filter(|fact| fact.name() == name).count();
    assert_eq!(count("channel_created"), 20);
    assert_eq!(count("tsg_created"), 4);
    assert_eq!(count("token_given"), 20);
    assert_eq!(count("scheduled"), 4);
    let said = |name: &str| {
        facts
            .iter()
            .find(|fact| fact.name() == name)
            .map(ToString::to_string)
    };
    assert_eq!(
        said("timeslice_set").unwrap(),
        "timeslice set: client=0xc1d0001b tsg=0x5c000015 microseconds=2048"
    );
    assert_eq!(
        said("preemption_set").unwrap(),
        "preemption set: client=0xc1d0001b object=0x5c000015 graphics=0 compute=2"
    );
    // What the context itself holds of the GPU's memory: its free memory went down by 552,402,944
    // (FB_GET_INFO_V2 before and after), which counts what the driver keeps beside.
    let vram: u64 = facts
        .iter()
        .map(|fact| match fact {
            Fact::MemoryAllocated {
                kind: ObjectKind::DeviceMemory,
                bytes,
                ..
            } => *bytes,
            _ => 0,
        })
        .sum();
    assert_eq!(vram, 543_162_368);
    let doorbells = calls.iter().flat_map(|(_, _, facts)| facts);
    let doorbells = doorbells.filter(|fact| matches!(fact, Fact::DoorbellMapped { .. }));
    assert_eq!(doorbells.count(), 2);
}

#[test]
fn what_was_allocated_is_freed_again() {
    let mut handles = Handles::default();
    let mut most = 0;
    for recorded in read() {
        recorded.with(|call| handles.returned(call));
        most = most.max(handles.len());
    }
    assert!(most > 150, "two contexts have many objects: {most}");
    // The second context and the primary one are destroyed; the session's objects stay.
    assert!(handles.len() < 20, "{} objects left", handles.len());
}

#[test]
fn a_tracer_that_comes_late_still_has_words() {
    let mut handles = Handles::default();
    for recorded in read().iter().skip(300) {
        let (decoded, _) = recorded.with(|call| handles.returned(call));
        assert!(decoded.name.is_some());
        assert!(!decoded.line().is_empty());
    }
}

#[test]
fn sizes_to_read_are_those_that_were_recorded() {
    for recorded in read() {
        if recorded.cmd == 0x3000_0002 {
            continue; // It has no struct.
        }
        let size = argument_size(recorded.file, recorded.cmd, super::recording::version());
        assert_eq!(size, recorded.before.len(), "{:#x}", recorded.cmd);
        assert_ne!(recorded.file, DeviceFile::Other);
    }
}

#[test]
fn what_structs_point_to_is_asked_for() {
    for recorded in read() {
        let ranges = recorded.with(|call| {
            let bare = nvidia_ioctl::IoctlCall {
                memory: &[],
                memory_after: &[],
                ..*call
            };
            assert!(nvidia_ioctl::wanted(call).is_empty(), "all was read");
            nvidia_ioctl::wanted(&bare)
        });
        match &recorded.inner {
            // The recorder read 32 bytes where it did not know the class.
            Some((address, bytes, _)) => {
                assert_eq!((ranges.len(), ranges[0].address), (1, *address));
                assert!(ranges[0].length <= bytes.len(), "{:#x}", recorded.cmd);
            }
            None => assert!(ranges.is_empty(), "{:#x} {ranges:?}", recorded.cmd),
        }
    }
}
