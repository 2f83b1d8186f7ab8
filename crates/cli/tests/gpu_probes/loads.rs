//! Probes get into kernels by whichever call a program loads them with, in whichever form.

use super::{cutrace, program, repository, run};

/// What `loads` was told to load, in the folder where its images are.
fn arguments(how: &str, image: &str) -> String {
    let path = repository().join("target/programs/build").join(image);
    format!("{how} {}", path.display())
}

#[test]
fn every_way_to_load_is_seen() {
    let Some(program) = program("loads") else {
        return;
    };
    let hows = [
        "data",
        "data_ex",
        "fat_binary",
        "file",
        "library",
        "library_file",
        "link",
        "link_file",
    ];
    for how in hows {
        // Text, as NVRTC gives it; and what nvcc makes, with code for this device beside three texts.
        for (image, version) in [("loads.ptx", 80), ("loads.mixed.fatbin", 90)] {
            let ran = run(&["count", "version"], &program, &arguments(how, image));
            let words = ran.words();
            assert!(ran.output.status.success(), "{how} {image}: {words}");
            assert_eq!(
                ran.numbers("counts"),
                [256, 8, 8, 256],
                "{how} {image}: {words}"
            );
            assert!(!words.contains("without probes"), "{how} {image}: {words}");
            // The version that the driver would have taken.
            assert_eq!(ran.printed(), format!("version {version}\n"), "{how}");
        }
    }
}

#[test]
fn text_in_fatbins_is_found_compressed_and_not() {
    let Some(program) = program("loads") else {
        return;
    };
    for image in ["loads.fatbin", "loads.raw.fatbin"] {
        let ran = run(&["count", "ver*"], &program, &arguments("library", image));
        assert_eq!(ran.numbers("counts"), [256, 8, 8, 256], "{}", ran.words());
        assert_eq!(ran.printed(), "version 90\n");
    }
}

#[test]
fn triton_keeps_the_ptx_of_its_cubins() {
    let Some(program) = program("loads") else {
        return;
    };
    let folder = tempfile::tempdir().expect("a folder");
    let images = repository().join("target/programs/build");
    let kernel = folder.path().join("KERNELHASH");
    std::fs::create_dir(&kernel).expect("made");
    for end in ["cubin", "ptx"] {
        let from = images.join(format!("loads.{end}"));
        std::fs::copy(from, kernel.join(format!("version.{end}"))).expect("copied");
    }
    let output = cutrace()
        .args(["gpu", "count", "version", "--sim", "--no-summary", "-o"])
        .arg(folder.path().join("trace.jsonl"))
        .arg("--")
        .arg(&program)
        .args(arguments("data", "loads.cubin").split(' '))
        .env("TRITON_CACHE_DIR", folder.path())
        .env("XDG_CACHE_HOME", folder.path())
        .output()
        .expect("runs");
    let words = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{words}");
    assert!(words.contains("256 threads that entered"), "{words}");
    assert_eq!(output.stdout, b"version 80\n");
}

#[test]
fn kernels_without_ptx_are_named_and_left_alone() {
    let Some(program) = program("loads") else {
        return;
    };
    for how in ["data", "file", "library_file"] {
        let words = arguments(how, "loads.cubin");
        // softgpu has nothing to run it with either: the program hears that, probes or none.
        let plain = cutrace()
            .args(["softgpu", "--"])
            .arg(&program)
            .args(words.split(' '))
            .output()
            .expect("runs");
        let ran = run(&["count", "version"], &program, &words);
        let said = ran.words();
        assert_eq!(ran.output.status.code(), plain.status.code(), "{said}");
        assert_eq!(ran.output.stdout, plain.stdout, "{said}");
        let place = match how {
            "data" => "a module",
            _ => "loads.cubin",
        };
        // softgpu runs PTX only: the kernel did not run, and nobody says that it did.
        let line = said
            .lines()
            .find(|line| line.contains(" is only machine code (SASS) in "));
        let is_true = |line: &str| {
            line.starts_with("Note: nothing was probed: version is")
                && line.contains(place)
                && line.ends_with(", and did not run")
        };
        assert!(line.is_some_and(is_true), "{how}: {said}");
        assert!(!said.contains("ran without probes"), "{how}: {said}");
    }
}
