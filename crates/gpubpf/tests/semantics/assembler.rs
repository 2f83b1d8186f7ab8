//! NVIDIA's assembler takes what programs become: it is stricter than the software device.

use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::process::Command;

use gpubpf::map::DESCRIPTORS;
use gpubpf::{Budget, Object, TranslateOptions, helper_name, translate, verify_or_budget};

use crate::batch;

/// ptxas of the project's own toolkit, of $CUDA, or of the path.
fn ptxas() -> Option<PathBuf> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let pythons = std::fs::read_dir(root.join("target/nvcc/lib"))
        .into_iter()
        .flatten();
    let venv = pythons
        .flatten()
        .map(|python| python.path().join("site-packages/nvidia/cu13"));
    let cuda = std::env::var_os("CUDA").map(PathBuf::from);
    venv.chain(cuda)
        .map(|place| place.join("bin/ptxas"))
        .chain([PathBuf::from("ptxas")])
        .find(|path| {
            let found = Command::new(path).arg("--version").output();
            found.is_ok_and(|output| output.status.success())
        })
}

fn assemble(ptxas: &Path, folder: &Path, text: &str, architecture: &str, what: &str) {
    let source = folder.join("module.ptx");
    std::fs::write(&source, text).unwrap();
    let output = Command::new(ptxas)
        .args(["-O1", "-arch", architecture, "-o"])
        .arg(folder.join("module.cubin"))
        .arg(&source)
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{what} for {architecture}: {said}");
}

/// An object's programs with empty helpers, as a module for the oldest PTX that has all they need.
fn module(object: &Object, options: &TranslateOptions) -> String {
    let mut text = format!(
        ".version 6.3\n.target sm_70\n.address_size 64\n.global .align 16 .b8 {DESCRIPTORS}[1024];\n"
    );
    let mut bodies = String::new();
    let mut helpers = Vec::new();
    for (number, program) in object.programs.iter().enumerate() {
        let verified =
            verify_or_budget(object, program).unwrap_or_else(|refused| panic!("{refused}"));
        let translated = translate(&verified, options);
        helpers.extend(translated.helpers);
        let _ = writeln!(
            bodies,
            "{}.visible .entry kernel_{number}(.param .u64 context) {{ .reg .b64 %x<2>;\n\
             ld.param.u64 %x0, [context]; call (%x1), {}, (%x0); st.global.u64 [%x0], %x1; ret; }}",
            translated.functions, translated.entry_name
        );
    }
    helpers.sort_unstable();
    helpers.dedup();
    for helper in helpers {
        let _ = writeln!(
            text,
            ".func (.reg .b64 %r) {} (.reg .b64 %a, .reg .b64 %b, .reg .b64 %c, .reg .b64 %d, .reg .b64 %e) \
             {{ mov.b64 %r, 0; ret; }}",
            helper_name(helper)
        );
    }
    text + &bodies
}

#[test]
fn ptxas_takes_what_programs_become() {
    let Some(ptxas) = ptxas() else {
        assert!(
            std::env::var_os("CUTRACE_REQUIRE_ALL").is_none_or(|value| value != "1"),
            "must not be skipped here: no ptxas"
        );
        eprintln!("skipped: no ptxas (scripts/setup-nvcc puts it into target/nvcc)");
        return;
    };
    let folder = tempfile::tempdir().unwrap();
    let objects = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/objects");
    let mut assembled = 0;
    for entry in std::fs::read_dir(objects).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_none_or(|extension| extension != "o") {
            continue;
        }
        let what = path.display().to_string();
        let object = Object::parse(&std::fs::read(&path).unwrap()).unwrap();
        let options = TranslateOptions {
            promote_stack: assembled % 3 != 0,
            inline_helpers: assembled % 4 != 0,
            budget: Budget {
                stopped: Some((3, 1)),
                ..Budget::default()
            },
            ..TranslateOptions::default()
        };
        let text = module(&object, &options);
        assemble(&ptxas, folder.path(), &text, "sm_75", &what);
        assemble(&ptxas, folder.path(), &text, "sm_90", &what);
        assembled += 1;
    }
    assert!(assembled >= 18);
    let cases: Vec<batch::Case> = (0..40).map(batch::case).collect();
    let text = batch::module(&cases);
    assemble(&ptxas, folder.path(), &text, "sm_90", "random programs");
}
