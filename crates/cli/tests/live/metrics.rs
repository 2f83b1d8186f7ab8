//! Metrics: what is in them, that promtool accepts them, and that a real Prometheus scrapes them.

use crate::{common, eventually, get, training, value};
use std::{
    fs,
    io::{BufRead, BufReader, Write},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
};

/// cutrace serve, and the program that it watches.
pub struct Served {
    pub child: Child,
    pub address: String,
    pub folder: tempfile::TempDir,
}

impl Drop for Served {
    fn drop(&mut self) {
        if matches!(self.child.try_wait(), Ok(None)) {
            let pid = self.child.id().to_string();
            let _ = Command::new("kill").args(["-INT", &pid]).status();
            let _ = self.child.wait();
        }
    }
}

pub fn serve(options: &[&str], words: &[&str]) -> Option<Served> {
    let folder = tempfile::tempdir().expect("a folder");
    let program = training(folder.path())?;
    let mut child = common::cutrace()
        .args(["serve", "--sim", "--metrics", "127.0.0.1:0"])
        .args(options)
        .arg(program)
        .args(words)
        .current_dir(folder.path())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .expect("cutrace runs");
    let mut lines = BufReader::new(child.stderr.take().expect("stderr")).lines();
    let said = lines
        .by_ref()
        .map_while(Result::ok)
        .find(|line| line.contains("http://"));
    // Nobody must wait because nobody reads.
    std::thread::spawn(move || lines.map_while(Result::ok).for_each(drop));
    let said = said.expect("an address");
    let address = said
        .split("http://")
        .nth(1)
        .and_then(|rest| rest.split('/').next());
    Some(Served {
        address: address.expect("an address").to_owned(),
        child,
        folder,
    })
}

impl Served {
    pub fn metrics(&self) -> Option<String> {
        let (head, body) = get(&self.address, "/metrics")?;
        head.starts_with("HTTP/1.1 200").then_some(body)
    }
}

/// Prometheus's folder; None where it is not there.
fn prometheus() -> Option<PathBuf> {
    let folder = common::repository().join("target/prometheus/usr/bin");
    if folder.join("promtool").is_file() {
        return folder.canonicalize().ok();
    }
    common::skip("Prometheus is not there; type: scripts/setup-prometheus");
    None
}

#[test]
fn metrics_say_what_the_program_does() {
    let Some(served) = serve(&[], &["100000", "5", "quiet"]) else {
        return;
    };
    let metrics = eventually("steps", || {
        let metrics = served.metrics()?;
        let steps = value(&metrics, "cutrace_step_duration_seconds_count", &[])?;
        (steps >= 20.0).then_some(metrics)
    });
    let at = |name: &str, labels: &[&str]| {
        value(&metrics, name, labels)
            .unwrap_or_else(|| panic!("no {name} {labels:?} in\n{metrics}"))
    };
    let launches = at("cutrace_kernel_launches_total", &["process=\"training\""]);
    assert!(launches >= 140.0);
    let by_kernel: f64 = ["forward_pass", "backward_pass", "adam_update"]
        .map(|kernel| {
            at(
                "cutrace_kernel_launched_total",
                &[&format!("kernel=\"{kernel}\"")],
            )
        })
        .iter()
        .sum();
    assert_eq!(by_kernel, launches);
    assert_eq!(at("cutrace_memory_held_bytes", &[]), 1_048_576.0);
    assert_eq!(
        at(
            "cutrace_errors_total",
            &[
                "function=\"cuMemAlloc_v2\"",
                "result=\"CUDA_ERROR_OUT_OF_MEMORY\""
            ]
        ),
        1.0
    );
    assert_eq!(at("cutrace_dropped_events_total", &[]), 0.0);
    let copies = at("cutrace_copies_total", &["direction=\"H2D\""]);
    assert_eq!(
        at("cutrace_copied_bytes_total", &["direction=\"H2D\""]),
        copies * 65_536.0
    );
    let calls = at(
        "cutrace_function_calls_total",
        &["function=\"cuLaunchKernel\""],
    );
    assert!((calls - launches).abs() <= 7.0, "{calls} {launches}");
    let step = at("cutrace_step_duration_seconds_sum", &[])
        / at("cutrace_step_duration_seconds_count", &[]);
    assert!((0.005..2.0).contains(&step), "{step}");
    assert!(metrics.ends_with("# EOF\n"));
    // Counters only grow.
    let later = served.metrics().expect("served");
    for line in metrics.lines().filter(|line| line.contains("_total")) {
        let (series, before) = line.rsplit_once(' ').expect("a value");
        let Some(now) = later
            .lines()
            .find_map(|line| line.strip_prefix(series)?.strip_prefix(' '))
        else {
            panic!("{series} is gone");
        };
        let number = |text: &str| text.parse::<f64>().expect("a number");
        assert!(number(now) >= number(before), "{line}: {now}");
    }
    assert!(!served.folder.path().join("traces").exists());
}

#[test]
fn labels_are_bounded() {
    let Some(served) = serve(&["--most-names", "2"], &["100000", "5", "quiet"]) else {
        return;
    };
    eventually("other", || {
        let metrics = served.metrics()?;
        value(
            &metrics,
            "cutrace_kernel_launched_total",
            &["kernel=\"other\""],
        )?;
        let kernels = metrics
            .lines()
            .filter(|line| line.starts_with("cutrace_kernel_launched_total"));
        assert!(kernels.count() <= 3);
        let all = value(&metrics, "cutrace_kernel_launches_total", &[])?;
        let sum: f64 = (metrics.lines())
            .filter(|line| line.starts_with("cutrace_kernel_launched_total"))
            .filter_map(|line| line.rsplit(' ').next()?.parse::<f64>().ok())
            .sum();
        assert_eq!(sum, all);
        Some(())
    });
}

#[test]
fn the_command_ends_as_it_does() {
    let Some(mut served) = serve(&[], &["20", "1"]) else {
        return;
    };
    assert_eq!(served.child.wait().expect("an end").code(), Some(3));
}

#[test]
fn promtool_accepts_them() {
    let (Some(tools), Some(served)) = (prometheus(), serve(&[], &["100000", "5", "quiet"])) else {
        return;
    };
    let metrics = eventually("kernels", || {
        served
            .metrics()
            .filter(|text| text.contains("adam_update") && text.contains("cutrace_step"))
    });
    let mut check = Command::new(tools.join("promtool"))
        .args(["check", "metrics"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("promtool runs");
    // promtool reads Prometheus's older text format: its counters are named with _total where they are described, and it
    // knows no units and no end.
    let mut input = check.stdin.take().expect("stdin");
    input
        .write_all(older(&metrics).as_bytes())
        .expect("written");
    drop(input);
    let done = check.wait_with_output().expect("promtool ends");
    let said =
        String::from_utf8_lossy(&done.stderr).into_owned() + &String::from_utf8_lossy(&done.stdout);
    assert!(done.status.success(), "{said}\n{metrics}");
}

#[test]
fn promtool_accepts_the_alerts() {
    let Some(tools) = prometheus() else {
        return;
    };
    let rules = common::repository().join("docs/deploy/prometheus-rules.yml");
    let done = Command::new(tools.join("promtool"))
        .args(["check", "rules"])
        .arg(rules)
        .output();
    let done = done.expect("promtool runs");
    assert!(
        done.status.success(),
        "{}",
        String::from_utf8_lossy(&done.stderr)
    );
}

fn older(metrics: &str) -> String {
    let mut counters = Vec::new();
    for line in metrics.lines() {
        if let Some(name) = line
            .strip_prefix("# TYPE ")
            .and_then(|rest| rest.strip_suffix(" counter"))
        {
            counters.push(name.to_owned());
        }
    }
    let mut text = String::new();
    for line in metrics.lines() {
        let words: Vec<&str> = line.splitn(4, ' ').collect();
        match words[..] {
            ["#", "EOF"] | ["#", "UNIT", ..] => {}
            ["#", kind, name, rest] if counters.iter().any(|counter| counter == name) => {
                text += &format!("# {kind} {name}_total {rest}\n");
            }
            ["#", "TYPE", name, "info"] => text += &format!("# TYPE {name}_info gauge\n"),
            ["#", "HELP", name, rest] if name == "cutrace_build" => {
                text += &format!("# HELP {name}_info {rest}\n")
            }
            _ => text += &format!("{line}\n"),
        }
    }
    text
}

/// Prometheus with its data in a folder of its own.
struct Prometheus {
    child: Child,
    address: String,
}

impl Drop for Prometheus {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Prometheus {
    fn start(tools: &Path, folder: &Path, target: &str, options: &[&str]) -> Self {
        let configuration = folder.join("prometheus.yml");
        let text = format!(
            "global: {{scrape_interval: 1s}}\nscrape_configs:\n- job_name: cutrace\n  static_configs:\n  - targets: ['{target}']\n"
        );
        fs::write(&configuration, text).expect("written");
        // A port that is free now; nobody else here takes one of those.
        let port = std::net::TcpListener::bind("127.0.0.1:0")
            .expect("a port")
            .local_addr()
            .expect("bound")
            .port();
        let address = format!("127.0.0.1:{port}");
        let child = Command::new(tools.join("prometheus"))
            .arg(format!("--config.file={}", configuration.display()))
            .arg(format!(
                "--storage.tsdb.path={}",
                folder.join("data").display()
            ))
            .arg(format!("--web.listen-address={address}"))
            .args(options)
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("Prometheus runs");
        Prometheus { child, address }
    }

    /// The first value that a query gives.
    fn ask(&self, query: &str) -> Option<f64> {
        let encoded: String = (query.bytes())
            .map(|byte| match byte {
                b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'_' => char::from(byte).to_string(),
                other => format!("%{other:02X}"),
            })
            .collect();
        let (_, body) = get(&self.address, &format!("/api/v1/query?query={encoded}"))?;
        // It may come in chunks; the object is on one line.
        let json = body.lines().find(|line| line.starts_with('{'))?;
        let answer: serde_json::Value = serde_json::from_str(json).ok()?;
        answer["data"]["result"][0]["value"][1]
            .as_str()?
            .parse()
            .ok()
    }
}

#[test]
fn a_real_prometheus_scrapes_them() {
    let (Some(tools), Some(served)) = (prometheus(), serve(&[], &["100000", "5", "quiet"])) else {
        return;
    };
    let prometheus = Prometheus::start(&tools, served.folder.path(), &served.address, &[]);
    eventually("a scrape", || {
        prometheus
            .ask("up{job=\"cutrace\"}")
            .filter(|up| *up == 1.0)
    });
    let launches = eventually("a rate", || {
        prometheus
            .ask("sum(rate(cutrace_kernel_launches_total[10s]))")
            .filter(|rate| *rate > 1.0)
    });
    let steps = eventually("a rate of steps", || {
        prometheus
            .ask("sum(rate(cutrace_step_duration_seconds_count[10s]))")
            .filter(|rate| *rate > 0.1)
    });
    assert!(
        (2.0..20.0).contains(&(launches / steps)),
        "{launches} {steps}"
    );
    let p99 = eventually("a quantile", || {
        prometheus
            .ask("histogram_quantile(0.99, sum by (le) (rate(cutrace_call_duration_seconds_bucket[10s])))")
            .filter(|seconds| seconds.is_finite())
    });
    assert!(p99 > 0.0);
    assert_eq!(prometheus.ask("cutrace_dropped_events_total"), Some(0.0));
}

#[test]
fn a_real_prometheus_gets_native_histograms() {
    let (Some(tools), Some(served)) = (prometheus(), serve(&[], &["100000", "5", "quiet"])) else {
        return;
    };
    let options = ["--enable-feature=native-histograms"];
    let prometheus = Prometheus::start(&tools, served.folder.path(), &served.address, &options);
    // Without `_bucket` and `le`: only a native histogram answers this.
    let median = eventually("a quantile", || {
        prometheus
            .ask("histogram_quantile(0.5, sum(rate(cutrace_step_duration_seconds[10s])))")
            .filter(|seconds| seconds.is_finite())
    });
    // A step pauses for 5 ms; the machine may be busy.
    assert!((0.004..2.0).contains(&median), "{median}");
    let count = prometheus.ask("histogram_count(sum(cutrace_call_duration_seconds))");
    assert!(count > Some(10.0), "{count:?}");
    // Counters are what they are in text.
    let launches = "sum(rate(cutrace_kernel_launches_total[10s]))";
    let rate = eventually("a rate", || {
        prometheus.ask(launches).filter(|rate| *rate > 1.0)
    });
    assert!(rate.is_finite());
    assert_eq!(prometheus.ask("cutrace_dropped_events_total"), Some(0.0));
}
