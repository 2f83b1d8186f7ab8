//! Spans over OTLP: to a server that decodes them by the published messages, and to a real collector.

use crate::{common, eventually, metrics::serve, value};
use opentelemetry_proto::tonic::{
    collector::trace::v1::ExportTraceServiceRequest,
    common::v1::{KeyValue, any_value::Value},
    trace::v1::Span,
};
use prost::Message;
use std::{
    collections::HashSet,
    fs::File,
    io::{Read, Write},
    net::TcpListener,
    path::PathBuf,
    process::{Child, Command, Stdio},
    sync::mpsc,
    thread,
    time::Duration,
};

/// Requests as they come, decoded, with their heads.
fn collector() -> (String, mpsc::Receiver<(String, ExportTraceServiceRequest)>) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("bound").to_string();
    let (give, take) = mpsc::channel();
    thread::spawn(move || {
        for stream in listener.incoming() {
            let Ok(mut stream) = stream else { return };
            let mut bytes = Vec::new();
            let mut buffer = [0; 4_096];
            let (head, body) = loop {
                let count = stream.read(&mut buffer).expect("a request");
                bytes.extend_from_slice(&buffer[..count]);
                let Some(end) = bytes.windows(4).position(|it| it == b"\r\n\r\n") else {
                    assert!(count > 0, "half a head");
                    continue;
                };
                let head = String::from_utf8_lossy(&bytes[..end]).into_owned();
                let length = head
                    .lines()
                    .find_map(|line| line.strip_prefix("Content-Length: "));
                let length: usize = length.expect("a length").parse().expect("a number");
                if bytes.len() >= end + 4 + length {
                    break (head, bytes[end + 4..end + 4 + length].to_vec());
                }
            };
            let request = ExportTraceServiceRequest::decode(&*body).expect("OTLP");
            let _ = stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n");
            if give.send((head, request)).is_err() {
                return;
            }
        }
    });
    (address, take)
}

fn text(attributes: &[KeyValue], key: &str) -> Option<String> {
    let found = attributes
        .iter()
        .find(|it| it.key == key)?
        .value
        .clone()?
        .value?;
    match found {
        Value::StringValue(text) => Some(text),
        Value::IntValue(number) => Some(number.to_string()),
        _ => None,
    }
}

#[test]
fn steps_and_errors_are_spans() {
    let (address, requests) = collector();
    let url = format!("http://{address}");
    let options = ["--otlp", &url, "--otlp-sample", "1/5"];
    let Some(mut served) = serve(&options, &["300", "5", "quiet"]) else {
        return;
    };
    let exit = served.child.wait().expect("an end");
    assert_eq!(exit.code(), Some(3));
    let mut spans: Vec<Span> = Vec::new();
    while let Ok((head, request)) = requests.recv_timeout(Duration::from_secs(2)) {
        assert!(head.starts_with("POST /v1/traces HTTP/1.1\r\n"), "{head}");
        assert!(
            head.contains("Content-Type: application/x-protobuf"),
            "{head}"
        );
        for one in request.resource_spans {
            let resource = one.resource.expect("a resource");
            assert_eq!(
                text(&resource.attributes, "service.name").as_deref(),
                Some("training")
            );
            assert!(text(&resource.attributes, "process.pid").is_some());
            for scope in one.scope_spans {
                assert_eq!(scope.scope.expect("a scope").name, "cutrace");
                spans.extend(scope.spans);
            }
        }
    }
    let of = |kind: &str| -> Vec<&Span> {
        let is_wanted =
            |span: &&Span| text(&span.attributes, "cutrace.kind").as_deref() == Some(kind);
        spans.iter().filter(is_wanted).collect()
    };
    let steps = of("step");
    // One in five of those after the loop was found.
    assert!((40..=60).contains(&steps.len()), "{}", steps.len());
    let now = std::time::SystemTime::now()
        .duration_since(std::time::UNIX_EPOCH)
        .expect("now")
        .as_nanos() as u64;
    for step in steps {
        let length = step
            .end_time_unix_nano
            .checked_sub(step.start_time_unix_nano)
            .expect("ends later");
        assert!((4_000_000..5_000_000_000).contains(&length), "{length}");
        assert!(
            now - step.end_time_unix_nano < 600_000_000_000,
            "not of today"
        );
    }
    let errors = of("error");
    assert_eq!(errors.len(), 1);
    assert_eq!(errors[0].name, "cuMemAlloc_v2");
    assert_eq!(
        text(&errors[0].attributes, "cuda.result").as_deref(),
        Some("CUDA_ERROR_OUT_OF_MEMORY")
    );
    assert_eq!(errors[0].status.as_ref().map(|status| status.code), Some(2));
    let ids: HashSet<&[u8]> = spans.iter().map(|span| &*span.span_id).collect();
    assert_eq!(ids.len(), spans.len());
    assert!(
        spans
            .iter()
            .all(|span| span.span_id.len() == 8 && span.trace_id.len() == 16)
    );
}

#[test]
fn a_collector_that_is_away_costs_nothing_but_spans() {
    // Nobody listens there, or somebody who never answers.
    let silent = TcpListener::bind("127.0.0.1:0").expect("a port");
    let silent = format!("http://{}", silent.local_addr().expect("bound"));
    for url in ["http://127.0.0.1:1", &silent] {
        let Some(mut served) = serve(
            &["--otlp", url, "--otlp-sample", "1/1"],
            &["2000", "5", "quiet"],
        ) else {
            return;
        };
        eventually("dropped spans", || {
            value(&served.metrics()?, "cutrace_otlp_dropped_spans_total", &[])
                .filter(|count| *count > 0.0)
        });
        assert_eq!(served.child.wait().expect("an end").code(), Some(3));
    }
}

struct Collector {
    child: Child,
    log: PathBuf,
    address: String,
}

impl Drop for Collector {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Collector {
    fn start(folder: &std::path::Path) -> Option<Self> {
        let setup = common::repository().join("target/collector");
        let found = Command::new("find")
            .arg(&setup)
            .args(["-name", "rotel-agent", "-type", "f"])
            .output();
        let found = String::from_utf8_lossy(&found.ok()?.stdout)
            .lines()
            .next()
            .map(PathBuf::from);
        let Some(program) = found else {
            common::skip("there is no collector; type: scripts/setup-collector");
            return None;
        };
        let port = || {
            let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
            listener.local_addr().expect("bound").to_string()
        };
        let (address, grpc, log) = (port(), port(), folder.join("collector.log"));
        let child = Command::new(program)
            .args([
                "start",
                "--exporter",
                "blackhole",
                "--debug-log",
                "traces",
                "--debug-log-verbosity",
                "detailed",
            ])
            .args([
                "--otlp-http-endpoint",
                &address,
                "--otlp-grpc-endpoint",
                &grpc,
            ])
            .stdout(File::create(&log).expect("a file"))
            .stderr(Stdio::null())
            .spawn()
            .expect("the collector runs");
        let collector = Collector {
            child,
            log,
            address,
        };
        eventually("the collector listens", || {
            std::net::TcpStream::connect(&collector.address)
                .ok()
                .map(drop)
        });
        Some(collector)
    }
}

#[test]
fn a_real_collector_takes_them() {
    let folder = tempfile::tempdir().expect("a folder");
    let Some(collector) = Collector::start(folder.path()) else {
        return;
    };
    let url = format!("http://{}", collector.address);
    let Some(served) = serve(
        &["--otlp", &url, "--otlp-sample", "1/1"],
        &["100000", "5", "quiet"],
    ) else {
        return;
    };
    let log = eventually("spans in the collector's log", || {
        let log = std::fs::read_to_string(&collector.log).ok()?;
        let has = |words: &str| log.contains(words);
        (has("cuMemAlloc_v2") && log.matches(": step\n").count() > 20).then_some(log)
    });
    for words in [
        "service.name: Str(training)",
        "cutrace.kind: Str(step)",
        "cuda.result: Str(CUDA_ERROR_OUT_OF_MEMORY)",
    ] {
        assert!(log.contains(words), "no {words}");
    }
    assert_eq!(
        value(
            &served.metrics().expect("metrics"),
            "cutrace_otlp_dropped_spans_total",
            &[]
        ),
        Some(0.0)
    );
}
