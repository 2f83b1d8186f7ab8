//! A name that is small in the trace and huge in its source's words: every verb and every format takes less than
//! a second of the processor and 100 MB. Demangled without a bound it is 555 MB of text, and 16 s.

mod common;

use common::{PARTS, cutrace};
use std::{
    fs::{self, File},
    io::{BufRead, BufReader, Read, Write},
    mem::MaybeUninit,
    net::TcpStream,
    path::Path,
    process::Stdio,
    time::Duration,
};

/// Each part of it doubles the one before.
const NAME: &str = "_Z1fSt4pairIiiES_IS0_S0_ES_IS1_S1_ES_IS2_S2_ES_IS3_S3_ES_IS4_S4_ES_IS5_S5_ES_IS6_S6_E\
    S_IS7_S7_ES_IS8_S8_ES_IS9_S9_ES_ISA_SA_ES_ISB_SB_ES_ISC_SC_ES_ISD_SD_ES_ISE_SE_ES_ISF_SF_ES_ISG_SG_E\
    S_ISH_SH_ES_ISI_SI_ES_ISJ_SJ_ES_ISK_SK_ES_ISL_SL_ES_ISM_SM_ES_ISN_SN_E";

const MOST_TIME: Duration = Duration::from_secs(1);
const MOST_KB: i64 = 100_000;

/// A launch, its kernel on the GPU and a library's call, again and again, all of that name.
fn trace() -> String {
    let mut lines = vec![
        r#"{"type":"meta","version":1,"cutrace":"0.1.0","command":["./app"],"pid":1,"start_ns":1000000000}"#
            .to_owned(),
    ];
    let mut id = 0;
    let mut line = |ts: f64, rest: String| {
        id += 1;
        lines.push(format!(
            r#"{{"event_id":{id},"ts":{ts:.6},"pid":1,{rest}}}"#
        ));
    };
    for step in 0..20u64 {
        let from = step as f64;
        let (call, kernel, other) = (3 * step + 1, 3 * step + 2, 3 * step + 3);
        let stack = format!(r#""stack":[{{"symbol":"{NAME}","module":"/app","offset":4096}}]"#);
        let launch = format!(
            r#""tid":1,"type":"userspace","layer":"driver","name":"cuLaunchKernel","category":"kernel","op_id":{call},"depth":0"#
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
    lines.push(
        r#"{"type":"summary","end_ns":1020000000,"events":140,"counts":{},"open":0,"lost":0,"exit":0}"#
            .to_owned(),
    );
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
}

#[test]
fn nor_on_the_page_that_view_serves() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    fs::write(folder.path().join("t.jsonl"), trace()).expect("written");
    let mut child = cutrace()
        .args(["view", "--no-open", "t.jsonl"])
        .current_dir(folder.path())
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
    let mut stream = TcpStream::connect(host).expect("it listens");
    write!(stream, "GET /{path} HTTP/1.1\r\nHost: {host}\r\n\r\n").expect("asked");
    let mut page = String::new();
    stream.read_to_string(&mut page).expect("answered");
    let of = |file: &str| fs::read_to_string(format!("/proc/{}/{file}", child.id())).expect("runs");
    let (status, stat) = (of("status"), of("stat"));
    child.kill().expect("killed");
    child.wait().expect("ended");
    assert!(page.starts_with("HTTP/1.1 200"), "{page:.200}");
    assert!(page.len() < 10 << 20, "{} bytes", page.len());
    let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let peak = peak.and_then(|text| text.trim().strip_suffix(" kB"));
    // Behind the name in brackets come the state and twelve more before the ticks of 10 ms.
    let (_, behind) = stat.rsplit_once(')').expect("a name");
    let ticks = behind.split_whitespace().skip(11).take(2);
    let ticks: u64 = ticks.map(|text| text.parse::<u64>().expect("ticks")).sum();
    let peak = peak.expect("a peak").parse().expect("KB");
    check(&["view"], Duration::from_millis(10 * ticks), peak);
}
