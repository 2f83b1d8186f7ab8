//! Flame graphs of adjacent stretches add up to that of the whole trace, which is the page's own.

use super::*;

/// Calls with stacks and calls inside, on two threads, one of which is in a range all the while; copies, allocations, and GPU work
/// that begins long after its call.
fn program_with_stacks(turns: u64) -> Vec<Record> {
    let frame = |symbol: &str| Frame {
        symbol: Some(symbol.into()),
        ..Frame::default()
    };
    let stack = |turn: u64| {
        let inner = ["load", "forward", "backward"][(turn % 3) as usize];
        [frame(inner), frame("main")].into()
    };
    let call = |id: u64, tid: u32, name: &str, category: Category, start: u64| {
        let mut call = Event::new(id, Layer::Driver, category, name, START + start);
        (call.pid, call.tid, call.extent) = (7, tid, Extent::Open);
        call
    };
    let closed = |event: &Event, duration: u64| {
        let mut event = event.clone();
        event.extent = Extent::Closed(duration);
        event.stack.clear();
        Record::Event(event)
    };
    let mut range = call(1, 2, "epoch", Category::Other, 0);
    range.kind = Kind::Range;
    range.stack = [frame("train"), frame("main")].into();
    let mut timed = vec![(0, Record::Event(range.clone()))];
    for turn in 0..turns {
        let (at, id) = (10 + turn * 1_000, 10 + turn * 10);
        let copies = turn % 4 == 0;
        let name = if copies {
            "cudaMemcpyAsync"
        } else {
            "cudaLaunchKernel"
        };
        let category = if copies {
            Category::Transfer
        } else {
            Category::Kernel
        };
        let mut outer = call(id, 1, name, category, at);
        outer.stack = stack(turn);
        let mut inner = call(id + 1, 1, "cuInner", category, at + 100);
        inner.correlation = Some(id + 1);
        let other = call(id + 2, 2, "cuMemAlloc_v2", Category::Memory, at + 50);
        let name = if copies { "memcpy" } else { "kernel" };
        let mut work = Event::new(id + 3, Layer::Gpu, category, name, START + at + 6_000);
        (work.device, work.stream, work.extent) = (Some(0), Some(3), Extent::Open);
        work.correlation = Some(id + 1);
        if copies {
            work.args = vec![Arg::new("bytes", 64u64)];
        }
        let transfer = Transfer {
            direction: Direction::HostToDevice,
            size: 4_096,
            duration: None,
            src: None,
            dst: None,
        };
        let memory = Memory {
            op: MemoryOp::Alloc,
            size: Some(512),
            ptr: 0x1000 + id,
            space: None,
        };
        let moved = Meaning::of(&outer, What::Transfer(transfer));
        let allocated = Meaning::of(&other, What::Memory(memory));
        let event = |event: &Event| Record::Event(event.clone());
        timed.extend([
            (at, event(&outer)),
            (at + 50, event(&other)),
            (at + 100, event(&inner)),
            (at + 350, closed(&other, 300)),
            (at + 350, Record::Meaning(allocated)),
            (at + 400, closed(&inner, 300)),
            (at + 500, closed(&outer, 500)),
            (at + 6_000, event(&work)),
            (at + 6_900, closed(&work, 900)),
        ]);
        if copies {
            timed.push((at + 500, Record::Meaning(moved)));
        }
    }
    let end = turns * 1_000 + 20_000;
    timed.push((end, closed(&range, end)));
    timed.sort_by_key(|(at, _)| *at);
    timed.into_iter().map(|(_, record)| record).collect()
}

/// Of each path of a flame graph how many spans it has, its own time, and its own bytes.
type Paths = BTreeMap<String, [u64; 4]>;

impl Whole {
    fn flame(&self, from: u64, to: u64) -> Paths {
        let mut flame = StretchFlame::new(from, to);
        for segment in self.detail.flame_segments(from, to) {
            let read = self.index.read(&self.file, segment as usize, Parts::ALL);
            flame.add(&self.detail, segment, &read.expect("readable"));
        }
        let answer: serde_json::Value = serde_json::from_str(&flame.finish()).expect("JSON");
        let column = |name: &str, place: usize| answer[name][place].as_u64().expect("a number");
        let nodes = (0..answer["parent"].as_array().expect("a column").len()).map(|place| {
            let name = answer["names"][column("name", place) as usize].as_str();
            let own = ["count", "own_time", "own_allocated", "own_moved"];
            (
                (column("parent", place) as u32).wrapping_sub(1),
                name.expect("a name").to_owned(),
                own.map(|name| column(name, place)),
            )
        });
        paths(nodes)
    }
}

fn paths(nodes: impl Iterator<Item = (u32, String, [u64; 4])>) -> Paths {
    let mut names: Vec<String> = Vec::new();
    let mut paths = Paths::new();
    for (parent, name, own) in nodes {
        let path = match names.get(parent as usize) {
            Some(above) => format!("{above}/{name}"),
            None => ["host", "gpu"][names.len()].to_owned(),
        };
        names.push(path.clone());
        if own != [0; 4] {
            paths.insert(path, own);
        }
    }
    paths
}

/// The flame graph of everything is the page's own, and those of adjacent stretches add up to it.
#[test]
fn flame_graphs_of_adjacent_stretches_add_up() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("trace.jsonl");
    let records = program_with_stacks(120);
    write(&path, &records, 45);
    let whole = whole(&path, 1);
    assert!(whole.detail.segments() > 15, "{}", whole.detail.segments());
    let mut timeline = Timeline::new(START);
    records.iter().for_each(|record| timeline.add(record));
    timeline.finish(0);
    let names = timeline.names.list().to_vec();
    let nodes = std::mem::replace(&mut timeline.flame, Flame::new()).finish();
    let expected = paths(nodes.into_iter().map(|node| {
        let name = names[node.name as usize].to_string();
        (
            node.parent,
            name,
            [node.count, node.own[0], node.own[1], node.own[2]],
        )
    }));
    assert_eq!(
        expected["host/main/forward/cudaLaunchKernel/cuInner"][1],
        30 * 300
    );
    assert_eq!(expected["gpu/main/load/kernel"], [30, 30 * 900, 0, 0]);
    assert_eq!(expected["gpu/main/load/memcpy"], [10, 10 * 900, 0, 10 * 64]);
    assert_eq!(
        expected["host/main/train/epoch/cuMemAlloc_v2"],
        [120, 120 * 300, 120 * 512, 0]
    );
    assert_eq!(whole.flame(0, whole.end + 1), expected);
    for width in [777, 10_123, 50_000] {
        let mut sum = Paths::new();
        for from in (0..=whole.end).step_by(width) {
            for (path, own) in whole.flame(from, from + width as u64) {
                let total = sum.entry(path).or_default();
                (1..4).for_each(|weight| total[weight] += own[weight]);
            }
        }
        sum.values_mut()
            .zip(expected.values())
            .for_each(|(sum, expected)| sum[0] = expected[0]);
        assert_eq!(sum, expected, "stretches of {width}");
    }
}
