//! Kernels of processes that ran before cutrace came: named by the functions of the host that launch them.

use super::{common::cutrace, older::compile, program, read, ready};
use serde_json::Value;
use std::{
    collections::BTreeMap,
    io::{BufRead, BufReader},
    path::Path,
    process::{Child, Command, Stdio},
    thread::sleep,
    time::Duration,
};

const RUNTIME: &str = r#"
struct dim3 { unsigned x, y, z; };
int cudaMalloc(void **at, unsigned long size) { *at = 0; return size == 0; }
int cudaLaunchKernel(const void *func, struct dim3 grid, struct dim3 block, void **args, unsigned long shared, void *stream) { asm volatile(""); return 0; }
int __cudaLaunchKernel(void *kernel, struct dim3 grid, struct dim3 block, void **args, unsigned long shared, void *stream) { asm volatile(""); return 0; }
"#;

/// What nvcc makes of `addOne<<<…>>>` and `scale<<<…>>>`: a kernel's address, as before CUDA 13, and a handle with a
/// stub around the call. The last launch is of neither kind.
const PROGRAM: &str = r#"
#include <dlfcn.h>
#include <unistd.h>
struct dim3 { unsigned x, y, z; };
typedef int (*launch)(const void *, struct dim3, struct dim3, void **, unsigned long, void *);
static launch by_address, by_handle;
static const struct dim3 one = { 1, 1, 1 };
__attribute__((noinline)) void _Z6addOnePfi(float *p, int n) { asm volatile(""); }
__attribute__((noinline)) void _Z24__device_stub__Z5scalePfPf(float *p) { by_handle((void *)0x670000000010, one, one, 0, 0, 0); asm volatile(""); }
int main(int count, char **words) {
    void *runtime = dlopen(words[1], RTLD_NOW);
    by_address = dlsym(runtime, "cudaLaunchKernel");
    by_handle = dlsym(runtime, "__cudaLaunchKernel");
    write(1, "ready\n", 6);
    for (;;) {
        by_address(_Z6addOnePfi, one, one, 0, 0, 0);
        _Z24__device_stub__Z5scalePfPf(0);
        by_handle((void *)0x670000000020, one, one, 0, 0, 0);
        usleep(2000);
    }
}
"#;

/// A driver whose handles are addresses of structures, with the name behind two pointers. Modules have names, too.
const DRIVER: &str = r#"
#include <stdlib.h>
struct module { long number; const char *file; };
struct code { long size; const char *name; };
struct function { long magic; struct module *module; char settings[0x50]; struct code *code; };
static struct module module = { 7, "elf_image" };
void *loaded(const char *name) {
    struct function *function = calloc(1, sizeof *function);
    function->module = &module;
    function->code = calloc(1, sizeof *function->code);
    function->code->name = name;
    return function;
}
int cuInit(unsigned flags) { return flags != 0; }
int cuLaunchKernel(void *f, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz, unsigned shared, void *stream, void **params, void **extra) { asm volatile(""); return 0; }
"#;

/// Hands the driver its own handles for the addresses of the program's functions.
const RUNTIME_ON_DRIVER: &str = r#"
struct dim3 { unsigned x, y, z; };
typedef int (*launch)(void *, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, void *, void **, void **);
static launch driver;
static struct { const void *func; void *handle; } kernels[8];
static int count;
void driver_is(launch one) { driver = one; }
void handle_is(const void *func, void *handle) { kernels[count].func = func; kernels[count++].handle = handle; }
int cudaMalloc(void **at, unsigned long size) { *at = 0; return size == 0; }
int cudaLaunchKernel(const void *func, struct dim3 grid, struct dim3 block, void **args, unsigned long shared, void *stream) {
    for (int i = 0; i < count; i++)
        if (kernels[i].func == func) {
            int result = driver(kernels[i].handle, grid.x, grid.y, grid.z, block.x, block.y, block.z, shared, stream, args, 0);
            asm volatile("");
            return result;
        }
    return 1;
}
"#;

/// Two kernels of its own, and two that a library has got from the driver. The last handle is no address.
const PROGRAM_ON_DRIVER: &str = r#"
#include <dlfcn.h>
#include <unistd.h>
struct dim3 { unsigned x, y, z; };
static const struct dim3 one = { 1, 1, 1 };
__attribute__((noinline)) void _Z6addOnePfi(float *p, int n) { asm volatile(""); }
__attribute__((noinline)) void _Z5scalePf(float *p) { asm volatile("nop"); }
int main(int count, char **words) {
    void *driver = dlopen(words[1], RTLD_NOW), *runtime = dlopen(words[2], RTLD_NOW);
    void *(*loaded)(const char *) = dlsym(driver, "loaded");
    int (*direct)(void *, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, void *, void **, void **) = dlsym(driver, "cuLaunchKernel");
    int (*launch)(const void *, struct dim3, struct dim3, void **, unsigned long, void *) = dlsym(runtime, "cudaLaunchKernel");
    void (*handle_is)(const void *, void *) = dlsym(runtime, "handle_is");
    ((void (*)(void *))dlsym(runtime, "driver_is"))(direct);
    handle_is(_Z6addOnePfi, loaded("_Z6addOnePfi"));
    handle_is(_Z5scalePf, loaded("_Z5scalePf"));
    void *gemm = loaded("_Z4gemmPfS_S_"), *fused = loaded("triton_poi_fused_0");
    write(1, "ready\n", 6);
    for (;;) {
        direct(gemm, 1, 1, 1, 1, 1, 1, 0, 0, 0, 0);
        direct(fused, 1, 1, 1, 1, 1, 1, 0, 0, 0, 0);
        direct((void *)0x670000000020, 1, 1, 1, 1, 1, 1, 0, 0, 0, 0);
        launch(_Z6addOnePfi, one, one, 0, 0, 0);
        launch(_Z5scalePf, one, one, 0, 0, 0);
        usleep(2000);
    }
}
"#;

/// Ended whatever becomes of the test.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A program that another process has started.
struct Program(u32);

impl Drop for Program {
    fn drop(&mut self) {
        let _ = Command::new("kill").arg(self.0.to_string()).status();
    }
}

fn launches(trace: &Path, pid: u32) -> BTreeMap<String, usize> {
    let mut found = BTreeMap::new();
    // Others may launch kernels here meanwhile.
    let is_ours = |line: &&Value| line["op"] == "launch" && line["pid"] == pid;
    for line in read(trace).iter().filter(is_ours) {
        let kernel = line["kernel"].as_str().expect("a name").to_owned();
        *found.entry(kernel).or_default() += 1;
    }
    found
}

#[test]
fn kernels_of_running_processes_have_names() {
    let Some(_turn) = ready() else {
        return;
    };
    let folder = tempfile::tempdir().expect("a folder");
    let folder = folder.path();
    let runtime = compile(folder, "libcudart.so.13", RUNTIME, &["-shared", "-fPIC"]);
    let program = compile(folder, "program", PROGRAM, &["-ldl"]);
    let child = Command::new(&program)
        .arg(&runtime)
        .stdout(Stdio::null())
        .spawn()
        .expect("started");
    let child = Running(child);
    sleep(Duration::from_millis(300));
    let pid = child.0.id().to_string();
    let trace = folder.join("t.jsonl");
    for target in [&["-p", &*pid][..], &["-a"]] {
        let output = cutrace()
            .args(["-q", "--method=ebpf", "-d", "1", "-o"])
            .arg(&trace)
            .args(target)
            .output()
            .expect("started");
        assert!(output.status.success(), "{output:?}");
        let found = launches(&trace, child.0.id());
        let names: Vec<&str> = found.keys().map(String::as_str).collect();
        let unknown = "unknown kernel (handle 0x670000000020; attached after it was loaded)";
        assert_eq!(names, ["addOne(float*, int)", "scale(float*)", unknown]);
        assert!(found.values().all(|count| *count > 50), "{found:?}");
        // Where launches return to is for their names only.
        assert!(read(&trace).iter().all(|line| line["stack"].is_null()));
    }
}

/// What the driver calls them is read from its structures, found by kernels that are known.
#[test]
fn kernels_that_libraries_got_from_the_driver_have_names() {
    let Some(_turn) = ready() else {
        return;
    };
    let folder = tempfile::tempdir().expect("a folder");
    let folder = folder.path();
    let library = ["-shared", "-fPIC"];
    let driver = compile(folder, "libcuda.so.1", DRIVER, &library);
    let runtime = compile(folder, "libcudart.so.13", RUNTIME_ON_DRIVER, &library);
    let program = compile(folder, "program", PROGRAM_ON_DRIVER, &["-ldl"]);
    let child = Command::new(&program)
        .args([&driver, &runtime])
        .stdout(Stdio::null())
        .spawn()
        .expect("started");
    let child = Running(child);
    sleep(Duration::from_millis(300));
    let trace = folder.join("t.jsonl");
    let output = cutrace()
        .args([
            "-q",
            "--method=ebpf",
            "-d",
            "1",
            "-p",
            &child.0.id().to_string(),
            "-o",
        ])
        .arg(&trace)
        .output()
        .expect("started");
    assert!(output.status.success(), "{output:?}");
    // All launches, also those before the way to the names was known.
    let found = launches(&trace, child.0.id());
    let names: Vec<&str> = found.keys().map(String::as_str).collect();
    let (gemm, fused) = ("gemm(float*, float*, float*)", "triton_poi_fused_0");
    let unknown = "unknown kernel (handle 0x670000000020; attached after it was loaded)";
    let all = ["addOne(float*, int)", gemm, "scale(float*)", fused, unknown];
    assert_eq!(names, all);
    assert!(found.values().all(|count| *count > 50), "{found:?}");
    let lines = read(&trace);
    let from_driver = lines
        .iter()
        .filter(|line| line["details"]["name_from"] == "driver");
    assert_eq!(from_driver.count(), found[gemm] + found[fused]);
    let times: Vec<f64> = lines
        .iter()
        .filter_map(|line| line["ts"].as_f64())
        .collect();
    assert!(times.is_sorted());
}

/// nvcc's programs, stripped: what registers the kernels tells.
#[test]
fn kernels_of_stripped_programs_have_names() {
    let (Some(_turn), Some(program)) = (ready(), program("endless")) else {
        return;
    };
    let line = format!("echo $$; exec {} loop", program.display());
    let mut child = cutrace()
        .args(["softgpu", "--", "sh", "-c", &line])
        .stdout(Stdio::piped())
        .spawn()
        .expect("started");
    let mut said = BufReader::new(child.stdout.take().expect("a pipe")).lines();
    let _child = Running(child);
    let mut said = || said.next().expect("a line").expect("read");
    let pid: u32 = said().parse().expect("a number");
    let _program = Program(pid);
    while !said().contains("ready") {}
    let folder = tempfile::tempdir().expect("a folder");
    let trace = folder.path().join("t.jsonl");
    let output = cutrace()
        .args([
            "-q",
            "--method=ebpf",
            "-d",
            "1",
            "-p",
            &pid.to_string(),
            "-o",
        ])
        .arg(&trace)
        .output()
        .expect("started");
    assert!(output.status.success(), "{output:?}");
    let found = launches(&trace, pid);
    let names: Vec<&str> = found.keys().map(String::as_str).collect();
    assert_eq!(names, ["vectorAdd(float const*, float const*, float*)"]);
    assert!(found.values().all(|count| *count > 5), "{found:?}");
}
