//! What is said of several libraries alike is one line, and `-v` names them.

use super::{path, record};
use std::{path::Path, process::Command};

/// GPU code, and nothing that says whose runtime launches it: as cuBLAS and the like have it.
const LIBRARY: &str = "__attribute__((section(\".nv_fatbin\"), used)) static const char code[64] = {1}; int NAME(void) { return code[0]; }";

const PROGRAM: &str = r#"
#include <dlfcn.h>
int main(int count, char **words) {
    for (int word = 1; word < count; word++)
        if (!dlopen(words[word], RTLD_NOW)) return 3;
    int (*init)(unsigned) = dlsym(dlopen("libcuda.so.1", RTLD_NOW), "cuInit");
    return init ? init(0) : 4;
}
"#;

fn compile(folder: &Path, name: &str, text: &str, flags: &[&str]) -> String {
    let (source, to) = (folder.join(format!("{name}.c")), folder.join(name));
    std::fs::write(&source, text).expect("written");
    let mut command = Command::new("cc");
    command
        .args(["-O1", "-s", "-o"])
        .args([&to, &source])
        .args(flags);
    let built = command.output().expect("a compiler");
    assert!(built.status.success(), "{built:?}");
    path(&to).to_owned()
}

#[test]
fn libraries_with_runtimes_of_their_own_are_one_note() {
    let folder = tempfile::tempdir().expect("a folder");
    let folder = folder.path();
    let program = compile(folder, "program", PROGRAM, &["-ldl"]);
    let libraries: Vec<String> = (1..=3)
        .map(|number| {
            let text = LIBRARY.replace("NAME", &format!("f{number}"));
            compile(
                folder,
                &format!("libmath{number}.so"),
                &text,
                &["-shared", "-fPIC"],
            )
        })
        .collect();
    let said = |options: &[&str], count: usize| {
        let command = [&program].into_iter().chain(&libraries[..count]);
        let command: Vec<&str> = command.map(String::as_str).collect();
        let run = record(&[options, &["--method=preload"]].concat(), &command);
        assert!(run.output.status.success(), "{}", run.stderr());
        run.stderr()
    };
    let one = said(&[], 1);
    let note = format!(
        "Note: {} links its own CUDA runtime without symbols: its cuda* calls are not seen, its cu* calls are\n",
        libraries[0]
    );
    assert!(one.contains(&note), "{one}");
    let note = "Note: 3 libraries link their own CUDA runtime without symbols: their cuda* calls are not seen, their cu* \
                calls are (-v lists them)\n";
    let many = said(&[], 3);
    assert!(many.contains(note), "{many}");
    assert_eq!(many.matches("runtime without symbols").count(), 1, "{many}");
    let listed = said(&["-v"], 3);
    assert!(listed.contains(note), "{listed}");
    for library in &libraries {
        let line = format!("cutrace: {library} links its own CUDA runtime without symbols");
        assert!(listed.contains(&line), "{listed}");
    }
}
