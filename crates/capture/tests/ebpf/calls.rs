//! Calls of library functions: every one is seen, with its result.

use super::common::{compile, drivers, ready, run};
use capture::ebpf::{Options, Way};
use capture::launch::Exit;
use std::collections::HashMap;
use std::path::Path;
use std::process::Command;

fn names(library: &Path) -> Vec<String> {
    let listed = Command::new("nm")
        .args(["-D", "--defined-only"])
        .arg(library)
        .output()
        .expect("nm");
    let text = String::from_utf8(listed.stdout).expect("text");
    let name = |line: &str| {
        let [_, kind, name] = line.split_whitespace().collect::<Vec<_>>()[..] else {
            return None;
        };
        let name = name.split('@').next()?;
        let after = name.strip_prefix("cu")?.chars().next()?;
        (kind == "T" && after.is_ascii_uppercase()).then(|| name.to_owned())
    };
    text.lines().filter_map(name).collect()
}

#[test]
fn every_export_of_real_drivers_is_seen_with_its_result() {
    let Some(_turn) = ready() else {
        return;
    };
    let program = compile("exports.c", "exports", &["-ldl"]);
    for driver in drivers() {
        let names = names(&driver);
        let list = program.with_extension("names");
        std::fs::write(&list, names.join("\n")).expect("written");
        let output = program.with_extension("output");
        let shell = format!(
            "{} {} {} > {}",
            program.display(),
            driver.display(),
            list.display(),
            output.display()
        );
        let plain = Command::new("sh").args(["-c", &shell]).status();
        assert!(plain.is_ok_and(|status| status.success()));
        let answers = |text: &str| -> HashMap<String, (u32, u32, i32)> {
            let line = |line: &str| match line.split(' ').collect::<Vec<_>>()[..] {
                ["call", pid, name, result, signal] => Some((
                    name.to_owned(),
                    (
                        pid.parse().ok()?,
                        u32::from_str_radix(result, 16).ok()?,
                        signal.parse().ok()?,
                    ),
                )),
                _ => None,
            };
            text.lines().filter_map(line).collect()
        };
        let read = || std::fs::read_to_string(&output).expect("written");
        let plain = answers(&read());
        for way in [Way::Session, Way::Multi] {
            let options = Options {
                way: Some(way),
                ..Options::default()
            };
            let (exit, kept, report) = run(&options, &["sh", "-c", &shell]);
            assert_eq!(exit, Exit::Code(0));
            let traced = answers(&read());
            assert_eq!(traced.len(), names.len());
            let mut closed = HashMap::new();
            for event in kept.closed() {
                let status = event.status.as_ref().map(|status| status.code);
                closed.insert((event.pid, event.name.to_string()), status);
            }
            let counts = kept.counts();
            for (name, (pid, result, signal)) in &traced {
                let (_, plain_result, plain_signal) = plain[name];
                assert_eq!((*result, *signal), (plain_result, plain_signal), "{name}");
                let key = (*pid, name.clone());
                assert_eq!(counts.get(&key), Some(&1), "{name} {way:?}");
                // Calls that end their process do not return.
                if *signal == 0 {
                    let status = closed.get(&key).copied().flatten();
                    let wanted = cuda::function(name)
                        .is_none_or(|row| row.returns.text == "CUresult")
                        .then_some(i64::from(result.cast_signed()));
                    assert_eq!(status, wanted, "{name} {way:?}");
                }
            }
            assert_eq!((kept.lost(), report.ended.lost_ends), (0, 0));
            assert_eq!(report.ended.late_loads, 0, "{:?}", report.notes);
            let hooks = kept.backend.expect("begun").hooks;
            assert_eq!(
                (hooks.attached, hooks.total),
                (names.len() as u64, names.len() as u64)
            );
            eprintln!(
                "{}: {} functions by {}: attached in {:?}, taken off in {:?}",
                driver.display(),
                names.len(),
                way.as_str(),
                report.ended.attach,
                report.ended.detach
            );
        }
    }
}
