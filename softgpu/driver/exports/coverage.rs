// Which functions of libcuda softgpu implements, read from its sources. The build scripts of the driver (stubs for
// the rest) and of the program (`cutrace softgpu --list`) include this file.

use std::{collections::BTreeSet, fs, path::Path};

/// cudbg* symbols that are code; all other cudbg* symbols are variables a debugger pokes at.
const DEBUGGER_FUNCTIONS: [&str; 8] = [
    "cudbgApiAttach",
    "cudbgApiDetach",
    "cudbgApiInit",
    "cudbgGetAPI",
    "cudbgGetAPIVersion",
    "cudbgMain",
    "cudbgReportDriverApiError",
    "cudbgReportDriverInternalError",
];

/// Whether an exported symbol is code.
pub fn is_function(name: &str) -> bool {
    !name.starts_with("cudbg") || DEBUGGER_FUNCTIONS.contains(&name)
}

/// The functions that the sources in a folder implement: lines `fn cuX(` and `fn cuX / cuX_ptsz(`, the forms of
/// the api macros.
pub fn implemented(sources: &Path) -> BTreeSet<String> {
    let mut names = BTreeSet::new();
    collect(sources, &mut names);
    names
}

fn collect(folder: &Path, names: &mut BTreeSet<String>) {
    for entry in fs::read_dir(folder).expect("src is readable") {
        let path = entry.expect("src is readable").path();
        if path.is_dir() {
            collect(&path, names);
        } else if path.extension().is_some_and(|e| e == "rs") {
            let text = fs::read_to_string(&path).expect("source is text");
            for line in text.lines() {
                let Some(rest) = line.trim_start().strip_prefix("fn cu") else {
                    continue;
                };
                let Some((heads, _)) = rest.split_once('(') else {
                    continue;
                };
                let heads = format!("cu{heads}");
                for name in heads.split('/').map(str::trim) {
                    if name[2..].starts_with(char::is_uppercase) {
                        names.insert(name.to_owned());
                    }
                }
            }
        }
    }
}
