//! `cutrace view`: one page, on loopback, to whoever knows its address, and to nobody else.

mod common;
#[path = "../../trace/examples/generate/program.rs"]
mod program;

use common::{cutrace, repository};
use std::{
    collections::BTreeMap,
    io::{BufRead, BufReader, Read, Write},
    net::TcpStream,
    process::{Child, Command, Stdio},
};

struct Served {
    child: Child,
    /// With the trace, whose index is written beside it.
    _folder: Option<tempfile::TempDir>,
    host: String,
    path: String,
}

impl Drop for Served {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn serve() -> Served {
    let mut command = cutrace();
    command.args(["view", "--no-open"]);
    serve_with(command)
}

fn serve_with(mut command: Command) -> Served {
    let folder = tempfile::tempdir().expect("a folder");
    command.arg(copied(folder.path()));
    let mut served = serve_what(command);
    served._folder = Some(folder);
    served
}

fn serve_what(mut command: Command) -> Served {
    let mut child = command
        .stderr(Stdio::piped())
        .spawn()
        .expect("cutrace runs");
    let said = BufReader::new(child.stderr.take().expect("stderr"))
        .lines()
        .map_while(Result::ok)
        .find(|line| line.contains("http://"))
        .expect("an address");
    let address = said
        .split_whitespace()
        .find_map(|word| word.strip_prefix("http://"));
    let (host, path) = address
        .and_then(|text| text.split_once('/'))
        .expect("a path");
    Served {
        child,
        _folder: None,
        host: host.to_owned(),
        path: format!("/{path}"),
    }
}

impl Served {
    fn ask(&self, method: &str, path: &str, host: &str) -> String {
        let mut stream = TcpStream::connect(&self.host).expect("it listens");
        write!(stream, "{method} {path} HTTP/1.1\r\nHost: {host}\r\n\r\n").expect("asked");
        let mut answer = String::new();
        stream.read_to_string(&mut answer).expect("answered");
        answer
    }
}

/// Everybody sees command lines: the secret is in none.
#[test]
fn the_browser_is_not_told_the_secret_in_its_command_line() {
    use std::os::unix::fs::PermissionsExt;
    let folder = tempfile::tempdir().expect("a folder");
    let browser = folder.path().join("xdg-open");
    let script = "#!/bin/sh\necho \"$@\" > \"$SEEN.part\"; stat -c %a \"$1\" >> \"$SEEN.part\"\n\
                  cat \"$1\" >> \"$SEEN.part\"; mv \"$SEEN.part\" \"$SEEN\"\n";
    std::fs::write(&browser, script).expect("written");
    std::fs::set_permissions(&browser, PermissionsExt::from_mode(0o755)).expect("ours");
    let seen = folder.path().join("seen");
    let path = std::env::var("PATH").unwrap_or_default();
    let mut command = cutrace();
    command
        .arg("view")
        .env("PATH", format!("{}:{path}", folder.path().display()))
        .env("SEEN", &seen)
        .env("XDG_CACHE_HOME", folder.path());
    let served = serve_with(command);
    let began = std::time::Instant::now();
    while !seen.exists() {
        assert!(began.elapsed() < std::time::Duration::from_secs(60));
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
    let seen = std::fs::read_to_string(&seen).expect("there");
    let (line, rest) = seen.split_once('\n').expect("lines");
    let secret = served.path.trim_matches('/');
    assert!(secret.len() == 32 && !line.contains(secret), "{line}");
    assert!(
        rest.starts_with("600\n") && rest.contains(&served.path),
        "{rest}"
    );
}

#[test]
fn the_page_is_there_for_those_who_know_where() {
    let served = serve();
    assert!(served.host.starts_with("127.0.0.1:"));
    let page = served.ask("GET", &served.path, &served.host);
    assert!(page.starts_with("HTTP/1.1 200 OK\r\n"), "{page:.200}");
    assert!(page.contains("<!doctype html>") || page.contains("<!DOCTYPE html>"));
    for (method, path, host) in [
        ("GET", "/", &*served.host),
        ("GET", "/favicon.ico", &served.host),
        ("POST", &served.path, &served.host),
        ("GET", &served.path, "evil.example"),
    ] {
        let answer = served.ask(method, path, host);
        assert!(answer.starts_with("HTTP/1.1 404"), "{method} {path} {host}");
    }
    // Silent and nonsensical clients leave it serving.
    let _silent = TcpStream::connect(&served.host).expect("it listens");
    let mut noise = TcpStream::connect(&served.host).expect("it listens");
    noise.write_all(b"\xff\xfe\r\n\r\n").expect("sent");
    let page = served.ask("GET", &served.path, &served.host);
    assert!(page.starts_with("HTTP/1.1 200 OK\r\n"));
}

/// A trace in a folder of its own, as its index is written beside it.
fn copied(folder: &std::path::Path) -> std::path::PathBuf {
    let trace = folder.join("trace.jsonl");
    let from = repository().join("fixtures/traces/layers.jsonl");
    std::fs::copy(from, &trace).expect("copied");
    trace
}

fn served(traces: &[&std::path::Path]) -> Served {
    let mut command = cutrace();
    command.args(["view", "--no-open"]).args(traces);
    serve_what(command)
}

impl Served {
    fn get(&self, below: &str) -> (String, String) {
        let path = format!("{}{below}", self.path);
        let answer = self.ask("GET", &path, &self.host);
        let (head, body) = answer.split_once("\r\n\r\n").expect("a head and a body");
        (head.to_owned(), body.to_owned())
    }

    fn json(&self, below: &str) -> serde_json::Value {
        let (head, body) = self.get(below);
        assert!(
            head.starts_with("HTTP/1.1 200 OK\r\n"),
            "{below}: {head}\n{body}"
        );
        assert!(
            head.contains("application/json") && head.contains("no-store"),
            "{head}"
        );
        serde_json::from_str(&body).expect("JSON")
    }
}

#[test]
fn the_page_can_ask_for_single_events() {
    let folder = tempfile::tempdir().expect("a folder");
    let trace = copied(folder.path());
    let index = folder.path().join("trace.jsonl.index");
    for again in [false, true] {
        assert_eq!(index.exists(), again, "made at the first view");
        let served = served(&[&trace]);
        let (_, page) = served.get("");
        assert!(page.contains("connect-src 'self'"));
        assert!(page.contains(r#""server":{"api":1,"traces":1}"#));
        let all = served.json("api/spans?trace=0&from=0&to=9000000000000000");
        assert_eq!(all["complete"], true);
        let rows = all["rows"].as_array().expect("rows");
        let names = all["names"].as_array().expect("names");
        assert!(!rows.is_empty());
        let mut ids = Vec::new();
        for row in rows {
            for column in [
                "start",
                "duration",
                "inside",
                "name",
                "label",
                "category",
                "layer",
                "status",
                "id",
                "correlation",
                "open",
            ] {
                assert_eq!(
                    row[column].as_array().map(Vec::len),
                    row["id"].as_array().map(Vec::len),
                    "{column}"
                );
            }
            ids.extend(
                row["id"]
                    .as_array()
                    .expect("ids")
                    .iter()
                    .filter_map(serde_json::Value::as_u64),
            );
        }
        let count = ids.len();
        ids.sort_unstable();
        ids.dedup();
        assert_eq!(ids.len(), count, "nothing twice");
        // Every one of them can be looked at, and is what the row said.
        for id in &ids {
            let event = served.json(&format!("api/event?trace=0&id={id}"));
            assert_eq!(event["id"], *id);
            assert!(names.contains(&event["name"]), "{event}");
            assert!(event["lane"].is_u64() && event["depth"].is_u64(), "{event}");
        }
        let name = names[0].as_str().expect("a name");
        let found = served.json(&format!("api/search?trace=0&q={name}"));
        let matches = found["matches"].as_array().expect("matches");
        assert!(!matches.is_empty() && found["total"] == matches.len());
        let instances = served.json(&format!("api/instances?name={name}&by=duration&max=5"));
        assert!(
            instances["total"].as_u64() >= Some(1)
                && !instances["matches"].as_array().expect("a list").is_empty()
        );
        let by_time = served.json(&format!("api/instances?name={name}&by=time"));
        assert_eq!(
            by_time["matches"].as_array().map(|list| list.len() as u64),
            by_time["total"].as_u64()
        );
    }
    // Whatever is in its place, the trace is viewed.
    std::fs::write(&index, b"cutridx1 and then noise").expect("written");
    let served = served(&[&trace]);
    assert_eq!(
        served.json("api/spans?from=0&to=9000000000000000")["complete"],
        true
    );
}

/// A trace of several segments, and of each name or label its events by start and id.
fn several_segments(path: &std::path::Path) -> BTreeMap<String, Vec<(u64, u64)>> {
    let meta = program::meta();
    let mut writer = trace::create(path, &meta).expect("a trace");
    let mut events: BTreeMap<String, Vec<(u64, u64)>> = BTreeMap::new();
    let mut labelled = |event: &event::Event| {
        let place = (event.start - meta.start_ns, event.id);
        events
            .entry(event.name.to_string())
            .or_default()
            .push(place);
        let request = event.ioctl.as_ref().and_then(|ioctl| {
            let mut decoded = ioctl.decoded.iter();
            let name = decoded.find(|arg| &*arg.name == "name")?.value.as_str()?;
            name.strip_prefix("NV_ESC_")
        });
        if let Some(request) = request {
            events.entry(request.to_owned()).or_default().push(place);
        }
    };
    (program::Program::new())
        .run(60_000, &mut |record| {
            if let event::Record::Event(event) = record
                && !matches!(event.extent, event::Extent::Open)
            {
                labelled(event);
            }
            writer.write(record)
        })
        .expect("written");
    writer.finish().expect("finished");
    events.values_mut().for_each(|list| list.sort_unstable());
    events
}

/// From any event to the next and the previous of its name, wherever in the trace they are.
#[test]
fn the_nearest_of_a_name_is_found_in_the_whole_trace() {
    let folder = tempfile::tempdir().expect("a folder");
    let trace = folder.path().join("long.arrows");
    let events = several_segments(&trace);
    let served = served(&[&trace]);
    let next = |name: &str, (start, id): (u64, u64), to: &str| {
        let name: String = (name.bytes()).map(|byte| format!("%{byte:02x}")).collect();
        let answer = served.json(&format!(
            "api/next?trace=0&name={name}&start={start}&id={id}&to={to}"
        ));
        let found = &answer["match"];
        let number = |key: &str| found[key].as_u64();
        (!found.is_null()).then(|| {
            (
                number("start_ns").expect("a start"),
                number("id").expect("an id"),
            )
        })
    };
    let mut rare = 0;
    for (name, list) in &events {
        // All of those that are few, some of the others; the first and the last of each.
        let every = list.len().div_ceil(25);
        rare += usize::from(every == 1 && list.len() > 1);
        let chosen = (0..list.len()).filter(|at| at % every == 0 || at + 1 == list.len());
        for at in chosen {
            let after = list.get(at + 1).copied();
            assert_eq!(next(name, list[at], "after"), after, "after {at} of {name}");
            let before = at.checked_sub(1).map(|at| list[at]);
            assert_eq!(
                next(name, list[at], "before"),
                before,
                "before {at} of {name}"
            );
        }
    }
    assert!(rare >= 2 && events.len() >= 10, "{:?}", events.keys());
    // Far apart: allocations are in a few segments only.
    let allocations = &events["cuMemAlloc_v2"];
    assert!(
        allocations[1].0 - allocations[0].0 > 20_000_000,
        "{allocations:?}"
    );
    // From where no such event is, and of a name that is nowhere.
    assert_eq!(next("cuMemAlloc_v2", (0, 0), "after"), Some(allocations[0]));
    assert_eq!(next("cuMemAlloc_v2", (0, 0), "before"), None);
    assert_eq!(next("cuNoSuchCall", (5, 1), "after"), None);
    for below in [
        "api/next?name=cuInit&start=0",
        "api/next?start=0&id=1",
        "api/next?name=cuInit&start=x&id=1",
        "api/next?name=cuInit&start=0&id=1&to=sideways",
    ] {
        let (head, body) = served.get(below);
        assert!(head.starts_with("HTTP/1.1 400 "), "{below}: {head} {body}");
    }
}

/// Page after page, a search and the list of a name give every event once, in order.
#[test]
fn pages_of_matches_are_all_of_them() {
    let folder = tempfile::tempdir().expect("a folder");
    let trace = folder.path().join("long.arrows");
    let events = several_segments(&trace);
    let served = served(&[&trace]);
    let mut most_pages = 0;
    for (name, below, max) in [
        ("cuMemAlloc_v2", "instances?by=time&name", 2),
        ("cuLaunchKernel", "instances?by=time&name", 999),
        ("RM_ALLOC", "search?in=names&q", 7),
        ("RM_ALLOC", "search?q", 7),
    ] {
        let (mut ids, mut from, mut pages) = (Vec::new(), 0, 0);
        loop {
            let page = served.json(&format!("api/{below}={name}&max={max}&from={from}"));
            let matches = page["matches"].as_array().expect("a list");
            assert!(matches.len() <= max, "{below}");
            let is_it =
                |found: &&serde_json::Value| found["name"] == name || found["label"] == name;
            let found = matches.iter().filter(is_it);
            ids.extend(found.map(|found| found["id"].as_u64().expect("an id")));
            pages += 1;
            match page["next"].as_u64() {
                Some(next) => assert!(std::mem::replace(&mut from, next) < next, "{below}"),
                None => break,
            }
        }
        most_pages = most_pages.max(pages);
        let count = ids.len();
        ids.sort_unstable();
        ids.dedup();
        assert_eq!(ids.len(), count, "{below} {name}: nothing twice");
        let mut expected: Vec<u64> = events[name].iter().map(|&(_, id)| id).collect();
        expected.sort_unstable();
        assert_eq!(ids, expected, "{below} {name}: nothing missing");
    }
    assert!(most_pages > 3, "{most_pages}");
}

#[test]
fn what_makes_no_sense_is_refused() {
    let folder = tempfile::tempdir().expect("a folder");
    let trace = copied(folder.path());
    let served = served(&[&trace]);
    for (below, status) in [
        ("api/spans", "400"),
        ("api/spans?from=0&to=x", "400"),
        ("api/spans?from=5&to=5", "400"),
        ("api/spans?from=0&to=5&lanes=a", "400"),
        ("api/spans?from=-1&to=5", "400"),
        ("api/spans?from=0&to=5&trace=1", "404"),
        ("api/spans?from=0&to=99999999999999999999999", "400"),
        ("api/event", "400"),
        ("api/flame?from=0", "400"),
        ("api/flame?from=7&to=7", "400"),
        ("api/event?id=18446744073709551615", "404"),
        ("api/search", "400"),
        ("api/search?q=", "400"),
        ("api/search?q=%ff", "400"),
        ("api/instances?name=x&by=size", "400"),
        ("api", "404"),
        ("api/../../etc/passwd", "404"),
        ("trace.jsonl", "404"),
        ("index.html", "404"),
    ] {
        let (head, body) = served.get(below);
        assert!(
            head.starts_with(&format!("HTTP/1.1 {status} ")),
            "{below}: {head} {body}"
        );
    }
    let path = format!("{}api/spans?from=0&to=5", served.path);
    for (method, path, host) in [
        ("POST", &*path, &*served.host),
        ("OPTIONS", &path, &served.host),
        ("GET", &path, "evil.example"),
        ("GET", "/api/spans?from=0&to=5", &served.host),
        (
            "GET",
            "/00000000000000000000000000000000/api/spans?from=0&to=5",
            &served.host,
        ),
    ] {
        let answer = served.ask(method, path, host);
        assert!(answer.starts_with("HTTP/1.1 404"), "{method} {path} {host}");
    }
    // Lanes that are not there have no spans; huge limits are cut.
    let none = served.json("api/spans?from=0&to=5&lanes=4000000000&limit=18446744073709551615");
    assert_eq!(none["rows"], serde_json::json!([]));
    assert_eq!(served.json("api/search?q=no+such+thing")["total"], 0);
    assert_eq!(
        served.json("api/search?q=a&from=18446744073709551615")["matches"],
        serde_json::json!([])
    );
}

/// More connections than are served at once, most of them silent: later ones get a 503, and when the silent ones have
/// gone, everybody is served again.
#[test]
fn silent_and_many_clients_do_no_harm() {
    let folder = tempfile::tempdir().expect("a folder");
    let trace = copied(folder.path());
    let served = served(&[&trace]);
    let mut silent: Vec<TcpStream> = (0..40)
        .map(|_| TcpStream::connect(&served.host).expect("it listens"))
        .collect();
    // One of them sends a byte now and then.
    let mut slow = silent.pop().expect("one");
    for byte in b"GET /" {
        let _ = slow.write_all(&[*byte]);
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
    let refused = |stream: &mut TcpStream| {
        let _ = stream.set_read_timeout(Some(std::time::Duration::from_millis(200)));
        let mut answer = String::new();
        let _ = stream.read_to_string(&mut answer);
        answer.starts_with("HTTP/1.1 503")
    };
    let count = silent
        .iter_mut()
        .filter_map(|stream| refused(stream).then_some(()))
        .count();
    assert!(count >= 1, "all of them were taken");
    drop((silent, slow));
    let began = std::time::Instant::now();
    loop {
        let mut stream = TcpStream::connect(&served.host).expect("it listens");
        let _ = write!(
            stream,
            "GET {} HTTP/1.1\r\nHost: {}\r\n\r\n",
            served.path, served.host
        );
        let mut answer = String::new();
        let _ = stream.read_to_string(&mut answer);
        if answer.starts_with("HTTP/1.1 200 OK") {
            break;
        }
        assert!(
            began.elapsed() < std::time::Duration::from_secs(60),
            "{answer:.200}"
        );
        std::thread::sleep(std::time::Duration::from_millis(50));
    }
    // Too long to be a request, and no request at all.
    for noise in [
        vec![b'a'; 100_000],
        b"\r\n\r\n".to_vec(),
        b"GET\r\n\r\n".to_vec(),
    ] {
        let mut stream = TcpStream::connect(&served.host).expect("it listens");
        let _ = stream.write_all(&noise);
        let mut answer = Vec::new();
        let _ = stream.read_to_end(&mut answer);
    }
    assert!(served.get("").0.starts_with("HTTP/1.1 200"));
}

#[test]
fn two_traces_are_compared() {
    let folder = tempfile::tempdir().expect("a folder");
    let before = copied(folder.path());
    let after = folder.path().join("after.jsonl");
    std::fs::copy(repository().join("fixtures/traces/demo.jsonl"), &after).expect("copied");
    let served = served(&[&before, &after]);
    let (_, page) = served.get("");
    for part in [
        r#""traces":2"#,
        "id=\"data-report-1\"",
        "id=\"data-timeline-1\"",
        "id=\"data-diff\"",
    ] {
        assert!(page.contains(part), "{part}");
    }
    let rows = |trace: u32| {
        served.json(&format!(
            "api/spans?trace={trace}&from=0&to=9000000000000000"
        ))
    };
    assert_ne!(rows(0)["rows"], rows(1)["rows"]);
}

#[test]
fn three_traces_need_to_be_merged() {
    let folder = tempfile::tempdir().expect("a folder");
    let trace = copied(folder.path());
    let mut command = cutrace();
    command
        .args(["view", "--no-open"])
        .args([&trace, &trace, &trace]);
    let output = command.output().expect("cutrace runs");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(
        !output.status.success() && said.contains("--merge"),
        "{said}"
    );
    let mut command = cutrace();
    command
        .args(["view", "--no-open", "--merge"])
        .args([&trace, &trace]);
    let served = serve_what(command);
    let (_, page) = served.get("");
    assert!(!page.contains("connect-src") && !page.contains(r#""server":"#));
    assert!(
        served
            .get("api/spans?from=0&to=5")
            .0
            .starts_with("HTTP/1.1 404")
    );
}

/// Without a display somebody is probably logged in from elsewhere.
#[test]
fn how_to_reach_the_page_from_elsewhere_is_said() {
    let folder = tempfile::tempdir().expect("a folder");
    let trace = copied(folder.path());
    let mut command = cutrace();
    command
        .args(["view", "--no-open", "--port", "0"])
        .arg(&trace)
        .env_remove("DISPLAY")
        .env_remove("WAYLAND_DISPLAY")
        .env("SSH_CONNECTION", "192.0.2.7 50000 192.0.2.1 22")
        .stderr(Stdio::piped());
    let mut child = command.spawn().expect("cutrace runs");
    let lines = BufReader::new(child.stderr.take().expect("stderr")).lines();
    let said: Vec<String> = lines.map_while(Result::ok).take(2).collect();
    let _ = child.kill();
    let _ = child.wait();
    let port = said[0]
        .split(':')
        .nth(3)
        .and_then(|rest| rest.split('/').next())
        .expect("a port");
    let hint = format!("ssh -L {port}:127.0.0.1:{port} 192.0.2.1");
    assert!(said[1].contains(&hint), "{said:?}");
}
