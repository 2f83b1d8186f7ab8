//! Probes that are there without anybody writing one.

use super::{Ran, program, run};
use serde_json::{Value, json};

#[test]
fn ready_made_probes_count_exactly() {
    let Some(program) = program("probed") else {
        return;
    };
    let count = run(&["count", "vectorAdd"], &program, "vaddn 8 64 2");
    assert_eq!(
        count.numbers("counts"),
        [1024, 32, 16, 1024],
        "{}",
        count.words()
    );
    let trace = run(&["trace", "vector*"], &program, "vaddn 8 64 2");
    assert_eq!(
        trace.events().len(),
        32,
        "a beginning and an end for each block"
    );
    assert!(trace.words().contains("16 blocks recorded, 0 lost"));
    // By multiprocessor and warp, which no two that run at once share.
    let hist = run(&["hist", "/Add/"], &program, "vaddn 512 256 2");
    assert_eq!(hist.numbers("total")[0], 8192, "{}", hist.words());
    assert_eq!(hist.numbers("durations").iter().sum::<u64>(), 8192);
    assert_eq!(hist.numbers("total")[2], 1024, "{}", hist.words());
    assert_eq!(hist.numbers("block durations").iter().sum::<u64>(), 1024);
    assert!(hist.words().contains("blocks by how long they took"));
    let sched = run(&["sched", "vectorAdd"], &program, "vaddn 8 64 2");
    assert!(sched.words().contains("16 blocks on "), "{}", sched.words());
}

/// One request in four stands for the whole; how far off it may be is said.
#[test]
fn samples_of_accesses_are_near_what_all_of_them_are() {
    let Some(program) = program("probed") else {
        return;
    };
    let words = ["mem", "--sample", "1/4", "/vectorAdd/"];
    let mem = run(&words, &program, "vaddn 512 256 2");
    let told = details(&mem);
    assert_eq!(told.len(), 3, "{}", mem.words());
    for access in &told {
        // 8192 requests of 32 threads.
        let requests = access["requests"].as_f64().expect("a number");
        let sigma = (8192.0 * 3.0f64).sqrt();
        assert!((requests - 8192.0).abs() < 5.0 * sigma, "{requests}");
        assert_ne!(requests, 8192.0 * 4.0);
        assert_eq!(access["threads"].as_f64(), Some(requests * 32.0));
        // Four sectors each, whichever were counted.
        assert_eq!(access["sectors"].as_f64(), Some(requests * 4.0));
        assert_eq!(access["one_of"], 4);
        // 1.96 · √(3/4 / 2048) = 3.75 %
        let error = access["error_ppm"].as_u64().expect("a number");
        assert!((35_000..40_000).contains(&error), "{error}");
    }
    assert!(mem.words().contains("± (95 %)"), "{}", mem.words());
    assert!(
        mem.words().contains("One request in 4 was counted"),
        "{}",
        mem.words()
    );
}

/// The lanes that an export of a trace has, in its bytes.
fn exported(ran: &Ran, format: &str) -> Vec<u8> {
    let to = ran.folder.path().join(format!("exported.{format}"));
    let done = super::cutrace()
        .args(["export", "-f", format])
        .arg(ran.folder.path().join("trace.jsonl"))
        .arg("-o")
        .arg(&to)
        .output()
        .expect("cutrace runs");
    assert!(done.status.success(), "{done:?}");
    std::fs::read(&to).expect("exported")
}

#[test]
fn multiprocessors_have_lanes_in_pictures() {
    let Some(program) = program("probed") else {
        return;
    };
    let trace = run(&["trace", "vectorAdd"], &program, "vadd 12 64 2");
    let events = trace.events();
    let of_sm = |sm: u64| {
        let mine = events.iter().filter(|event| event["cpu"] == sm);
        mine.count()
    };
    // softgpu has two multiprocessors, and deals blocks out by turns.
    assert_eq!((of_sm(0), of_sm(1)), (24, 24), "{}", trace.words());
    let has = |bytes: &[u8], text: &str| {
        let mut places = bytes.windows(text.len());
        places.any(|place| place == text.as_bytes())
    };
    for format in ["perfetto", "chrome"] {
        let bytes = exported(&trace, format);
        for lane in ["SM 0", "SM 1"] {
            assert!(has(&bytes, lane), "{format} has no {lane}");
        }
        assert!(!has(&bytes, "SM 2"), "{format}");
    }
    let chrome: Value = serde_json::from_slice(&exported(&trace, "chrome")).expect("JSON");
    let all = chrome["traceEvents"].as_array().expect("events");
    let blocks = all.iter().filter(|event| event["name"] == "block");
    // A span is one event, or its two ends.
    let spans = blocks.filter(|event| event["ph"] != "E" && event["ph"] != "e");
    assert_eq!(spans.count(), 24);
    let drawn = super::cutrace()
        .arg("timeline")
        .arg(trace.folder.path().join("trace.jsonl"))
        .output()
        .expect("cutrace runs");
    let drawn = String::from_utf8_lossy(&drawn.stdout).into_owned();
    let labels: Vec<&str> = drawn
        .lines()
        .filter(|line| line.starts_with("GPU 0 SM "))
        .map(|line| &line[..10])
        .collect();
    assert_eq!(labels, ["GPU 0 SM 0", "GPU 0 SM 1"], "{drawn}");
}

/// What is in a trace of an access.
fn details(ran: &Ran) -> Vec<Value> {
    let events = ran.events().into_iter();
    let accesses = events.filter(|event| event["name"] == "access");
    accesses.map(|event| event["details"].clone()).collect()
}

#[test]
fn mem_counts_what_accesses_do() {
    let Some(program) = program("probed") else {
        return;
    };
    let mem = run(
        &["mem", "vectorAdd(float const*, float const*, float*, int)"],
        &program,
        "vaddn 8 64 2",
    );
    let accesses = mem.map("accesses");
    assert_eq!(accesses.len(), 3, "{}", mem.words());
    for (_, values) in accesses {
        // 32 requests of 32 threads, 4 bytes each: four sectors, side by side.
        assert_eq!(values, [json!([32, 1024, 4096, 128])]);
    }
    let told = details(&mem);
    let kinds = ["load", "load", "store"];
    assert_eq!(told.len(), 3);
    for (number, access) in told.iter().enumerate() {
        assert_eq!(access["kind"], kinds[number]);
        assert_eq!(
            (&access["lines"], &access["untold"]),
            (&json!(16), &json!(0))
        );
        // a, b and c, in the order they are read and written.
        let memory = &access["memory"];
        assert_eq!(memory[0]["in"], "cudaMalloc");
        assert_eq!(memory[0]["size"], 2048);
        assert_eq!(memory[0]["threads"], 1024);
        assert_eq!(memory.as_array().map(Vec::len), Some(1));
        for (line, hot) in access["hot"].as_array().expect("lines").iter().enumerate() {
            assert_eq!(hot["threads"], 64);
            assert_eq!(hot["offset"], 128 * line);
        }
    }
    assert!(
        (mem.words()).contains("16 lines of 128 bytes, 64 threads each"),
        "{}",
        mem.words()
    );
}

#[test]
fn mem_says_which_addresses_are_hot() {
    let Some(program) = program("probed") else {
        return;
    };
    let mem = run(&["mem", "hotspots"], &program, "hot 8 64 3");
    assert!(mem.printed().contains("hot 384\n"), "{}", mem.printed());
    let told = details(&mem);
    assert_eq!(told.len(), 4, "{}", mem.words());
    let [add, put, get, out] = told.as_slice() else {
        panic!("{told:?}");
    };
    // 8 blocks of 64 threads, three times. A quarter goes to the first word, the others have one each behind
    // the first two lines: 24 in each line.
    assert_eq!(add["threads"], 1536);
    assert_eq!((&add["lines"], &add["untold"]), (&json!(17), &json!(0)));
    assert_eq!(add["hot"][0]["threads"], 384);
    assert_eq!(add["hot"][0]["offset"], 0);
    assert_eq!(add["hot"][0]["size"], (512 + 64) * 4);
    for (line, hot) in (2..9).zip(&add["hot"].as_array().expect("lines")[1..]) {
        assert_eq!(hot["threads"], 72);
        assert_eq!(hot["offset"], 128 * line);
    }
    // In strides of two words, every bank that is used serves two of a warp's threads.
    for tile in [put, get] {
        assert_eq!(tile["space"], "shared");
        assert_eq!(
            (&tile["requests"], &tile["passes"]),
            (&json!(48), &json!(96))
        );
        assert_eq!(tile["lines"], 4);
        assert_eq!(tile["memory"], json!([]));
    }
    assert_eq!((&out["lines"], &out["sectors"]), (&json!(16), &json!(192)));
    let words = mem.words();
    assert!(
        words.contains("100.0 % in cudaMalloc 4 (2,304 bytes)"),
        "{words}"
    );
    assert!(
        words.contains("17 lines of 128 bytes, 72 to 384 threads each"),
        "{words}"
    );
    assert!(words.contains(" 25.0 % at 0x"), "{words}");
    assert!(words.contains(", cudaMalloc 4 + 0x0\n"), "{words}");
    assert!(words.contains("2.0 passes"), "{words}");
}

#[test]
fn mem_counts_sectors_and_passes_as_one_does_by_hand() {
    let Some(program) = program("probed") else {
        return;
    };
    let mem = run(&["mem", "/scattered/"], &program, "scattered 32 256");
    let told = details(&mem);
    let printed = mem.printed();
    let by_hand = printed
        .lines()
        .filter_map(|line| line.strip_prefix("scattered "));
    let mut sizes = Vec::new();
    for line in by_hand {
        let numbers: Vec<u64> = line.split(' ').filter_map(|one| one.parse().ok()).collect();
        let &[size, threads, requests, sectors, passes, lines] = numbers.as_slice() else {
            panic!("{line}");
        };
        // All others are of all threads.
        assert!(threads < 32 * 256 && requests > 100, "{line}");
        for (space, unit, parts) in [("global", "sectors", sectors), ("shared", "passes", passes)] {
            let mut same = told.iter().filter(|access| {
                access["space"] == space
                    && access["kind"] == "load"
                    && access["size"] == size
                    && access["threads"] == threads
            });
            let access = same
                .next()
                .unwrap_or_else(|| panic!("{line} in {space}: {}", mem.words()));
            let found = ["requests", unit, "lines"].map(|key| access[key].as_u64());
            assert_eq!(
                found,
                [Some(requests), Some(parts), Some(lines)],
                "{line} {space}"
            );
            assert_eq!(access["untold"], 0);
        }
        sizes.push(size);
    }
    assert_eq!(sizes, [4, 8, 16], "{printed}");
}

#[test]
fn mem_names_variables_that_the_program_asks_for() {
    let Some(program) = program("probed") else {
        return;
    };
    let mem = run(
        &["mem", "vectorAdd(float const*, float const*, float*)"],
        &program,
        "vadd 8 64 2",
    );
    let told = details(&mem);
    let count = &told[0];
    assert_eq!(count["hot"][0]["in"], "threads_run", "{}", mem.words());
    assert_eq!(count["hot"][0]["threads"], 1024);
    assert_eq!((&count["lines"], &count["size"]), (&json!(1), &json!(8)));
    assert!(mem.words().contains("in variable threads_run (8 bytes)"));
}

#[test]
fn traces_of_probes_keep_secrets_and_run_as_somebody_else() {
    let Some(program) = program("probed") else {
        return;
    };
    let ran = run(
        &["count", "vectorAdd", "--redact"],
        &program,
        "vaddn 8 64 2",
    );
    assert_eq!(ran.numbers("counts")[0], 1024, "{}", ran.words());
    let text = std::fs::read_to_string(ran.folder.path().join("trace.jsonl")).expect("a trace");
    assert!(
        text.contains("\"probed\"") && !text.contains("vaddn"),
        "{text}"
    );
    let folder = program.parent().expect("a folder").display().to_string();
    assert!(!text.contains(&folder), "{folder} is in the trace");
    // SAFETY: a question without side effects.
    if unsafe { libc::geteuid() } != 0 {
        return super::skip("only root can run commands as another user");
    }
    let folder = tempfile::tempdir_in("/tmp").expect("a folder");
    let open = std::os::unix::fs::PermissionsExt::from_mode(0o777);
    std::fs::set_permissions(folder.path(), open).expect("opened");
    let mut command = super::cutrace();
    let output = command
        .args(["gpu", "count", "*", "--sim", "--user", "nobody", "-o"])
        .arg(folder.path().join("trace.jsonl"))
        .args(["--", "id", "-u"])
        .output()
        .expect("started");
    assert_eq!(output.stdout, b"65534\n", "{output:?}");
}
