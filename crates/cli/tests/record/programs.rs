//! All the test programs: the right calls, in the right order, with the right arguments.

use super::{
    h200::{self, RACED, UNASKED},
    normalise::{OWN, normalised},
    path, program, record,
};

macro_rules! call_by_call {
    ($($name:ident),* $(,)?) => {
        $(#[test]
        fn $name() {
            check(stringify!($name));
        })*

        /// A program that is not in the list above would go unchecked.
        #[test]
        fn every_program_is_checked() {
            let folder = crate::common::repository().join("tests/programs");
            let listed = [$(stringify!($name)),*];
            for entry in std::fs::read_dir(folder).expect("the programs") {
                let path = entry.expect("an entry").path();
                let source = path.extension().is_some_and(|end| end == "cu" || end == "cpp" || end == "c");
                let name = path.file_stem().and_then(|name| name.to_str()).expect("a name");
                // Two are parts of others; four are run with probes in them (tests/gpu_probes); gpu_times has one.
                let elsewhere = [
                    "driver_kernels", "loads_kernels", "loads", "probed", "probe_cost", "endless", "graph_origins",
                ];
                if source && !elsewhere.contains(&name) {
                    assert!(listed.contains(&name), "{name} is not checked");
                }
            }
        }
    };
}

call_by_call!(
    atomics_all,
    coop_groups,
    cpp_features,
    divergence,
    dlopen_c,
    driver_api,
    error,
    events,
    graph,
    grid_sync,
    half_math,
    histogram,
    leak,
    managed,
    matmul_tiled,
    nvtx,
    printf_assert,
    reduction,
    streams_overlap,
    threads8,
    threads8_ptds,
    two_contexts,
    vector_add,
);

fn check(name: &str) {
    let Some(program) = program(name) else {
        return;
    };
    let mut left_out: Vec<String> = UNASKED.iter().map(|name| format!("!{name}")).collect();
    if name.starts_with("threads8") {
        left_out.extend(RACED.iter().map(|name| format!("!{name}")));
    }
    let run = record(&["-e", &left_out.join(",")], &[path(&program)]);
    let text = format!("{}\n{}", run.output.status, normalised(&run.lines, OWN));
    assert!(!text.contains("\"lost\""), "{}", run.stderr());
    insta::with_settings!({ omit_expression => true }, {
        insta::assert_snapshot!(format!("program_{name}"), text);
    });
    h200::compare(name, &run.lines);
}
