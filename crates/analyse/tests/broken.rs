//! Traces with something missing: ends that were lost, that come late, that never had a beginning.

mod script;

use analyse::Report;
use event::{Extent, Layer, Record};
use script::{Script, at, report};

/// The records without the end of one span.
fn without_end(records: Vec<Record>, id: u64) -> Vec<Record> {
    let ends = |record: &Record| {
        matches!(record, Record::Event(event)
            if event.id == id && matches!(event.extent, Extent::Closed(_)))
    };
    records.into_iter().filter(|record| !ends(record)).collect()
}

/// Calls, open calls, total and self time of a function.
fn row(report: &Report, name: &str) -> (u64, u64, u64, u64) {
    let mut rows = report.functions.functions.iter();
    let row = rows.find(|row| &*row.name == name).expect("it was called");
    (row.calls, row.open, row.total_ns, row.self_ns)
}

#[test]
fn an_inner_end_that_was_lost_goes_with_the_outer_one() {
    let mut script = Script::new();
    script.span("cudaMalloc", at(1, 100, 200));
    let inner = script.span("cuMemAlloc_v2", at(1, 110, 190));
    script.span("cuInit", at(1, 300, 400));
    let found = report(&without_end(script.records(), inner), 100, 1_000);
    assert_eq!(found.overview.open_spans, 1);
    // From where the inner call began nobody knows how far it went.
    assert_eq!(row(&found, "cudaMalloc"), (1, 0, 100, 10));
    assert_eq!(row(&found, "cuMemAlloc_v2"), (1, 1, 90, 90));
    assert_eq!(row(&found, "cuInit"), (1, 0, 100, 100));
    assert_eq!(found.categories.threads[0].busy_ns, 200);
}

/// A call whose end was lost must not seem to enclose all that comes after it.
#[test]
fn a_call_at_the_top_ends_the_stale_one_before_it() {
    let mut script = Script::new();
    let lost = script.span("cuMemAlloc_v2", at(1, 100, 200));
    let outer = script.span("cudaMalloc", at(1, 300, 400));
    let inner = script.span("cuMemAlloc_v2", at(1, 310, 390));
    script.change(inner, |event| {
        event.parent = Some(outer);
        event.depth = 1;
    });
    script.span("cuInit", at(1, 500, 600));
    script.span("cudaFree", at(1, 700, 710));
    let found = report(&without_end(script.records(), lost), 100, 1_000);
    // As soon as the trace has shown that it knows parents, a call without one is at the top.
    assert_eq!(row(&found, "cuInit"), (1, 0, 100, 100));
    assert_eq!(row(&found, "cudaFree"), (1, 0, 10, 10));
    assert_eq!(found.overview.open_spans, 1);
    let selves: u64 = (found.correlation.layers.iter())
        .map(|layer| layer.self_ns)
        .sum();
    assert_eq!(selves, found.categories.threads[0].busy_ns);
}

#[test]
fn an_end_that_comes_late_counts_once() {
    let mut script = Script::new();
    let outer = script.span("cudaMalloc", at(1, 100, 200));
    script.span("cuMemAlloc_v2", at(1, 110, 190));
    let mut records = script.records();
    // The outer call's end comes first: the inner one's is of an earlier time by then.
    let ends = |record: &Record| {
        matches!(record, Record::Event(event)
            if event.id == outer && matches!(event.extent, Extent::Closed(_)))
    };
    let place = records.iter().position(ends).expect("it ends");
    records.swap(place, place - 1);
    let found = report(&records, 100, 1_000);
    assert_eq!(found.overview.open_spans, 0);
    let (calls, open, total, _) = row(&found, "cuMemAlloc_v2");
    assert_eq!((calls, open, total), (1, 0, 90));
    let memory = &found.categories.categories[0];
    assert_eq!((memory.time.calls, memory.time.outermost_calls), (2, 1));
    assert_eq!((memory.time.total_ns, memory.busy_ns), (100, 100));
    assert_eq!(found.overview.events, 2);
}

#[test]
fn an_end_without_a_beginning_is_a_whole_call() {
    let mut script = Script::new();
    script.span("cuStreamSynchronize", at(1, 100, 300));
    script.gpu("k", 1, at(0, 150, 250), None);
    let mut records = script.records();
    records
        .retain(|record| !matches!(record, Record::Event(event) if event.extent == Extent::Open));
    let found = report(&records, 100, 1_000);
    assert_eq!(row(&found, "cuStreamSynchronize"), (1, 0, 200, 200));
    assert_eq!(found.categories.categories[0].busy_ns, 200);
    assert_eq!((found.gpu.all.busy_ns, found.overview.events), (100, 2));
    assert_eq!(found.overview.open_spans, 0);
}

#[test]
fn gpu_work_that_never_ends_is_busy_to_the_end() {
    let mut script = Script::new();
    let stuck = script.gpu("k", 1, at(0, 400, 500), None);
    let found = report(&without_end(script.records(), stuck), 100, 1_000);
    assert_eq!((found.gpu.open, found.overview.open_spans), (1, 1));
    assert_eq!((found.gpu.all.busy_ns, found.idle.all.busy_ns), (600, 600));
    let gpu = (found.overview.layers.iter()).find(|row| row.layer == Layer::Gpu);
    assert_eq!(gpu.map(|row| row.events), Some(1));
}

/// More spans open at once than any program has, on one thread, and none of them ends.
#[test]
fn spans_without_end_are_counted_and_bounded() {
    let mut script = Script::new();
    for start in 0..5_000 {
        script.open("cuInit", 1, 1 + start);
    }
    let found = script.report(1, 10_000);
    assert_eq!(found.overview.open_spans, 5_000);
    assert_eq!(found.overview.events, 5_000);
    assert_eq!(found.categories.categories[0].busy_ns, 9_999);
}

#[test]
fn calls_that_lie_too_deep_to_be_kept_open_are_counted() {
    let mut script = Script::new();
    for depth in 0..1_000 {
        script.failed("cuCtxGetCurrent", at(1, depth, 10_000 - depth), 1);
    }
    let found = script.report(0, 10_000);
    let functions = &found.functions.functions;
    assert_eq!((functions[0].calls, functions[0].failed), (1_000, 1_000));
    assert_eq!((functions[0].open, found.overview.open_spans), (0, 0));
}

/// Ids that come again with other names are of broken traces; what is counted of them still adds up.
#[test]
fn the_end_of_another_function_ends_nothing() {
    let mut script = Script::new();
    script.span("cudaMalloc", at(1, 100, 200));
    let lost = script.span("cuMemAlloc_v2", at(1, 110, 190));
    let mut late = script.event("cuInit", at(1, 300, 310));
    late.id = lost;
    let mut records = without_end(script.records(), lost);
    records.push(late.into());
    let found = report(&records, 100, 1_000);
    assert_eq!(row(&found, "cuMemAlloc_v2").0, 1);
    assert_eq!(row(&found, "cuMemAlloc_v2").1, 1);
    assert_eq!(row(&found, "cuInit"), (1, 0, 10, 10));
    assert_eq!(row(&found, "cudaMalloc").0, 1);
}
