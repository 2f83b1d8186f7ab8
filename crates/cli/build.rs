//! Builds what cutrace carries inside itself: softgpu's libcuda.so.1, libcudart.so.12/.13 and what
//! else it brings, the injected libraries, and the demo program. They are linked here rather than by cargo because they need their own sonames
//! and ELF symbol versions, which a Rust cdylib cannot have.

use std::{
    env,
    fmt::Write as _,
    fs,
    path::{Path, PathBuf},
    process::Command,
};

/// A library of softgpu: the package it is built from, and the script that links it.
struct Library {
    package: &'static str,
    feature: Option<&'static str>,
    archive: &'static str,
    soname: &'static str,
    /// From the repository's root; called with the archive and the output as last arguments.
    link: &'static [&'static str],
}

const LIBRARIES: [Library; 5] = [
    Library {
        package: "cutrace-softgpu-driver",
        feature: None,
        archive: "libsoftgpu_driver.a",
        soname: "libcuda.so.1",
        link: &["softgpu/driver/exports/link-libcuda"],
    },
    Library {
        package: "cutrace-softgpu-runtime",
        feature: Some("cuda12"),
        archive: "libcudart.a",
        soname: "libcudart.so.12",
        link: &["softgpu/runtime/link.sh", "12"],
    },
    Library {
        package: "cutrace-softgpu-runtime",
        feature: Some("cuda13"),
        archive: "libcudart.a",
        soname: "libcudart.so.13",
        link: &["softgpu/runtime/link.sh", "13"],
    },
    Library {
        package: "cutrace-softgpu-cupti",
        feature: None,
        archive: "libcupti.a",
        soname: "libcupti.so.13",
        link: &["softgpu/cupti/link.sh"],
    },
    Library {
        package: "cutrace-softgpu-redirect",
        feature: None,
        archive: "libredirect.a",
        soname: "libcutrace_redirect.so",
        link: &["softgpu/redirect/link.sh"],
    },
];

/// Loaded by the driver in traced programs.
const GPU_TIMES: Library = Library {
    package: "cutrace-gpu-times",
    feature: None,
    archive: "libgpu_times.a",
    soname: "libcutrace_gpu_times.so",
    link: &["inject/gpu-times/link.sh"],
};

/// What puts probes into the kernels of traced programs.
const GPU_PROBES: Library = Library {
    package: "cutrace-gpu-probes",
    feature: None,
    archive: "libgpu_probes.a",
    soname: "libcutrace_gpu_probes.so",
    link: &["inject/gpu-probes/link.sh"],
};

fn main() {
    let out = PathBuf::from(env::var_os("OUT_DIR").expect("cargo sets OUT_DIR"));
    let root = PathBuf::from(env::var_os("CARGO_MANIFEST_DIR").expect("cargo sets it"))
        .join("../..")
        .canonicalize()
        .expect("the workspace root exists");
    for watched in [
        "softgpu",
        "crates/ptx",
        "inject",
        "crates/event",
        "crates/cuda",
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
    table.push_str("];\n");
    let demo = build_demo(&root, &out);
    let preload = build_preload(&root, &out);
    let gpu_times = link(
        &root,
        &out,
        &GPU_TIMES,
        &build_archive(&root, &out, &GPU_TIMES),
    );
    let gpu_probes = link(
        &root,
        &out,
        &GPU_PROBES,
        &build_archive(&root, &out, &GPU_PROBES),
    );
    for (constant, name, file) in [
        ("DEMO", "demo", demo),
        ("PRELOAD", "libcutrace_preload.so", preload),
        ("GPU_TIMES", GPU_TIMES.soname, gpu_times),
        ("GPU_PROBES", GPU_PROBES.soname, gpu_probes),
    ] {
        let _ = writeln!(
            table,
            "pub const {constant}: Embedded = \
             Embedded {{ name: {name:?}, bytes: include_bytes!({file:?}) }};"
        );
    }
    fs::write(out.join("embedded.rs"), table).expect("OUT_DIR is writable");
}

/// Builds the package as a static library with a cargo of its own: the outer one holds its target
/// folder's lock, and these must be optimised whatever the outer profile is.
fn build_archive(root: &Path, out: &Path, library: &Library) -> PathBuf {
    let target = carried(out).join(library.feature.unwrap_or("base"));
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

/// OUT_DIR is TARGET/PROFILE/build/NAME/out: TARGET/carried is shared by all profiles.
fn carried(out: &Path) -> PathBuf {
    out.ancestors().nth(4).unwrap_or(out).join("carried")
}

fn link(root: &Path, out: &Path, library: &Library, archive: &Path) -> PathBuf {
    let linked = out.join(library.soname);
    let mut script = Command::new("sh");
    script
        .current_dir(root)
        .args(library.link)
        .arg(archive)
        .arg(&linked);
    run(script, library.soname);
    linked
}

/// The injected library is linked in two parts that no other library has: it does that itself.
fn build_preload(root: &Path, out: &Path) -> PathBuf {
    let library = out.join("libcutrace_preload.so");
    let mut script = Command::new("sh");
    script
        .arg(root.join("inject/preload/link.sh"))
        .arg(carried(out).join("preload"))
        .arg(&library);
    run(script, "the injected library");
    library
}

fn build_demo(root: &Path, out: &Path) -> PathBuf {
    let folder = root.join("crates/cli/demo");
    let program = out.join("demo");
    let mut cc = compiler();
    // gnu11: the demo calls through unprototyped function pointers, which C23 no longer has.
    // Lines and functions as they are written: the tour shows where a leak comes from.
    cc.args(["-O1", "-g1", "-fno-inline", "-std=gnu11"])
        .arg(format!("-ffile-prefix-map={}/=", folder.display()))
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
