//! Builds what cutrace carries inside itself: softgpu's libcuda.so.1 and libcudart.so.12/.13, and
//! the demo program. They are linked here rather than by cargo because they need their own sonames
//! and ELF symbol versions, which a Rust cdylib cannot have.

use std::{
    env,
    fmt::Write as _,
    fs,
    path::{Path, PathBuf},
    process::Command,
};

/// One library to carry: which package (and feature) it is built from, and how it is linked.
struct Library {
    package: &'static str,
    feature: Option<&'static str>,
    archive: &'static str,
    soname: &'static str,
    /// Names it exports, one a line, from the repository's root.
    exports: &'static str,
    /// The ELF version its symbols carry.
    version: Option<&'static str>,
}

const LIBRARIES: [Library; 3] = [
    Library {
        package: "cutrace-softgpu",
        feature: None,
        archive: "libsoftgpu.a",
        soname: "libcuda.so.1",
        exports: "fixtures/driver/libcuda-580.159.04.exports",
        version: None,
    },
    Library {
        package: "cutrace-cudart",
        feature: Some("cuda12"),
        archive: "libcudart.a",
        soname: "libcudart.so.12",
        exports: "crates/cudart/exports/libcudart-12.txt",
        version: Some("libcudart.so.12"),
    },
    Library {
        package: "cutrace-cudart",
        feature: Some("cuda13"),
        archive: "libcudart.a",
        soname: "libcudart.so.13",
        exports: "crates/cudart/exports/libcudart-13.txt",
        version: Some("libcudart.so.13"),
    },
];

fn main() {
    let out = PathBuf::from(env::var_os("OUT_DIR").expect("cargo sets OUT_DIR"));
    let root = PathBuf::from(env::var_os("CARGO_MANIFEST_DIR").expect("cargo sets it"))
        .join("../..")
        .canonicalize()
        .expect("the workspace root exists");
    for watched in [
        "crates/softgpu",
        "crates/cudart",
        "crates/ptx",
        "crates/cli/demo",
        "fixtures/driver",
        "Cargo.lock",
    ] {
        println!("cargo::rerun-if-changed={}", root.join(watched).display());
    }
    let mut table = String::from("pub const LIBRARIES: &[Embedded] = &[\n");
    for library in &LIBRARIES {
        let archive = build_archive(&root, &out, library);
        let linked = link(&root, &out, library, &archive);
        let _ = writeln!(
            table,
            "    Embedded {{ name: {:?}, bytes: include_bytes!({:?}) }},",
            library.soname, linked
        );
    }
    let demo = build_demo(&root, &out);
    let _ = writeln!(
        table,
        "];\npub const DEMO: Embedded = Embedded {{ name: \"demo\", bytes: include_bytes!({demo:?}) }};"
    );
    fs::write(out.join("embedded.rs"), table).expect("OUT_DIR is writable");
}

/// Builds the package as a static library with a cargo of its own: the outer one holds its target
/// folder's lock, and these must be optimised whatever the outer profile is.
fn build_archive(root: &Path, out: &Path, library: &Library) -> PathBuf {
    // OUT_DIR is TARGET/PROFILE/build/NAME/out: TARGET/carried is shared by all profiles.
    let target = out
        .ancestors()
        .nth(4)
        .unwrap_or(out)
        .join("carried")
        .join(library.feature.unwrap_or("base"));
    let mut cargo = Command::new(env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    cargo
        .current_dir(root)
        .args(["rustc", "--release", "--lib", "--crate-type", "staticlib"])
        .args(["--package", library.package])
        .arg("--target-dir")
        .arg(&target)
        // clippy replaces rustc through this variable; these libraries need real code.
        .env_remove("RUSTC_WORKSPACE_WRAPPER")
        .env_remove("CARGO_BUILD_TARGET");
    if let Some(feature) = library.feature {
        cargo.args(["--no-default-features", "--features", feature]);
    }
    run(cargo, library.package);
    target.join("release").join(library.archive)
}

fn link(root: &Path, out: &Path, library: &Library, archive: &Path) -> PathBuf {
    let exports = root.join(library.exports);
    let names = fs::read_to_string(&exports)
        .unwrap_or_else(|why| panic!("cannot read {}: {why}", exports.display()));
    let mut script = format!("{} {{ global:\n", library.version.unwrap_or(""));
    for name in names.split_whitespace() {
        let _ = writeln!(script, "  {name};");
    }
    script.push_str("local: *; };\n");
    let script_path = out.join(format!("{}.map", library.soname));
    fs::write(&script_path, script).expect("OUT_DIR is writable");

    let linked = out.join(library.soname);
    let mut cc = compiler();
    cc.args(["-shared", "-o"])
        .arg(&linked)
        .arg("-Wl,--whole-archive")
        .arg(archive)
        .arg("-Wl,--no-whole-archive")
        .args(["-Wl,--gc-sections", "-Wl,--strip-debug", "-Wl,-z,now"])
        .arg(format!("-Wl,-soname,{}", library.soname))
        .arg(format!("-Wl,--version-script={}", script_path.display()))
        .args(["-lgcc_s", "-lpthread", "-ldl", "-lm", "-lc"]);
    run(cc, library.soname);
    linked
}

fn build_demo(root: &Path, out: &Path) -> PathBuf {
    let folder = root.join("crates/cli/demo");
    let program = out.join("demo");
    let mut cc = compiler();
    // gnu11: the demo calls through unprototyped function pointers, which C23 no longer has.
    cc.args(["-O2", "-s", "-std=gnu11"])
        .arg(format!("-Wa,-I{}", folder.display()))
        .arg("-o")
        .arg(&program)
        .arg(folder.join("demo.c"))
        .args(["-ldl", "-lm"]);
    run(cc, "the demo program");
    program
}

fn compiler() -> Command {
    println!("cargo::rerun-if-env-changed=CC");
    Command::new(env::var_os("CC").unwrap_or_else(|| "cc".into()))
}

fn run(mut command: Command, what: &str) {
    let status = command
        .status()
        .unwrap_or_else(|why| panic!("{what}: cannot start {command:?}: {why}"));
    assert!(status.success(), "{what}: {command:?} failed: {status}");
}
