//! Every exported function takes its parameters as NVIDIA's header says.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

/// How a Rust parameter type is passed, in the words of gen/signatures.py.
fn passed_as(kind: &str) -> &str {
    let kind = kind.trim().rsplit("::").next().unwrap_or_default();
    if kind.starts_with('*') {
        return "l";
    }
    match kind {
        "Handle" | "usize" | "u64" | "DevicePtr" => "l",
        "c_int" | "c_uint" => "i",
        "Dim3" => "dim3",
        "Extent" => "cudaExtent",
        "PitchedPtr" => "cudaPitchedPtr",
        "MemLocation" => "cudaMemLocation",
        // One structure for both kinds of handle: 64 bytes, passed in memory.
        "IpcHandle" => "cudaIpcHandle_t",
        other => panic!("{other}: say how it is passed"),
    }
}

/// Names and parameters of the functions defined in a source file.
fn definitions(source: &str, found: &mut BTreeMap<String, Vec<String>>) {
    for (at, _) in source.match_indices(" fn ") {
        let rest = &source[at + 4..];
        let Some((names, rest)) = rest.split_once('(') else {
            continue;
        };
        let names: Vec<_> = names.split(',').map(str::trim).collect();
        if !names[0].starts_with("cuda") && !names[0].starts_with("__cuda") {
            continue;
        }
        let list = rest.split_once(')').expect("a closing bracket").0;
        let kinds: Vec<String> = list
            .split(',')
            .filter_map(|parameter| parameter.split_once(": "))
            .map(|(_, kind)| {
                if kind.trim_start().starts_with('*') {
                    "l".to_owned()
                } else {
                    passed_as(kind).to_owned()
                }
            })
            .collect();
        for name in names {
            found.insert(name.to_owned(), kinds.clone());
        }
    }
}

fn read_folder(folder: &Path, other: &str, found: &mut BTreeMap<String, Vec<String>>) {
    for entry in fs::read_dir(folder).expect("the sources") {
        let path = entry.expect("an entry").path();
        if path.is_dir() && path.file_name() != Some(other.as_ref()) {
            read_folder(&path, other, found);
        } else if path.extension() == Some("rs".as_ref()) {
            definitions(&fs::read_to_string(&path).expect("a source"), found);
        }
    }
}

fn compare(major: u32, other: &str) {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut ours = BTreeMap::new();
    read_folder(&root.join("src"), other, &mut ours);
    let header = root.join(format!("exports/signatures-{major}.txt"));
    let header = fs::read_to_string(header).expect("the committed signatures");
    let mut compared = 0;
    for line in header.lines() {
        let mut words = line.split(' ');
        let name = words.next().expect("a name");
        let theirs: Vec<_> = words
            .map(|word| {
                if word.starts_with("cudaIpc") {
                    "cudaIpcHandle_t"
                } else {
                    word
                }
            })
            .collect();
        for name in [
            name.to_owned(),
            format!("{name}_ptsz"),
            format!("{name}_ptds"),
        ] {
            if let Some(kinds) = ours.get(&name) {
                assert_eq!(kinds, &theirs, "{name} of libcudart.so.{major}");
                compared += 1;
            }
        }
    }
    assert!(compared > 280, "only {compared} functions were compared");
}

#[test]
fn parameters_are_those_of_cuda_13() {
    compare(13, "v12");
}

#[test]
fn parameters_are_those_of_cuda_12() {
    compare(12, "v13");
}
