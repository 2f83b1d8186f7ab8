//! How long the sweep takes for a record: `cargo bench -p cutrace-analyse`, `-- RECORDS` for more
//! than a few million. The stream is that of an inference loop on four threads: launches of the
//! runtime over the driver's, copies, waits with ioctls in them, GPU work with its own times.

use event::{
    Category, Direction, Event, Extent, Kind, Launch, Layer, Meaning, Meta, Name, Record, Status,
    Transfer, What,
};
use std::time::Instant;

fn main() {
    let wanted = std::env::args()
        .skip(1)
        .find_map(|argument| argument.parse().ok())
        .unwrap_or(3_000_000);
    for (what, gpu) in [("host only", false), ("host and GPU", true)] {
        let mut stream = Stream::new(gpu);
        let length = stream.records.len();
        let mut analysis = analyse::Analysis::new(&Meta::default());
        let (mut done, mut best, mut total) = (0, f64::MAX, 0.0);
        while done < wanted {
            let start = Instant::now();
            for record in &stream.records {
                analysis.add(record);
            }
            let passed = start.elapsed().as_secs_f64();
            best = passed.min(best);
            total += passed;
            done += length;
            stream.later();
        }
        let start = Instant::now();
        let report = analysis.finish(None);
        println!(
            "{what}: {done} records, {:.0} ns a record, {:.0} ns in the best of {} rounds; \
             finish {:.1} ms; {} functions, {} iterations",
            total * 1e9 / done as f64,
            best * 1e9 / length as f64,
            done / length,
            start.elapsed().as_secs_f64() * 1e3,
            report.functions.functions.len(),
            report
                .phases
                .loops
                .first()
                .map_or(0, |found| found.iterations),
        );
    }
}

/// Records of a while, to be given again and again at later times.
struct Stream {
    records: Vec<Record>,
    length: u64,
    ids: u64,
}

const ITERATIONS: u64 = 400;
const LAYERS: u64 = 24;
const THREADS: u32 = 4;

impl Stream {
    fn new(gpu: bool) -> Self {
        let mut maker = Maker::default();
        let kernels: Vec<Name> = (0..40)
            .map(|number| format!("void layer_kernel_{number}<float, 4>(float*, int)").into())
            .collect();
        for iteration in 0..ITERATIONS {
            let tid = 100 + (iteration % u64::from(THREADS)) as u32;
            maker.copy(tid);
            for layer in 0..LAYERS {
                for kernel in &kernels[..3] {
                    maker.launch(tid, kernel, gpu);
                }
                if layer == LAYERS - 1 {
                    maker.launch(tid, &kernels[3 + (iteration % 30) as usize], gpu);
                }
            }
            maker.wait(tid);
        }
        let mut records = maker.records;
        records.sort_by_key(Record::ts);
        Stream {
            length: maker.now + 1_000,
            ids: maker.next,
            records,
        }
    }

    /// The same again, after what was.
    fn later(&mut self) {
        let (length, ids) = (self.length, self.ids);
        for record in &mut self.records {
            match record {
                Record::Event(event) => {
                    event.start += length;
                    event.id += ids;
                    event.parent = event.parent.map(|parent| parent + ids);
                    event.correlation = event.correlation.map(|id| id + ids);
                }
                Record::Meaning(meaning) => {
                    meaning.ts += length;
                    meaning.op += ids;
                }
                Record::Lost(lost) => lost.ts += length,
            }
        }
    }
}

#[derive(Default)]
struct Maker {
    records: Vec<Record>,
    names: std::collections::HashMap<&'static str, Name>,
    now: u64,
    next: u64,
}

impl Maker {
    fn event(&mut self, name: &'static str, tid: u32, parent: Option<u64>) -> Event {
        let shared = self.names.entry(name).or_insert_with(|| name.into());
        let layer = if name == "ioctl" {
            Layer::Syscall
        } else {
            cuda::layer(name)
        };
        self.next += 1;
        let category = cuda::category(name);
        let mut event = Event::new(self.next, layer, category, shared.clone(), self.now);
        (event.pid, event.tid) = (42, tid);
        event.device = Some(0);
        event.context = Some(0xc0de);
        event.stream = Some(7);
        event.parent = parent;
        event.depth = parent.is_some().into();
        event.extent = Extent::Open;
        self.records.push(event.clone().into());
        event
    }

    fn end(&mut self, mut event: Event, after: u64) -> Event {
        self.now += after;
        event.extent = Extent::Closed(self.now - event.start);
        event.status = Some(Status {
            code: 0,
            name: None,
        });
        self.records.push(event.clone().into());
        event
    }

    fn launch(&mut self, tid: u32, kernel: &Name, gpu: bool) {
        let mut outer = self.event("cudaLaunchKernel", tid, None);
        self.now += 300;
        let inner = self.event("cuLaunchKernel", tid, Some(outer.id));
        self.end(inner, 3_000);
        if gpu {
            outer.correlation = Some(outer.id);
            if let Some(Record::Event(begin)) = self.records.iter_mut().rev().nth(2) {
                begin.correlation = Some(outer.id);
            }
        }
        let outer = self.end(outer, 200);
        let launch = Launch {
            kernel: kernel.clone(),
            grid: [64, 1, 1],
            block: [256, 1, 1],
            shared: 0,
        };
        self.records
            .push(Meaning::of(&outer, What::Launch(launch)).into());
        if gpu {
            self.next += 1;
            let start = self.now + 2_000;
            let mut work = Event::new(
                self.next,
                Layer::Gpu,
                Category::Kernel,
                kernel.clone(),
                start,
            );
            (work.pid, work.device, work.stream) = (42, Some(0), Some(7));
            work.correlation = outer.correlation;
            work.extent = Extent::Open;
            self.records.push(work.clone().into());
            work.extent = Extent::Closed(3_100);
            self.records.push(work.into());
        }
        self.now += 700;
    }

    fn copy(&mut self, tid: u32) {
        let call = self.event("cudaMemcpyAsync", tid, None);
        let call = self.end(call, 9_000);
        let transfer = Transfer {
            direction: Direction::HostToDevice,
            size: 1 << 20,
            duration: Some(9_000),
            src: Some(0x1000),
            dst: Some(0x2000),
        };
        self.records
            .push(Meaning::of(&call, What::Transfer(transfer)).into());
    }

    fn wait(&mut self, tid: u32) {
        let outer = self.event("cudaStreamSynchronize", tid, None);
        let inner = self.event("cuStreamSynchronize", tid, Some(outer.id));
        let mut ioctl = self.event("ioctl", tid, Some(inner.id));
        ioctl.kind = Kind::Ioctl;
        self.end(ioctl, 5_000);
        self.end(inner, 20_000);
        self.end(outer, 100);
    }
}
