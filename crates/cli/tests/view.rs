//! `cutrace view`: one page, on loopback, to whoever knows its address, and to nobody else.

mod common;

use common::{cutrace, repository};
use std::{
    io::{BufRead, BufReader, Read, Write},
    net::TcpStream,
    process::{Child, Stdio},
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
    let mut child = cutrace()
        .args(["view", "--no-open"])
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
