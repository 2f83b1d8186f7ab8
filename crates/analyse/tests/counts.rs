//! What the end of a run counts: whose calls they are, and what graphs ran.

mod script;

use event::{Category, Layer};
use script::{Script, at};

/// A runtime call makes driver calls, a traced library makes both, and all of them may only ask.
#[test]
fn calls_are_counted_by_api_and_by_caller() {
    let mut script = Script::new();
    script.span("cudaGetDevice", at(7, 100, 200));
    script.span("cuCtxGetDevice", at(7, 120, 180));
    script.span("cuInit", at(7, 300, 400));
    let library = script.span("cublasSgemm_v2", at(7, 500, 900));
    script.change(library, |event| {
        event.layer = Layer::Library;
        event.category = Category::Other;
    });
    script.span("cudaGetDevice", at(7, 600, 700));
    script.span("cuCtxGetDevice", at(7, 620, 680));
    // On another thread meanwhile, which is in no library.
    script.span("cuCtxGetDevice", at(8, 640, 650));
    let counts = script.report(0, 1_000).overview.counts;
    assert_eq!(counts.api_calls, 6);
    assert_eq!((counts.runtime_calls, counts.driver_calls), (2, 4));
    assert_eq!((counts.calls_by_cuda, counts.calls_by_libraries), (2, 1));
    assert_eq!((counts.query_calls, counts.library_calls), (5, 1));
}

/// Kernels of a graph have no launch of their own.
#[test]
fn graphs_count_their_kernels() {
    let mut script = Script::new();
    let launch = script.launch("alone", at(7, 50, 60));
    script.change(launch, |event| event.correlation = Some(event.id));
    script.gpu("alone", 1, at(0, 70, 80), Some(launch));
    for round in [0, 1_000] {
        // The runtime's call and the driver's are one graph launch.
        script.span("cudaGraphLaunch", at(7, round + 100, round + 200));
        let call = script.span("cuGraphLaunch", at(7, round + 110, round + 190));
        script.change(call, |event| event.correlation = Some(event.id));
        for kernel in 0..12 {
            let start = round + 200 + 10 * kernel;
            script.gpu("k", 1, at(0, start, start + 5), Some(call));
        }
        script.gpu("memcpy H2D", 1, at(0, round + 400, round + 410), Some(call));
    }
    let counts = script.report(0, 2_000).overview.counts;
    assert_eq!((counts.launches, counts.graph_launches), (1, 2));
    assert_eq!(counts.graph_kernels, 24);
}
