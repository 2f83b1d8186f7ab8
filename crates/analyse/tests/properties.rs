//! What holds of every trace, however it was made: compared with answers found the slow way, and
//! with nothing but bounds where the records make no sense.

mod script;

use analyse::Report;
use event::{
    Category, Event, Extent, Launch, Layer, Lost, Meaning, Record, Status, Transfer, What,
};
use proptest::prelude::*;
use script::{Script, at, report};
use std::collections::HashMap;

const END: u64 = 400;
const NAMES: [&str; 8] = [
    "cudaMalloc",
    "cuMemAlloc_v2",
    "cuStreamSynchronize",
    "cudaMemcpy",
    "cuLaunchKernel",
    "ioctl",
    "nvidia_ioctl",
    "cublasSgemm",
];

/// A span: its function, its place within the span around it in hundredths, and spans in it.
#[derive(Debug, Clone)]
struct Node {
    name: usize,
    from: u64,
    to: u64,
    inside: Vec<Node>,
}

fn node() -> impl Strategy<Value = Node> {
    let leaf = (0..NAMES.len(), 0u64..100, 0u64..100).prop_map(|(name, a, b)| Node {
        name,
        from: a.min(b),
        to: a.max(b),
        inside: Vec::new(),
    });
    leaf.prop_recursive(4, 24, 4, |inner| {
        (
            0..NAMES.len(),
            0u64..100,
            0u64..100,
            prop::collection::vec(inner, 0..4),
        )
            .prop_map(|(name, a, b, inside)| Node {
                name,
                from: a.min(b),
                to: a.max(b),
                inside,
            })
    })
}

/// A span as it came to lie, with the functions around it.
#[derive(Debug, Clone)]
struct Placed {
    tid: u32,
    name: usize,
    start: u64,
    end: u64,
    around: Vec<usize>,
}

/// Siblings share the span around them, one after the other.
fn place(nodes: &[Node], tid: u32, start: u64, end: u64, around: &[usize], out: &mut Vec<Placed>) {
    let each = (end - start) / nodes.len().max(1) as u64;
    for (number, node) in nodes.iter().enumerate() {
        let base = start + each * number as u64;
        let (from, to) = (base + each * node.from / 100, base + each * node.to / 100);
        // Spans without length have no place in an order of time.
        if from == to {
            continue;
        }
        out.push(Placed {
            tid,
            name: node.name,
            start: from,
            end: to,
            around: around.to_vec(),
        });
        let mut around = around.to_vec();
        around.push(node.name);
        place(&node.inside, tid, from, to, &around, out);
    }
}

fn covered<'a>(intervals: impl Iterator<Item = (u64, u64)> + 'a) -> u64 {
    let mut moments = [false; END as usize];
    for (start, end) in intervals {
        moments[start as usize..end as usize].fill(true);
    }
    moments.iter().filter(|&&moment| moment).count() as u64
}

/// What must hold of any report at all.
fn bounds(report: &Report) -> Result<(), TestCaseError> {
    let wall = report.overview.wall_ns;
    prop_assert_eq!(report.idle.wall_ns, wall);
    let times = (report.idle.devices.iter().map(|row| &row.time)).chain([&report.idle.all]);
    for time in times {
        prop_assert_eq!(
            u128::from(time.busy_ns) + u128::from(time.idle_ns),
            u128::from(wall)
        );
        let parts = [time.leading_ns, time.between_ns, time.trailing_ns];
        let parts: u128 = parts.into_iter().map(u128::from).sum();
        prop_assert_eq!(parts, u128::from(time.idle_ns));
    }
    for row in &report.categories.categories {
        prop_assert!(row.busy_ns <= wall, "{:?} {}", row, wall);
    }
    for row in &report.categories.threads {
        prop_assert!(row.busy_ns <= wall, "{:?} {}", row, wall);
    }
    for row in &report.functions.functions {
        prop_assert!(row.min_ns <= row.p50_ns && row.p50_ns <= row.p99_ns);
        prop_assert!(row.p99_ns <= row.max_ns);
        prop_assert!(row.failed + row.open <= 2 * row.calls);
    }
    let phases: u128 = (report.phases.phases.iter())
        .map(|phase| u128::from(phase.length_ns))
        .sum();
    prop_assert_eq!(phases, u128::from(wall));
    for two in report.phases.phases.windows(2) {
        prop_assert_eq!(two[0].end_ns, two[1].start_ns);
    }
    serde_json::to_string(report).map_err(|error| TestCaseError::fail(error.to_string()))?;
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn a_sweep_finds_what_the_slow_way_finds(
        threads in prop::collection::vec(prop::collection::vec(node(), 0..4), 1..4),
        gpu in prop::collection::vec((0u64..END, 0u64..80, 1u64..4), 0..12),
        gpu_told_late: bool,
    ) {
        let mut placed = Vec::new();
        for (tid, nodes) in threads.iter().enumerate() {
            place(nodes, tid as u32, 0, END, &[], &mut placed);
        }
        let mut script = Script::new();
        let mut spans = Vec::new();
        for one in &placed {
            let event = script.event(NAMES[one.name], at(one.tid, one.start, one.end));
            spans.push((event.layer, event.category));
            script.add(event);
        }
        let mut works = Vec::new();
        for (start, length, stream) in gpu {
            let end = (start + length).min(END);
            if end > start {
                script.gpu("k", stream, at(0, start, end), None);
                works.push((start, end, stream));
            }
        }
        let mut records = script.records();
        if gpu_told_late {
            records.retain(|record| !matches!(record, Record::Event(event)
                if event.layer == Layer::Gpu && event.extent == Extent::Open));
        }
        // Every moment is a nanosecond: the clock starts at 1, for 0 means an unknown start.
        let found = report(&shifted(records), 1, END + 1);
        bounds(&found)?;

        if !works.is_empty() {
            let busy = covered(works.iter().map(|&(start, end, _)| (start, end)));
            // What is told late can come after other work that began later: see Union::add.
            if !gpu_told_late {
                prop_assert_eq!(found.gpu.all.busy_ns, busy);
                for row in &found.gpu.streams {
                    let of = works.iter().filter(|work| Some(work.2) == row.stream);
                    prop_assert_eq!(row.work.busy_ns, covered(of.map(|work| (work.0, work.1))));
                }
                prop_assert_eq!(found.idle.all.busy_ns, busy);
                prop_assert_eq!(found.idle.all.host.total_ns(), found.idle.all.idle_ns);
            } else {
                prop_assert!(found.gpu.all.busy_ns <= busy);
            }
            prop_assert_eq!(found.gpu.all.busy_ns, found.idle.all.busy_ns);
        }
        for row in &found.categories.threads {
            let top = placed.iter().filter(|one| one.tid == row.tid && one.around.is_empty());
            let busy: u64 = top.map(|one| one.end - one.start).sum();
            prop_assert_eq!(row.busy_ns, busy);
            let selves: u64 = row.categories.iter().map(|part| part.time.self_ns).sum();
            prop_assert_eq!(selves, busy);
        }
        let host: u64 = found.categories.threads.iter().map(|row| row.busy_ns).sum();
        prop_assert_eq!(found.correlation.host_ns, host);
        for row in &found.categories.categories {
            let of = placed.iter().zip(&spans).filter(|(_, span)| span.1 == row.category);
            let busy = covered(of.map(|(one, _)| (one.start, one.end)));
            prop_assert_eq!(row.busy_ns, busy);
        }
        let mut totals: HashMap<&str, u64> = HashMap::new();
        for one in placed.iter().filter(|one| !one.around.contains(&one.name)) {
            *totals.entry(NAMES[one.name]).or_default() += one.end - one.start;
        }
        for row in &found.functions.functions {
            prop_assert_eq!(totals.get(&*row.name).copied(), Some(row.total_ns), "{}", row.name);
        }
        for row in &found.correlation.functions {
            prop_assert_eq!(row.user_ns + row.syscall_ns, row.total_ns);
        }
    }

    #[test]
    fn any_records_in_any_order_give_a_report(
        records in prop::collection::vec(any_record(), 0..120),
        start in prop::sample::select(vec![0u64, 5, 1_000]),
        end in prop::sample::select(vec![0u64, 50, u64::MAX]),
    ) {
        bounds(&report(&records, start, end))?;
    }
}

fn shifted(mut records: Vec<Record>) -> Vec<Record> {
    for record in &mut records {
        match record {
            Record::Event(event) => event.start += 1,
            Record::Meaning(meaning) => meaning.ts += 1,
            Record::Lost(lost) => lost.ts += 1,
        }
    }
    records
}

fn any_time() -> impl Strategy<Value = u64> {
    prop_oneof![8 => 0u64..100, 1 => Just(u64::MAX), 1 => 1_000u64..2_000]
}

fn any_event() -> impl Strategy<Value = Event> {
    (
        (1u64..12, any_time(), any_time(), 0u8..3),
        (0..Layer::ALL.len(), 0..Category::ALL.len(), 0..NAMES.len()),
        (0u32..3, 0u32..3, 0u32..3),
        (
            prop::option::of(0u64..12),
            prop::option::of(0u64..3),
            prop::option::of(0u64..4),
            prop::option::of(-1i64..3),
        ),
    )
        .prop_map(
            |((id, start, length, extent), (layer, category, name), (pid, tid, depth), rest)| {
                let (layer, category) = (Layer::ALL[layer], Category::ALL[category]);
                let mut event = Event::new(id, layer, category, NAMES[name], start);
                event.extent = match extent {
                    0 => Extent::Instant,
                    1 => Extent::Open,
                    _ => Extent::Closed(length),
                };
                (event.pid, event.tid, event.depth) = (pid, tid, depth);
                (event.parent, event.stream, event.correlation) = (rest.0, rest.1, rest.2);
                event.status = rest.3.map(|code| Status { code, name: None });
                event
            },
        )
}

fn any_record() -> impl Strategy<Value = Record> {
    let meaning = (any_event(), any::<bool>()).prop_map(|(event, launch)| {
        let what = if launch {
            What::Launch(Launch {
                kernel: event.name.clone(),
                grid: [u32::MAX; 3],
                block: [1; 3],
                shared: 0,
            })
        } else {
            What::Transfer(Transfer {
                direction: event::Direction::Peer,
                size: u64::MAX,
                duration: Some(u64::MAX),
                src: None,
                dst: None,
            })
        };
        Record::Meaning(Meaning::of(&event, what))
    });
    let lost = any_time().prop_map(|ts| {
        Record::Lost(Lost {
            ts,
            count: u64::MAX,
            source: None,
            layer: None,
            pid: None,
            tid: None,
        })
    });
    prop_oneof![8 => any_event().prop_map(Record::Event), 2 => meaning, 1 => lost]
}

/// Ten thousand threads, each with a call and a launch.
#[test]
fn very_many_threads() {
    let mut script = Script::new();
    for tid in 0..10_000u32 {
        let start = 1 + u64::from(tid) * 10;
        script.span("cuMemAlloc_v2", at(tid, start, start + 1_000));
        script.launch("k", at(tid, start + 2_000, start + 2_010));
    }
    let found = script.report(1, 200_000);
    assert_eq!(found.overview.threads, 10_000);
    assert_eq!(found.categories.thread_count, 10_000);
    assert_eq!(found.overview.counts.launches, 10_000);
    // They overlap: 10,000 threads' microsecond each, within 100 µs.
    let memory = (found.categories.categories.iter()).find(|row| row.category == Category::Memory);
    let memory = memory.expect("allocations");
    assert_eq!(memory.time.total_ns, 10_000_000);
    assert_eq!(memory.busy_ns, 9_999 * 10 + 1_000);
    assert!(serde_json::to_string(&found).expect("plain data").len() < 2_000_000);
}

/// A clock that is set back by 500: nothing is negative, nothing counted twice.
#[test]
fn a_clock_that_steps_back() {
    let mut script = Script::new();
    script.span("cuInit", at(1, 1_000, 1_200));
    let mut records = script.records();
    let mut after = Script::new();
    after.span("cuMemAlloc_v2", at(1, 700, 900));
    after.gpu("k", 1, at(0, 650, 800), None);
    records.extend(after.records().into_iter().map(|mut record| {
        if let Record::Event(event) = &mut record {
            event.id += 100;
        }
        record
    }));
    let found = report(&records, 500, 1_500);
    assert_eq!(found.overview.wall_ns, 1_000);
    assert_eq!(found.idle.all.busy_ns + found.idle.all.idle_ns, 1_000);
    let total: u64 = found
        .functions
        .functions
        .iter()
        .map(|row| row.total_ns)
        .sum();
    assert_eq!(total, 400);
    // The thread's own clock had passed 1,200 already.
    assert_eq!(found.categories.threads[0].busy_ns, 200);
}
