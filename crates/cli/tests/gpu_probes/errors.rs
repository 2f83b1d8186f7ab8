//! What is wrong with an object is said before the program runs; what is wrong with a run leaves the
//! program as it is.

use super::{cutrace, program, repository, run};

#[test]
fn bad_objects_are_refused_with_the_reason() {
    let Some(program) = program("probed") else {
        return;
    };
    let folder = tempfile::tempdir().expect("a folder");
    let text = folder.path().join("text.o");
    std::fs::write(&text, "hello").expect("written");
    let empty = folder.path().join("empty.o");
    std::fs::write(&empty, "").expect("written");
    let bad = repository().join("crates/gpubpf/tests/objects/bad");
    for (object, words) in [
        (text, "not an ELF object"),
        (empty, "not an ELF object"),
        (
            program.clone(),
            "not a BPF object: compile it with clang -target bpf",
        ),
        (
            bad.join("no_btf.o"),
            "section .maps has no BTF: compile with -g",
        ),
        (bad.join("unknown_map.o"), "(known: 1, 2, 1501-1504"),
        (bad.join("helper.o"), "4711"),
        (bad.join("core.o"), "needs a CO-RE relocation"),
        (bad.join("shared_hash.o"), "only arrays can be shared"),
        (bad.join("unchecked.o"), "NULL"),
        (bad.join("spin.o"), "loop"),
    ] {
        let shown = object.display().to_string();
        let ran = run(&["run", &shown], &program, "vadd 1 32 1");
        let said = ran.words();
        assert_eq!(ran.output.status.code(), Some(125), "{shown}: {said}");
        assert!(said.contains(words), "{shown}: {said}");
        assert!(!said.contains("panicked"), "{said}");
        assert_eq!(ran.printed(), "", "{shown}: the program must not run");
        assert!(
            !ran.folder.path().join("trace.jsonl").exists(),
            "{shown}: there is nothing to trace"
        );
    }
}

/// A map of 100,000,000 entries: either there is memory for it, or that is said before the program runs.
/// The program itself is none the worse for it.
#[test]
fn a_map_that_is_too_large_is_refused_and_a_large_one_harms_nobody() {
    let Some(program) = program("probed") else {
        return;
    };
    let folder = tempfile::tempdir().expect("a folder");
    let build = |name: &str, entries: u64| {
        let (source, object) = (
            folder.path().join(format!("{name}.c")),
            folder.path().join(name),
        );
        let code = format!(
            "#include \"probe.h\"\n\
             struct {{ __uint(type, GPU_HASH); __uint(max_entries, {entries}); __type(key, u64); \
             __type(value, u64); }} big SEC(\".maps\");\n\
             SEC(\"kprobe/_Z9vectorAddPKfS0_Pf\") int cuda__count(void *ctx) {{ u64 key = 1, one = 1; \
             map_update(&big, &key, &one, ANY); return 0; }}\n"
        );
        std::fs::write(&source, code).expect("written");
        let built = std::process::Command::new("clang-14")
            .args(["-target", "bpf", "-mcpu=v3", "-O2", "-g", "-w", "-I"])
            .arg(repository().join("examples/gpu"))
            .args(["-c", "-o"])
            .args([&object, &source])
            .output();
        built
            .is_ok_and(|output| output.status.success())
            .then(|| object.display().to_string())
    };
    let (Some(huge), Some(large)) = (build("huge.o", 900_000_000), build("large.o", 4_000_000))
    else {
        return super::skip("no clang for BPF; type: scripts/setup-packages test");
    };
    // 51 GB.
    let ran = run(&["run", &huge], &program, "vadd 1 32 1");
    let said = ran.words();
    assert_eq!(ran.output.status.code(), Some(125), "{said}");
    assert!(said.contains("map big: 900000000 entries "), "{said}");
    assert_eq!(ran.printed(), "", "the program must not run");
    // 200 MB, of which next to nothing is used.
    let ran = run(&["run", &large], &program, "vadd 1 32 1");
    assert!(ran.output.status.success(), "{}", ran.words());
    assert_eq!(ran.numbers("big"), [1], "{}", ran.words());
}

#[test]
fn a_program_is_not_harmed_by_probes_that_find_nothing() {
    let Some(program) = program("probed") else {
        return;
    };
    let plain = cutrace()
        .args(["softgpu", "--"])
        .arg(&program)
        .args(["vadd", "2", "32", "3"])
        .output()
        .expect("runs");
    for (words, said) in [
        (
            ["count", "vectorSub"],
            "no kernel vectorSub was loaded; the nearest are: vectorAdd, ",
        ),
        (
            ["hist", "/nothing/"],
            "no kernel /nothing/ was loaded; the nearest are: ",
        ),
    ] {
        let ran = run(&words, &program, "vadd 2 32 3");
        assert_eq!(ran.output.status.code(), plain.status.code());
        assert_eq!(ran.output.stdout, plain.stdout);
        assert!(ran.words().contains(said), "{}", ran.words());
    }
    // One that fails by itself fails as it did.
    let ran = run(&["count", "vectorAdd"], &program, "vadd 2 4096 1");
    let plain = cutrace()
        .args(["softgpu", "--"])
        .arg(&program)
        .args(["vadd", "2", "4096", "1"])
        .output()
        .expect("runs");
    assert!(!plain.status.success());
    assert_eq!(ran.output.status.code(), plain.status.code());
    assert_eq!(ran.output.stdout, plain.stdout);
}
