//! `cutrace view`: one page, on loopback, to whoever knows its address, and to nobody else.

mod common;

use common::{cutrace, repository};
use std::{
    io::{BufRead, BufReader, Read, Write},
    net::TcpStream,
    process::{Child, Command, Stdio},
};

struct Served {
    child: Child,
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
    let mut child = command
        .arg(repository().join("fixtures/traces/layers.jsonl"))
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
