//! The committed tables are what the headers of the driver say, for the versions that were fetched.

use std::path::Path;
use std::process::Command;

/// Says why a test cannot run; where everything must run, that is a failure.
fn skip(why: &str) {
    assert!(
        std::env::var_os("CUTRACE_REQUIRE_ALL").is_none_or(|value| value != "1"),
        "must run here: {why}"
    );
    eprintln!("skipped: {why}");
}

#[test]
fn tables_are_what_the_headers_say() {
    let run = Path::new(env!("CARGO_MANIFEST_DIR")).join("generate/run");
    let output = Command::new(run).arg("--check").output().unwrap();
    let said = [&output.stdout[..], &output.stderr].concat();
    let said = String::from_utf8_lossy(&said);
    match output.status.code() {
        Some(0) => eprintln!("{}", said.trim()),
        // The headers, the parser or gcc are not there.
        Some(3) => skip(said.trim()),
        _ => panic!("type crates/nvidia-ioctl/generate/run --git REPO\n{said}"),
    }
}
