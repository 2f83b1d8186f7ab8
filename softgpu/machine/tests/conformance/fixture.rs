//! Reading the sets of fixtures/ptx: see the README there for the form of its files.

use std::io::Read;
use std::path::{Path, PathBuf};

use flate2::read::GzDecoder;

/// Operand tuples a case, and bytes of results.
pub const ROUNDS: usize = 256;
pub const AREA: usize = 4096;
const SECOND: usize = 2048;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Class {
    Scalar,
    Carry,
    Machine,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Source {
    Column { column: usize, width: u32 },
    Carry { column: usize },
    Immediate(u64),
}

#[derive(Debug, Clone)]
pub struct Case {
    pub number: usize,
    pub class: Class,
    pub name: String,
    /// Widths of the result registers in bits; 1 is a predicate.
    pub results: Vec<u32>,
    pub sources: Vec<Source>,
    pub tolerance: String,
}

/// The folders of the sets, and the generator's option for each.
pub const SETS: [(&str, &[&str]); 3] = [
    (".", &[]),
    ("boundary", &["--boundary"]),
    ("forms", &["--forms"]),
];

pub struct Fixture {
    pub set: &'static str,
    pub cases: Vec<Case>,
    inputs: Vec<u8>,
    answers: Vec<u8>,
}

pub fn repository() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../..")
}

pub fn path(set: &str, name: &str) -> PathBuf {
    repository().join("fixtures/ptx").join(set).join(name)
}

/// A compressed file.
pub fn unpacked(path: &Path) -> Vec<u8> {
    let file = std::fs::File::open(path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
    let mut data = Vec::new();
    GzDecoder::new(file)
        .read_to_end(&mut data)
        .unwrap_or_else(|e| panic!("{}: {e}", path.display()));
    data
}

impl Fixture {
    pub fn load(set: &'static str) -> Fixture {
        let listing = std::fs::read_to_string(path(set, "cases.tsv")).expect("cases.tsv");
        let cases: Vec<Case> = listing.lines().map(case).collect();
        let answers = unpacked(&path(set, "answers.bin.gz"));
        assert_eq!(
            answers.len(),
            cases.len() * AREA,
            "answers do not belong to these cases"
        );
        Fixture {
            set,
            cases,
            inputs: unpacked(&path(set, "inputs.bin.gz")),
            answers,
        }
    }

    pub fn all() -> impl Iterator<Item = Fixture> {
        SETS.iter().map(|(set, _)| Fixture::load(set))
    }

    /// The PTX of a module.
    pub fn module(&self, number: usize) -> String {
        let data = unpacked(&path(self.set, &format!("module_{number:02}.ptx.gz")));
        String::from_utf8(data).expect("PTX is text")
    }

    pub fn inputs(&self) -> &[u8] {
        &self.inputs
    }

    pub fn input(&self, column: usize, row: usize) -> u64 {
        let at = (column * ROUNDS + row) * 8;
        u64::from_le_bytes(self.inputs[at..at + 8].try_into().expect("8 bytes"))
    }

    /// What a source's register holds in a row: the low bits of the column's element.
    pub fn operand(&self, source: Source, row: usize) -> u64 {
        match source {
            Source::Immediate(value) => value,
            Source::Carry { column } => self.input(column, row) & 1,
            Source::Column { column, width: 1 } => u64::from(self.input(column, row) as u32 != 0),
            Source::Column { column, width } => {
                self.input(column, row) & (u64::MAX >> (64 - width))
            }
        }
    }

    pub fn answers(&self, case: &Case) -> &[u8] {
        &self.answers[case.number * AREA..][..AREA]
    }
}

/// One result of a case's area.
pub fn result(area: &[u8], case: &Case, place: usize, row: usize) -> u64 {
    let bytes = (case.results[place] / 8).max(1) as usize;
    let at = place * SECOND + row * bytes;
    let mut value = [0; 8];
    value[..bytes].copy_from_slice(&area[at..at + bytes]);
    u64::from_le_bytes(value)
}

/// Writes one result into a case's area.
pub fn put(area: &mut [u8], case: &Case, place: usize, row: usize, value: u64) {
    let bytes = (case.results[place] / 8).max(1) as usize;
    let at = place * SECOND + row * bytes;
    area[at..at + bytes].copy_from_slice(&value.to_le_bytes()[..bytes]);
}

fn case(line: &str) -> Case {
    let fields: Vec<&str> = line.split('\t').collect();
    let [number, class, name, results, sources, tolerance] = fields[..] else {
        panic!("cases.tsv: {line}");
    };
    Case {
        number: number.parse().expect("case number"),
        class: match class {
            "scalar" => Class::Scalar,
            "carry" => Class::Carry,
            "machine" => Class::Machine,
            _ => panic!("cases.tsv: class {class}"),
        },
        name: name.to_string(),
        results: results
            .split(',')
            .map(|w| w.parse().expect("width"))
            .collect(),
        sources: sources.split_whitespace().map(source).collect(),
        tolerance: tolerance.to_string(),
    }
}

fn source(text: &str) -> Source {
    let (place, width) = text.split_once(':').expect("source");
    match (place, width) {
        ("imm", value) => Source::Immediate(value.parse().expect("immediate")),
        (column, "carry") => Source::Carry {
            column: column.parse().expect("column"),
        },
        (column, width) => Source::Column {
            column: column.parse().expect("column"),
            width: width.parse().expect("width"),
        },
    }
}
