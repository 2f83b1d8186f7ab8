//! Events, arguments and meanings that hand-made records become.

use super::{RawCall, RingFile};
use crate::call::Assembler;
use crate::call::Limits;
use crate::call::item::Batch;
use crate::preload::Filter;
use crate::preload::clock::TscClock;
use crate::preload::drain::Reader;
use crate::preload::namespace::Namespaces;
use crate::preload::process::Processes;
use crate::{Deadline, Nested, Sink, SinkError};
use event::{Arg, Backend, ClockPair, Extent, Record, Value, What};
use std::fs;
use tempfile::TempDir;

/// Keeps what it is given, up to a number of records.
#[derive(Default)]
pub struct Recorded {
    pub records: Vec<Record>,
    pub backend: Option<Backend>,
    pub room: Option<usize>,
}

impl Sink for Recorded {
    fn begin(&mut self, backend: Backend) -> Result<(), SinkError> {
        assert!(self.records.is_empty(), "begun before the first record");
        self.backend = Some(backend);
        Ok(())
    }

    fn write(&mut self, record: &mut Record) -> Result<(), SinkError> {
        if self.room.is_some_and(|room| self.records.len() >= room) {
            return Err(std::io::Error::other("no space left").into());
        }
        self.records.push(record.clone());
        Ok(())
    }

    fn flush(&mut self) -> Result<(), SinkError> {
        Ok(())
    }
}

/// Functions by number, in the order they are first asked for.
pub struct Traced {
    folder: TempDir,
    functions: Vec<&'static str>,
    rings: Vec<(RingFile, Reader)>,
    pub limits: Limits,
    pub room: Option<usize>,
}

/// A clock that counts nanoseconds, so that times can be read off.
fn clock() -> TscClock {
    let pair = |time| ClockPair {
        source: time,
        host: time,
        margin: 0,
    };
    TscClock::new(pair(0), pair(1 << 30)).expect("moves")
}

impl Traced {
    pub fn new() -> Self {
        Traced {
            folder: tempfile::tempdir().expect("a folder"),
            functions: Vec::new(),
            rings: Vec::new(),
            limits: Limits {
                filter: None,
                min_duration: 0,
                sample: 1,
                hosts: false,
                deadline: Deadline::default(),
            },
            room: None,
        }
    }

    pub fn thread(&mut self, pid: u32, tid: u32) -> usize {
        let file = RingFile::create(self.folder.path(), pid, tid, 256);
        let reader = Reader::new(file.open().expect("a ring"));
        self.rings.push((file, reader));
        self.rings.len() - 1
    }

    pub fn ring(&mut self, thread: usize) -> &mut RingFile {
        &mut self.rings[thread].0
    }

    pub fn id(&mut self, name: &'static str) -> u16 {
        let place = self.functions.iter().position(|known| *known == name);
        place.unwrap_or_else(|| {
            self.functions.push(name);
            self.functions.len() - 1
        }) as u16
    }

    /// A call that is entered and left; returns nothing but success or what it is asked to.
    pub fn call(
        &mut self,
        thread: usize,
        name: &'static str,
        times: std::ops::Range<u64>,
        args: [u64; 4],
        payload: &[u8],
        result: u32,
    ) {
        let sequence = self.begin(thread, name, times.start, args, payload);
        self.ring(thread).end(sequence, times.end, result);
    }

    pub fn begin(
        &mut self,
        thread: usize,
        name: &'static str,
        enter: u64,
        args: [u64; 4],
        payload: &[u8],
    ) -> u64 {
        let function = self.id(name);
        // Deeper calls come later: the stack grows down.
        let stack_pointer = 0x5000_0000 - enter as u32;
        let call = RawCall {
            function,
            stack_pointer,
            args,
            payload,
            ..RawCall::default()
        };
        self.ring(thread).begin(enter, call)
    }

    pub fn finish(mut self) -> (Vec<Record>, crate::call::Totals) {
        let mut pids: Vec<u32> = self
            .rings
            .iter()
            .map(|(_, reader)| reader.ring().pid)
            .collect();
        pids.dedup();
        for pid in pids {
            let mut text = format!(
                "process pid={pid} ppid=1 tsc_hz=1000000000 exe=/bin/app\nclock 0 0\n\
                 library 0 hooked=1 exported=1 method=patch path=/lib/libcudart.so.13\n"
            );
            for (id, name) in self.functions.iter().enumerate() {
                text.push_str(&format!("function {id} 0 {name}\n"));
            }
            fs::write(self.folder.path().join(format!("process.{pid}.1")), text).expect("written");
        }
        let sink = Recorded {
            room: self.room,
            ..Recorded::default()
        };
        let processes = Processes::new(
            self.folder.path(),
            Namespaces::new(std::path::Path::new("/proc")),
        );
        let origin = crate::preload::origin::Traced {
            processes,
            clock: clock(),
        };
        let mut assembler = Assembler::new(origin, self.limits.clone(), Nested::new(sink));
        for (ring, (_, reader)) in self.rings.iter_mut().enumerate() {
            assembler.add_ring(reader.ring().pid, reader.ring().tid);
            let mut batch = Batch {
                ring,
                ..Batch::default()
            };
            reader.drain(&mut batch).expect("a sound ring");
            assembler.push(batch);
        }
        assembler.advance(u64::MAX);
        let (sink, totals, ..) = assembler.into_parts();
        (sink.into_inner().records, totals)
    }
}

fn words(words: &[u64]) -> Vec<u8> {
    words.iter().flat_map(|word| word.to_le_bytes()).collect()
}

fn text(text: &str) -> Vec<u8> {
    let mut bytes = text.as_bytes().to_vec();
    bytes.resize(cuda::capture::TEXT_BYTES.into(), 0);
    bytes
}

fn value(one: &Value) -> String {
    match one {
        Value::Pointer(address) => format!("{address:#x}"),
        Value::Uint(number) => number.to_string(),
        Value::Int(number) => number.to_string(),
        Value::Str(text) => text.to_string(),
        Value::Bool(flag) => flag.to_string(),
        Value::List(list) => {
            let shown: Vec<_> = list.iter().map(value).collect();
            format!("[{}]", shown.join(", "))
        }
        Value::Map(fields) => format!("{{{}}}", args(fields)),
        other => format!("{other:?}"),
    }
}

fn args(args: &[Arg]) -> String {
    let shown: Vec<_> = args
        .iter()
        .map(|arg| format!("{}={}", arg.name, value(&arg.value)))
        .collect();
    shown.join(" ")
}

/// A line a record, made to be compared.
pub fn lines(records: &[Record]) -> Vec<String> {
    records.iter().map(line).collect()
}

fn line(record: &Record) -> String {
    match record {
        Record::Event(event) => {
            let (phase, details) = match event.extent {
                Extent::Closed(duration) => (format!("E+{duration}"), &event.outputs),
                _ => ("B".into(), &event.args),
            };
            let status = event.status.as_ref().map(|status| match &status.name {
                Some(name) => format!(" {name}"),
                None => format!(" {}", status.code),
            });
            let indent = "  ".repeat(event.depth as usize);
            let details = args(details);
            format!(
                "{indent}{phase} {}({details}){}",
                event.name,
                status.unwrap_or_default()
            )
        }
        Record::Meaning(meaning) => match &meaning.what {
            What::Memory(memory) => format!(
                "memory {} {:?} {:#x} {:?}",
                memory.op.as_str(),
                memory.size,
                memory.ptr,
                memory.space.map(|space| space.as_str())
            ),
            What::Transfer(copy) => format!("transfer {} {}", copy.direction.as_str(), copy.size),
            What::Launch(launch) => format!(
                "launch {} {:?} {:?} {} on {:?}",
                launch.kernel, launch.grid, launch.block, launch.shared, meaning.stream
            ),
        },
        Record::Lost(lost) => format!("lost {}", lost.count),
    }
}

#[test]
fn allocations_are_told_once_and_frees_know_their_size() {
    let mut traced = Traced::new();
    let thread = traced.thread(7, 7);
    // The runtime's call, and the driver's inside of it.
    let outer = traced.begin(
        thread,
        "cudaMalloc",
        100,
        [0x7ffc, 4096, 0, 0],
        &words(&[0x7f00]),
    );
    traced.call(
        thread,
        "cuMemAlloc_v2",
        110..120,
        [0x7ffd, 4096, 0, 0],
        &words(&[0x7f00]),
        0,
    );
    traced.ring(thread).end(outer, 150, 0);
    traced.call(
        thread,
        "cudaMalloc",
        160..170,
        [0x7ffc, 1 << 50, 0, 0],
        &words(&[0]),
        2,
    );
    traced.call(thread, "cudaFree", 200..210, [0x7f00, 0, 0, 0], &[], 0);
    traced.call(thread, "cudaFree", 220..230, [0, 0, 0, 0], &[], 0);
    let (records, totals) = traced.finish();
    assert_eq!(
        lines(&records),
        [
            "B cudaMalloc(size=4096)",
            "  B cuMemAlloc_v2(bytesize=4096)",
            "  E+10 cuMemAlloc_v2(dptr=0x7f00) CUDA_SUCCESS",
            "E+50 cudaMalloc(devPtr=0x7f00) cudaSuccess",
            "memory alloc Some(4096) 0x7f00 Some(\"device\")",
            "B cudaMalloc(size=1125899906842624)",
            "E+10 cudaMalloc() cudaErrorMemoryAllocation",
            "B cudaFree(devPtr=0x7f00)",
            "E+10 cudaFree() cudaSuccess",
            "memory free Some(4096) 0x7f00 Some(\"device\")",
            "B cudaFree(devPtr=0x0)",
            "E+10 cudaFree() cudaSuccess",
        ]
    );
    assert_eq!((totals.calls, totals.late, totals.lost), (5, 0, 0));
    let Record::Event(inner) = &records[1] else {
        panic!("an event");
    };
    assert_eq!(
        (inner.depth, inner.parent, inner.pid, inner.tid),
        (1, Some(1), 7, 7)
    );
}

#[test]
fn launches_have_their_kernels_names() {
    let mut traced = Traced::new();
    let thread = traced.thread(7, 7);
    let mut registered = words(&[0, 0, 0, 0, 0, 0]);
    registered.extend(text("_Z9vectorAddPKfS0_Pfi"));
    traced.call(
        thread,
        "__cudaRegisterFunction",
        5..6,
        [1, 0x4000, 0x4000, 0x9000],
        &registered,
        0,
    );
    let args = [0x4000, (1 << 32) | 64, 1, (1 << 32) | 256];
    traced.call(
        thread,
        "cudaLaunchKernel",
        10..20,
        args,
        &words(&[1, 0x55, 128, 0x77]),
        0,
    );

    let mut found = words(&[0xf1]);
    found.extend(text("plain"));
    traced.call(
        thread,
        "cuModuleGetFunction",
        30..31,
        [0x7ffc, 0xa, 0x9000, 0],
        &found,
        0,
    );
    let rest = words(&[32, 2, 1, 0, 0, 0xb, 0]);
    traced.call(thread, "cuLaunchKernel", 40..50, [0xf1, 8, 4, 2], &rest, 0);
    traced.call(thread, "cuLaunchKernel", 60..70, [0xf2, 8, 4, 2], &rest, 0);
    traced.call(thread, "cuLaunchKernel", 80..90, [0xf1, 8, 4, 2], &rest, 1);
    let (records, _) = traced.finish();
    let launches: Vec<_> = lines(&records)
        .into_iter()
        .filter(|line| line.starts_with("launch"))
        .collect();
    assert_eq!(
        launches,
        [
            "launch vectorAdd(float const*, float const*, float*, int) [64, 1, 1] [256, 1, 1] 128 on Some(119)",
            "launch plain [8, 4, 2] [32, 2, 1] 0 on Some(0)",
            "launch 0xf2 [8, 4, 2] [32, 2, 1] 0 on Some(0)",
        ]
    );
    assert!(lines(&records).contains(&"B cuModuleGetFunction(hmod=0xa name=plain)".to_owned()));
}

#[test]
fn copies_know_their_way_and_size() {
    let mut traced = Traced::new();
    let thread = traced.thread(7, 7);
    traced.call(
        thread,
        "cuMemAlloc_v2",
        1..2,
        [0x7ffc, 4096, 0, 0],
        &words(&[0x7f00]),
        0,
    );
    traced.call(
        thread,
        "cuMemcpyHtoDAsync_v2",
        10..11,
        [0x7f00, 0x10, 64, 0],
        &[],
        0,
    );
    traced.call(thread, "cudaMemcpy", 20..21, [0x10, 0x7f00, 32, 2], &[], 0);
    // The addresses decide: unified addressing.
    traced.call(thread, "cudaMemcpy", 30..31, [0x10, 0x7f10, 32, 4], &[], 0);
    traced.call(thread, "cuMemcpy", 40..41, [0x7f00, 0x7f80, 16, 0], &[], 0);
    let mut copy = vec![0; 128];
    copy[16] = 1;
    copy[72] = 3;
    copy[112] = 100;
    copy[120] = 10;
    traced.call(thread, "cuMemcpy2D_v2", 50..51, [0x7ffc, 0, 0, 0], &copy, 0);
    let (records, _) = traced.finish();
    let copies: Vec<_> = lines(&records)
        .into_iter()
        .filter(|line| line.starts_with("transfer"))
        .collect();
    assert_eq!(
        copies,
        [
            "transfer H2D 64",
            "transfer D2H 32",
            "transfer D2H 32",
            "transfer D2D 16",
            "transfer H2D 1000"
        ]
    );
}

#[test]
fn contexts_and_devices_are_followed() {
    let mut traced = Traced::new();
    let thread = traced.thread(7, 7);
    traced.call(
        thread,
        "cuCtxCreate_v2",
        1..2,
        [0x7ffc, 0, 1, 0],
        &words(&[0xc1]),
        0,
    );
    traced.call(thread, "cuCtxSynchronize", 3..4, [0; 4], &[], 0);
    traced.call(thread, "cuCtxPushCurrent_v2", 5..6, [0xc2, 0, 0, 0], &[], 0);
    traced.call(thread, "cuCtxSynchronize", 7..8, [0; 4], &[], 0);
    traced.call(
        thread,
        "cuCtxPopCurrent_v2",
        9..10,
        [0x7ffc, 0, 0, 0],
        &words(&[0xc2]),
        0,
    );
    traced.call(thread, "cuCtxDestroy_v2", 11..12, [0xc1, 0, 0, 0], &[], 0);
    traced.call(thread, "cuCtxSynchronize", 13..14, [0; 4], &[], 201);
    let (records, _) = traced.finish();
    let seen: Vec<_> = (records.iter())
        .filter_map(|record| match record {
            Record::Event(event) if &*event.name == "cuCtxSynchronize" => {
                (event.extent == Extent::Open).then_some((event.context, event.device))
            }
            _ => None,
        })
        .collect();
    assert_eq!(
        seen,
        [(Some(0xc1), Some(1)), (Some(0xc2), None), (None, None)]
    );
}

#[test]
fn calls_in_flight_stay_open_and_unwound_ones_say_so() {
    let mut traced = Traced::new();
    let thread = traced.thread(7, 7);
    let function = traced.id("cuCtxSynchronize");
    let same_depth = |function| RawCall {
        function,
        ..RawCall::default()
    };
    traced.ring(thread).begin(10, same_depth(function));
    traced.ring(thread).begin(30, same_depth(function));
    let (records, _) = traced.finish();
    assert_eq!(
        lines(&records),
        [
            "B cuCtxSynchronize()",
            "E+20 cuCtxSynchronize(unwound=true)",
            "B cuCtxSynchronize()"
        ]
    );
}

#[test]
fn short_calls_and_late_calls_are_left_out_and_still_understood() {
    let mut traced = Traced::new();
    traced.limits.min_duration = 10;
    traced.limits.deadline.set(1_000);
    let thread = traced.thread(7, 7);
    let mut found = words(&[0xf1]);
    found.extend(text("plain"));
    traced.call(
        thread,
        "cuModuleGetFunction",
        30..31,
        [0x7ffc, 0xa, 0x9000, 0],
        &found,
        0,
    );
    let rest = words(&[32, 2, 1, 0, 0, 0xb, 0]);
    traced.call(thread, "cuLaunchKernel", 40..50, [0xf1, 8, 4, 2], &rest, 0);
    traced.call(thread, "cuLaunchKernel", 60..69, [0xf1, 8, 4, 2], &rest, 0);
    traced.call(
        thread,
        "cuLaunchKernel",
        1001..1100,
        [0xf1, 8, 4, 2],
        &rest,
        0,
    );
    let (records, totals) = traced.finish();
    let seen = lines(&records);
    assert_eq!((seen.len(), totals.calls), (3, 1), "{seen:?}");
    assert!(seen[2].starts_with("launch plain"), "{seen:?}");
}

#[test]
fn calls_that_are_made_for_cupti_are_counted() {
    let mut traced = Traced::new();
    let thread = traced.thread(7, 7);
    let table = |traced: &mut Traced, at: u64| {
        traced.call(thread, "cuGetExportTable", at..at + 1, [1, 2, 0, 0], &[], 0);
    };
    let name = |traced: &mut Traced, at: u64| {
        let asked = [0x7ffc, 0xf1, 0, 0];
        traced.call(thread, "cuKernelGetName", at..at + 1, asked, &[], 0);
    };
    let rest = words(&[32, 2, 1, 0, 0, 0xb, 0]);
    let launch = |traced: &mut Traced, at: u64, kernel: u64| {
        let args = [kernel, 8, 4, 2];
        traced.call(thread, "cuLaunchKernel", at..at + 1, args, &rest, 0);
    };
    let outer = traced.begin(thread, "cuInit", 10, [0; 4], &[]);
    table(&mut traced, 11);
    table(&mut traced, 13);
    traced.ring(thread).end(outer, 20, 0);
    // The program's own.
    table(&mut traced, 30);
    name(&mut traced, 40);
    launch(&mut traced, 50, 0xf1);
    // Of another kernel, and of one that is not launched.
    name(&mut traced, 60);
    launch(&mut traced, 70, 0xf2);
    name(&mut traced, 80);
    traced.call(thread, "cuCtxSynchronize", 90..91, [0; 4], &[], 0);
    launch(&mut traced, 100, 0xf1);
    let (_, totals) = traced.finish();
    assert_eq!(totals.calls, 11);
    assert_eq!(
        totals.for_cupti.note().as_deref(),
        Some(
            "2 cuGetExportTable and 1 cuKernelGetName calls were made by CUPTI, not by your program (--method \
             preload turns CUPTI off)"
        )
    );
    assert_eq!(Traced::new().finish().1.for_cupti.note(), None);
}

#[test]
fn threads_and_processes_are_in_one_order() {
    let mut traced = Traced::new();
    let threads = [
        traced.thread(7, 7),
        traced.thread(7, 8),
        traced.thread(9, 9),
    ];
    for round in 0..20u64 {
        for (place, thread) in threads.into_iter().enumerate() {
            let start = 100 * round + 7 * place as u64;
            traced.call(
                thread,
                "cuCtxSynchronize",
                start..start + 50,
                [0; 4],
                &[],
                0,
            );
        }
    }
    let (records, totals) = traced.finish();
    assert_eq!((records.len(), totals.calls, totals.late), (120, 60, 0));
    assert!(records.is_sorted_by_key(Record::ts));
}

#[test]
fn a_sink_that_is_full_ends_the_trace_and_nothing_else() {
    let mut traced = Traced::new();
    // Two calls.
    traced.room = Some(4);
    let thread = traced.thread(7, 7);
    for start in 0..10 {
        traced.call(
            thread,
            "cuCtxSynchronize",
            10 * start..10 * start + 5,
            [0; 4],
            &[],
            0,
        );
    }
    let (records, totals) = traced.finish();
    assert_eq!((records.len(), totals.unwritten), (4, 16));
    assert_eq!(
        totals.failure.expect("it failed").to_string(),
        "no space left"
    );
}

#[test]
fn records_of_no_known_function_or_process_are_kept() {
    let mut traced = Traced::new();
    let thread = traced.thread(7, 7);
    traced.ring(thread).call(1..2, 999, [1, 2, 3, 4]);
    traced.call(thread, "ncclAllReduce", 3..4, [1, 2, 3, 4], &[], 5);
    let (records, _) = traced.finish();
    assert_eq!(
        lines(&records),
        [
            "B function 999()",
            "E+1 function 999() 0",
            "B ncclAllReduce()",
            "E+1 ncclAllReduce() 5"
        ]
    );
}

#[test]
fn calls_that_were_not_asked_for_only_lend_their_names() {
    let mut traced = Traced::new();
    traced.limits.filter = Some(Filter::parse("kernel"));
    let thread = traced.thread(7, 7);
    let mut found = words(&[0xf1]);
    found.extend(text("plain"));
    let outer = traced.begin(
        thread,
        "cuModuleGetFunction",
        30,
        [0x7ffc, 0xa, 0x9000, 0],
        &found,
    );
    let rest = words(&[32, 2, 1, 0, 0, 0xb, 0]);
    // A launch inside of what is not shown is not inside of anything that is.
    traced.call(thread, "cuLaunchKernel", 40..50, [0xf2, 8, 4, 2], &rest, 0);
    traced.ring(thread).end(outer, 60, 0);
    traced.call(thread, "cuLaunchKernel", 70..80, [0xf1, 8, 4, 2], &rest, 0);
    let (records, totals) = traced.finish();
    let seen = lines(&records);
    assert_eq!((seen.len(), totals.calls), (6, 2), "{seen:?}");
    assert!(seen[0].starts_with("B cuLaunchKernel("), "{seen:?}");
    assert!(seen[5].starts_with("launch plain"), "{seen:?}");
}
