//! A run as a trace would tell it, made by hand: an inference program that loads weights, then
//! makes token after token, with a bottleneck, an idle gap, a leak and a failed call in it.

use event::{
    Arg, Category, Direction, Event, Extent, Frame, Gpu, Hooks, Ioctl, Kind, Launch, Layer, Lost,
    Meaning, Memory, MemoryOp, MemorySpace, Meta, Record, Status, Summary, Transfer, Value, What,
};

pub const START: u64 = 7_000_000_000_000;
const US: u64 = 1_000;
const MS: u64 = 1_000_000;

/// Calls of one process, told in any order and given out by time.
pub struct Story {
    /// (when, order at one moment, record)
    records: Vec<(u64, u64, Record)>,
    next: u64,
    pub now: u64,
    pub pid: u32,
    pub tid: u32,
    pub stack: Vec<&'static str>,
    /// When each stream is free.
    streams: [u64; 8],
}

impl Story {
    pub fn new() -> Self {
        Story {
            records: Vec::new(),
            next: 1,
            now: START + 200 * US,
            pid: 4242,
            tid: 4242,
            stack: Vec::new(),
            streams: [0; 8],
        }
    }

    fn push(&mut self, at: u64, record: Record) {
        let order = self.records.len() as u64;
        self.records.push((at, order, record));
    }

    pub fn event(&mut self, layer: Layer, category: Category, name: &str) -> Event {
        let mut event = Event::new(self.next, layer, category, name, self.now);
        self.next += 1;
        (event.pid, event.tid) = (self.pid, self.tid);
        let frame = |symbol: &&str| Frame {
            address: symbol.bytes().map(u64::from).sum(),
            symbol: Some((*symbol).into()),
            ..Frame::default()
        };
        event.stack = self.stack.iter().rev().map(frame).collect();
        event
    }

    /// Both records of a span.
    pub fn span(&mut self, event: &Event, time: u64) -> Event {
        let mut event = event.clone();
        event.extent = Extent::Open;
        self.push(event.start, event.clone().into());
        event.extent = Extent::Closed(time);
        self.push(event.start + time, event.clone().into());
        event
    }

    /// What the program calls a part of its work, from now on.
    pub fn range(&mut self, name: &str) -> Event {
        let mut range = self.event(Layer::Library, Category::Other, name);
        range.kind = Kind::Range;
        range.extent = Extent::Open;
        self.push(self.now, range.clone().into());
        range
    }

    pub fn end_range(&mut self, mut range: Event) {
        range.extent = Extent::Closed(self.now - range.start);
        self.push(self.now, range.into());
    }

    /// A call of the runtime with the driver's call, and perhaps ioctls, inside.
    pub fn call(&mut self, name: &str, category: Category, time: u64, ioctls: u64) -> Event {
        self.returning(name, category, time, ioctls, 0)
    }

    pub fn returning(
        &mut self,
        name: &str,
        category: Category,
        time: u64,
        ioctls: u64,
        code: i64,
    ) -> Event {
        let (driver, start) = (format!("cu{}", &name[4..]), self.now);
        let status = Status { code, name: None };
        let mut outer = self.event(Layer::Runtime, category, name);
        outer.correlation = Some(outer.id);
        outer.status = Some(status.clone());
        let outer = self.span(&outer, time);
        self.now = start + time / 20;
        let mut inner = self.event(Layer::Driver, category, &driver);
        inner.status = Some(status);
        let inside = time - time / 10;
        self.span(&inner, inside);
        for i in 0..ioctls {
            self.now = start + time / 15 + i * inside / ioctls.max(1);
            let mut ioctl = self.event(Layer::Syscall, Category::Other, "ioctl");
            ioctl.kind = Kind::Ioctl;
            ioctl.args = vec![Arg::new("fd", 5u64)];
            ioctl.ioctl = Some(Box::new(request(i)));
            ioctl.status = Some(Status {
                code: 0,
                name: None,
            });
            self.span(&ioctl, inside / ioctls.max(1) * 2 / 3);
        }
        self.now = start + time;
        outer
    }

    pub fn means(&mut self, call: &Event, what: What) {
        self.push(self.now, Meaning::of(call, what).into());
    }

    pub fn memory(&mut self, op: MemoryOp, size: u64, ptr: u64, time: u64) {
        let name = match op {
            MemoryOp::Alloc => "cudaMalloc",
            MemoryOp::Free => "cudaFree",
        };
        let call = self.call(name, Category::Memory, time, 3);
        let memory = Memory {
            op,
            size: Some(size),
            ptr,
            space: Some(MemorySpace::Device),
        };
        self.means(&call, What::Memory(memory));
    }

    /// GPU work of a call, behind what its stream has to do already; its end.
    pub fn work(
        &mut self,
        call: &Event,
        name: &str,
        category: Category,
        stream: usize,
        time: u64,
    ) -> u64 {
        let start = (self.now + 4 * US).max(self.streams[stream]);
        let mut work = Event::new(self.next, Layer::Gpu, category, name, start);
        self.next += 1;
        work.pid = self.pid;
        work.device = Some(0);
        work.context = Some(1);
        work.stream = Some(stream as u64);
        work.correlation = call.correlation;
        let three = |x: u64| Value::from(vec![x, 1, 1]);
        work.args = match category {
            Category::Kernel => vec![
                Arg::new("grid", three(128)),
                Arg::new("block", three(256)),
                Arg::new("registers", if name.contains("gemm") { 128u64 } else { 24 }),
                Arg::new("static_shared", 8u64 << 10),
            ],
            _ => vec![
                Arg::new("bytes", (time - US) * 20),
                Arg::new("from", "pageable"),
                Arg::new("to", "device"),
            ],
        };
        self.span(&work, time);
        self.streams[stream] = start + time + 800;
        start + time
    }

    pub fn launch(&mut self, kernel: &str, stream: usize, time: u64) -> u64 {
        let call = self.call("cudaLaunchKernel", Category::Kernel, 5_200, 0);
        let launch = Launch {
            kernel: kernel.into(),
            grid: [128, 1, 1],
            block: [256, 1, 1],
            shared: 0,
        };
        self.means(&call, What::Launch(launch));
        self.work(&call, kernel, Category::Kernel, stream, time)
    }

    pub fn copy(&mut self, direction: Direction, size: u64, stream: usize) -> u64 {
        let time = 6 * US + size / 12;
        let call = self.call("cudaMemcpyAsync", Category::Transfer, time, 0);
        let transfer = Transfer {
            direction,
            size,
            duration: Some(time),
            src: Some(0x7f00_0000_1000),
            dst: Some(0x7000_0000),
        };
        self.means(&call, What::Transfer(transfer));
        self.work(&call, "memcpy", Category::Transfer, stream, size / 20 + US)
    }

    /// The runtime asks what the GPU can do.
    pub fn attributes(&mut self) {
        for (attribute, value) in [
            ("COMPUTE_CAPABILITY_MAJOR", 9u64),
            ("COMPUTE_CAPABILITY_MINOR", 0),
            ("MULTIPROCESSOR_COUNT", 132),
            ("MAX_THREADS_PER_MULTIPROCESSOR", 2_048),
            ("MAX_BLOCKS_PER_MULTIPROCESSOR", 32),
            ("MAX_REGISTERS_PER_MULTIPROCESSOR", 65_536),
            ("MAX_SHARED_MEMORY_PER_MULTIPROCESSOR", 233_472),
            ("RESERVED_SHARED_MEMORY_PER_BLOCK", 1_024),
        ] {
            let mut call = self.event(Layer::Driver, Category::Query, "cuDeviceGetAttribute");
            call.args = vec![
                Arg::new("attrib", format!("CU_DEVICE_ATTRIBUTE_{attribute}")),
                Arg::new("dev", 0u64),
            ];
            call.outputs = vec![Arg::new("pi", value)];
            call.status = Some(Status {
                code: 0,
                name: Some("CUDA_SUCCESS".into()),
            });
            self.span(&call, 400);
            self.now += 500;
        }
    }

    pub fn wait_until(&mut self, end: u64) {
        let time = end.saturating_sub(self.now).max(2 * US) + 3 * US;
        self.call("cudaStreamSynchronize", Category::Sync, time, 0);
    }

    pub fn lose(&mut self, count: u64) {
        let lost = Lost {
            ts: self.now,
            count,
            source: Some("preload".into()),
            layer: None,
            pid: Some(self.pid),
            tid: None,
        };
        self.push(self.now, lost.into());
    }

    /// The records in the order a reader gives them.
    pub fn finish(mut self) -> Vec<Record> {
        self.records.sort_by_key(|&(at, order, _)| (at, order));
        self.records
            .into_iter()
            .map(|(_, _, record)| record)
            .collect()
    }
}

/// What an ioctl asks of the driver: a channel, then a timeslice for it.
fn request(number: u64) -> Ioctl {
    let subject = match number % 2 {
        0 => [
            Arg::new("name", "NV_ESC_RM_ALLOC"),
            Arg::new("class", "HOPPER_CHANNEL_GPFIFO_A"),
        ],
        _ => [
            Arg::new("name", "NV_ESC_RM_CONTROL"),
            Arg::new("control", "NVA06C_CTRL_CMD_SET_TIMESLICE"),
        ],
    };
    let params = Value::Map(vec![Arg::new("engineType", 1u64)]);
    let args = vec![
        Arg::new("hRoot", Value::Pointer(0xc1d0_0001)),
        Arg::new("params", params),
    ];
    let mut decoded = subject.to_vec();
    decoded.extend([
        Arg::new("args", Value::Map(args)),
        Arg::new(
            "results",
            Value::Map(vec![Arg::new("hObjectNew", Value::Pointer(0x5c00_001c))]),
        ),
        Arg::new("status", "NV_OK"),
    ]);
    Ioctl {
        cmd: 0xc030_462b,
        decoded,
    }
}

pub fn meta() -> Meta {
    Meta {
        cutrace: "0.1.0".into(),
        command: [
            "./tokens",
            "--model",
            "weights.bin",
            "--prompt",
            "a <b> & c",
        ]
        .map(String::from)
        .to_vec(),
        pid: Some(4242),
        start_ns: START,
        start_unix_ns: Some(1_790_000_000_000_000_000),
        driver: Some("580.159.04".into()),
        cuda: Some("13.0".into()),
        gpus: vec![Gpu {
            index: 0,
            name: "softgpu".into(),
            memory: Some(8 << 30),
            simulated: true,
            ..Gpu::default()
        }],
        hooks: Hooks {
            attached: 673,
            total: 674,
        },
        ..Meta::default()
    }
}

pub fn summary(records: &[Record]) -> Summary {
    let mut tally = event::Tally::default();
    records.iter().for_each(|record| tally.add(record));
    Summary {
        exit: Some(0),
        ..tally.summary(0)
    }
}

/// The whole run.
pub fn inference(tokens: u64) -> Vec<Record> {
    let mut story = Story::new();
    story.stack = vec!["main", "load_model"];
    story.attributes();
    story.call("cudaSetDevice", Category::Init, 34 * MS, 6);
    story.call("cudaModuleLoadData", Category::Module, 11 * MS, 2);
    for layer in 0..12u64 {
        story.memory(
            MemoryOp::Alloc,
            48 << 20,
            0x7000_0000 + layer * (48 << 20),
            140 * US,
        );
        story.copy(Direction::HostToDevice, 9 << 20, 0);
    }
    story.stack = vec!["main", "generate", "forward"];
    for token in 0..tokens {
        story.copy(Direction::HostToDevice, 16 << 10, 1);
        let range = story.range("attention");
        for layer in 0..6 {
            story.launch(
                "void gemm<float, 128, 64>(float const*, float const*, float*)",
                1,
                95 * US,
            );
            story.launch("softmax(float*, int)", 1, 22 * US);
            if layer % 3 == 0 {
                story.launch("rotary(float*, int, int)", 2, 31 * US);
            }
        }
        story.end_range(range);
        // Planted: an allocation in the loop, never freed, and a wait after every token.
        story.stack = vec!["main", "generate", "grow_cache"];
        story.memory(
            MemoryOp::Alloc,
            1 << 20,
            0x9000_0000 + token * (1 << 20),
            90 * US,
        );
        story.stack = vec!["main", "generate", "forward"];
        let end = story.copy(Direction::DeviceToHost, 128 << 10, 1);
        story.wait_until(end);
        story.now += if token == tokens / 2 {
            18 * MS
        } else {
            120 * US
        };
    }
    worker(&mut story, tokens);
    story.lose(17);
    story.stack = vec!["main", "unload"];
    story.returning("cudaFreeHost", Category::Memory, 4 * US, 0, 1);
    for layer in 0..12u64 {
        story.memory(
            MemoryOp::Free,
            48 << 20,
            0x7000_0000 + layer * (48 << 20),
            60 * US,
        );
    }
    samples(&mut story);
    story.finish()
}

/// What the GPU was sampled at, every 10 ms from the start to now: more and more to do, up to 90 %.
fn samples(story: &mut Story) {
    let end = story.now;
    for step in 0..(end - START) / (10 * MS) {
        story.now = START + step * 10 * MS;
        let mut sample = story.event(Layer::Gpu, Category::Other, "nvml");
        (sample.kind, sample.device, sample.tid) = (Kind::Counter, Some(0), 0);
        sample.stack.clear();
        let load = (step * 10).min(90);
        sample.args = vec![
            Arg::new("gpu_percent", load),
            Arg::new("memory_percent", load / 3),
            Arg::new("memory_used_bytes", (step + 1) * (64 << 20)),
            Arg::new("power_mw", 75_000 + load * 5_000),
            Arg::new("sm_clock_mhz", if load > 0 { 1_980 } else { 345 }),
            Arg::new("memory_clock_mhz", 2_619),
        ];
        story.push(story.now, sample.into());
    }
    story.now = end;
}

/// A second thread that asks and asks whether it is done.
fn worker(story: &mut Story, tokens: u64) {
    let (now, tid) = (story.now, story.tid);
    story.tid = 4250;
    story.stack = vec!["start_thread", "watch"];
    story.now = START + 60 * MS;
    for _ in 0..tokens * 8 {
        story.call("cudaEventQuery", Category::Query, 1_900, 0);
        story.now += 190 * US;
    }
    (story.now, story.tid) = (now, tid);
}
