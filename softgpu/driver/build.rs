//! Turns what a real libcuda 580 exports and answered into tables for `driver`.
//!
//! Reads the recorded fixtures, finds which functions `src` implements, and writes stubs
//! for all others, so that every symbol of the real library exists.

use std::{
    collections::{BTreeMap, BTreeSet},
    env,
    fmt::Write as _,
    fs,
    path::{Path, PathBuf},
};

#[path = "exports/coverage.rs"]
mod coverage;

const EXPORTS: &str = "../../fixtures/driver/libcuda-580.159.04.exports";
const RECORDED: &str = "../../fixtures/driver/h200-580.159.04.txt";

fn main() {
    println!("cargo::rerun-if-changed={EXPORTS}");
    println!("cargo::rerun-if-changed={RECORDED}");
    println!("cargo::rerun-if-changed=src");
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-changed=exports/coverage.rs");
    let out = PathBuf::from(env::var_os("OUT_DIR").expect("cargo sets OUT_DIR"));
    let names: Vec<String> = read(EXPORTS).lines().map(str::to_owned).collect();
    let recorded = read(RECORDED);
    let implemented = coverage::implemented(Path::new("src"));
    for name in &implemented {
        assert!(
            names.contains(name),
            "src implements {name}, which libcuda does not export"
        );
    }
    write(&out.join("exports.rs"), &exports(&names, &implemented));
    write(&out.join("recorded.rs"), &recorded_tables(&recorded));
    write(
        &out.join("proc_addresses.rs"),
        &proc_addresses(&recorded, &names),
    );
}

fn read(path: &str) -> String {
    fs::read_to_string(path).unwrap_or_else(|error| panic!("{path}: {error}"))
}

fn write(path: &Path, text: &str) {
    fs::write(path, text).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
}

fn exports(names: &[String], implemented: &BTreeSet<String>) -> String {
    let mut stubs = String::new();
    let mut declarations = String::new();
    let mut table = String::new();
    for (number, name) in names.iter().enumerate() {
        if !coverage::is_function(name) {
            let bytes = if name == "cudbgInjectionPath" {
                4096
            } else {
                8
            };
            let _ = writeln!(
                stubs,
                "#[unsafe(no_mangle)] pub static {name}: super::DebuggerVariable<{bytes}> = super::DebuggerVariable::zeroed();"
            );
            continue;
        }
        if !implemented.contains(name) {
            let _ = writeln!(
                stubs,
                "#[unsafe(no_mangle)] pub extern \"C\" fn {name}() -> u32 {{ super::unsupported({number}) }}"
            );
        }
        let _ = writeln!(declarations, "pub fn {name}();");
        let _ = writeln!(
            table,
            "Export {{ #[cfg(test)] name: c\"{name}\", address: linked::{name} }},"
        );
    }
    format!(
        "#[allow(non_snake_case, non_upper_case_globals)]\nmod stubs {{\n{stubs}}}\n\
         #[allow(clashing_extern_declarations)]\nmod linked {{ unsafe extern \"C\" {{\n{declarations}}} }}\n\
         pub static EXPORTS: &[Export] = &[\n{table}];\n"
    )
}

fn recorded_tables(recorded: &str) -> String {
    let mut attributes = String::new();
    let mut errors = String::new();
    let mut limits = String::new();
    for line in recorded.lines() {
        let words: Vec<&str> = line.split_whitespace().collect();
        match words[..] {
            ["attribute", number, result, value] => {
                let value = if result == "0" {
                    format!("Some({value})")
                } else {
                    "None".to_owned()
                };
                let _ = writeln!(attributes, "{value}, // {number}");
            }
            ["limit", number, result, value] => {
                let _ = writeln!(limits, "({result}, {value}), // {number}");
            }
            ["error", number, name, ..] => {
                let text = line.splitn(4, ' ').nth(3).unwrap_or_default();
                let _ = writeln!(errors, "({number}, c{name:?}, c{text:?}),");
            }
            _ => {}
        }
    }
    format!(
        "pub static ATTRIBUTES: &[Option<i32>] = &[\n{attributes}];\n\
         pub static LIMITS: &[(u32, usize)] = &[\n{limits}];\n\
         pub static ERRORS: &[(u32, &CStr, &CStr)] = &[\n{errors}];\n"
    )
}

/// Rows of (first version, status, export), for the legacy and the per-thread flavour of a name.
fn proc_addresses(recorded: &str, names: &[String]) -> String {
    type Rows = Vec<(u32, u32, u32)>;
    let mut answers: BTreeMap<&str, [Rows; 3]> = BTreeMap::new();
    let mut newest = 0;
    for line in recorded.lines() {
        let words: Vec<&str> = line.split_whitespace().collect();
        let ["proc", name, flags, version, result, status, symbol] = words[..] else {
            continue;
        };
        let version: u32 = version.parse().expect("version is a number");
        if result != "0" {
            // Versions newer than the driver are refused for every name alike.
            newest = newest.max(version);
            continue;
        }
        let rows = &mut answers.entry(name).or_default()[flags.parse::<usize>().expect("flags")];
        let export = names
            .iter()
            .position(|n| n == symbol)
            .map_or(u32::MAX, |at| at as u32);
        rows.push((version, status.parse().expect("status"), export));
    }
    let functions: Vec<&String> = names
        .iter()
        .filter(|name| coverage::is_function(name))
        .collect();
    let mut table = String::new();
    for (name, [default, legacy, per_thread]) in &answers {
        assert_eq!(default, legacy, "{name}: flags 0 and 1 were recorded alike");
        let row = |rows: &Rows| {
            let mut text = String::new();
            for (version, status, export) in rows {
                let export = match names.get(*export as usize) {
                    Some(symbol) => functions
                        .iter()
                        .position(|n| *n == symbol)
                        .expect("answers are functions")
                        .to_string(),
                    None => "NONE".to_owned(),
                };
                let _ = write!(text, "({version},{status},{export}),");
            }
            text
        };
        let _ = writeln!(
            table,
            "({name:?}, &[{}], &[{}]),",
            row(default),
            row(per_thread)
        );
    }
    format!(
        "/// Versions from here on are refused.\npub const NEWER_THAN_DRIVER: u32 = {newest};\n\
         pub static PROC_ADDRESSES: &[(&str, &[Row], &[Row])] = &[\n{table}];\n"
    )
}
