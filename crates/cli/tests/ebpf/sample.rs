//! `--sample 1/N`: one call of many is recorded, and those that are not are counted.

use super::{common::cutrace, older::compile, read, ready};
use serde_json::{Value, json};

/// A loop of cheap calls, and allocations between them, which are all recorded.
const PROGRAM: &str = r#"
#include <dlfcn.h>
int main(void) {
    void *driver = dlopen("libcuda.so.1", RTLD_NOW);
    int (*init)(unsigned) = dlsym(driver, "cuInit");
    int (*retain)(void **, int) = dlsym(driver, "cuDevicePrimaryCtxRetain");
    int (*set)(void *) = dlsym(driver, "cuCtxSetCurrent");
    int (*version)(void **) = dlsym(driver, "cuDriverGetVersion");
    int (*get)(int *) = dlsym(driver, "cuDeviceGetCount");
    int (*take)(unsigned long *, unsigned long) = dlsym(driver, "cuMemAlloc_v2");
    void *context = 0;
    unsigned long memory;
    int count;
    if (init(0) || retain(&context, 0) || set(context)) return 1;
    for (int i = 0; i < 1000; i++) {
        void *found = 0;
        version(&found);
        if (i % 4 == 0) get(&count);
        if (i % 100 == 0 && take(&memory, 256)) return 2;
    }
    return 0;
}
"#;

fn ended(lines: &[Value], name: &str) -> usize {
    let is = |line: &&Value| line["name"] == name && line["phase"] == "E";
    lines.iter().filter(is).count()
}

#[test]
fn what_is_not_in_the_sample_is_counted() {
    let Some(_turn) = ready() else {
        return;
    };
    let folder = tempfile::tempdir().expect("a folder");
    let program = compile(folder.path(), "program", PROGRAM, &["-ldl"]);
    let trace = folder.path().join("t.jsonl");
    for method in ["preload", "ebpf"] {
        let output = cutrace()
            .args(["--sim", "--sample", "1/50", "--method", method, "-o"])
            .arg(&trace)
            .arg(&program)
            .output()
            .expect("started");
        assert!(output.status.success(), "{output:?}");
        let said = String::from_utf8_lossy(&output.stderr);
        let lines = read(&trace);
        // ebpf counts on every processor by itself, and the program may move from one to another.
        let slack = if method == "ebpf" { 8 } else { 0 };
        let calls = ended(&lines, "cuDriverGetVersion");
        assert!((20..=20 + slack).contains(&calls), "{method}: {calls}");
        let asks = ended(&lines, "cuDeviceGetCount");
        assert!((5..=5 + slack).contains(&asks), "{method}: {asks}");
        assert_eq!(ended(&lines, "cuMemAlloc_v2"), 10, "{method}");
        let sampled = &lines.last().expect("a summary")["sampled"];
        assert_eq!(sampled["one_of"], json!(50));
        // Made: those, and what stands alone besides, each function once.
        let not_recorded = sampled["not_recorded"].as_u64().expect("a number");
        assert_eq!(
            not_recorded + (calls + asks) as u64,
            1250,
            "{method}: {said}"
        );
        assert!(said.contains("--sample 1/50: 1,"), "{said}");
        let report = cutrace()
            .arg("report")
            .arg(&trace)
            .output()
            .expect("started");
        let report = String::from_utf8_lossy(&report.stdout).into_owned();
        assert!(
            report.contains("Sampled: 1 in 50 calls of each function"),
            "{report}"
        );
    }
}
