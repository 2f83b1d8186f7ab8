//! The real library, as a C program sees it: linked as libcuda.so.1 and loaded with dlopen.
//!
//! `driver/behaviour.c` puts the same questions to any libcuda; its answers on an H200 (driver
//! 580.159.04) are kept beside it, and softgpu must give the same, line by line.

#[path = "../exports/coverage.rs"]
mod coverage;
#[path = "driver/library.rs"]
mod library;

use std::{
    io::Read,
    process::{Command, Stdio},
    time::{Duration, Instant},
};

use library::{Library, compile};

/// Sections whose every line was recorded on hardware.
const RECORDED: &str = include_str!("driver/h200-580.159.04.txt");

/// Lines of one section of the recording.
fn recorded(section: &str) -> Vec<&'static str> {
    RECORDED
        .lines()
        .skip_while(|line| line.strip_prefix("== ") != Some(section))
        .skip(1)
        .take_while(|line| !line.starts_with("== "))
        .collect()
}

fn run(section: &str) -> (String, Option<i32>) {
    let library = Library::get();
    let program = compile("behaviour");
    let output = Command::new(program)
        .arg(&library.path)
        .arg(section)
        .env("CUTRACE_SOFTGPU_VERBOSE", "0")
        .output()
        .expect("the program starts");
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(errors.is_empty(), "{errors}");
    (
        String::from_utf8_lossy(&output.stdout).into_owned(),
        output.status.code(),
    )
}

fn compare(section: &str) {
    let expected = recorded(section);
    assert!(expected.len() > 5, "{section} was recorded");
    let (answers, status) = run(section);
    assert_eq!(status, Some(0), "{answers}");
    let answers: Vec<&str> = answers.lines().collect();
    for (number, (hardware, softgpu)) in expected.iter().zip(&answers).enumerate() {
        assert_eq!(hardware, softgpu, "{section}, line {}", number + 1);
    }
    assert_eq!(expected.len(), answers.len());
}

macro_rules! sections {
    ($($name:ident)*) => {$(
        #[test]
        fn $name() {
            compare(stringify!($name));
        }
    )*};
}

sections! {
    init context memory copy module launch stream capture graph
    fault_null fault_wild fault_misaligned fault_trap printf more graph_memory virtual_memory rest
}

/// Where a real driver may crash, softgpu answers with an error.
#[test]
fn garbage_handles_are_refused() {
    let (answers, status) = run("garbage");
    assert_eq!(status, Some(0), "{answers}");
    let (last, refused) = {
        let mut lines: Vec<&str> = answers.lines().collect();
        (lines.pop().unwrap_or_default(), lines)
    };
    // The context itself is unharmed, and a destroyed stream was once valid.
    assert_eq!(last, "  0 cuCtxSynchronize()");
    let accepted = refused
        .iter()
        .filter(|line| line.starts_with("  0"))
        .count();
    assert_eq!(accepted, 1, "{answers}");
    assert!(refused.len() > 10);
}

/// Runs a mode of `driver/endurance.c`, which checks itself, and must end in time.
fn endure(mode: &str) {
    let mut child = Command::new(compile("endurance"))
        .arg(&Library::get().path)
        .arg(mode)
        .arg(concat!(
            env!("CARGO_MANIFEST_DIR"),
            "/../../fixtures/driver/libcuda-580.159.04.exports"
        ))
        .env("CUTRACE_SOFTGPU_MEM", "2G")
        .env("CUTRACE_SOFTGPU_VERBOSE", "0")
        .stdout(Stdio::piped())
        .spawn()
        .expect("the program starts");
    let deadline = Instant::now() + Duration::from_secs(120);
    let status = loop {
        match child.try_wait().expect("the program can be waited for") {
            Some(status) => break status,
            None if Instant::now() > deadline => {
                let _ = child.kill();
                panic!("{mode} hangs");
            }
            None => std::thread::sleep(Duration::from_millis(5)),
        }
    };
    let mut said = String::new();
    let mut output = child.stdout.take().expect("it was piped");
    output.read_to_string(&mut said).expect("it is text");
    assert!(
        status.success() && said == "ok\n",
        "{mode}: {status}, {said}"
    );
}

macro_rules! endurance {
    ($($name:ident = $mode:literal,)*) => {$(
        #[test]
        fn $name() {
            endure($mode);
        }
    )*};
}

endurance! {
    ends_with_work_pending = "pending",
    answers_calls_after_its_end = "late",
    ends_from_a_thread_with_work_pending = "thread_exit",
    survives_being_closed_with_work_pending = "dlclose",
    eight_threads_get_their_own_results = "threads",
    a_hundred_thousand_allocations = "allocations",
    memory_exhausted_and_freed = "exhaustion",
    zeros_are_answered = "zeros",
    random_calls_from_eight_threads = "random",
    a_fault_stays_in_its_context = "recovery",
    contexts_and_streams_by_the_hundred = "many",
    a_joined_stream_may_be_destroyed_while_capturing = "joined",
}

/// A process may be anywhere when it ends, so it is ended often.
#[test]
fn kernels_stop_before_destructors_take_their_memory_away() {
    for _ in 0..20 {
        endure("unmapped");
    }
}

/// What a program that ignores all errors leaves on stderr.
fn notices(case: &str, verbose: Option<&str>) -> Vec<String> {
    let mut command = Command::new(compile("notices"));
    command.arg(&Library::get().path).arg(case);
    command.env_remove("CUTRACE_SOFTGPU_VERBOSE");
    command.envs(verbose.map(|value| ("CUTRACE_SOFTGPU_VERBOSE", value)));
    let output = command.output().expect("the program starts");
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    assert_eq!(output.stdout, b"Done!\n");
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    said.lines().map(str::to_owned).collect()
}

#[test]
fn what_could_not_be_done_is_said_once() {
    let not_loaded = "softgpu: a module was not loaded, and its kernels will not run: ";
    let cases: [(&str, &[&str]); 4] = [
        (
            "modules",
            &[
                "softgpu does not implement mma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32 (tensor cores) \
                 (line 4 of kernel multiply)",
                "softgpu does not implement tex.2d.v4.f32.s32 (textures and surfaces) (line 3 of kernel read)",
                "PTX has no instruction nonsense.u32 (line 3 of kernel odd)",
            ],
        ),
        (
            "machine_code",
            &[
                "it has no PTX for an sm_90 device, and softgpu runs only PTX: build it with -gencode \
               arch=compute_80,code=compute_80 and without -rdc=true, which leaves only machine code",
            ],
        ),
        (
            "fault",
            &[
                "softgpu: nothing and all later kernels do not run, because an earlier one failed: illegal address: \
               fault at PTX line 5, block (0,0,0), thread (0,0,0): store of 4 bytes at 0x40, outside any allocation",
            ],
        ),
        (
            "functions",
            &[
                "softgpu: the program called cuArrayCreate_v2, which softgpu does not implement (arrays, textures \
                 and surfaces)",
                "softgpu: the program called cuGreenCtxCreate, which softgpu does not implement",
            ],
        ),
    ];
    for (case, expected) in cases {
        let expected: Vec<String> = expected
            .iter()
            .map(|line| match line.starts_with("softgpu: ") {
                true => (*line).to_owned(),
                false => format!("{not_loaded}{line}"),
            })
            .collect();
        assert_eq!(notices(case, None), expected, "{case}");
        assert!(
            notices(case, Some("0")).is_empty(),
            "{case}: silence was asked for"
        );
    }
}

#[test]
fn what_could_not_be_done_is_not_said_without_end() {
    let said = notices("many", None);
    assert_eq!(said.len(), 21, "{said:#?}");
    assert_eq!(
        said[20],
        "softgpu: further messages like this are not shown"
    );
}

/// The symbols are libcuda's, all of them and no others.
#[test]
fn exports_are_those_of_libcuda() {
    let library = Library::get();
    let output = Command::new("nm")
        .args(["-D", "--defined-only", "--format=posix"])
        .arg(&library.path)
        .output()
        .expect("nm runs");
    let listing = String::from_utf8_lossy(&output.stdout);
    let mut symbols: Vec<(&str, &str)> = listing
        .lines()
        .filter_map(|line| {
            let mut words = line.split_whitespace();
            let name = words.next()?.split('@').next()?;
            Some((name, words.nth(1)?))
        })
        .collect();
    symbols.sort_unstable();
    let mut expected: Vec<&str> =
        include_str!("../../../fixtures/driver/libcuda-580.159.04.exports")
            .lines()
            .collect();
    expected.sort_unstable();
    let names: Vec<&str> = symbols.iter().map(|symbol| symbol.0).collect();
    assert_eq!(names, expected);
    // Each function has an address of its own, or a tracer could not tell them apart.
    let mut addresses: Vec<&str> = symbols.iter().map(|symbol| symbol.1).collect();
    addresses.sort_unstable();
    let before = addresses.len();
    addresses.dedup();
    assert_eq!(addresses.len(), before);
}

#[test]
fn the_version_script_is_fresh() {
    let committed = include_str!("../exports/libcuda.map");
    assert_eq!(committed, softgpu_driver::version_script());
}

#[test]
fn coverage_tells_code_from_variables_and_done_from_missing() {
    let implemented =
        coverage::implemented(&std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("src"));
    assert!(implemented.contains("cuLaunchKernel_ptsz"));
    assert!(!implemented.contains("cuTexObjectCreate"));
    assert!(coverage::is_function("cudbgApiInit"));
    assert!(!coverage::is_function("cudbgApiClientPid"));
}
