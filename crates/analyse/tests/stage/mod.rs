//! Traces made by hand: a clock, and calls that move it on.
#![allow(dead_code)] // Not every test file needs every part.

use event::{
    Category, Direction, Event, Extent, Frame, Kind, Launch, Layer, Lost, Meaning, Memory,
    MemoryOp, MemorySpace, Record, Status, Transfer, What,
};

/// Microseconds and milliseconds of trace time.
pub const US: u64 = 1_000;
pub const MS: u64 = 1_000_000;

/// One thread of one process; change the fields to play another.
pub struct Stage {
    pub records: Vec<Record>,
    /// Nanoseconds since the trace began.
    pub now: u64,
    pub pid: u32,
    pub tid: u32,
    pub device: Option<u32>,
    pub context: Option<u64>,
    pub stream: Option<u64>,
    /// Addresses of the stack that calls come from.
    pub stack: Vec<u64>,
    next: u64,
}

impl Stage {
    pub fn new() -> Self {
        Stage {
            records: Vec::new(),
            now: 0,
            pid: 1,
            tid: 1,
            device: Some(0),
            context: Some(0xc0),
            stream: None,
            stack: Vec::new(),
            next: 1,
        }
    }

    pub fn wait(&mut self, time: u64) -> &mut Self {
        self.now += time;
        self
    }

    fn event(&mut self, name: &str, category: Category) -> Event {
        let mut event = Event::new(self.next, cuda::layer(name), category, name, self.now);
        self.next += 1;
        event.pid = self.pid;
        event.tid = self.tid;
        event.device = self.device;
        event.context = self.context;
        event.stream = self.stream;
        event.stack = (self.stack.iter())
            .map(|&address| Frame {
                address,
                ..Frame::default()
            })
            .collect();
        event
    }

    /// A call that took `time` and returned `code`; its end.
    pub fn returned(&mut self, name: &str, time: u64, code: i64) -> Event {
        let mut call = self.event(name, cuda::category(name));
        call.extent = Extent::Open;
        self.records.push(call.clone().into());
        self.now += time;
        call.extent = Extent::Closed(time);
        call.status = Some(Status {
            code,
            name: cuda::result_name(call.layer, code).map(Into::into),
        });
        self.records.push(call.clone().into());
        call
    }

    pub fn call(&mut self, name: &str, time: u64) -> Event {
        self.returned(name, time, 0)
    }

    /// A call with one inside it, as the runtime's are; both took about `time`.
    pub fn nested(&mut self, outer: &str, inner: &str, time: u64, code: i64) -> u64 {
        let mut call = self.event(outer, cuda::category(outer));
        call.extent = Extent::Open;
        self.records.push(call.clone().into());
        let start = self.now;
        self.now += 1;
        let parent = call.id;
        let mark = self.records.len();
        self.returned(inner, time.saturating_sub(2), code);
        for record in &mut self.records[mark..] {
            if let Record::Event(event) = record {
                event.parent = Some(parent);
                event.depth = 1;
            }
        }
        self.now = start + time;
        call.extent = Extent::Closed(time);
        call.status = Some(Status {
            code,
            name: cuda::result_name(call.layer, code).map(Into::into),
        });
        self.records.push(call.into());
        parent
    }

    pub fn means(&mut self, call: &Event, what: What) -> u64 {
        self.records.push(Meaning::of(call, what).into());
        call.id
    }

    pub fn alloc(&mut self, ptr: u64, size: u64) -> u64 {
        self.alloc_in("cuMemAlloc_v2", MemorySpace::Device, ptr, size)
    }

    pub fn alloc_in(&mut self, name: &str, space: MemorySpace, ptr: u64, size: u64) -> u64 {
        let call = self.call(name, 10 * US);
        let memory = Memory {
            op: MemoryOp::Alloc,
            size: Some(size),
            ptr,
            space: Some(space),
        };
        self.means(&call, What::Memory(memory))
    }

    pub fn free(&mut self, ptr: u64) -> u64 {
        self.free_by("cuMemFree_v2", ptr)
    }

    pub fn free_by(&mut self, name: &str, ptr: u64) -> u64 {
        let call = self.call(name, 5 * US);
        let memory = Memory {
            op: MemoryOp::Free,
            size: None,
            ptr,
            space: None,
        };
        self.means(&call, What::Memory(memory))
    }

    /// A copy whose call took `time`, between these addresses.
    pub fn copy(
        &mut self,
        name: &str,
        way: Direction,
        size: u64,
        time: u64,
        ends: [u64; 2],
    ) -> u64 {
        let call = self.call(name, time);
        let transfer = Transfer {
            direction: way,
            size,
            duration: Some(time),
            src: Some(ends[0]),
            dst: Some(ends[1]),
        };
        self.means(&call, What::Transfer(transfer))
    }

    pub fn launch(&mut self, kernel: &str, time: u64) -> u64 {
        let call = self.call("cuLaunchKernel", time);
        let launch = Launch {
            kernel: kernel.into(),
            grid: [64, 1, 1],
            block: [256, 1, 1],
            shared: 0,
        };
        self.means(&call, What::Launch(launch))
    }

    /// Work on the GPU, over already or to come: it moves no clock of the host.
    pub fn gpu(&mut self, name: &str, category: Category, start: u64, time: u64) -> u64 {
        let mut event = self.event(name, category);
        event.layer = Layer::Gpu;
        event.kind = Kind::Gpu;
        event.start = start;
        event.tid = 0;
        event.stack.clear();
        event.extent = Extent::Closed(time);
        let id = event.id;
        self.records.push(event.into());
        id
    }

    /// A kernel that a launch caused.
    pub fn caused(&mut self, launch: u64, name: &str, start: u64, time: u64) -> u64 {
        let op = self.gpu(name, Category::Kernel, start, time);
        for record in self.records.iter_mut().rev().take(4) {
            if let Record::Event(event) = record
                && [launch, op].contains(&event.id)
            {
                event.correlation = Some(launch);
            }
        }
        op
    }

    pub fn lose(&mut self, count: u64) -> &mut Self {
        let lost = Lost {
            ts: self.now,
            count,
            source: None,
            layer: None,
            pid: Some(self.pid),
            tid: None,
        };
        self.records.push(lost.into());
        self
    }
}
