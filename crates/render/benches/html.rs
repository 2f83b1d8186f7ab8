//! What the HTML report costs: nanoseconds of CPU a record, bytes of page, for a trace of many events.
//!
//! usage: cargo bench -p cutrace-render --bench html -- [EVENTS [THREADS]]

use event::{Category, Event, Extent, Launch, Layer, Meaning, Meta, Name, Record, What};
use render::{Html, Output};
use std::{fs, io};

/// Records in time order: threads that launch, copy and wait by turns, nested two deep, with GPU
/// work for every launch.
struct Records {
    next: u64,
    now: u64,
    names: Vec<(Name, Name, Category)>,
    kernels: Vec<Name>,
    events: u64,
    threads: u64,
}

impl Records {
    fn new(threads: u64) -> Self {
        let name = |text: &str, category| -> (Name, Name, Category) {
            let runtime = format!("cuda{text}");
            (runtime.into(), format!("cu{text}").into(), category)
        };
        Records {
            next: 1,
            now: 1_000_000,
            names: vec![
                name("LaunchKernel", Category::Kernel),
                name("MemcpyAsync", Category::Transfer),
                name("LaunchKernel", Category::Kernel),
                name("StreamSynchronize", Category::Sync),
                name("EventRecord", Category::Event),
                name("Malloc", Category::Memory),
            ],
            kernels: (0..200)
                .map(|i| format!("void kernel<{i}>(float*, int)").into())
                .collect(),
            events: 0,
            threads,
        }
    }

    fn event(&mut self, layer: Layer, category: Category, name: &Name, tid: u32) -> Event {
        let mut event = Event::new(self.next, layer, category, name.clone(), self.now);
        self.next += 1;
        self.events += 1;
        (event.pid, event.tid) = (100, tid);
        event.extent = Extent::Open;
        event
    }

    /// One call with what belongs to it.
    fn step(&mut self, give: &mut impl FnMut(&Record)) {
        let turn = self.next / 3;
        // A cheap scatter, the same on every run.
        let random = turn.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 40;
        let (runtime, driver, category) = self.names[(turn % 6) as usize].clone();
        let tid = 100 + (turn / 64 % self.threads) as u32;
        let mut outer = self.event(Layer::Runtime, category, &runtime, tid);
        give(&outer.clone().into());
        self.now += 300 + random % 200;
        let mut inner = self.event(Layer::Driver, category, &driver, tid);
        give(&inner.clone().into());
        self.now += 2_000 + random % 3_000;
        inner.extent = Extent::Closed(self.now - inner.start);
        give(&inner.into());
        self.now += 200;
        outer.extent = Extent::Closed(self.now - outer.start);
        outer.correlation = Some(outer.id);
        let outer = Record::Event(outer);
        give(&outer);
        let Record::Event(outer) = outer else { return };
        if category == Category::Kernel {
            self.launched(&outer, random, give);
        }
        self.now += 500;
    }

    fn launched(&mut self, call: &Event, random: u64, give: &mut impl FnMut(&Record)) {
        let kernel = self.kernels[(random % 200) as usize].clone();
        let launch = Launch {
            kernel: kernel.clone(),
            grid: [1; 3],
            block: [32, 1, 1],
            shared: 0,
        };
        give(&Meaning::of(call, What::Launch(launch)).into());
        self.events += 1;
        let mut work = self.event(Layer::Gpu, Category::Kernel, &kernel, 0);
        work.device = Some(0);
        work.stream = Some(7 + random % 4);
        work.correlation = call.correlation;
        give(&work.clone().into());
        self.now += 400;
        work.extent = Extent::Closed(400);
        give(&work.into());
    }
}

struct Counter(u64);

impl io::Write for Counter {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0 += bytes.len() as u64;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Seconds this thread has had a CPU: what others do on the machine does not count.
fn cpu_time() -> f64 {
    let text = fs::read_to_string("/proc/thread-self/schedstat").expect("Linux says");
    let first = text
        .split(' ')
        .next()
        .and_then(|word| word.parse::<f64>().ok());
    first.expect("nanoseconds") / 1e9
}

/// Events, records, and the CPU time it took to make them and give them away.
fn run(wanted: u64, threads: u64, mut give: impl FnMut(&Record)) -> (u64, u64, f64) {
    let mut records = Records::new(threads);
    let mut count = 0u64;
    let start = cpu_time();
    while records.events < wanted {
        records.step(&mut |record| {
            count += 1;
            give(record);
        });
    }
    (records.events, count, cpu_time() - start)
}

fn main() {
    let mut numbers = std::env::args().filter_map(|argument| argument.parse::<u64>().ok());
    let wanted = numbers.next().unwrap_or(1_000_000);
    let threads = numbers.next().unwrap_or(8).max(1);
    let (_, _, making) = run(wanted, threads, |record| {
        std::hint::black_box(record);
    });
    let mut analysis = analyse::Analysis::new(&Meta::default());
    let (_, _, analysing) = run(wanted, threads, |record| analysis.add(record));
    let mut size = Counter(0);
    let mut html = Html::new(&mut size, &Meta::default());
    let (events, count, fed) = run(wanted, threads, |record| {
        html.record(record).expect("a record")
    });
    let start = cpu_time();
    html.finish(None).expect("a page");
    let writing = cpu_time() - start;
    drop(html);
    let each = |seconds: f64| seconds * 1e9 / count as f64;
    println!("{events} events, {count} records");
    println!("a record: {:.0} ns in all", each(fed - making));
    println!("  of it the analysis: {:.0} ns", each(analysing - making));
    println!("  the timeline: {:.0} ns", each(fed - analysing));
    println!("the end: {writing:.2} s");
    println!("the page: {:.2} MB", size.0 as f64 / 1e6);
}
