//! Every function that a real driver library exports, called with and without the hook.

mod common;

use common::{Session, compile};
use std::collections::HashMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Folders of libcuda that scripts/fetch-libcuda has fetched. CUTRACE_LIBCUDA names others.
fn drivers() -> Vec<PathBuf> {
    if let Some(named) = std::env::var_os("CUTRACE_LIBCUDA") {
        return std::env::split_paths(&named).collect();
    }
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/libcuda");
    let Ok(versions) = fs::read_dir(folder) else {
        return Vec::new();
    };
    let files = versions
        .flatten()
        .map(|version| version.path().join("libcuda.so.1"));
    files.filter(|file| file.exists()).collect()
}

fn names(library: &Path) -> Vec<String> {
    let listed = Command::new("nm")
        .args(["-D", "--defined-only"])
        .arg(library)
        .output()
        .unwrap();
    let text = String::from_utf8(listed.stdout).unwrap();
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

/// NAME → (pid, "RESULT SIGNAL") of the lines "call PID NAME RESULT SIGNAL".
fn answers(text: &str) -> HashMap<String, (u32, String)> {
    let line = |line: &str| match line.split(' ').collect::<Vec<_>>()[..] {
        ["call", pid, name, result, signal] => Some((
            name.to_owned(),
            (pid.parse().ok()?, format!("{result} {signal}")),
        )),
        _ => None,
    };
    text.lines().filter_map(line).collect()
}

#[test]
fn every_export_of_real_drivers_answers_as_without_the_hook() {
    let drivers = drivers();
    if drivers.is_empty() {
        eprintln!("skipped: no libcuda here; scripts/fetch-libcuda fetches them");
        assert!(
            std::env::var_os("CUTRACE_REQUIRE_ALL").is_none(),
            "must not be skipped here"
        );
        return;
    }
    let program = compile("exports.c", "exports", &["-ldl"]);
    for driver in drivers {
        let names = names(&driver);
        assert!(
            names.len() > 400,
            "{}: {} functions",
            driver.display(),
            names.len()
        );
        let list = program.with_extension("names");
        fs::write(&list, names.join("\n")).unwrap();
        let plain = Command::new(&program)
            .arg(&driver)
            .arg(&list)
            .output()
            .unwrap();
        let plain = answers(&String::from_utf8(plain.stdout).unwrap());

        // Small rings: every call has a process of its own. A few exports do not jump through slots.
        for (method, missing) in [("", 0), ("method slots\n", 3), ("method symbols\n", 0)] {
            let session = Session::new(&format!("ring 256\n{method}"));
            let run = session.run(session.command(&program).arg(&driver).arg(&list));
            let hooked = answers(&run.stdout);
            assert_eq!(hooked.len(), names.len());
            let counts = run.counts();
            let mut unseen = Vec::new();
            for (name, (pid, answer)) in &hooked {
                assert_eq!(
                    answer,
                    &plain[name].1,
                    "{name} of {} {method}",
                    driver.display()
                );
                if !counts.contains_key(&(*pid, name.clone())) {
                    unseen.push(name);
                }
            }
            assert!(
                unseen.len() <= missing,
                "{} {method}: not seen: {unseen:?}",
                driver.display()
            );
            let skipped = unseen.len();
            let (all, hooked) = (names.len(), names.len() - skipped);
            let line = format!("library 0 hooked={hooked} exported={all} ");
            assert_eq!(
                run.lines(&line).len(),
                hooked + 1,
                "{method}: {:?}",
                run.lines("library").first()
            );
        }
        eprintln!("{}: {} functions alike", driver.display(), names.len());
    }
}
