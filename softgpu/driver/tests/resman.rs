//! softgpu's requests to the driver are system calls, and they are those of the hardware: the same
//! recorder that ran on an H200 runs here, and what it writes condenses to the same sequences.

use std::collections::BTreeMap;
use std::ffi::CString;
use std::path::{Path, PathBuf};
use std::process::Command;

use softgpu_driver::resman::{FOLDER_VARIABLE, Session};

/// Says why a test cannot run; where everything must run, that is a failure.
fn skip(why: &str) {
    let required = std::env::var_os("CUTRACE_REQUIRE_ALL").is_some_and(|value| value == "1");
    assert!(!required, "must run here: {why}");
    eprintln!("skipped: {why}");
}

fn installed(tool: &str) -> bool {
    let folders = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&folders).any(|folder| folder.join(tool).is_file())
}

/// An empty folder below the build's, removed when dropped.
struct Scratch(PathBuf);

impl Scratch {
    fn new(name: &str) -> Self {
        let path = Path::new(env!("CARGO_TARGET_TMPDIR"))
            .join(format!("resman-{name}-{}", std::process::id()));
        std::fs::create_dir(&path).unwrap();
        Self(path)
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// Says to the recorder, if one is loaded, which call comes next.
fn mark(name: &str) {
    let symbol = unsafe { libc::dlsym(libc::RTLD_DEFAULT, c"sniff_mark".as_ptr()) };
    if !symbol.is_null() {
        let mark: extern "C" fn(*const libc::c_char) = unsafe { std::mem::transmute(symbol) };
        mark(CString::new(name).unwrap().as_ptr());
    }
}

/// What the tests below run in a process of its own, watched.
#[test]
#[ignore = "the tests below run it, watched"]
fn conversation() {
    // Static, as in libcuda: nothing is closed before the process ends.
    static SESSION: Session = Session::start();
    let session = &SESSION;
    let step = |name: &str, act: &mut dyn FnMut()| {
        mark(name);
        act();
        mark("end");
    };
    let (mut context, mut memory, mut second, mut stream) = (None, None, None, None);
    let mut host = vec![0u8; 4096];
    let address = host.as_mut_ptr() as u64;
    step("cuInit", &mut || session.init());
    step("cuDevicePrimaryCtxRetain", &mut || {
        context = Some(session.context_create())
    });
    step("cuMemGetInfo", &mut || session.mem_info(1 << 30, 2 << 30));
    step("cuMemAlloc 4096", &mut || {
        memory = Some(session.mem_alloc(4096))
    });
    step("cuMemAlloc 4096 again", &mut || {
        second = Some(session.mem_alloc(4096))
    });
    step("cuMemFree 4096", &mut || {
        session.mem_free(memory.take().unwrap())
    });
    step("cuMemFree 4096 again", &mut || {
        session.mem_free(second.take().unwrap())
    });
    step("cuMemAllocHost 4096", &mut || {
        session.host_alloc(address, 4096)
    });
    step("cuMemFreeHost 4096", &mut || session.host_free(address));
    step("cuMemAllocManaged 1MiB", &mut || {
        session.managed_alloc(address, 1 << 20)
    });
    step("cuMemFree managed 1MiB", &mut || {
        session.managed_free(address)
    });
    step("cuStreamCreate", &mut || {
        stream = Some(session.stream_create())
    });
    step("cuStreamDestroy", &mut || {
        session.stream_destroy(stream.take().unwrap())
    });
    step("cuDevicePrimaryCtxRelease", &mut || {
        session.context_destroy(context.take().unwrap())
    });
}

/// Runs [`conversation`] after the words of `before` (a tracer, or nothing).
fn watched(before: &[&str], folder: &Path, variables: &[(&str, &Path)]) {
    let program = std::env::current_exe().unwrap();
    let words: Vec<_> = before
        .iter()
        .map(std::ffi::OsStr::new)
        .chain([program.as_os_str()])
        .collect();
    let mut command = Command::new(words[0]);
    command
        .args(&words[1..])
        .args(["--exact", "conversation", "--ignored", "--test-threads=1"]);
    command.env(FOLDER_VARIABLE, folder);
    for (name, value) in variables {
        command.env(name, value);
    }
    // Made here, so that making them is no part of what is watched.
    std::fs::create_dir(folder).unwrap();
    for name in ["nvidiactl", "nvidia0", "nvidia-uvm"] {
        std::fs::File::create_new(folder.join(name))
            .unwrap()
            .set_len(64 << 20)
            .unwrap();
    }
    let output = command.output().unwrap();
    assert!(output.status.success(), "{output:?}");
}

fn recording() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("src/resman/recording")
}

fn condense(recorded: &Path) -> String {
    let name = recorded.file_name().unwrap().to_string_lossy();
    let folder = Scratch::new(&format!("condensed-{name}"));
    let output = Command::new("python3")
        .arg("-B")
        .arg(recording().join("condense.py"))
        .args([recorded, &folder.0])
        .output()
        .unwrap();
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    sequences(&folder.0)
}

fn committed() -> String {
    sequences(&recording().join("../sequences"))
}

/// All that condense.py writes.
fn sequences(folder: &Path) -> String {
    ["start_up", "context", "destruction", "slots"]
        .map(|name| std::fs::read_to_string(folder.join(format!("{name}.rs"))).unwrap())
        .concat()
}

#[track_caller]
fn assert_same(found: &str, wanted: &str) {
    let differing = found
        .lines()
        .zip(wanted.lines())
        .find(|(found, wanted)| found != wanted);
    assert!(found == wanted, "first difference: {differing:?}");
}

#[test]
fn sequences_are_those_recorded_on_hardware() {
    if !installed("python3") {
        return skip("no python3: install the package python3");
    }
    assert_same(
        &condense(&recording().join("h200-580.159.04.txt.gz")),
        &committed(),
    );
}

#[test]
fn softgpu_asks_what_the_hardware_was_asked() {
    for tool in ["python3", "gcc"] {
        if !installed(tool) {
            return skip(&format!("no {tool}: install the package {tool}"));
        }
    }
    let folder = Scratch::new("recorded");
    let library = folder.0.join("sniff.so");
    let source = recording().join("sniff.c");
    let built = Command::new("gcc")
        .args(["-O1", "-shared", "-fPIC", "-o"])
        .arg(&library)
        .arg(source)
        .arg("-ldl")
        .status();
    assert!(built.unwrap().success());
    let devices = folder.0.join("dev");
    let recorded = folder.0.join("recording.txt");
    watched(
        &[],
        &devices,
        &[
            ("LD_PRELOAD", &library),
            ("SNIFF_DEVICES", &devices),
            ("SNIFF_OUT", &recorded),
        ],
    );
    assert_same(&condense(&recorded), &committed());

    // Memory, call by call: the same requests as on hardware, by number and command or class.
    let here = requests(&std::fs::read_to_string(&recorded).unwrap());
    let there = requests(&hardware_recording());
    let mut compared = 0;
    for (call, asked) in &here {
        if call != "cuInit" && !call.starts_with("cuDevice") {
            assert_eq!(asked, &there[call], "{call}");
            compared += 1;
        }
    }
    assert_eq!(compared, 11);
    assert_eq!(
        here["cuMemAlloc 4096"],
        [
            "nvidiactl 0xc030462b 0x40",
            "nvidiactl 0xc020462a 0x503c0104",
            "nvidia-uvm 0x49",
            "nvidia-uvm 0x21"
        ]
    );
    assert_eq!(here["cuMemAlloc 4096 again"], [""; 0]);
}

fn hardware_recording() -> String {
    let path = recording().join("h200-580.159.04.txt.gz");
    let output = Command::new("python3")
        .args([
            "-c",
            "import gzip, sys; sys.stdout.write(gzip.open(sys.argv[1], 'rt').read())",
        ])
        .arg(path)
        .output()
        .unwrap();
    String::from_utf8(output.stdout).unwrap()
}

/// The requests and mappings of each call, in words: file, number, class or command.
fn requests(recorded: &str) -> BTreeMap<String, Vec<String>> {
    let mut calls = BTreeMap::new();
    let mut call = String::new();
    for line in recorded.lines() {
        if let Some(name) = line.strip_prefix("mark ") {
            if name != "end" {
                call = name.to_owned();
                calls.insert(call.clone(), Vec::new());
            }
            continue;
        }
        let words: Vec<_> = line.split(' ').collect();
        let shown = match words[0] {
            "ioctl" => {
                let bytes = line.split("before=").nth(1).unwrap();
                let at = |offset: usize| {
                    let hex = bytes.get(offset * 2..offset * 2 + 8).unwrap();
                    u32::from_str_radix(hex, 16).unwrap().swap_bytes()
                };
                match words[3] {
                    "0xc030462b" => format!("{} {} {:#x}", words[1], words[3], at(12)),
                    "0xc020462a" => format!("{} {} {:#x}", words[1], words[3], at(8)),
                    number => format!("{} {number}", words[1]),
                }
            }
            "mmap" => format!("{} mmap", words[1]),
            _ => continue,
        };
        calls.get_mut(&call).unwrap().push(shown);
    }
    calls
}

#[test]
fn requests_are_real_system_calls() {
    if !installed("strace") {
        return skip("strace not installed: install the package strace");
    }
    let folder = Scratch::new("traced");
    let log = folder.0.join("log");
    let log_name = log.to_str().unwrap();
    let tracer = [
        "strace",
        "-f",
        "-e",
        "trace=ioctl,openat,mmap",
        "-e",
        "raw=ioctl",
        "-o",
        log_name,
    ];
    watched(&tracer, &folder.0.join("dev"), &[]);
    let log = std::fs::read_to_string(log).unwrap();
    let count = |what: &str| log.lines().filter(|line| line.contains(what)).count();

    // RM_CONTROL: 73 at start-up, 117 for the first context, 5 at its end, 1 + 2 for memory.
    assert_eq!(count(", 0xc020462a, "), 73 + 117 + 5 + 3);
    // RM_ALLOC: 14, 105, and one for memory; RM_FREE: 2, 109 at the context's end, 2 for memory.
    assert_eq!(count(", 0xc030462b, "), 14 + 105 + 1);
    assert_eq!(count(", 0xc0104629, "), 2 + 109 + 2);
    // UVM: external ranges and mappings, 27 for the context, one each for device and host memory.
    assert_eq!(count(", 0x49, "), 27 + 2);
    assert_eq!(count(", 0x21, "), 27 + 2);
    assert_eq!(count("dev/nvidiactl\""), 3 + 26);
    assert_eq!(count("dev/nvidia0\""), 6 + 9);
    assert_eq!(count("dev/nvidia-uvm\""), 2);
    assert_eq!(
        count("mmap(NULL, 65536, PROT_WRITE, MAP_SHARED, "),
        2,
        "the doorbells"
    );
}

/// Threads may ask at once; a folder that cannot be made turns the whole conversation off.
#[test]
fn is_safe_to_share_and_to_fail() {
    fn shared<T: Send + Sync>() {}
    shared::<softgpu_driver::resman::ContextHandles>();
    shared::<softgpu_driver::resman::MemHandle>();
    let session = Session::start();
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                for size in [1, 4096, 3 << 20, u64::MAX] {
                    let memory = session.mem_alloc(size);
                    session.mem_free(memory);
                }
                let context = session.context_create();
                let stream = session.stream_create();
                session.stream_destroy(stream);
                session.context_destroy(context);
                session.host_free(12345);
                session.managed_free(12345);
            });
        }
    });
    let output = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "conversation", "--ignored"])
        .env(FOLDER_VARIABLE, "/proc/no/such/folder")
        .output()
        .unwrap();
    assert!(output.status.success(), "{output:?}");
}

#[test]
fn the_private_folder_goes_with_the_process() {
    let base = Scratch::new("private");
    // One left behind by a process that was killed.
    let user = unsafe { libc::geteuid() };
    let shared = base.0.join(format!("cutrace-softgpu-{user}"));
    let stale = shared.join("2147483647");
    std::fs::create_dir_all(&stale).unwrap();
    std::fs::write(stale.join("nvidiactl"), "").unwrap();
    std::fs::set_permissions(&shared, std::os::unix::fs::PermissionsExt::from_mode(0o700)).unwrap();
    let output = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "conversation", "--ignored"])
        .env_remove(FOLDER_VARIABLE)
        .env("XDG_RUNTIME_DIR", &base.0)
        .output()
        .unwrap();
    assert!(output.status.success(), "{output:?}");
    assert_eq!(base.0.read_dir().unwrap().count(), 0);
}

/// The conversation is the parent's: its folder outlives a child that ends first.
#[test]
fn a_forked_child_leaves_its_parents_files_alone() {
    let base = Scratch::new("forked");
    let output = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "parent_and_child", "--ignored"])
        .env_remove(FOLDER_VARIABLE)
        .env("XDG_RUNTIME_DIR", &base.0)
        .output()
        .unwrap();
    assert!(output.status.success(), "{output:?}");
    assert_eq!(base.0.read_dir().unwrap().count(), 0);
}

#[test]
#[ignore = "the test above runs it, in a process of its own"]
fn parent_and_child() {
    static SESSION: Session = Session::start();
    let folders = || {
        let base = PathBuf::from(std::env::var_os("XDG_RUNTIME_DIR").unwrap());
        let shared = base.read_dir().unwrap().next().unwrap().unwrap();
        shared.path().read_dir().unwrap().count()
    };
    SESSION.init();
    assert_eq!(folders(), 1);
    let child = unsafe { libc::fork() };
    if child == 0 {
        SESSION.mem_alloc(4096);
        unsafe { libc::exit(0) };
    }
    let mut status = -1;
    assert_eq!(unsafe { libc::waitpid(child, &mut status, 0) }, child);
    assert_eq!(status, 0);
    assert_eq!(folders(), 1);
}
