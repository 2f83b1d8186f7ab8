//! Every form that resolves has an answer from hardware: a case of that very form in one of the sets
//! of fixtures/ptx. There are no exceptions.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use super::every_form::{self, Name};
use super::resolve;

fn fixtures() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/ptx")
}

/// The one-instruction cases of all sets: the folder itself and those in it.
fn recorded() -> BTreeSet<Name> {
    let folder = fixtures();
    let inner = std::fs::read_dir(&folder)
        .expect("fixtures/ptx")
        .map(|entry| entry.expect("entry").path())
        .filter(|path| path.is_dir());
    let mut found = BTreeSet::new();
    for set in inner.chain([folder.clone()]) {
        let listing = std::fs::read_to_string(set.join("cases.tsv")).expect("cases.tsv");
        for line in listing.lines() {
            let fields: Vec<&str> = line.split('\t').collect();
            if fields[1] != "machine" {
                found.insert(Name::of(fields[2]));
            }
        }
    }
    found
}

#[test]
fn every_form_has_a_hardware_answer() {
    let forms = every_form::all();
    let names: BTreeSet<&Name> = forms.iter().map(|(name, _)| name).collect();
    assert_eq!(names.len(), forms.len(), "a form was found twice");
    for name in &names {
        let words = name.words();
        assert!(
            resolve(&name.opcode, &words).is_ok(),
            "{name:?} resolves only while its words are open"
        );
    }
    let recorded = recorded();
    let unanswered: Vec<_> = names.iter().filter(|n| !recorded.contains(**n)).collect();
    assert!(
        unanswered.is_empty(),
        "{} forms resolve that no set has a case of: {unanswered:?}",
        unanswered.len()
    );
    // The other way round: the search for forms has missed none that is known to exist.
    let missed: Vec<_> = recorded.iter().filter(|n| !names.contains(n)).collect();
    assert!(missed.is_empty(), "not found: {missed:?}");
    let count = format!("{},{:03} forms", names.len() / 1000, names.len() % 1000);
    let readme = std::fs::read_to_string(fixtures().join("README.md")).expect("README.md");
    assert!(readme.contains(&count), "README.md does not say {count}");
}

#[test]
fn what_newer_hardware_has_is_refused_by_its_name() {
    for name in [
        "add.rn.f32x2",
        "sub.f32x2",
        "mul.rz.ftz.f32x2",
        "fma.rn.f32x2",
        "cvt.rn.satfinite.tf32.f32",
        "cvt.rz.relu.satfinite.tf32.f32",
    ] {
        let name = Name::of(name);
        let why = resolve(&name.opcode, &name.words()).expect_err("not on sm_90");
        assert!(why.message.contains("needs sm_100"), "{why}");
    }
}
