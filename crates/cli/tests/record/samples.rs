//! NVML's samples beside the calls, from a library that stands in for NVIDIA's: what it says is known.
//! NVIDIA's own is tried on a GPU (tests/gpu/uvm.sh).

use super::record_with;
use crate::common::{cutrace, repository, skip};
use serde_json::{Value, json};
use std::{fs, path::Path, process::Command};

/// Builds the library that stands in for NVIDIA's.
fn stand_in(folder: &Path) -> bool {
    let built = Command::new("gcc")
        .args(["-shared", "-fPIC", "-o"])
        .arg(folder.join("libnvidia-ml.so.1"))
        .arg(repository().join("crates/cli/tests/record/nvml.c"))
        .status();
    built.is_ok_and(|status| status.success())
}

#[test]
fn samples_end_with_the_time_that_was_asked_for() {
    let folder = tempfile::tempdir().expect("a folder");
    if !stand_in(folder.path()) {
        return skip("gcc is not installed");
    }
    let options = ["--method", "preload,nvml", "-d", "0.2"];
    let run = record_with(&options, &["sleep", "1.5"], |command| {
        command.env("LD_LIBRARY_PATH", folder.path());
    });
    assert!(run.output.status.success(), "{}", run.stderr());
    let samples = run
        .of_type("counter")
        .filter(|line| line["device"] == 0)
        .count();
    // In all of it there would be fifteen.
    assert!((1..=4).contains(&samples), "{samples}");
}

#[test]
fn samples_come_ten_times_a_second_with_what_each_gpu_offers() {
    let folder = tempfile::tempdir().expect("a folder");
    if !stand_in(folder.path()) {
        return skip("gcc is not installed");
    }
    let run = record_with(
        &["--method", "preload,nvml", "-v"],
        &["sleep", "0.45"],
        |command| {
            command.env("LD_LIBRARY_PATH", folder.path());
        },
    );
    assert!(run.output.status.success(), "{}", run.stderr());
    let of = |device: u64| -> Vec<&Value> {
        let samples = run.of_type("counter");
        samples.filter(|line| line["device"] == device).collect()
    };
    let (first, second) = (of(0), of(1));
    assert_eq!(first.len(), second.len());
    // The first and the last at least; how many in between depends on how busy the machine is.
    assert!(first.len() >= 2 && first.len() <= 8, "{}", first.len());
    let details = &first[0]["details"];
    assert_eq!(first[0]["name"], "nvml");
    assert_eq!(
        (&details["gpu_percent"], &details["memory_percent"]),
        (&json!(40), &json!(7))
    );
    assert_eq!(
        (&details["memory_used_bytes"], &details["power_mw"]),
        (&json!(600), &json!(123456))
    );
    assert_eq!(
        (&details["sm_clock_mhz"], &details["memory_clock_mhz"]),
        (&json!(1001), &json!(1002))
    );
    assert_eq!(details["clock_limits"], json!(0x40));
    // In the first and the last sample.
    for sample in [first[0], first[first.len() - 1]] {
        let details = &sample["details"];
        assert_eq!(details["sm_clock_max_mhz"], json!(1981));
        assert_eq!(
            (&details["ecc_corrected"], &details["ecc_uncorrected"]),
            (&json!(5), &json!(1))
        );
    }
    assert_eq!(second[0]["details"], json!({"memory_used_bytes": 1200}));
    assert!(
        run.stderr().contains("samples of 2 GPUs from NVML"),
        "{}",
        run.stderr()
    );

    let chrome = run.folder.path().join("trace.json");
    let export = cutrace()
        .args(["export", "-f", "chrome", "-o"])
        .args([&chrome, &run.trace()])
        .output()
        .expect("cutrace runs");
    assert!(export.status.success(), "{export:?}");
    let text = fs::read_to_string(chrome).expect("written");
    let whole: Value = serde_json::from_str(&text).expect("JSON");
    let events = whole["traceEvents"].as_array().expect("events");
    let power = events
        .iter()
        .find(|event| event["ph"] == "C" && event["name"] == "power");
    assert_eq!(power.expect("a counter")["args"], json!({"mW": 123456}));
}

#[test]
fn without_the_library_it_is_said_to_who_asks_for_it() {
    let run = |method: &str| {
        record_with(&["--method", method], &["true"], |command| {
            command.env_remove("LD_LIBRARY_PATH");
        })
    };
    let asked = run("nvml");
    if asked.output.status.success() {
        return skip("this machine has libnvidia-ml");
    }
    assert!(
        asked.stderr().contains("cannot load libnvidia-ml.so.1"),
        "{}",
        asked.stderr()
    );
    let auto = run("auto");
    assert!(!auto.stderr().contains("nvidia-ml"), "{}", auto.stderr());
}
