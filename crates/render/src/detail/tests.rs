//! The union of what is answered for adjacent stretches is the trace: nothing twice, nothing missing, everything on the
//! row that the page has it on. Compared with the page's own sweep over the whole trace.

mod flames;

use super::*;
use crate::html::{flame::Flame, rows::Row, timeline::Timeline};
use ::event::{
    Arg, Category, Direction, Event, Extent, Frame, Ioctl, Kind, Launch, Layer, Meaning, Memory,
    MemoryOp, Record, Status, Transfer, What,
};
use proptest::prelude::*;
use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    fs::{self, File},
    io::Write as _,
    path::Path,
    sync::Arc,
};
use trace::{
    Parts,
    index::{Index, Scan},
};

const START: u64 = 1_000_000;

/// What a made-up program does next.
#[derive(Debug, Clone)]
enum Step {
    Begin {
        lane: u8,
        name: u8,
    },
    /// One of those that are open, by its place; perhaps on another thread than it began on.
    End {
        which: u8,
        elsewhere: bool,
    },
    Instant {
        lane: u8,
    },
    /// An end whose beginning is not in the trace.
    Orphan {
        lane: u8,
        length: u16,
    },
    /// The id of one that is open begins once more.
    Again {
        which: u8,
        lane: u8,
    },
}

fn steps() -> impl Strategy<Value = Vec<(Step, u16, bool)>> {
    let step = prop_oneof![
        10 => (0..5u8, 0..6u8).prop_map(|(lane, name)| Step::Begin { lane, name }),
        10 => (any::<u8>(), prop::bool::weighted(0.02)).prop_map(|(which, elsewhere)| Step::End { which, elsewhere }),
        3 => (0..5u8).prop_map(|lane| Step::Instant { lane }),
        1 => (0..5u8, any::<u16>()).prop_map(|(lane, length)| Step::Orphan { lane, length }),
        1 => (any::<u8>(), 0..5u8).prop_map(|(which, lane)| Step::Again { which, lane }),
    ];
    // Time passes; now and then a record comes late.
    prop::collection::vec((step, 0..300u16, prop::bool::weighted(0.05)), 1..500)
}

fn event(id: u64, lane: u8, name: u8, at: u64) -> Event {
    let gpu = lane >= 3;
    let layer = if gpu { Layer::Gpu } else { Layer::Driver };
    let category = [Category::Memory, Category::Kernel, Category::Sync][usize::from(name % 3)];
    let name = match gpu {
        true => format!("void kernel{name}<float>(float*)"),
        false => format!("cuCall{name}"),
    };
    let mut event = Event::new(id, layer, category, name, at);
    (event.pid, event.tid) = (7, u32::from(lane));
    if gpu {
        (event.device, event.stream) = (Some(0), Some(lane.into()));
    }
    event.correlation = id.is_multiple_of(3).then_some(id);
    event
}

/// The records of a program, in the order in which they are written.
fn records(steps: &[(Step, u16, bool)]) -> Vec<Record> {
    let mut records = Vec::new();
    let mut open: Vec<Event> = Vec::new();
    let (mut now, mut next_id) = (START, 1);
    for (step, passed, late) in steps {
        now += u64::from(*passed);
        let at = if *late {
            now.saturating_sub(2_000).max(START)
        } else {
            now
        };
        match step {
            Step::Begin { lane, name } => {
                let mut begun = event(next_id, *lane, *name, at);
                begun.extent = Extent::Open;
                if *name == 5 && *lane < 3 {
                    begun.kind = Kind::Ioctl;
                    begun.ioctl = Some(Box::new(Ioctl {
                        cmd: 0xc030_462b,
                        decoded: vec![Arg::new("name", "NV_ESC_RM_ALLOC")],
                    }));
                }
                records.push(Record::Event(begun.clone()));
                open.push(begun);
                next_id += 1;
            }
            Step::End { which, elsewhere } if !open.is_empty() => {
                let mut ended = open.remove(usize::from(*which) % open.len());
                ended.extent = Extent::Closed(at.saturating_sub(ended.start));
                ended.tid = if *elsewhere {
                    (ended.tid + 1) % 3
                } else {
                    ended.tid
                };
                ended.status = ended.id.is_multiple_of(2).then_some(Status {
                    code: (ended.id % 5) as i64 - 1,
                    name: None,
                });
                let launch = Launch {
                    kernel: "add".into(),
                    grid: [1; 3],
                    block: [1; 3],
                    shared: 0,
                };
                let meaning = Meaning::of(&ended, What::Launch(launch));
                records.push(Record::Event(ended));
                records.push(Record::Meaning(meaning));
            }
            Step::End { .. } => {}
            Step::Instant { lane } => {
                records.push(Record::Event(event(next_id, *lane, 1, at)));
                next_id += 1;
            }
            Step::Orphan { lane, length } => {
                let start = at.saturating_sub((*length).into());
                let mut ended = event(next_id, *lane, 2, start);
                ended.extent = Extent::Closed(at - start);
                ended.depth = u32::from(*length % 3);
                records.push(Record::Event(ended));
                next_id += 1;
            }
            Step::Again { which, lane } if !open.is_empty() => {
                let id = open[usize::from(*which) % open.len()].id;
                let mut begun = event(id, *lane, 3, at);
                begun.extent = Extent::Open;
                records.push(Record::Event(begun));
            }
            Step::Again { .. } => {}
        }
    }
    records
}

/// Writes a trace line by line: each chunk of a file that is read becomes a segment, so lines are made long.
fn write(path: &Path, records: &[Record], every: usize) {
    let meta = ::event::Meta {
        start_ns: START,
        ..::event::Meta::default()
    };
    let lines = |record: &Record| {
        let (sender, receiver) = std::sync::mpsc::channel();
        let mut writer =
            trace::Writer::new(Pipe(sender), trace::Format::Jsonl, &meta).expect("a writer");
        writer.write(record).expect("written");
        drop(writer);
        let text: Vec<u8> = receiver.into_iter().flatten().collect();
        let text = String::from_utf8(text).expect("text");
        // The writer gives an end its beginning; the last line is the record.
        text.lines().last().expect("a line").to_owned()
    };
    let mut file = File::create(path).expect("a file");
    let head = serde_json::json!({"type": "meta", "version": 1, "start_ns": START});
    writeln!(file, "{head}").expect("written");
    for (number, record) in records.iter().enumerate() {
        writeln!(file, "{}", lines(record)).expect("written");
        if number % every == every - 1 {
            // A blank line as long as a chunk ends it.
            writeln!(file, "{}", " ".repeat(256 << 10)).expect("written");
        }
    }
}

struct Pipe(std::sync::mpsc::Sender<Vec<u8>>);

impl std::io::Write for Pipe {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        let _ = self.0.send(bytes.to_vec());
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

/// A trace, its index, and what the page has of it.
struct Whole {
    file: Arc<File>,
    index: Index,
    detail: Detail,
    expected: BTreeSet<Flat>,
    end: u64,
}

/// Lane, depth, start, duration, inside, id, correlation, name, label, open, status.
type Flat = (
    u32,
    u32,
    u64,
    u64,
    u64,
    u64,
    u64,
    String,
    String,
    bool,
    Option<i64>,
);

fn whole(path: &Path, segment_records: u32) -> Whole {
    let mut scan = Scan::open(path, Parts::ALL)
        .expect("a trace")
        .with_segments_of(segment_records);
    let mut builder = Builder::new(scan.meta().start_ns);
    let mut timeline = Timeline::new(scan.meta().start_ns);
    let mut any = false;
    while let Some(stretch) = scan.next_stretch().expect("sound") {
        if stretch.begins && std::mem::replace(&mut any, true) {
            builder.cut();
        }
        for record in stretch.records {
            builder.add(record);
            timeline.add(record);
        }
    }
    timeline.finish(0);
    let detail = builder.finish(None).expect("an index");
    let index = scan.finish(detail.to_bytes()).expect("an index");
    let index = Index::from_bytes(&index.to_bytes()).expect("comes back");
    let back = Detail::from_bytes(&index.attachment, index.segments().len()).expect("comes back");
    assert_eq!(back, detail);
    let short: HashMap<u32, String> = timeline.names.short().into_iter().collect();
    let shown = |name: u32| {
        short
            .get(&name)
            .cloned()
            .unwrap_or(timeline.names.list()[name as usize].to_string())
    };
    let flat = |row: &Row| {
        let flat = |span: &crate::html::rows::ExactSpan| {
            let name = timeline.names.list()[span.name as usize].to_string();
            let (id, correlation) = (span.id, if span.open { 0 } else { span.correlation });
            let inside = (span.start, span.duration, span.inside);
            (
                row.lane,
                row.depth,
                inside.0,
                inside.1,
                inside.2,
                id,
                correlation,
                name,
                shown(span.label),
                span.open,
                span.status,
            )
        };
        row.kept.iter().map(flat).collect::<Vec<_>>()
    };
    let all: Vec<Flat> = timeline.rows.rows.iter().flat_map(flat).collect();
    let expected: BTreeSet<Flat> = all.iter().cloned().collect();
    Whole {
        file: Arc::new(File::open(path).expect("a file")),
        index,
        detail: back,
        expected,
        end: timeline.end,
    }
}

impl Whole {
    fn place(&self, segment: u32) -> Arc<Placed> {
        let parts = Parts {
            decoded: true,
            ..Parts::NONE
        };
        let records = self
            .index
            .read(&self.file, segment as usize, parts)
            .expect("readable");
        Arc::new(self.detail.place(segment, &records))
    }

    /// The answer to a query: read where it must be, or everywhere.
    fn ask(
        &self,
        from: u64,
        to: u64,
        lanes: Option<Vec<u32>>,
        everywhere: bool,
    ) -> serde_json::Value {
        let query = Query {
            from,
            to,
            lanes,
            limit: 20_000,
        };
        let segments = match everywhere {
            true => Some((0..self.detail.segments() as u32).collect()),
            false => self.detail.to_read(&query, MOST_READ, |_| false),
        };
        let read = segments.map(|segments| {
            let placed = segments.into_iter();
            placed
                .map(|segment| (segment, self.place(segment)))
                .collect()
        });
        serde_json::from_str(&self.detail.answer(&query, read.as_ref())).expect("JSON")
    }
}

fn flat_answer(answer: &serde_json::Value) -> Vec<Flat> {
    let number = |row: &serde_json::Value, column: &str, place: usize| {
        row[column][place].as_u64().expect("a number")
    };
    let name = |number: u64| {
        answer["names"][number as usize]
            .as_str()
            .expect("a name")
            .to_owned()
    };
    let mut all = Vec::new();
    for row in answer["rows"].as_array().expect("rows") {
        for place in 0..row["start"].as_array().expect("a column").len() {
            let of = |column: &str| number(row, column, place);
            let open = of("open") == 1;
            all.push((
                row["lane"].as_u64().expect("a lane") as u32,
                row["depth"].as_u64().expect("a depth") as u32,
                of("start"),
                of("duration"),
                of("inside"),
                of("id"),
                if open { 0 } else { of("correlation") },
                name(of("name")),
                name(of("label")),
                open,
                row["status"][place].as_i64(),
            ));
        }
    }
    all
}

fn overlaps(span: &Flat, from: u64, to: u64) -> bool {
    span.2 < to && (span.2 + span.3 > from || span.2 >= from)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 16, ..ProptestConfig::default() })]

    #[test]
    fn adjacent_stretches_are_the_trace(steps in steps(), every in 20..200usize, mut cuts in prop::collection::vec(0..100_000u64, 0..6)) {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("trace.jsonl");
        write(&path, &records(&steps), every);
        let whole = whole(&path, 1);
        cuts.extend([0, whole.end + 1]);
        cuts.iter_mut().for_each(|cut| *cut = (*cut).min(whole.end + 1));
        cuts.sort_unstable();
        cuts.dedup();
        let mut union = Vec::new();
        for pair in cuts.windows(2) {
            let (from, to) = (pair[0], pair[1]);
            let expected: BTreeSet<&Flat> = whole.expected.iter().filter(|span| overlaps(span, from, to)).collect();
            for everywhere in [false, true] {
                let answer = whole.ask(from, to, None, everywhere);
                if answer["complete"] != true {
                    prop_assert!(!everywhere, "{answer}");
                    continue;
                }
                let found = flat_answer(&answer);
                prop_assert_eq!(found.len(), expected.len(), "twice, or missing");
                let found: BTreeSet<&Flat> = found.iter().collect();
                prop_assert_eq!(&found, &expected);
            }
            let answer = whole.ask(from, to, None, true);
            union.extend(flat_answer(&answer).into_iter().filter(|span| (from..to).contains(&span.2)));
            let lane = whole.ask(from, to, Some(vec![1]), true);
            prop_assert_eq!(flat_answer(&lane).len(), expected.iter().filter(|span| span.0 == 1).count());
        }
        prop_assert_eq!(union.len(), whole.expected.len());
        let union: BTreeSet<Flat> = union.into_iter().collect();
        prop_assert_eq!(union, whole.expected);
    }
}

/// A trace of so many calls, a microsecond apart on three threads, in segments of `every`. Each hundredth is long.
fn calls(path: &Path, count: u64, every: u64) -> Whole {
    let meta = ::event::Meta {
        start_ns: START,
        ..::event::Meta::default()
    };
    let mut writer = trace::create(path, &meta).expect("a trace");
    for id in 1..=count {
        let mut call = event(id, (id % 3) as u8, (id % 6) as u8, START + id * 1_000);
        call.extent = Extent::Closed(if id % 100 == 0 { 900 } else { 100 });
        writer.write(&Record::Event(call)).expect("written");
        if id % every == 0 {
            writer.flush().expect("written");
        }
    }
    writer.finish().expect("written");
    whole(path, 1)
}

/// How many spans the cells of an answer say begin in it.
fn counted(answer: &serde_json::Value) -> u64 {
    let rows = answer["rows"].as_array().expect("rows");
    let counts = rows.iter().flat_map(|row| {
        let cells = row["cells"]["count"].as_array();
        let spans = row["start"].as_array().map(|list| list.len() as u64);
        match cells {
            Some(cells) => cells
                .iter()
                .filter_map(serde_json::Value::as_u64)
                .collect::<Vec<_>>(),
            None => spans.into_iter().collect(),
        }
    });
    counts.sum()
}

/// A stretch of hundreds of segments is answered from pictures of many: nothing is missing, nothing counted twice, and the longest
/// are there.
#[test]
fn long_stretches_are_answered_from_few_pictures() {
    let folder = tempfile::tempdir().expect("a folder");
    let whole = calls(&folder.path().join("trace.arrows"), 60_000, 100);
    assert_eq!(whole.detail.segments(), 600);
    let levels = whole.detail.levels.iter().map(Vec::len);
    assert_eq!(levels.collect::<Vec<_>>(), [75]);
    let answer = whole.ask(0, whole.end + 1, None, false);
    assert_eq!(answer["complete"], false);
    assert_eq!(counted(&answer), 60_000);
    let spans = flat_answer(&answer);
    assert_eq!(spans.iter().filter(|span| span.3 == 900).count(), 600);
    let ids: BTreeSet<_> = spans.iter().map(|span| span.5).collect();
    assert_eq!(ids.len(), spans.len(), "each once");
    // Half of it, and one lane of that.
    let half = (START / 10, 30_000_000);
    let answer = whole.ask(half.0, half.1, None, false);
    let begun = counted(&answer) as i64;
    let expected = (half.1 - half.0) as i64 / 1_000;
    assert!(
        (begun - expected).abs() < 300,
        "{begun}, {expected} expected"
    );
    let answer = whole.ask(half.0, half.1, Some(vec![1]), false);
    assert!((counted(&answer) as i64 - expected / 3).abs() < 100);
}

/// A long trace that is answered from the pictures: every span is counted.
#[test]
fn what_is_not_read_is_counted() {
    let folder = tempfile::tempdir().expect("a folder");
    let count = 6_000;
    let whole = calls(&folder.path().join("trace.arrows"), count, 300);
    assert_eq!(whole.detail.segments(), 20);
    let answer = whole.ask(0, whole.end + 1, None, false);
    assert_eq!(answer["complete"], false);
    let cells = |row: &serde_json::Value| {
        let counts = row["cells"]["count"].as_array().expect("cells");
        counts
            .iter()
            .filter_map(serde_json::Value::as_u64)
            .sum::<u64>()
    };
    let rows = answer["rows"].as_array().expect("rows");
    assert_eq!(rows.iter().map(cells).sum::<u64>(), count);
    for row in rows {
        let of_name = row["cells"]["of_name"].as_array().expect("cells").iter();
        for (of_name, count) in of_name.zip(row["cells"]["count"].as_array().expect("cells")) {
            assert!(of_name.as_u64() <= count.as_u64());
        }
    }
    let longest = flat_answer(&answer);
    assert_eq!(
        longest.iter().filter(|span| span.3 == 900).count(),
        60,
        "the longest are there"
    );
    // A short stretch is answered whole, and so is one lane of it.
    let answer = whole.ask(500_000, 900_000, None, false);
    assert_eq!(answer["complete"], true);
    assert_eq!(flat_answer(&answer).len(), 400);
    assert_eq!(whole.detail.count(|name| name == "cuCall1"), 1_000);
    assert_eq!(whole.detail.longest("cuCall4").len(), 16);
}

#[test]
fn limits_hold() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("trace.jsonl");
    let instants: Vec<Record> = (1..=500)
        .map(|id| Record::Event(event(id, 0, 1, START + id * 10)))
        .collect();
    write(&path, &instants, 1_000);
    let whole = whole(&path, 1);
    let query = Query {
        from: 0,
        to: u64::MAX,
        lanes: None,
        limit: 100,
    };
    let read = HashMap::from([(0, whole.place(0))]);
    let answer: serde_json::Value =
        serde_json::from_str(&whole.detail.answer(&query, Some(&read))).expect("JSON");
    assert_eq!(answer["complete"], false);
    assert_eq!(flat_answer(&answer).len(), 100);
    let query = Query {
        from: 0,
        to: u64::MAX,
        lanes: Some(vec![]),
        limit: 0,
    };
    assert!(whole.detail.answer(&query, None).ends_with("\"rows\":[]}"));
}

/// Any damage is noticed, or does no harm.
#[test]
fn damage_does_no_harm() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("trace.jsonl");
    let steps: Vec<(Step, u16, bool)> = (0..400u16)
        .map(|number| match number % 4 {
            0 | 1 => (
                Step::Begin {
                    lane: (number % 5) as u8,
                    name: (number % 6) as u8,
                },
                10,
                false,
            ),
            2 => (
                Step::End {
                    which: 3,
                    elsewhere: false,
                },
                10,
                false,
            ),
            _ => (Step::Instant { lane: 0 }, 10, false),
        })
        .collect();
    write(&path, &records(&steps), 100);
    let whole = whole(&path, 1);
    let bytes = whole.detail.to_bytes();
    let segments = whole.index.segments().len();
    for place in (0..bytes.len()).step_by(3) {
        for change in [1, 0x80, 0xff] {
            let mut damaged = bytes.clone();
            damaged[place] ^= change;
            if let Ok(detail) = Detail::from_bytes(&damaged, segments) {
                let query = Query {
                    from: 0,
                    to: 5_000,
                    lanes: None,
                    limit: 1_000,
                };
                if place % 17 == 0 {
                    let records = whole
                        .index
                        .read(&whole.file, 1, Parts::NONE)
                        .expect("readable");
                    let read = HashMap::from([(1, Arc::new(detail.place(1, &records)))]);
                    detail.answer(&query, Some(&read));
                }
                detail.answer(&query, None);
            }
        }
        assert!(Detail::from_bytes(&bytes[..place], segments).is_err());
    }
    // Several changes at once, as somebody would make them who knows the sum.
    let mut draw = 7u64;
    let mut next = |below: usize| {
        draw ^= draw << 13;
        draw ^= draw >> 7;
        draw ^= draw << 17;
        (draw % below as u64) as usize
    };
    let mut damage = |bytes: &[u8]| {
        let mut damaged = bytes.to_vec();
        for _ in 0..1 + next(6) {
            let place = next(damaged.len());
            match next(4) {
                0 => damaged[place] = next(256) as u8,
                1 => damaged.insert(place, 0xff),
                2 => damaged.truncate(place.max(1)),
                _ => {
                    let from = next(damaged.len());
                    let length = next(40).min(damaged.len() - from.max(place));
                    damaged.copy_within(from..from + length, place);
                }
            }
        }
        damaged
    };
    let ask = |attachment: &[u8], segments: usize| {
        let Ok(detail) = Detail::from_bytes(attachment, segments) else {
            return false;
        };
        for to in [5_000, u64::MAX] {
            let query = Query {
                from: 0,
                to,
                lanes: None,
                limit: 1_000,
            };
            detail.to_read(&query, 8, |_| false);
            detail.answer(&query, None);
            detail.answer(&query, Some(&HashMap::new()));
        }
        detail.count(|name| name.len() > 3);
        detail.place(1, &[]);
        true
    };
    for _ in 0..3_000 {
        ask(&damage(&bytes), segments);
    }
    // The whole index behind its sum: what is accepted can be asked about, and comes back as it was read.
    let index = whole.index.to_bytes();
    let body = &index[16..];
    let (mut accepted, mut asked) = (0, 0);
    for _ in 0..1_500 {
        let Ok(damaged) = Index::from_body(&damage(body)) else {
            continue;
        };
        accepted += 1;
        asked += u32::from(ask(&damaged.attachment, damaged.segments().len()));
        for (number, segment) in damaged.segments().iter().enumerate() {
            segment.ids.may_contain(7);
            // It may lead anywhere in the trace, or behind its end.
            if accepted % 16 == 0 && number < 3 {
                let _ = damaged.read(&whole.file, number, Parts::ALL);
            }
        }
        let again = Index::from_bytes(&damaged.to_bytes());
        assert_eq!(again.as_ref(), Ok(&damaged));
    }
    assert!(accepted > 25 && asked > 12, "{accepted}, {asked}");
    for place in (0..index.len()).step_by(7) {
        let mut damaged = index.clone();
        damaged[place] ^= 1;
        assert!(Index::from_bytes(&damaged).is_err(), "byte {place}");
    }
    fs::remove_file(&path).expect("there");
}
