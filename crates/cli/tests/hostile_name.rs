//! A name that is small in the trace and huge in its source's words: every verb and every format takes less than
//! a second of the processor and 100 MB. Demangled without a bound it is 555 MB of text, and 16 s.

mod common;

use common::{PARTS, cutrace};
use serde_json::Value;
use std::{
    fs::{self, File},
    io::{BufRead, BufReader, Read, Write},
    mem::MaybeUninit,
    net::TcpStream,
    path::Path,
    process::{Child, Stdio},
    thread,
    time::Duration,
};

/// Each part of it doubles the one before.
const NAME: &str = "_Z1fSt4pairIiiES_IS0_S0_ES_IS1_S1_ES_IS2_S2_ES_IS3_S3_ES_IS4_S4_ES_IS5_S5_ES_IS6_S6_E\
    S_IS7_S7_ES_IS8_S8_ES_IS9_S9_ES_ISA_SA_ES_ISB_SB_ES_ISC_SC_ES_ISD_SD_ES_ISE_SE_ES_ISF_SF_ES_ISG_SG_E\
    S_ISH_SH_ES_ISI_SI_ES_ISJ_SJ_ES_ISK_SK_ES_ISL_SL_ES_ISM_SM_ES_ISN_SN_E";

const MOST_TIME: Duration = Duration::from_secs(1);
const MOST_KB: i64 = 100_000;

/// A step of a module's operator, its launch, the kernel on the GPU and a library's call, again and again, all of that
/// name.
fn trace() -> String {
    let mut lines = vec![
        r#"{"type":"meta","version":1,"cutrace":"0.1.0","command":["./app"],"pid":1,"start_ns":1000000000}"#
            .to_owned(),
    ];
    let mut count = 0;
    let mut line = |ts: f64, rest: String| {
        count += 1;
        lines.push(format!(
            r#"{{"event_id":{count},"ts":{ts:.6},"pid":1,{rest}}}"#
        ));
    };
    for step in 0..20u64 {
        let from = step as f64;
        let first = 6 * step;
        let (profiled, module, operator) = (first + 1, first + 2, first + 3);
        let (call, kernel, other) = (first + 4, first + 5, first + 6);
        let stack = format!(r#""stack":[{{"symbol":"{NAME}","module":"/app","offset":4096}}]"#);
        let framework = |id: u64, depth: u32, scope: &str, name: &str| {
            format!(
                r#""tid":1,"type":"operator","layer":"framework","name":"{name}","category":"other","op_id":{id},"depth":{depth},"details":{{"scope":"{scope}"}}"#
            )
        };
        let around = [
            framework(profiled, 0, "user", &format!("ProfilerStep#{step}")),
            framework(module, 1, "user", &format!("nn.Module: {NAME}")),
            framework(operator, 2, "operator", NAME),
        ];
        for begun in &around {
            line(from, format!(r#"{begun},"phase":"B",{stack}"#));
        }
        let launch = format!(
            r#""tid":1,"type":"userspace","layer":"driver","name":"cuLaunchKernel","category":"kernel","op_id":{call},"depth":3,"parent":{operator},"correlation":{call}"#
        );
        line(from, format!(r#"{launch},"phase":"B",{stack}"#));
        line(
            from + 0.01,
            format!(r#"{launch},"phase":"E","duration_us":10.000,"status":0"#),
        );
        line(
            from + 0.01,
            format!(
                r#""tid":1,"type":"kernel","layer":"driver","op":"launch","kernel":"{NAME}","grid":[1,1,1],"block":[32,1,1],"shared":0,"threads":32,"name":"cuLaunchKernel","op_id":{call}"#
            ),
        );
        for ended in around.iter().rev() {
            line(
                from + 0.02,
                format!(r#"{ended},"phase":"E","duration_us":20.000"#),
            );
        }
        let gpu = format!(
            r#""tid":0,"type":"gpu","layer":"gpu","name":"{NAME}","category":"kernel","op_id":{kernel},"depth":0,"device":0,"stream":"0x0","correlation":{call}"#
        );
        line(from + 0.1, format!(r#"{gpu},"phase":"B""#));
        line(
            from + 0.3,
            format!(r#"{gpu},"phase":"E","duration_us":200.000"#),
        );
        let library = format!(
            r#""tid":1,"type":"userspace","layer":"library","name":"{NAME}","category":"other","op_id":{other},"depth":0"#
        );
        line(from + 0.4, format!(r#"{library},"phase":"B""#));
        line(
            from + 0.5,
            format!(r#"{library},"phase":"E","duration_us":100.000"#),
        );
    }
    lines.push(format!(
        r#"{{"type":"summary","end_ns":1020000000,"events":{count},"counts":{{}},"open":0,"lost":0,"exit":0}}"#
    ));
    lines.join("\n") + "\n"
}

/// Runs it to its end and says what it wrote, to stdout.
#[expect(
    clippy::zombie_processes,
    reason = "wait4 waits for it, and says what it took"
)]
fn run(arguments: &[&str], folder: &Path) -> String {
    let (out, err) = (folder.join("stdout"), folder.join("stderr"));
    let child = cutrace()
        .args(arguments)
        .current_dir(folder)
        .stdout(File::create(&out).expect("a file"))
        .stderr(File::create(&err).expect("a file"))
        .spawn()
        .expect("cutrace runs");
    let mut status = 0;
    let mut usage = MaybeUninit::<libc::rusage>::zeroed();
    // SAFETY: the child is ours and nobody else waits for it; zeros are a valid rusage.
    let usage = unsafe {
        let pid = child.id() as libc::pid_t;
        assert_eq!(libc::wait4(pid, &mut status, 0, usage.as_mut_ptr()), pid);
        usage.assume_init()
    };
    let said = fs::read_to_string(err).expect("stderr");
    assert_eq!(status, 0, "{arguments:?}: {said}");
    assert!(!said.contains("warning"), "{arguments:?}: {said}");
    let time = |time: libc::timeval| {
        Duration::from_secs(time.tv_sec as u64) + Duration::from_micros(time.tv_usec as u64)
    };
    let took = time(usage.ru_utime) + time(usage.ru_stime);
    check(arguments, took, usage.ru_maxrss);
    String::from_utf8_lossy(&fs::read(out).expect("stdout")).into_owned()
}

fn check(arguments: &[&str], took: Duration, peak_kb: i64) {
    println!("{arguments:?}: {took:?}, {peak_kb} KB");
    assert!(took < MOST_TIME, "{arguments:?} took {took:?}");
    assert!(peak_kb < MOST_KB, "{arguments:?} took {peak_kb} KB");
}

#[test]
fn a_name_that_doubles_with_each_letter_costs_nothing_in_any_verb() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let folder = folder.path();
    fs::write(folder.join("t.jsonl"), trace()).expect("written");
    let mut shown = String::new();
    for part in PARTS {
        shown += &run(&["report", part, "t.jsonl"], folder);
    }
    let inside = "20 of 20 pieces of GPU work were started inside an operator";
    assert!(shown.contains(inside), "{shown}");
    let mut kernels = shown.lines().map(|line| line.split_whitespace().next());
    assert!(kernels.any(|word| word == Some("f")), "{shown}");
    for format in [
        "jsonl", "arrow", "parquet", "csv", "chrome", "perfetto", "folded", "svg", "html",
    ] {
        run(&["export", "-f", format, "t.jsonl", "-o", format], folder);
        let size = fs::metadata(folder.join(format)).expect("written").len();
        assert!((1..10 << 20).contains(&size), "{format}: {size} bytes");
    }
    let whole = run(&["cat", "t.jsonl"], folder);
    assert!(whole.contains(NAME), "{whole}");
    for arguments in [
        &["report", "top", "arrow"][..],
        &["timeline", "t.jsonl"],
        &["replay", "t.jsonl"],
        &["diff", "t.jsonl", "t.jsonl"],
        &[
            "diff",
            "t.jsonl",
            "t.jsonl",
            "--fail-on",
            "cuLaunchKernel>+5%",
        ],
    ] {
        assert!(!run(arguments, folder).is_empty(), "{arguments:?}");
    }
    run(&["lake", "add", "lake", "t.jsonl"], folder);
    run(&["lake", "check", "lake"], folder);
}

/// `cutrace view`, until it is dropped.
struct Served {
    child: Child,
    host: String,
    path: String,
}

impl Served {
    fn start(traces: &[&str], folder: &Path) -> Self {
        let mut child = cutrace()
            .args(["view", "--no-open"])
            .args(traces)
            .current_dir(folder)
            .stderr(Stdio::piped())
            .spawn()
            .expect("cutrace runs");
        let mut said = BufReader::new(child.stderr.take().expect("stderr")).lines();
        let address = said.by_ref().map_while(Result::ok).find_map(|line| {
            let mut words = line.split_whitespace();
            words.find_map(|word| word.strip_prefix("http://").map(str::to_owned))
        });
        let address = address.expect("an address");
        let (host, path) = address.split_once('/').expect("a path");
        let served = Served {
            child,
            host: host.to_owned(),
            path: format!("/{path}"),
        };
        // A slow machine shows the page before it is whole.
        while !served.get("api/status").contains(r#""stage":"ready""#) {
            thread::sleep(Duration::from_millis(10));
        }
        served
    }

    /// What it answers with.
    fn get(&self, below: &str) -> String {
        let Served { host, path, .. } = self;
        let mut stream = TcpStream::connect(host).expect("it listens");
        write!(stream, "GET {path}{below} HTTP/1.1\r\nHost: {host}\r\n\r\n").expect("asked");
        let mut answer = String::new();
        stream.read_to_string(&mut answer).expect("answered");
        assert!(answer.starts_with("HTTP/1.1 200"), "{below}: {answer:.200}");
        assert!(answer.len() < 10 << 20, "{below}: {} bytes", answer.len());
        let (_, body) = answer.split_once("\r\n\r\n").expect("a head and a body");
        body.to_owned()
    }

    fn json(&self, below: &str) -> Value {
        serde_json::from_str(&self.get(below)).expect("JSON")
    }

    /// Spans, a search, and everything about the spans of one trace.
    fn ask_about(&self, trace: usize) {
        let spans = self.json(&format!(
            "api/spans?trace={trace}&from=0&to=9000000000000000"
        ));
        let rows = spans["rows"].as_array().expect("rows");
        // Every kind of span is among the first two of its row.
        let ids = rows.iter().filter_map(|row| row["id"].as_array());
        let ids = ids.flat_map(|ids| ids.iter().take(2));
        let ids: Vec<u64> = ids.filter_map(Value::as_u64).collect();
        assert!(ids.len() >= 10, "{spans}");
        for id in ids {
            self.get(&format!("api/event?trace={trace}&id={id}"));
        }
        for question in ["q=pair", "q=f&in=names"] {
            self.get(&format!("api/search?trace={trace}&{question}"));
        }
    }

    /// What it took so far.
    fn check(&self, what: &str) {
        let of = |file: &str| {
            fs::read_to_string(format!("/proc/{}/{file}", self.child.id())).expect("runs")
        };
        let (status, stat) = (of("status"), of("stat"));
        let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
        let peak = peak.and_then(|text| text.trim().strip_suffix(" kB"));
        // Behind the name in brackets come the state and twelve more before the ticks of 10 ms.
        let (_, behind) = stat.rsplit_once(')').expect("a name");
        let ticks = behind.split_whitespace().skip(11).take(2);
        let ticks: u64 = ticks.map(|text| text.parse::<u64>().expect("ticks")).sum();
        let peak = peak.expect("a peak").parse().expect("KB");
        check(&[what], Duration::from_millis(10 * ticks), peak);
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn nor_on_the_page_that_view_serves() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    fs::write(folder.path().join("t.jsonl"), trace()).expect("written");
    let served = Served::start(&["t.jsonl"], folder.path());
    served.get("");
    served.json("api/report");
    served.ask_about(0);
    served.check("view");
}

#[test]
fn nor_beside_another_trace() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    for name in ["a.jsonl", "b.jsonl"] {
        fs::write(folder.path().join(name), trace()).expect("written");
    }
    let served = Served::start(&["a.jsonl", "b.jsonl"], folder.path());
    served.get("");
    served.ask_about(0);
    served.ask_about(1);
    served.check("view of two");
}
