use super::*;
use event::{Launch, Lost, Memory, MemoryOp, MemorySpace, Status, Transfer};

const MS: u64 = 1_000_000;

struct Script {
    live: Live,
    id: u64,
}

impl Script {
    fn new() -> Self {
        Script {
            live: Live::default(),
            id: 0,
        }
    }

    fn event(
        &mut self,
        layer: Layer,
        category: Category,
        name: &str,
        at: u64,
        length: u64,
    ) -> Event {
        self.id += 1;
        let mut event = Event::new(self.id, layer, category, name, at);
        (event.pid, event.tid) = (7, 8);
        event.extent = Extent::Closed(length);
        event
    }

    fn see(&mut self, record: impl Into<Record>) -> Notable {
        let record = record.into();
        let now = record.ts() + MS;
        self.live.see(&record, now)
    }

    /// A runtime call with a driver call in it.
    fn nested(&mut self, at: u64) {
        let outer = self.event(Layer::Runtime, Category::Memory, "cudaMalloc", at, 100);
        let mut inner = self.event(
            Layer::Driver,
            Category::Memory,
            "cuMemAlloc_v2",
            at + 10,
            60,
        );
        inner.parent = Some(outer.id);
        for event in [&outer, &inner] {
            let mut open = event.clone();
            open.extent = Extent::Open;
            self.see(open);
        }
        self.see(inner);
        self.see(outer);
    }

    fn meaning(&mut self, at: u64, what: What) -> Notable {
        let call = self.event(Layer::Driver, Category::Other, "x", at, 0);
        self.see(Meaning::of(&call, what))
    }

    fn launch(&mut self, at: u64, kernel: &str) -> Notable {
        self.meaning(
            at,
            What::Launch(Launch {
                kernel: kernel.into(),
                grid: [1; 3],
                block: [1; 3],
                shared: 0,
            }),
        )
    }
}

#[test]
fn time_is_nobodys_twice() {
    let mut script = Script::new();
    for call in 0..10 {
        script.nested(call * 1_000);
    }
    let totals = script.live.totals(Scope::All);
    let sums = |name: &str| {
        let symbols = script.live.symbols();
        let found = totals
            .functions
            .iter()
            .find(|(id, _)| &*symbols.name(**id) == name);
        *found.expect("a row").1
    };
    assert_eq!(
        (sums("cudaMalloc").total_ns, sums("cudaMalloc").self_ns),
        (1_000, 400)
    );
    assert_eq!(
        (sums("cuMemAlloc_v2").count, sums("cuMemAlloc_v2").self_ns),
        (10, 600)
    );
    assert_eq!(totals.calls, 10);
    assert_eq!(script.live.totals(Scope::Thread(7, 9)).functions.len(), 0);
    assert_eq!(script.live.totals(Scope::Process(7)).functions.len(), 2);
    assert_eq!(script.live.threads(7), [8]);
}

#[test]
fn a_difference_is_what_came_in_between() {
    let mut script = Script::new();
    script.nested(0);
    let before = script.live.totals(Scope::All);
    assert!(
        script
            .live
            .totals(Scope::All)
            .since(&before)
            .functions
            .is_empty()
    );
    script.nested(1_000);
    let copy = What::Transfer(Transfer {
        direction: Direction::HostToDevice,
        size: 4_096,
        duration: None,
        src: None,
        dst: None,
    });
    script.meaning(1_200, copy);
    let new = script.live.totals(Scope::All).since(&before);
    assert_eq!((new.calls, new.functions.len(), new.copies), (1, 2, 1));
    assert_eq!(new.copied_bytes[Direction::HostToDevice as usize], 4_096);
}

#[test]
fn memory_is_held_until_it_is_freed() {
    let mut script = Script::new();
    let memory = |op, size| {
        What::Memory(Memory {
            op,
            size: Some(size),
            ptr: 1,
            space: Some(MemorySpace::Device),
        })
    };
    script.meaning(1, memory(MemoryOp::Alloc, 100));
    script.meaning(2, memory(MemoryOp::Alloc, 50));
    script.meaning(3, memory(MemoryOp::Free, 100));
    // Of one that was allocated before anybody looked.
    script.meaning(4, memory(MemoryOp::Free, 1_000));
    let totals = script.live.totals(Scope::All);
    assert_eq!((totals.held_bytes, totals.peak_bytes), (0, 150));
    assert_eq!((totals.allocations, totals.frees), (2, 2));
}

#[test]
fn errors_are_counted_and_answers_are_none() {
    let mut script = Script::new();
    let mut fail = |name: &str, code: i64| {
        let mut event = script.event(Layer::Driver, Category::Memory, name, 5, 1);
        event.status = Some(Status {
            code,
            name: Some("CUDA_ERROR".into()),
        });
        script.see(event)
    };
    assert_eq!(fail("cuMemAlloc_v2", 2), Notable::Failed);
    assert_eq!(fail("cuMemAlloc_v2", 2), Notable::Failed);
    // Not ready: the answer to a question.
    assert_eq!(fail("cuStreamQuery", 600), Notable::Nothing);
    let (_, process) = script.live.processes().next().expect("a process");
    assert_eq!((process.errors, process.failures.len()), (2, 1));
    assert_eq!(process.failures[0].count, 2);
    assert_eq!(script.live.totals(Scope::All).errors, 2);
}

#[test]
fn steps_and_the_gpu_are_followed() {
    let mut script = Script::new();
    let mut steps = 0;
    for step in 0..40u64 {
        let at = step * 10 * MS;
        for (place, kernel) in ["a", "b", "c"].into_iter().enumerate() {
            let at = at + place as u64 * MS;
            let notable = script.launch(at, kernel);
            steps += u64::from(matches!(notable, Notable::Step { .. }));
            let work = script.event(Layer::Gpu, Category::Kernel, kernel, at, MS);
            script.see(work);
        }
    }
    let series = script.live.steps(Scope::All).expect("steps");
    assert_eq!((series.count, series.pid), (steps, 7));
    assert!(steps >= 25, "{steps}");
    assert!((9 * MS..=12 * MS).contains(&series.durations.quantile_ns(0.5)));
    assert!(script.live.has_gpu_times());
    let (_, busy) = script.live.devices().next().expect("a device");
    assert!((busy.share(100 * MS, 400 * MS) - 0.3).abs() < 0.02);
    let (_, process) = script.live.processes().next().expect("a process");
    assert_eq!((process.launches, process.gpu.total_ns()), (120, 120 * MS));
}

#[test]
fn it_is_bounded_and_forgets() {
    let mut script = Script::new();
    for number in 0..40_000u32 {
        let mut event = script.event(Layer::Driver, Category::Other, "f", 10, 1);
        (event.pid, event.tid) = (number, number);
        script.see(event);
    }
    let totals = script.live.totals(Scope::All);
    let all: u64 = totals.functions.values().map(|sums| sums.count).sum();
    assert_eq!(all, 40_000);
    assert!(script.live.processes().count() <= MOST_PROCESSES);
    script.live.forget(0);
    assert!(script.live.processes().all(|(pid, _)| pid != 0));
    script.see(Lost {
        ts: 1,
        count: 5,
        source: None,
        layer: None,
        pid: None,
        tid: None,
    });
    assert_eq!(script.live.lost(), 5);
}
