//! Builds what cutrace carries inside itself: softgpu's libcuda.so.1, libcudart.so.12/.13 and what
//! else it brings, the injected libraries, and the demo program. They are linked here rather than by cargo because they need their own sonames
//! and ELF symbol versions, which a Rust cdylib cannot have. Each is compressed; `embedded.rs` unpacks them.

use std::{
    env,
    fmt::Write as _,
    fs,
    path::{Path, PathBuf},
    process::Command,
    thread,
};

#[path = "../../softgpu/driver/exports/coverage.rs"]
mod coverage;
#[path = "src/embedded/fingerprint.rs"]
mod fingerprint;

/// A library: the package it is built from, and the script that links it.
struct Library {
    package: &'static str,
    archive: &'static str,
    soname: &'static str,
    /// From the repository's root; called with the archive and the output as last arguments.
    link: &'static [&'static str],
}

const SOFTGPU: [Library; 3] = [
    Library {
        package: "cutrace-softgpu-driver",
        archive: "libsoftgpu_driver.a",
        soname: "libcuda.so.1",
        link: &["softgpu/driver/exports/link-libcuda"],
    },
    Library {
        package: "cutrace-softgpu-cupti",
        archive: "libcupti.a",
        soname: "libcupti.so.13",
        link: &["softgpu/cupti/link.sh"],
    },
    Library {
        package: "cutrace-softgpu-redirect",
        archive: "libredirect.a",
        soname: "libcutrace_redirect.so",
        link: &["softgpu/redirect/link.sh"],
    },
];

/// softgpu's runtime libraries: one package, built once for each.
const RUNTIMES: [(&str, Library); 2] = [
    (
        "cuda12",
        Library {
            package: "cutrace-softgpu-runtime",
            archive: "libcudart.a",
            soname: "libcudart.so.12",
            link: &["softgpu/runtime/link.sh", "12"],
        },
    ),
    (
        "cuda13",
        Library {
            package: "cutrace-softgpu-runtime",
            archive: "libcudart.a",
            soname: "libcudart.so.13",
            link: &["softgpu/runtime/link.sh", "13"],
        },
    ),
];

/// Loaded by the driver in traced programs.
const GPU_TIMES: Library = Library {
    package: "cutrace-gpu-times",
    archive: "libgpu_times.a",
    soname: "libcutrace_gpu_times.so",
    link: &["inject/gpu-times/link.sh"],
};

/// What puts probes into the kernels of traced programs.
const GPU_PROBES: Library = Library {
    package: "cutrace-gpu-probes",
    archive: "libgpu_probes.a",
    soname: "libcutrace_gpu_probes.so",
    link: &["inject/gpu-probes/link.sh"],
};

const PRELOAD: &str = "libcutrace_preload.so";
const DEMO: &str = "demo";

/// Cargo's profile for these libraries, whatever that of the program is.
const PROFILE: &str = "carried";

fn main() {
    let out = PathBuf::from(env::var_os("OUT_DIR").expect("cargo sets OUT_DIR"));
    let root = PathBuf::from(env::var_os("CARGO_MANIFEST_DIR").expect("cargo sets it"))
        .join("../..")
        .canonicalize()
        .expect("the workspace root exists");
    for watched in [
        "softgpu",
        "crates/ptx",
        "crates/names",
        "inject",
        "crates/event",
        "crates/cuda",
        "crates/cli/demo",
        "crates/cli/src/embedded/fingerprint.rs",
        "fixtures/driver",
        "Cargo.lock",
        "Cargo.toml",
    ] {
        println!("cargo::rerun-if-changed={}", root.join(watched).display());
    }
    println!("cargo::rerun-if-env-changed=CC");

    // Two at a time: each cargo shares the outer one's limit on jobs, but may always run one.
    thread::scope(|scope| {
        scope.spawn(|| build_libraries(&root, &out));
        build_preload(&root, &out);
        for (feature, library) in &RUNTIMES {
            build_runtime(&root, &out, feature, library);
        }
        build_demo(&root, &out);
    });

    let mut table = String::from("pub const LIBRARIES: &[Embedded] = &[\n");
    let runtimes = RUNTIMES.iter().map(|(_, library)| library);
    for library in SOFTGPU.iter().chain(runtimes) {
        let _ = writeln!(table, "    {},", embedded(&out, library.soname));
    }
    table.push_str("];\n");
    for (constant, name) in [
        ("DEMO", DEMO),
        ("PRELOAD", PRELOAD),
        ("GPU_TIMES", GPU_TIMES.soname),
        ("GPU_PROBES", GPU_PROBES.soname),
    ] {
        let _ = writeln!(
            table,
            "pub const {constant}: Embedded = {};",
            embedded(&out, name)
        );
    }
    fs::write(out.join("embedded.rs"), table).expect("OUT_DIR is writable");
    fs::write(out.join("softgpu_functions.rs"), functions(&root)).expect("OUT_DIR is writable");
}

/// All libraries whose packages need no features of their own, in one go.
fn build_libraries(root: &Path, out: &Path) {
    let libraries = || SOFTGPU.iter().chain([&GPU_TIMES, &GPU_PROBES]);
    let target = carried(out).join("base");
    let mut cargo = cargo_build(root, &target);
    for library in libraries() {
        cargo.args(["--package", library.package]);
    }
    run(cargo, "the libraries");
    for library in libraries() {
        link(root, out, library, &target);
    }
}

fn build_runtime(root: &Path, out: &Path, feature: &str, library: &Library) {
    let target = carried(out).join(feature);
    let mut cargo = cargo_build(root, &target);
    cargo.args(["--package", library.package]).args([
        "--no-default-features",
        "--features",
        feature,
    ]);
    run(cargo, library.soname);
    link(root, out, library, &target);
}

/// A cargo of its own: the outer one holds its target folder's lock, and these must be optimised whatever the outer
/// profile is.
fn cargo_build(root: &Path, target: &Path) -> Command {
    let mut cargo = Command::new(env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    cargo
        .current_dir(root)
        .args(["build", "--lib", "--profile", PROFILE, "--target-dir"])
        .arg(target)
        // clippy replaces rustc through this variable; these libraries need real code.
        .env_remove("RUSTC_WORKSPACE_WRAPPER")
        .env_remove("CARGO_BUILD_TARGET");
    cargo
}

/// OUT_DIR is TARGET/PROFILE/build/NAME/out: TARGET/carried is shared by all profiles.
fn carried(out: &Path) -> PathBuf {
    out.ancestors().nth(4).unwrap_or(out).join("carried")
}

fn link(root: &Path, out: &Path, library: &Library, target: &Path) {
    let mut script = Command::new("sh");
    script
        .current_dir(root)
        .args(library.link)
        .arg(target.join(PROFILE).join(library.archive))
        .arg(out.join(library.soname));
    run(script, library.soname);
}

/// The injected library is linked in two parts that no other library has: it does that itself.
fn build_preload(root: &Path, out: &Path) {
    let mut script = Command::new("sh");
    script
        .arg(root.join("inject/preload/link.sh"))
        .arg(carried(out).join("preload"))
        .arg(out.join(PRELOAD));
    run(script, "the injected library");
}

fn build_demo(root: &Path, out: &Path) {
    let folder = root.join("crates/cli/demo");
    let mut cc = Command::new(env::var_os("CC").unwrap_or_else(|| "cc".into()));
    // gnu11: the demo calls through unprototyped function pointers, which C23 no longer has.
    // Lines and functions as they are written: the tour shows where a leak comes from.
    cc.args(["-O1", "-g1", "-fno-inline", "-std=gnu11"])
        .arg(format!("-ffile-prefix-map={}/=", folder.display()))
        .arg(format!("-Wa,-I{}", folder.display()))
        .arg("-o")
        .arg(out.join(DEMO))
        .arg(folder.join("demo.c"))
        .args(["-ldl", "-lm"]);
    run(cc, "the demo program");
}

/// Compresses a file, and writes it as the initialiser of an `Embedded`.
fn embedded(out: &Path, name: &str) -> String {
    let path = out.join(name);
    let bytes = fs::read(&path).unwrap_or_else(|why| panic!("{}: {why}", path.display()));
    let mut gzip = Command::new("gzip");
    gzip.args(["--force", "--keep", "--no-name"]).arg(&path);
    run(gzip, name);
    let packed = out.join(format!("{name}.gz"));
    format!(
        "Embedded {{ name: {name:?}, size: {}, fingerprint: {:#018x}, packed: include_bytes!({packed:?}) }}",
        bytes.len(),
        fingerprint::fingerprint(&bytes)
    )
}

/// libcuda's functions for `cutrace softgpu --list`, as a Rust expression.
fn functions(root: &Path) -> String {
    let exports = root.join("fixtures/driver/libcuda-580.159.04.exports");
    let names = fs::read_to_string(&exports).expect("the list of exports is in the repository");
    let implemented = coverage::implemented(&root.join("softgpu/driver/src"));
    let functions = names.lines().filter(|name| coverage::is_function(name));
    let rows: String = functions
        .map(|name| format!("({name:?}, {}),\n", implemented.contains(name)))
        .collect();
    format!("&[\n{rows}]\n")
}

fn run(mut command: Command, what: &str) {
    let status = command
        .status()
        .unwrap_or_else(|why| panic!("{what}: cannot start {command:?}: {why}"));
    assert!(status.success(), "{what}: {command:?} failed: {status}");
}
