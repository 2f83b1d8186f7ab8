//! The page of `cutrace view` in a real browser, with the real server: `tests/web/served.test.mjs` looks at it.

mod common;
#[path = "../../trace/examples/generate/program.rs"]
mod program;

use common::{cutrace, repository, skip};
use std::{
    io::{BufRead, BufReader},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
};

/// More spans than a page carries one by one.
const EVENTS: u64 = 300_000;
/// All of them fit.
const FEW_EVENTS: u64 = 10_000;

fn write(path: &Path, events: u64) {
    let mut writer = trace::create(path, &program::meta()).expect("a trace");
    (program::Program::new())
        .run(events, &mut |record| writer.write(record))
        .expect("written");
    writer.finish().expect("finished");
}

struct Served {
    child: Child,
    address: String,
}

impl Drop for Served {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn serve(traces: &[&Path]) -> Served {
    let mut command = cutrace();
    command.args(["view", "--no-open"]).args(traces);
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
        .find(|word| word.starts_with("http://"))
        .expect("an address");
    Served {
        child,
        address: address.to_owned(),
    }
}

fn found(program: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path)
        .map(|folder| folder.join(program))
        .find(|candidate| candidate.is_file())
}

#[test]
fn the_served_page_in_a_browser() {
    let Some(node) = found("node") else {
        return skip("node is missing (scripts/setup-packages test)");
    };
    let Some(chromium) = found("chromium").or_else(|| found("chromium-browser")) else {
        return skip("chromium is missing (scripts/setup-packages test)");
    };
    let setup = Command::new(repository().join("scripts/setup-browser")).output();
    let Some(web) = (setup.ok())
        .filter(|output| output.status.success())
        .and_then(|output| String::from_utf8(output.stdout).ok())
    else {
        return skip("playwright-core could not be installed (scripts/setup-browser)");
    };
    let folder = tempfile::tempdir().expect("a folder");
    let [short, trace] = [FEW_EVENTS, EVENTS].map(|events| {
        let path = folder.path().join(format!("{events}.arrows"));
        write(&path, events);
        path
    });
    let fresh = folder.path().join("fresh.arrows");
    std::fs::copy(&trace, &fresh).expect("copied");
    let served = serve(&[&trace]);
    let few = serve(&[&short]);
    let sizes = format!("{FEW_EVENTS}={} {EVENTS}={}", few.address, served.address);
    let copies = ["demo.jsonl", "demo_healthy.jsonl"].map(|name| {
        let copy = folder.path().join(name);
        std::fs::copy(repository().join("fixtures/traces").join(name), &copy).expect("copied");
        copy
    });
    let compared = serve(&[&copies[0], &copies[1]]);
    let output = Command::new(node)
        .arg("--test")
        .arg(repository().join("tests/web/served.test.mjs"))
        .env("CUTRACE_WEB", web.trim())
        .env("CUTRACE_CHROMIUM", chromium)
        .env("CUTRACE_ADDRESS", &served.address)
        .env("CUTRACE_SIZES", sizes)
        .env("CUTRACE_COMPARED", &compared.address)
        .env("CUTRACE", cutrace().get_program())
        .env("CUTRACE_FRESH", &fresh)
        .env("CUTRACE_SERVER", served.child.id().to_string())
        .output()
        .expect("node runs");
    let text = String::from_utf8_lossy(&output.stdout);
    let passed = (text.lines())
        .find_map(|line| {
            line.trim_start_matches(['#', 'ℹ', ' '])
                .strip_prefix("pass ")
        })
        .and_then(|count| count.trim().parse::<u32>().ok());
    assert!(
        output.status.success() && passed.is_some_and(|passed| passed >= 8),
        "{text}\n{}",
        String::from_utf8_lossy(&output.stderr)
    );
}
