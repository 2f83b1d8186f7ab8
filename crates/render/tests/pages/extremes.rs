//! Traces no program makes on a good day.

use crate::story::START;
use event::{Category, Event, Extent, Launch, Layer, Lost, Meaning, Record, Status, What};

fn pair(mut event: Event, time: u64) -> [Record; 2] {
    event.extent = Extent::Open;
    let begin = Record::from(event.clone());
    event.extent = Extent::Closed(time);
    [begin, event.into()]
}

fn call(id: u64, tid: u32, name: &str, start: u64) -> Event {
    let category = Category::ALL[(id % 12) as usize];
    let mut event = Event::new(id, Layer::Driver, category, name, START + start);
    (event.pid, event.tid) = (7, tid);
    event
}

/// Names that try to be markup, to end their element, to turn text around.
pub fn hostile() -> Vec<Record> {
    let names = [
        "</script><script>window.owned=1</script>",
        "<img src=x onerror=window.owned=1>",
        "<!--<script>",
        "\"'`&amp;&lt;b&gt;",
        "kernel\u{202e}txt.exe",
        "zero\u{0}byte\u{7}bell\nline",
        "\u{2028}\u{2029}\u{feff}",
        "__proto__",
        "constructor",
        "javascript:window.owned=1",
    ];
    let mut records = Vec::new();
    for (index, name) in names.iter().enumerate() {
        let id = index as u64 + 1;
        let event = call(id, 7, name, id * 1_000_000);
        let launch = Launch {
            kernel: format!("void {name}<int>").into(),
            grid: [1; 3],
            block: [1; 3],
            shared: 0,
        };
        let mut closed = event.clone();
        closed.extent = Extent::Closed(700_000);
        closed.status = Some(Status {
            code: -1,
            name: Some((*name).into()),
        });
        let meaning = Meaning::of(&closed, What::Launch(launch));
        let mut open = event;
        open.extent = Extent::Open;
        records.extend([open.into(), closed.into(), meaning.into()]);
    }
    records
}

/// So many threads, each with calls all over the run.
pub fn threads(count: u32) -> impl Iterator<Item = Record> {
    (0..12u64).flat_map(move |round| {
        (0..count).flat_map(move |tid| {
            let id = round * u64::from(count) + u64::from(tid);
            let start = round * 100_000_000 + u64::from(tid) * 5_000;
            pair(
                call(id + 1, 100 + tid, "cuCtxSynchronize", start),
                30_000_000 + id % 977,
            )
        })
    })
}

/// Many short calls of many kinds, back to back.
pub fn dense(count: u64) -> impl Iterator<Item = Record> {
    (0..count).flat_map(|id| {
        let name = ["cuLaunchKernel", "cuMemcpyAsync", "cuEventQuery"][(id % 3) as usize];
        let mut event = call(id + 1, 7, name, id * 3_000);
        // Long stretches of one kind, so that cells have something that dominates.
        event.category = Category::ALL[(id / 9_000 % 7) as usize];
        let time = if id % 5_000 == 0 {
            2_900
        } else {
            1_500 + id % 700
        };
        pair(event, time)
    })
}

/// Spans without an end or a beginning, clocks that step, losses, absurd depths and times.
pub fn odd() -> Vec<Record> {
    let mut records = Vec::new();
    for id in 1..=80 {
        let mut open = call(id, 7, "cuCtxCreate_v4", id * 10);
        open.extent = Extent::Open;
        records.push(open.into());
    }
    let mut orphan = call(900, 7, "cuInit", 5_000_000);
    orphan.extent = Extent::Closed(40_000);
    orphan.depth = 4_000_000;
    records.push(orphan.into());
    let mut early = call(901, 8, "cuDeviceGet", 0);
    early.start = 3;
    early.extent = Extent::Closed(u64::MAX);
    records.push(early.into());
    records.extend(pair(call(902, 9, "", 2_000_000), 0));
    let mut instant = call(903, 9, "sched_switch", 2_500_000);
    instant.layer = Layer::Os;
    records.push(instant.into());
    let lost = Lost {
        ts: 0,
        count: u64::MAX,
        source: None,
        layer: None,
        pid: None,
        tid: None,
    };
    records.push(lost.clone().into());
    records.push(lost.into());
    records
}
