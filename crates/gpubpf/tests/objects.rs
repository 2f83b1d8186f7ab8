//! Object files: what is read of good ones, what is said about bad ones, and that damage is no panic.

use std::path::{Path, PathBuf};
use std::process::Command;

use gpubpf::{Attach, Object, ObjectError, Reason, TranslateOptions, check, verify};

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests")
}

fn bytes(name: &str) -> Vec<u8> {
    let path = folder().join("objects").join(name);
    std::fs::read(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

fn error(name: &str) -> ObjectError {
    match Object::parse(&bytes(name)) {
        Ok(_) => panic!("{name} is read"),
        Err(error) => error,
    }
}

#[test]
fn sections_say_where_programs_run() {
    let object = Object::parse(&bytes("mixed.v3.o")).unwrap();
    let program = &object.programs[0];
    let kernel = "_Z9vectorAddPKfS0_Pf".to_owned();
    assert_eq!(program.attach, Attach::Entry(kernel));
    let host: Vec<&str> = object.host.iter().map(|it| it.section.as_str()).collect();
    assert_eq!(host, ["uprobe/cudaLaunchKernel", "kprobe/do_exit"]);
    let object = Object::parse(&bytes("direct.v3.o")).unwrap();
    let attached: Vec<&Attach> = object.programs.iter().map(|it| &it.attach).collect();
    assert_eq!(attached, [&Attach::Direct, &Attach::Memory]);
    let object = Object::parse(&bytes("counters.v3.o")).unwrap();
    let returns = Attach::Return("vectorAdd*".into());
    assert_eq!(object.programs[0].attach, returns);
    let functions: Vec<&str> = object.programs[0]
        .functions
        .iter()
        .map(|function| function.name.as_str())
        .collect();
    assert_eq!(functions, ["cuda__return", "bucket"]);
}

#[test]
fn arrays_that_both_sides_use_are_the_kernels() {
    for version in ["v2", "v3", "v4"] {
        let object = Object::parse(&bytes(&format!("shared.{version}.o"))).unwrap();
        let users: Vec<(&str, bool, bool, u32)> = object
            .maps
            .iter()
            .enumerate()
            .map(|(number, map)| {
                let name = map.name.as_str();
                let (gpu, host) = (object.is_on_gpu(number), object.is_on_host(number));
                (name, gpu, host, map.kind.number())
            })
            .collect();
        assert_eq!(
            users,
            [
                ("both", true, true, 1504),
                ("by_kind", false, true, 1),
                ("returns", false, true, 6),
                ("ring", false, true, 27),
                ("seen", true, false, 1503),
                (".bss", true, true, 1504),
            ]
        );
        // As the kernel lays its arrays out.
        assert_eq!((object.maps[0].value_size, object.maps[0].stride()), (4, 8));
    }
    let why = Object::parse(&bytes("bad/shared_hash.o")).unwrap_err();
    assert_eq!(
        why.to_string(),
        "map counts (hash) is used on the host and on the GPU: only arrays can be shared"
    );
}

#[test]
fn maps_and_data_are_read() {
    let object = Object::parse(&bytes("counters.v4.o")).unwrap();
    let maps: Vec<(&str, u32, u32, u32, u32)> = object
        .maps
        .iter()
        .map(|map| {
            let kind = map.kind.number();
            (
                map.name.as_str(),
                kind,
                map.key_size,
                map.value_size,
                map.max_entries,
            )
        })
        .collect();
    assert_eq!(
        maps,
        [
            ("totals", 1503, 4, 8, 8),
            ("histogram", 1503, 4, 8, 8),
            ("by_thread", 1502, 4, 8, 2),
            ("calls", 1, 4, 8, 1024),
            (".rodata", 1503, 4, 8, 1),
            (".bss", 1503, 4, 12, 1),
        ]
    );
    let rodata = &object.maps[4];
    assert_eq!(rodata.initial.as_deref(), Some(&3u64.to_le_bytes()[..]));
    assert!(rodata.read_only && !object.maps[5].read_only);
}

#[test]
fn errors_say_what_to_do() {
    let says = |error: ObjectError, words: &str| {
        let text = error.to_string();
        assert!(text.contains(words), "{text:?} does not say {words:?}");
    };
    says(
        Object::parse(b"no ELF at all").unwrap_err(),
        "not an ELF object",
    );
    says(Object::parse(&[]).unwrap_err(), "not an ELF object");
    let own = std::fs::read(std::env::current_exe().unwrap()).unwrap();
    if own.len() < 32 << 20 {
        says(Object::parse(&own).unwrap_err(), "clang -target bpf");
    }
    says(Object::parse(&vec![0; 40 << 20]).unwrap_err(), "too large");
    says(error("bad/core.o"), "CO-RE relocation (struct task_struct)");
    says(error("bad/legacy.o"), "define them in section .maps");
    says(
        error("bad/unknown_map.o"),
        "map strange: unknown map type 4711",
    );
    says(
        error("bad/external.o"),
        "kernel_version is not defined in this object",
    );
    says(error("bad/callback.o"), "callbacks are not supported");
    says(
        error("bad/host.o"),
        "names start with cuda__ (here: on_malloc)",
    );
    says(error("bad/no_btf.o"), "compile with -g");
}

#[test]
fn refusals_show_the_source_line() {
    let object = Object::parse(&bytes("bad/unchecked.o")).unwrap();
    let refused = verify(&object, &object.programs[0]).unwrap_err();
    assert_eq!(refused.reason, Reason::MayBeNull);
    assert_eq!(refused.function, "count");
    let line = refused.line.as_ref().expect("a line");
    assert_eq!((line.line, line.text.as_str()), (13, "*value += 1;"));
    let text = refused.to_string();
    for words in [
        "program cuda__unchecked, function count, instruction",
        "*(u64 *)(r0 + 0)",
        "r0 may be NULL",
        "unchecked.bpf.c:13: *value += 1;",
    ] {
        assert!(text.contains(words), "{text:?} does not say {words:?}");
    }
    let object = Object::parse(&bytes("bad/spin.o")).unwrap();
    let refused = verify(&object, &object.programs[0]).unwrap_err();
    assert_eq!(refused.reason, Reason::Spins);
    assert!(refused.to_string().contains("spin.bpf.c:9"), "{refused}");
}

#[test]
fn checks_read_well() {
    let object = Object::parse(&bytes("trace.v3.o")).unwrap();
    let checked = check(&object, &TranslateOptions::default());
    assert!(checked.is_accepted());
    let text = checked.to_string();
    for words in [
        "map events: ring (1527), key 4 bytes, value 72 bytes, 16 entries",
        "program cuda__entry (kprobe/_Z9vectorAddPKfS0_Pfi)",
        "at most 42 executed",
        "writes records of 72 bytes into events: struct event (the ring's value type)",
        "72 bytes of local memory",
        "  | .func (.reg .b64 %result) cutrace_cuda__entry (.reg .b64 %context)",
    ] {
        assert!(text.contains(words), "{text}\ndoes not say {words:?}");
    }
    let object = Object::parse(&bytes("bad/unchecked.o")).unwrap();
    let checked = check(&object, &TranslateOptions::default());
    assert!(!checked.is_accepted());
    assert!(
        checked
            .to_string()
            .contains("refused: program cuda__unchecked")
    );
}

/// Everything that may be done with bytes, for what it does to us.
fn devour(bytes: &[u8]) {
    if let Ok(object) = Object::parse(bytes) {
        let _ = check(&object, &TranslateOptions::default()).to_string();
    }
}

#[test]
fn damaged_objects_are_no_panic() {
    let mut state = 1u64;
    let mut next = || {
        state = state.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(1);
        (state >> 33) as usize
    };
    for name in ["counters.v4.o", "trace.v2.o", "printing.v3.o", "bad/core.o"] {
        let whole = bytes(name);
        for length in (0..whole.len()).step_by(97) {
            devour(&whole[..length]);
        }
        for _ in 0..1500 {
            let mut damaged = whole.clone();
            for _ in 0..1 + next() % 4 {
                let at = next() % damaged.len();
                damaged[at] = match next() % 3 {
                    0 => 0xff,
                    1 => damaged[at] ^ (1 << (next() % 8)),
                    _ => next() as u8,
                };
            }
            devour(&damaged);
        }
    }
}

/// The newest clang here, and whether it knows version 4 of the instruction set.
fn clang() -> Option<(&'static str, bool)> {
    ["clang-19", "clang-18", "clang", "clang-14"]
        .into_iter()
        .find(|name| {
            let found = Command::new(name).arg("--version").output();
            found.is_ok_and(|output| output.status.success())
        })
        .map(|name| {
            let knows = Command::new(name)
                .args([
                    "-target",
                    "bpf",
                    "-mcpu=v4",
                    "-x",
                    "c",
                    "-c",
                    "/dev/null",
                    "-o",
                    "/dev/null",
                ])
                .output();
            (name, knows.is_ok_and(|output| output.status.success()))
        })
}

#[test]
fn programs_compiled_here_are_accepted() {
    let Some((clang, knows_v4)) = clang() else {
        assert!(
            std::env::var_os("CUTRACE_REQUIRE_ALL").is_none_or(|value| value != "1"),
            "clang is missing, and everything was to run"
        );
        eprintln!("skipped: no clang here (scripts/setup-packages test installs it)");
        return;
    };
    let out = tempfile::tempdir().unwrap();
    let mut compiled = 0;
    for entry in std::fs::read_dir(folder().join("programs")).unwrap() {
        let source = entry.unwrap().path();
        if source.extension().is_none_or(|extension| extension != "c") {
            continue;
        }
        for cpu in ["v1", "v2", "v3", "v4"] {
            // Version 1 has no jumps by "less than", version 4 wants a newer clang.
            if cpu == "v4" && !knows_v4 {
                continue;
            }
            for level in ["-O1", "-O2", "-Os"] {
                let object = out.path().join("program.o");
                let status = Command::new(clang)
                    .args(["-target", "bpf", "-g", level, &format!("-mcpu={cpu}"), "-c"])
                    .arg(&source)
                    .arg("-o")
                    .arg(&object)
                    .status()
                    .unwrap();
                assert!(status.success(), "{} {cpu}", source.display());
                let bytes = std::fs::read(&object).unwrap();
                let object = Object::parse(&bytes)
                    .unwrap_or_else(|error| panic!("{} {cpu}: {error}", source.display()));
                let checked = check(&object, &TranslateOptions::default());
                assert!(
                    checked.is_accepted(),
                    "{} {cpu} {level}\n{checked}",
                    source.display()
                );
                compiled += 1;
            }
        }
    }
    assert!(compiled >= 45);
}

#[test]
fn the_documentation_lists_every_helper_and_map() {
    let path = folder().join("../../../docs/GPU-BPF.md");
    let text = std::fs::read_to_string(path).unwrap();
    let listed = |heading: &str, number: u32| {
        let part = text.split(heading).nth(1).expect("the heading");
        let part = part.split("\n## ").next().unwrap_or_default();
        part.lines()
            .filter(|line| line.starts_with("| "))
            .filter_map(|line| line.split('|').nth(1))
            .flat_map(|cell| cell.split(','))
            .any(|cell| cell.trim().parse() == Ok(number))
    };
    for helper in gpubpf::helper::HELPERS {
        let number = helper.number;
        assert!(listed("\n## Helpers", number), "helper {number}");
    }
    for number in (0..3000).filter(|&number| {
        let kind = gpubpf::MapKind::from_number(number);
        kind.is_some_and(|kind| !matches!(kind, gpubpf::MapKind::HostOnly(_)))
    }) {
        assert!(listed("\n## Maps", number), "map type {number}");
    }
}
