//! A training loop as a tracer would see it: a thread that launches, one that runs the backward
//! pass, one that copies inputs; kernels on their streams; allocations with the system calls
//! inside them. In constant memory: what lies in the future waits in a heap.

use event::{
    Arg, Category, Direction, Event, Extent, Gpu, Ioctl, Kind, Launch, Layer, Meaning, Memory,
    MemoryOp, MemorySpace, Meta, Name, Record, Status, Transfer, Value, What,
};
use std::{cmp::Reverse, collections::BinaryHeap};

const START: u64 = 5_000_000_000_000;
const PID: u32 = 4_242;
const CONTEXT: u64 = 0x55d0_c0de_0000;
const STREAMS: [u64; 3] = [0x0, 0x55d0_c0de_1230, 0x55d0_c0de_1450];
const KERNELS: [&str; 6] = [
    "ampere_sgemm_128x64_tn",
    "void at::native::vectorized_elementwise_kernel<4, at::native::CUDAFunctor_add<float>>",
    "void at::native::reduce_kernel<512, 1, at::native::ReduceOp<float>>",
    "void cudnn::bn_fw_tr_1C11_singleread<float, 512>",
    "void at::native::softmax_warp_forward<float, float, float, 10>",
    "void multi_tensor_apply_kernel<AdamFunctor<float>>",
];
/// Launches of one pass, forward or backward.
const LAUNCHES: u64 = 60;

pub fn meta() -> Meta {
    let mut meta = Meta {
        cutrace: "generated".into(),
        command: vec!["python3".into(), "train.py".into()],
        pid: Some(PID),
        start_ns: START,
        start_unix_ns: Some(1_763_172_000_000_000_000),
        ..Meta::default()
    };
    meta.gpus.push(Gpu {
        name: "generated, no real GPU".into(),
        simulated: true,
        ..Gpu::default()
    });
    meta
}

/// A record that waits for its time; equal times keep their order.
struct Waiting(u64, u64, Record);

impl PartialEq for Waiting {
    fn eq(&self, other: &Self) -> bool {
        (self.0, self.1) == (other.0, other.1)
    }
}
impl Eq for Waiting {}
impl PartialOrd for Waiting {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}
impl Ord for Waiting {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        (self.0, self.1).cmp(&(other.0, other.1))
    }
}

pub struct Program {
    /// When each host thread is free again: launching, backward, copying.
    threads: [u64; 3],
    streams: [u64; 3],
    waiting: BinaryHeap<Reverse<Waiting>>,
    order: u64,
    next_id: u64,
    events: u64,
    random: u64,
    names: Names,
}

/// Names are shared, as tracers share them.
struct Names {
    success: Name,
    kernels: Vec<Name>,
}

impl Program {
    pub fn new() -> Self {
        Program {
            threads: [START + 1_000; 3],
            streams: [START; 3],
            waiting: BinaryHeap::new(),
            order: 0,
            next_id: 1,
            events: 0,
            random: 1,
            names: Names {
                success: "CUDA_SUCCESS".into(),
                kernels: KERNELS.map(Name::from).into(),
            },
        }
    }

    /// Run until about so many events have been handed to `sink`, in time order.
    pub fn run<E>(
        mut self,
        events: u64,
        sink: &mut impl FnMut(&Record) -> Result<(), E>,
    ) -> Result<(), E> {
        let mut step = 0;
        while self.events < events {
            self.step(step);
            step += 1;
            let now = { self.threads }.into_iter().min().unwrap_or(0);
            self.hand_out(now, sink)?;
        }
        self.hand_out(u64::MAX, sink)
    }

    /// Everything before `until` can no longer be overtaken.
    fn hand_out<E>(
        &mut self,
        until: u64,
        sink: &mut impl FnMut(&Record) -> Result<(), E>,
    ) -> Result<(), E> {
        while let Some(Reverse(first)) = self.waiting.peek()
            && first.0 < until
            && let Some(Reverse(Waiting(_, _, record))) = self.waiting.pop()
        {
            sink(&record)?;
        }
        Ok(())
    }

    /// One step of training.
    fn step(&mut self, step: u64) {
        self.copy(2, 1, 4 << 20);
        if step.is_multiple_of(50) {
            self.allocate(0, step);
        }
        for launch in 0..LAUNCHES {
            self.launch(0, 0, launch);
            if launch.is_multiple_of(3) {
                self.query(0);
            }
        }
        self.threads[1] = self.threads[1].max(self.threads[0]);
        for launch in 0..LAUNCHES {
            self.launch(1, if launch % 8 == 7 { 2 } else { 0 }, launch + 3);
        }
        self.threads[0] = self.threads[0].max(self.threads[1]);
        if step.is_multiple_of(10) {
            self.synchronise(0);
        }
        self.threads[2] = self.threads[2].max(self.threads[0]);
    }

    fn launch(&mut self, thread: usize, stream: usize, number: u64) {
        let kernel = self.names.kernels[(number * 7 % 11) as usize % KERNELS.len()].clone();
        let length = 4_000 + self.jitter(3_000);
        let args = vec![
            Arg::new("gridDim", vec![4_096u32, 1, 1]),
            Arg::new("blockDim", vec![256u32, 1, 1]),
            Arg::new("sharedMem", 0u64),
            pointer("stream", STREAMS[stream]),
        ];
        let outer = self.call(thread, Layer::Runtime, Category::Kernel, "cudaLaunchKernel");
        let outer = self.span(outer, length, args, Some(stream));
        let inner = Event {
            start: outer.start + 600,
            layer: Layer::Driver,
            name: "cuLaunchKernel".into(),
            parent: Some(outer.id),
            depth: 1,
            ..self.call(thread, Layer::Driver, Category::Kernel, "cuLaunchKernel")
        };
        let args = vec![
            pointer("f", 0x55d0_0000_2000),
            Arg::new("gridDimX", 4_096u64),
            Arg::new("blockDimX", 256u64),
            pointer("hStream", STREAMS[stream]),
        ];
        let inner = self.span(inner, length - 1_200, args, Some(stream));
        let launch = Launch {
            kernel: kernel.clone(),
            grid: [4_096, 1, 1],
            block: [256, 1, 1],
            shared: 0,
        };
        self.mean(&inner, What::Launch(launch));
        let work = 3_000 + self.jitter(20_000);
        self.work(stream, &inner, Category::Kernel, kernel, work);
        self.threads[thread] = outer.start + length + 1_500 + self.jitter(2_000);
    }

    fn copy(&mut self, thread: usize, stream: usize, size: u64) {
        let length = 9_000 + self.jitter(4_000);
        let name = "cuMemcpyHtoDAsync_v2";
        let args = vec![
            pointer("dstDevice", 0x7f32_0000_0000),
            pointer("srcHost", 0x5581_2345_6780),
            Arg::new("ByteCount", size),
            pointer("hStream", STREAMS[stream]),
        ];
        let call = self.call(thread, Layer::Driver, Category::Transfer, name);
        let call = self.span(call, length, args, Some(stream));
        let transfer = Transfer {
            direction: Direction::HostToDevice,
            size,
            duration: Some(length),
            src: Some(0x5581_2345_6780),
            dst: Some(0x7f32_0000_0000),
        };
        self.mean(&call, What::Transfer(transfer));
        self.work(
            stream,
            &call,
            Category::Transfer,
            "Memcpy HtoD".into(),
            size / 25,
        );
        self.threads[thread] = call.start + length + 5_000;
    }

    fn allocate(&mut self, thread: usize, step: u64) {
        let args = vec![Arg::new("bytesize", 4_000_000u64)];
        let call = self.call(thread, Layer::Driver, Category::Memory, "cuMemAlloc_v2");
        let call = self.span(call, 90_000, args, None);
        for number in 0..3 {
            let ioctl = Event {
                kind: Kind::Ioctl,
                start: call.start + 5_000 + number * 25_000,
                parent: Some(call.id),
                depth: 1,
                ioctl: Some(Box::new(Ioctl {
                    cmd: 0xc030_462b,
                    decoded: vec![
                        Arg::new("nr", 43u64),
                        Arg::new("size", 48u64),
                        Arg::new("name", "NV_ESC_RM_ALLOC"),
                    ],
                })),
                ..self.call(thread, Layer::Syscall, Category::Memory, "ioctl")
            };
            self.span(ioctl, 18_000, vec![Arg::new("fd", 5u64)], None);
        }
        let memory = Memory {
            op: MemoryOp::Alloc,
            size: Some(4_000_000),
            ptr: 0x7f32_0010_0000 + step * 4_000_000,
            space: Some(MemorySpace::Device),
        };
        self.mean(&call, What::Memory(memory));
        self.threads[thread] = call.start + 95_000;
    }

    fn query(&mut self, thread: usize) {
        let call = self.call(thread, Layer::Runtime, Category::Query, "cudaGetDevice");
        self.span(call, 150, Vec::new(), None);
        self.threads[thread] += 400;
    }

    fn synchronise(&mut self, thread: usize) {
        let busy = { self.streams }.into_iter().max().unwrap_or(0);
        let length = busy.saturating_sub(self.threads[thread]).max(2_000);
        let name = "cudaDeviceSynchronize";
        let call = self.call(thread, Layer::Runtime, Category::Sync, name);
        self.span(call, length, Vec::new(), None);
        self.threads = [self.threads[thread] + length + 3_000; 3];
    }

    /// A call that begins when its thread is free.
    fn call(&mut self, thread: usize, layer: Layer, category: Category, name: &str) -> Event {
        let mut event = Event::new(self.next_id, layer, category, name, self.threads[thread]);
        self.next_id += 1;
        (event.pid, event.tid) = (PID, PID + thread as u32);
        (event.cpu, event.device) = (Some(thread as u32), Some(0));
        event.context = Some(CONTEXT);
        event
    }

    fn span(&mut self, call: Event, length: u64, args: Vec<Arg>, stream: Option<usize>) -> Event {
        let mut event = Event {
            args,
            stream: stream.map(|stream| STREAMS[stream]),
            correlation: stream.map(|_| call.id),
            extent: Extent::Open,
            ..call
        };
        self.wait(event.start, event.clone().into());
        event.extent = Extent::Closed(length);
        event.status = Some(Status {
            code: 0,
            name: Some(self.names.success.clone()),
        });
        self.wait(event.start + length, event.clone().into());
        self.events += 1;
        event
    }

    /// What the GPU does for a call, when its stream is free.
    fn work(&mut self, stream: usize, call: &Event, category: Category, name: Name, length: u64) {
        let id = self.next_id;
        self.next_id += 1;
        let start = self.streams[stream].max(call.start + 6_000);
        self.streams[stream] = start + length;
        let mut event = Event {
            extent: Extent::Open,
            stream: Some(STREAMS[stream]),
            device: Some(0),
            context: Some(CONTEXT),
            correlation: Some(call.id),
            pid: PID,
            ..Event::new(id, Layer::Gpu, category, name, start)
        };
        self.wait(start, event.clone().into());
        event.extent = Extent::Closed(length);
        self.wait(start + length, event.into());
        self.events += 1;
    }

    fn mean(&mut self, call: &Event, what: What) {
        let meaning = Meaning::of(call, what);
        self.wait(meaning.ts, meaning.into());
        self.events += 1;
    }

    fn wait(&mut self, at: u64, record: Record) {
        self.order += 1;
        self.waiting.push(Reverse(Waiting(at, self.order, record)));
    }

    fn jitter(&mut self, below: u64) -> u64 {
        self.random = self
            .random
            .wrapping_mul(0x5851_f42d_4c95_7f2d)
            .wrapping_add(1);
        (self.random >> 33) % below
    }
}

fn pointer(name: &str, address: u64) -> Arg {
    Arg {
        name: name.into(),
        value: Value::Pointer(address),
    }
}
