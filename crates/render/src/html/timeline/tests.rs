//! Small traces, placed by hand.

use super::*;
use event::{Arg, Category, Frame, Launch, Lost, Meaning, Value, What};

fn open(id: u64, name: &str, start: u64) -> Event {
    let mut event = Event::new(id, Layer::Driver, Category::Memory, name, start);
    event.extent = Extent::Open;
    (event.pid, event.tid) = (1, 2);
    event
}

fn closed(mut event: Event, duration: u64) -> Event {
    event.extent = Extent::Closed(duration);
    event
}

fn feed(timeline: &mut Timeline, records: impl IntoIterator<Item = Event>) {
    for event in records {
        timeline.add(&event.into());
    }
}

#[test]
fn nested_calls_have_rows_and_their_own_time() {
    let mut timeline = Timeline::new(1_000);
    let (outer, inner) = (open(1, "outer", 1_100), open(2, "inner", 1_110));
    feed(
        &mut timeline,
        [
            outer.clone(),
            inner.clone(),
            closed(inner, 30),
            closed(outer, 100),
        ],
    );
    timeline.finish(0);
    let [first, second] = &timeline.rows.rows[..] else {
        panic!("two rows")
    };
    // Inner spans end first: their row was made with the one above it.
    let outer = &first.kept[0];
    assert_eq!((first.depth, outer.start, outer.duration), (0, 100, 100));
    assert_eq!((outer.inside, second.kept[0].inside), (30, 0));
    let lane = &timeline.lanes.list[0];
    assert_eq!((lane.spans, lane.busy, timeline.end), (2, 100, 200));
    assert_eq!(lane.by_category[Category::Memory as usize], 100);
}

#[test]
fn what_never_ended_reaches_to_the_end() {
    let mut timeline = Timeline::new(0);
    feed(&mut timeline, [open(1, "a", 50), open(2, "b", 60)]);
    timeline.finish(100);
    let spans: Vec<_> = (timeline.rows.rows.iter())
        .flat_map(|row| &row.kept)
        .map(|span| (span.start, span.duration, span.inside, span.open))
        .collect();
    assert_eq!(spans, [(0, 100, 90, true), (10, 90, 0, true)]);
}

#[test]
fn a_launch_says_what_it_launched() {
    let mut timeline = Timeline::new(0);
    let call = closed(open(7, "cuLaunchKernel", 10), 5);
    let launch = Launch {
        kernel: "add".into(),
        grid: [1; 3],
        block: [1; 3],
        shared: 0,
    };
    let meaning = Meaning::of(&call, What::Launch(launch));
    timeline.add(&call.into());
    timeline.add(&meaning.into());
    let Detail::Kernel(name) = timeline.rows.rows[0].kept[0].detail else {
        panic!("a launch")
    };
    assert_eq!(&*timeline.names.list()[name as usize], "add");
}

#[test]
fn times_before_the_start_and_losses_do_no_harm() {
    let mut timeline = Timeline::new(1_000);
    feed(&mut timeline, [closed(open(1, "early", 5), u64::MAX)]);
    let lost = Lost {
        ts: 1_500,
        count: 9,
        source: None,
        layer: None,
        pid: None,
        tid: None,
    };
    timeline.add(&lost.into());
    timeline.finish(0);
    assert_eq!((timeline.lost_total, timeline.lost[0]), (9, (500, 9)));
}

#[test]
fn a_graphs_kernel_is_below_the_stack_of_its_capture() {
    let frame = |symbol: &str| Frame {
        symbol: Some(symbol.into()),
        ..Frame::default()
    };
    let call = |id: u64, name: &str, from: &str| {
        let mut call = open(id, name, 10 * id);
        call.correlation = Some(id);
        call.stack = [frame(from)].into();
        [call.clone(), closed(call, 5)]
    };
    let mut work = open(9, "kernel", 100);
    (work.layer, work.stream, work.correlation) = (Layer::Gpu, Some(1), Some(4));
    let origin = Value::Map(vec![Arg::new("op_id", 2u64)]);
    work.args = vec![Arg::new("origin", origin)];
    let mut timeline = Timeline::new(0);
    let calls = [
        call(1, "cudaStreamBeginCapture", "capture"),
        call(2, "cudaLaunchKernel", "model"),
        call(3, "cudaStreamEndCapture", "capture"),
        call(4, "cudaGraphLaunch", "loop"),
    ];
    feed(&mut timeline, calls.into_iter().flatten());
    feed(&mut timeline, [work.clone(), closed(work, 50)]);
    timeline.finish(0);
    let names = timeline.names.list().to_vec();
    let nodes = timeline.flame.finish();
    let kernel = (nodes.iter()).find(|node| &*names[node.name as usize] == "kernel");
    let kernel = kernel.expect("it is there");
    let above = &nodes[kernel.parent as usize];
    assert_eq!(&*names[above.name as usize], "model");
    assert_eq!((above.parent, kernel.count), (flame::GPU, 1));
}
