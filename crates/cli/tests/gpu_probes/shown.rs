//! What people see: maps as tables and bars, events as lines, the answer before the summary.

use super::{Ran, common::cutrace, example, program, repository, run};
use std::{
    io::{BufRead, BufReader},
    path::Path,
    process::{Command, Stdio},
    time::{Duration, Instant},
};

/// The lines of one map, without its title.
fn map_lines(said: &str, title: &str) -> Vec<String> {
    let lines = said.lines().skip_while(|line| *line != title).skip(1);
    let own = lines.take_while(|line| !line.is_empty());
    own.map(str::to_owned).collect()
}

fn object(name: &str) -> String {
    let path = repository().join(format!("examples/gpu/objects/{name}.bpf.o"));
    path.display().to_string()
}

#[test]
fn threads_have_a_table_with_their_total() {
    let Some(ran) = example("threadhist", "vadd 4 64 3") else {
        return;
    };
    let lines = map_lines(&ran.words(), "map runs (array per thread)");
    let expected = [
        "  0: 256 threads, 768 in total",
        "    threads 0 to 255, each: 3",
    ];
    assert_eq!(lines, expected, "{}", ran.words());
}

#[test]
fn moments_are_not_added_up() {
    let Some(ran) = example("host_map_test", "vadd 1 10 2") else {
        return;
    };
    let said = ran.words();
    let times = map_lines(&said, "map timestamps (host array per thread)");
    assert_eq!(times.len(), 10, "{said}");
    assert!(times[0].starts_with("  0: 1 thread, from "), "{said}");
    let calls = map_lines(&said, "map call_count (host array per thread)");
    let expected = [
        "  0: 10 threads, 20 in total",
        "    threads 0 to 9, each: 2",
    ];
    assert_eq!(calls, expected, "{said}");
}

#[test]
fn histograms_have_bars_and_structs_columns() {
    let Some(ran) = example("launchtime", "time 4 64 20") else {
        return;
    };
    let said = ran.words();
    let bars = map_lines(&said, "map latency (gpu array)");
    assert_eq!(
        bars.last().map(String::as_str),
        Some("  20 in total"),
        "{said}"
    );
    let bins = &bars[..bars.len() - 1];
    let longest = bins.iter().map(|line| line.matches('█').count()).max();
    assert_eq!(longest, Some(40), "{said}");
    let counts = bins.iter().map(|line| {
        let words: Vec<&str> = line.split_whitespace().collect();
        words[1].parse::<u64>().expect("a count")
    });
    assert_eq!(counts.sum::<u64>(), 20, "{said}");

    let Some(ran) = example("threadscheduling", "vadd 4 64 1") else {
        return;
    };
    let said = ran.words();
    let rows = map_lines(&said, "map threads (hash)");
    assert_eq!(rows[0], "  256 keys", "{said}");
    let heads: Vec<&str> = rows[1].split_whitespace().collect();
    let expected = ["key", "timestamp", "block", "thread", "sm", "warp", "lane"];
    assert_eq!(heads, expected, "{said}");
    let first: Vec<&str> = rows[2].split_whitespace().collect();
    assert_eq!((first[0], first[2], first[3]), ("0", "(0,0,0)", "(0,0,0)"));
    assert_eq!(rows.len(), 2 + 10 + 1, "{said}");
    assert_eq!(rows[12].trim(), "… and 246 more");
}

#[test]
fn the_answer_comes_before_the_summary_with_short_names() {
    let Some(program) = program("endless") else {
        return;
    };
    let folder = tempfile::tempdir().expect("a folder");
    let said = |words: &[&str]| {
        let output = cutrace()
            .args(["gpu", "count", "vectorAdd", "--sim", "-o"])
            .arg(folder.path().join("trace.jsonl"))
            .args(words)
            .arg("--")
            .arg(&program)
            .args(["once", "8", "64", "2"])
            .output()
            .expect("cutrace runs");
        assert!(output.status.success(), "{output:?}");
        String::from_utf8_lossy(&output.stderr).into_owned()
    };
    let short = said(&[]);
    let answer = short.find("1,024 threads that entered").expect("an answer");
    let summary = short.find("=== TRACE SUMMARY ===").expect("a summary");
    assert!(answer < summary, "{short}");
    assert!(short.contains("\nvectorAdd\n"), "{short}");
    assert!(!short.contains("float const*"), "{short}");
    for words in [["--full-names"], ["-v"]] {
        let full = said(&words);
        let name = "\nvectorAdd(float const*, float const*, float*)\n";
        assert!(full.contains(name), "{full}");
    }
}

#[test]
fn events_are_lines_one_a_thread_and_the_total_last() {
    let Some(program) = program("probed") else {
        return;
    };
    let output = cutrace()
        .args([
            "gpu",
            "run",
            &object("kernelretsnoop"),
            "--sim",
            "-q",
            "-o",
            "-",
            "--",
        ])
        .arg(&program)
        .args(["vadd", "1", "5", "2"])
        .output()
        .expect("cutrace runs");
    assert!(output.status.success(), "{output:?}");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(lines.len(), 11, "{text}");
    for (number, line) in lines[..10].iter().enumerate() {
        let start = format!("[event] thread=({},0,0) timestamp=", number % 5);
        let moment = line
            .strip_prefix(&start)
            .unwrap_or_else(|| panic!("{text}"));
        assert!(
            moment.parse::<u64>().is_ok_and(|moment| moment > 0),
            "{text}"
        );
    }
    assert_eq!(lines[10], "[event] total events: 10");
    // What the program prints does not come between them.
    assert!(String::from_utf8_lossy(&output.stderr).contains("threads 10\n"));
}

#[test]
fn events_are_printed_while_the_program_runs() {
    let Some(program) = program("endless") else {
        return;
    };
    let mut child = cutrace()
        .args([
            "gpu",
            "run",
            &object("kernelretsnoop"),
            "--sim",
            "-q",
            "-o",
            "-",
            "--",
        ])
        .arg(&program)
        .args(["wait", "1", "3", "1"])
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .expect("started");
    let mut lines = BufReader::new(child.stdout.take().expect("piped")).lines();
    let began = Instant::now();
    // It sleeps for ever: without an end, all three have to come.
    for _ in 0..3 {
        let line = lines.next().expect("a line").expect("readable");
        assert!(line.starts_with("[event] thread=("), "{line}");
    }
    assert!(began.elapsed() < Duration::from_secs(60));
    // SAFETY: a child that has not been waited for. cutrace sends it on.
    unsafe { libc::kill(child.id() as i32, libc::SIGINT) };
    let rest: Vec<String> = lines.map(|line| line.expect("readable")).collect();
    assert_eq!(rest, ["[event] total events: 3"]);
    let _ = child.wait();
}

#[test]
fn any_probe_goes_to_another_kernel() {
    let Some(program) = program("probed") else {
        return;
    };
    // The object names vectorAdd(const float *, const float *, float *).
    let ran = run(
        &["run", &object("threadhist"), "--kernel", "hotspots"],
        &program,
        "hot 2 32 3",
    );
    assert!(ran.output.status.success(), "{}", ran.words());
    let expected = [
        "  0: 64 threads, 192 in total",
        "    threads 0 to 63, each: 3",
    ];
    let lines = map_lines(&ran.words(), "map runs (array per thread)");
    assert_eq!(lines, expected, "{}", ran.words());
    let elsewhere = run(&["run", &object("threadhist")], &program, "hot 2 32 3");
    assert!(elsewhere.map("runs").is_empty(), "{}", elsewhere.words());
}

fn cutrace_says(ran: &Ran, words: &[&str]) -> String {
    let output = cutrace()
        .args(words)
        .arg(ran.folder.path().join("trace.jsonl"))
        .output()
        .expect("cutrace runs");
    assert!(output.status.success(), "{output:?}");
    String::from_utf8_lossy(&output.stdout).into_owned()
}

#[test]
fn threads_are_traced_each_for_itself() {
    let Some(program) = program("probed") else {
        return;
    };
    let ran = run(
        &["trace", "vectorAdd", "--threads"],
        &program,
        "vaddn 8 64 2",
    );
    let events = ran.events();
    let begun: Vec<_> = (events.iter())
        .filter(|event| event["name"] == "thread" && event["phase"] == "B")
        .collect();
    assert_eq!(begun.len(), 1024, "{}", ran.words());
    for (block, thread) in (0..8).flat_map(|block| (0..64).map(move |thread| (block, thread))) {
        let place = |event: &&&serde_json::Value| {
            let details = &event["details"];
            details["block_x"] == block && details["thread_x"] == thread
        };
        assert_eq!(begun.iter().filter(place).count(), 2, "{block} {thread}");
    }
    let ended = events.iter().filter(|event| event["phase"] == "E");
    let times: Vec<f64> = ended
        .map(|event| event["duration_us"].as_f64().expect("a time"))
        .collect();
    assert_eq!(times.len(), 1024);
    assert!(times.iter().all(|time| *time > 0.0), "{times:?}");
    let said = cutrace_says(&ran, &["report", "gpu"]);
    assert!(said.contains("Threads inside kernels, GPU 0"), "{said}");
    assert!(said.contains("1,024 threads on "), "{said}");
}

#[test]
fn blocks_are_in_the_report_the_timeline_and_the_page() {
    let Some(program) = program("probed") else {
        return;
    };
    let ran = run(&["trace", "vectorAdd"], &program, "vadd 12 64 2");
    let said = cutrace_says(&ran, &["report", "gpu"]);
    assert!(said.contains("Blocks inside kernels, GPU 0"), "{said}");
    assert!(said.contains("24 blocks on "), "{said}");
    let timeline = cutrace_says(&ran, &["timeline"]);
    assert!(timeline.contains("GPU 0 SM 0"), "{timeline}");
    let json = cutrace_says(&ran, &["report", "--json", "gpu"]);
    let report: serde_json::Value = serde_json::from_str(&json).expect("JSON");
    let blocks = &report["blocks"][0];
    assert_eq!(
        (&blocks["name"], &blocks["count"]),
        (&"block".into(), &24.into()),
        "{json}"
    );
    let page = ran.folder.path().join("page.html");
    let output = cutrace()
        .args(["export", "-f", "html", "-o"])
        .arg(&page)
        .arg(ran.folder.path().join("trace.jsonl"))
        .output()
        .expect("cutrace runs");
    assert!(output.status.success(), "{output:?}");
    let page = std::fs::read_to_string(page).expect("a page");
    // Its table is made of these: one row for each multiprocessor.
    let (_, data) = page.split_once("\"blocks\":[{").expect("the table's data");
    let (data, _) = data.split_once("\"p50_ns\"").expect("its end");
    assert!(data.contains("\"count\":24,"), "{data}");
    let used = blocks["multiprocessors"].as_array().expect("a list").len();
    assert_eq!(data.matches("\"sm\":").count(), used, "{data}");
}

/// jq 1.6 computes with doubles, and would round a GPU's clock.
#[test]
fn large_numbers_survive_jq() {
    let jq = Path::new("/usr/bin/jq");
    if !jq.exists() {
        return super::skip("no jq");
    }
    let Some(ran) = example("kernelretsnoop", "vadd 1 5 1") else {
        return;
    };
    let output = Command::new(jq)
        .args(["-r", "select(.type==\"device\").details.timestamp"])
        .arg(ran.folder.path().join("trace.jsonl"))
        .output()
        .expect("jq runs");
    let by_jq = String::from_utf8_lossy(&output.stdout).into_owned();
    let exact: Vec<String> = (ran.events().iter())
        .map(|event| {
            event["details"]["timestamp"]
                .as_str()
                .expect("a text")
                .to_owned()
        })
        .collect();
    assert_eq!(exact.len(), 5);
    assert_eq!(by_jq.lines().collect::<Vec<_>>(), exact);
    let above = |text: &String| text.parse::<u64>().is_ok_and(|number| number > 1 << 53);
    assert!(exact.iter().all(above), "{exact:?}");
}
