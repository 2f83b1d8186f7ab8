//! Small traces, built by hand, as a reader would give them.
#![allow(dead_code)] // Each test uses some of them.

use event::{
    Arg, Category, Direction, Event, Extent, Gpu, Ioctl, Kind, Launch, Layer, Lost, Meaning,
    Memory, MemoryOp, MemorySpace, Meta, Record, Status, Transfer, Value, What,
};

pub const START: u64 = 5_000_000_000_000;
const PID: u32 = 4_242;

/// A trace that is being made; `records` puts it in order.
pub struct Builder {
    records: Vec<(u64, Record)>,
    next_id: u64,
}

impl Builder {
    pub fn new() -> Self {
        Builder {
            records: Vec::new(),
            next_id: 1,
        }
    }

    /// A call of a thread, at a time since the start; None for one that never ends.
    pub fn call(
        &mut self,
        (pid, tid): (u32, u32),
        name: &str,
        category: Category,
        at: u64,
        length: Option<u64>,
    ) -> Event {
        let layer = match name {
            "ioctl" => Layer::Syscall,
            name if name.starts_with("cuda") => Layer::Runtime,
            _ => Layer::Driver,
        };
        let mut event = Event::new(self.next_id, layer, category, name, START + at);
        (event.pid, event.tid) = (pid, tid);
        self.add(event, length)
    }

    pub fn add(&mut self, mut event: Event, length: Option<u64>) -> Event {
        event.id = self.next_id;
        self.next_id += 1;
        event.extent = Extent::Open;
        let begin = Event {
            status: None,
            outputs: Vec::new(),
            ..event.clone()
        };
        self.records.push((event.start, begin.into()));
        if let Some(length) = length {
            event.extent = Extent::Closed(length);
            self.records
                .push((event.start + length, event.clone().into()));
        }
        event
    }

    pub fn gpu(&mut self, name: &str, category: Category, stream: u64, at: u64, length: u64) {
        let mut event = Event::new(0, Layer::Gpu, category, name, START + at);
        (event.pid, event.stream, event.device) = (PID, Some(stream), Some(0));
        self.add(event, Some(length));
    }

    pub fn mean(&mut self, call: &Event, what: What) {
        let meaning = Meaning::of(call, what);
        self.records.push((meaning.ts, meaning.into()));
    }

    pub fn instant(&mut self, (pid, tid): (u32, u32), name: &str, at: u64) {
        let mut event = Event::new(self.next_id, Layer::Os, Category::Other, name, START + at);
        self.next_id += 1;
        (event.pid, event.tid, event.kind) = (pid, tid, Kind::Interrupt);
        self.records.push((event.start, event.into()));
    }

    pub fn lost(&mut self, at: u64, count: u64) {
        let lost = Lost {
            ts: START + at,
            count,
            source: Some("preload".into()),
            layer: Some(Layer::Driver),
            pid: Some(PID),
            tid: None,
        };
        self.records.push((lost.ts, lost.into()));
    }

    /// In time order; what is of one time stays as it was added.
    pub fn records(mut self) -> Vec<Record> {
        self.records.sort_by_key(|(time, _)| *time);
        self.records.into_iter().map(|(_, record)| record).collect()
    }
}

pub fn meta() -> Meta {
    let mut meta = Meta {
        start_ns: START,
        command: vec!["./inference".into()],
        pid: Some(PID),
        ..Meta::default()
    };
    meta.gpus.push(Gpu {
        name: "softgpu".into(),
        simulated: true,
        ..Gpu::default()
    });
    meta
}

fn ok(event: &mut Event) {
    event.status = Some(Status {
        code: 0,
        name: Some("CUDA_SUCCESS".into()),
    });
}

/// A program that starts, loads, computes in a loop on two threads, and dies in a wait.
pub fn inference() -> Vec<Record> {
    let mut trace = Builder::new();
    let (main, worker) = ((PID, PID), (PID, PID + 1));
    let pointer = |name: &str, address| Arg {
        name: name.into(),
        value: Value::Pointer(address),
    };

    let mut init = Event::new(0, Layer::Driver, Category::Init, "cuInit", START + 1_000);
    (init.pid, init.tid) = main;
    init.args = vec![Arg::new("Flags", 0u64)];
    ok(&mut init);
    trace.add(init, Some(180_000));
    trace.call(
        main,
        "cuCtxCreate_v4",
        Category::Context,
        190_000,
        Some(120_000),
    );

    let mut alloc = Event::new(
        0,
        Layer::Driver,
        Category::Memory,
        "cuMemAlloc_v2",
        START + 320_000,
    );
    (alloc.pid, alloc.tid) = main;
    alloc.args = vec![Arg::new("bytesize", 4_000_000u64)];
    alloc.outputs = vec![pointer("dptr", 0x7f32_0010_0000)];
    ok(&mut alloc);
    let alloc = trace.add(alloc, Some(90_000));
    let mut ioctl = Event::new(
        0,
        Layer::Syscall,
        Category::Memory,
        "ioctl",
        START + 330_000,
    );
    (ioctl.pid, ioctl.tid, ioctl.kind) = (PID, PID, Kind::Ioctl);
    (ioctl.depth, ioctl.parent) = (1, Some(alloc.id));
    ioctl.args = vec![Arg::new("fd", 5u64)];
    ioctl.status = Some(Status {
        code: 0,
        name: None,
    });
    ioctl.ioctl = Some(Box::new(Ioctl {
        cmd: 0xc030_462b,
        decoded: vec![
            Arg::new("name", "NV_ESC_RM_ALLOC"),
            Arg::new("size", 48u64),
            pointer("hClass", 0x3f),
        ],
    }));
    trace.add(ioctl, Some(61_000));
    trace.mean(
        &alloc,
        What::Memory(Memory {
            op: MemoryOp::Alloc,
            size: Some(4_000_000),
            ptr: 0x7f32_0010_0000,
            space: Some(MemorySpace::Device),
        }),
    );

    let copy = trace.call(
        main,
        "cuMemcpyHtoD_v2",
        Category::Transfer,
        420_000,
        Some(430_000),
    );
    trace.mean(
        &copy,
        What::Transfer(Transfer {
            direction: Direction::HostToDevice,
            size: 4_000_000,
            duration: Some(430_000),
            src: None,
            dst: Some(0x7f32_0010_0000),
        }),
    );
    trace.lost(860_000, 3);
    for turn in 0..8u64 {
        let at = 900_000 + turn * 130_000;
        let thread = if turn % 4 == 3 { worker } else { main };
        let outer = trace.call(
            thread,
            "cudaLaunchKernel",
            Category::Kernel,
            at,
            Some(9_000),
        );
        let mut inner = Event::new(
            0,
            Layer::Driver,
            Category::Kernel,
            "cuLaunchKernel",
            START + at + 1_000,
        );
        (inner.pid, inner.tid) = thread;
        (inner.depth, inner.parent, inner.correlation) = (1, Some(outer.id), Some(turn));
        ok(&mut inner);
        let inner = trace.add(inner, Some(7_000));
        trace.mean(
            &inner,
            What::Launch(Launch {
                kernel: "gemm(float const*, float*, int)".into(),
                grid: [64, 1, 1],
                block: [256, 1, 1],
                shared: 1_024,
            }),
        );
        trace.gpu(
            "gemm(float const*, float*, int)",
            Category::Kernel,
            7,
            at + 12_000,
            60_000,
        );
        trace.call(
            thread,
            "cuStreamSynchronize",
            Category::Sync,
            at + 10_000,
            Some(70_000),
        );
    }
    trace.instant(main, "nvidia_isr", 1_000_500);
    let mut failed = Event::new(
        0,
        Layer::Driver,
        Category::Memory,
        "cuMemFree_v2",
        START + 1_960_000,
    );
    (failed.pid, failed.tid) = main;
    failed.args = vec![pointer("dptr", 0xdead)];
    failed.status = Some(Status {
        code: 1,
        name: Some("CUDA_ERROR_INVALID_VALUE".into()),
    });
    trace.add(failed, Some(2_000));
    trace.call(main, "cuCtxSynchronize", Category::Sync, 1_970_000, None);
    trace.instant(worker, "sched_switch", 2_150_000);
    trace.records()
}
