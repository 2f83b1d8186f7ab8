//! `cutrace top` and `cutrace serve`, on a training loop on softgpu.

#[path = "../common/mod.rs"]
mod common;

mod batch;
mod crowd;
mod deploy;
mod metrics;
mod spans;
mod terminal;

use std::{
    io::{Read, Write},
    net::TcpStream,
    path::{Path, PathBuf},
    process::Command,
    thread,
    time::{Duration, Instant},
};

/// How long anything may take on a machine that does other things.
const PATIENCE: Duration = Duration::from_secs(120);

/// The program that is watched; None where nothing can be compiled.
fn training(folder: &Path) -> Option<PathBuf> {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/live/training.c");
    let program = folder.join("training");
    let built = Command::new("cc")
        .args(["-O1", "-o"])
        .arg(&program)
        .arg(source)
        .arg("-ldl")
        .status();
    match built {
        Ok(status) => assert!(status.success(), "training.c does not compile"),
        Err(_) => {
            common::skip("there is no C compiler");
            return None;
        }
    }
    Some(program)
}

/// Asks until the answer is good.
fn eventually<T>(what: &str, mut ask: impl FnMut() -> Option<T>) -> T {
    let began = Instant::now();
    loop {
        if let Some(answer) = ask() {
            return answer;
        }
        assert!(began.elapsed() < PATIENCE, "never: {what}");
        thread::sleep(Duration::from_millis(100));
    }
}

/// The answer to a GET request, head and body; None where nobody answers.
fn get(address: &str, path: &str) -> Option<(String, String)> {
    let mut stream = TcpStream::connect(address).ok()?;
    stream.set_read_timeout(Some(PATIENCE)).ok()?;
    write!(
        stream,
        "GET {path} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n"
    )
    .ok()?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).ok()?;
    let (head, body) = answer.split_once("\r\n\r\n")?;
    Some((head.to_owned(), body.to_owned()))
}

/// The value of a metric's line that has all of these in it.
fn value(metrics: &str, name: &str, labels: &[&str]) -> Option<f64> {
    let is_wanted = |line: &&str| {
        line.strip_prefix(name)
            .is_some_and(|rest| rest.starts_with(['{', ' ']))
            && labels.iter().all(|label| line.contains(label))
    };
    let line = metrics.lines().find(is_wanted)?;
    line.rsplit(' ').next()?.parse().ok()
}
