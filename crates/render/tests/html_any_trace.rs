//! The HTML report of traces nobody planned: it is made, and it stays small.

use event::{
    Category, Direction, Event, Extent, Frame, Launch, Layer, Lost, Meaning, Memory, MemoryOp,
    Meta, Record, Status, Transfer, What,
};
use proptest::prelude::*;
use render::{Html, Output};

fn any_time() -> impl Strategy<Value = u64> {
    prop_oneof![0..10_000u64, any::<u64>(), Just(u64::MAX), Just(0)]
}

fn any_event() -> impl Strategy<Value = Event> {
    let what = (
        0..40u64,
        0..Layer::ALL.len(),
        0..Category::ALL.len(),
        ".{0,12}",
    );
    let place = (
        0..3u32,
        0..4u32,
        any::<u32>(),
        prop::option::of(any::<u64>()),
    );
    let extent = prop_oneof![
        Just(Extent::Instant),
        Just(Extent::Open),
        any_time().prop_map(Extent::Closed)
    ];
    let rest = (
        any_time(),
        extent,
        prop::option::of(any::<i64>()),
        0..70usize,
    );
    (what, place, rest).prop_map(|(what, place, rest)| {
        let (id, layer, category, name) = what;
        let layer = Layer::ALL[layer];
        let mut event = Event::new(id, layer, Category::ALL[category], name, rest.0);
        (event.pid, event.tid, event.depth, event.stream) = place;
        event.correlation = event.stream;
        event.extent = rest.1;
        event.status = rest.2.map(|code| Status { code, name: None });
        event.stack = vec![Frame::default(); rest.3].into();
        event
    })
}

fn any_record() -> impl Strategy<Value = Record> {
    let what = prop_oneof![
        (any::<u64>(), ".{0,9}").prop_map(|(shared, kernel)| What::Launch(Launch {
            kernel: kernel.into(),
            grid: [u32::MAX; 3],
            block: [1; 3],
            shared,
        })),
        (prop::option::of(any::<u64>()), any::<bool>()).prop_map(|(size, alloc)| {
            What::Memory(Memory {
                op: if alloc {
                    MemoryOp::Alloc
                } else {
                    MemoryOp::Free
                },
                size,
                ptr: 1,
                space: None,
            })
        }),
        any::<u64>().prop_map(|size| What::Transfer(Transfer {
            direction: Direction::Peer,
            size,
            duration: None,
            src: None,
            dst: None,
        })),
    ];
    prop_oneof![
        8 => any_event().prop_map(Record::from),
        2 => (any_event(), what).prop_map(|(call, what)| Meaning::of(&call, what).into()),
        1 => (any_time(), any::<u64>()).prop_map(|(ts, count)| Lost {
            ts,
            count,
            source: None,
            layer: None,
            pid: None,
            tid: None,
        }
        .into()),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn any_records_make_a_page(
        records in prop::collection::vec(any_record(), 0..120),
        start_ns in any_time(),
    ) {
        let meta = Meta { start_ns, ..Meta::default() };
        let mut page = Vec::new();
        let mut html = Html::new(&mut page, &meta);
        for record in &records {
            html.record(record).expect("a record");
        }
        html.finish(None).expect("a page");
        drop(html);
        let page = String::from_utf8(page).expect("UTF-8");
        prop_assert!(page.len() < 1_000_000);
        // One beginning and one end of each element the page itself has, whatever names say.
        prop_assert_eq!(page.matches("<script").count(), 3);
        prop_assert_eq!(page.matches("</script").count(), 3);
    }
}
