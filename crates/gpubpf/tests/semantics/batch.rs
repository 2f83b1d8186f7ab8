//! Many programs in a module: translated, run with 32 sets of operands each, compared.

use std::fmt::Write;

use gpubpf::instruction::Raw;
use gpubpf::map::{DESCRIPTOR_BYTES, DESCRIPTORS, descriptor};
use gpubpf::{
    Attach, Budget, Map, MapKind, Object, Program, TranslateOptions, Translated, translate,
    verify_or_budget_within, verify_within,
};

use crate::device::{Buffer, Module};
use crate::generate::{OPERANDS, PLAYGROUND, VALUE, generate};
use crate::random::Random;
use crate::reference;

/// Threads: each has its own operands and its own value.
pub const THREADS: usize = 32;
/// Different sets of operands.
pub const SETS: u64 = 64;

/// Programs compared where nothing else is said, and how many a module holds.
const PROGRAMS: u64 = 20_480;
const IN_A_MODULE: u64 = 256;

pub struct Case {
    pub number: u64,
    pub raw: Vec<Raw>,
    pub translated: Translated,
    /// Jumps back that a thread may make.
    pub rounds: u64,
}

/// The object programs are generated for: one map, a value a thread.
fn object() -> Object {
    Object {
        programs: Vec::new(),
        host: Vec::new(),
        maps: vec![Map {
            name: "values".into(),
            kind: MapKind::PerThread { number: 1502 },
            key_size: 4,
            value_size: VALUE as u32,
            max_entries: 1,
            flags: 0,
            key_type: None,
            value_type: None,
            initial: None,
            read_only: false,
        }],
        btf: Default::default(),
    }
}

pub fn case(number: u64) -> Case {
    let raw = generate(number.wrapping_mul(0x5851_f42d_4c95_7f2d));
    translated(number, raw).unwrap_or_else(|why| panic!("program {number}: {why}"))
}

/// A program as a case, or why it is none.
pub fn translated(number: u64, raw: Vec<Raw>) -> Result<Case, String> {
    checked(number, raw, None)
}

/// A program whose loops are stopped after some rounds, because they have no bound.
pub fn budgeted(number: u64, raw: Vec<Raw>, rounds: u64) -> Result<Case, String> {
    checked(number, raw, Some(rounds))
}

fn checked(number: u64, raw: Vec<Raw>, rounds: Option<u64>) -> Result<Case, String> {
    let object = object();
    let attach = Attach::Entry("any".into());
    let program = Program::from_slots("cuda__case", attach, &raw).map_err(|bad| bad.to_string())?;
    let verified = match rounds {
        Some(_) => verify_or_budget_within(&object, &program, 20_000),
        None => verify_within(&object, &program, 20_000),
    }
    .map_err(|refused| refused.to_string())?;
    if rounds.is_some() && !verified.is_budgeted {
        return Err("its loops have bounds".into());
    }
    let rounds = rounds.unwrap_or(u64::MAX);
    if verified.context_bytes as usize > OPERANDS * 8 {
        return Err("it reads more context than there is".into());
    }
    let options = TranslateOptions {
        prefix: format!("p{number}_"),
        // Both ways to keep a stack must give the same.
        promote_stack: number % 8 != 7,
        budget: Budget {
            rounds,
            stopped: None,
        },
        ..TranslateOptions::default()
    };
    let translated = translate(&verified, &options);
    Ok(Case {
        number,
        raw,
        translated,
        rounds,
    })
}

/// The module of some cases: kernel `case_N` runs program N with its operands.
pub fn module(cases: &[Case]) -> String {
    let mut text = format!(
        ".version 8.0\n.target sm_75\n.address_size 64\n\
         .visible .global .align 16 .b8 {DESCRIPTORS}[{DESCRIPTOR_BYTES}];\n"
    );
    for case in cases {
        let plain = case
            .translated
            .functions
            .lines()
            .filter(|line| !line.trim_start().starts_with("//"));
        for line in plain {
            text.push_str(line);
            text.push('\n');
        }
        let _ = writeln!(
            text,
            ".visible .entry case_{}(.param .u64 operands) {{ .reg .b64 %x<3>; .reg .b32 %y;\n\
             ld.param.u64 %x0, [operands]; mov.u32 %y, %tid.x;\n\
             mad.wide.u32 %x1, %y, {}, %x0; call (%x2), {}, (%x1); ret; }}",
            case.number,
            OPERANDS * 8,
            case.translated.entry_name
        );
    }
    text
}

/// A map's descriptor, as bytes.
pub fn descriptor_bytes(map: &Map, base: u64, copies: u64) -> [u8; DESCRIPTOR_BYTES] {
    let mut bytes = [0; DESCRIPTOR_BYTES];
    let mut put = |at: usize, value: &[u8]| bytes[at..at + value.len()].copy_from_slice(value);
    put(descriptor::BASE, &base.to_le_bytes());
    put(descriptor::HOST_BASE, &base.to_le_bytes());
    put(descriptor::KIND, &map.kind.number().to_le_bytes());
    put(descriptor::KEY_SIZE, &map.key_size.to_le_bytes());
    put(descriptor::VALUE_SIZE, &map.value_size.to_le_bytes());
    put(descriptor::MAX_ENTRIES, &map.max_entries.to_le_bytes());
    put(descriptor::COPIES, &copies.to_le_bytes());
    bytes
}

/// Operands of all threads, of one of the sets.
pub fn operands(set: u64) -> Vec<u8> {
    let mut random = Random(set.wrapping_mul(77) + 1);
    (0..THREADS * OPERANDS)
        .flat_map(|_| random.operand().to_le_bytes())
        .collect()
}

/// What all threads' values are before a program runs.
pub fn before() -> Vec<u8> {
    let mut random = Random(4711);
    let mut bytes = Vec::new();
    for _ in 0..THREADS {
        for _ in 0..PLAYGROUND / 8 {
            bytes.extend(random.operand().to_le_bytes());
        }
        bytes.resize(bytes.len() + VALUE - PLAYGROUND, 0);
    }
    bytes
}

/// What the values are after the reference has run the program for each thread.
pub fn expected(case: &Case) -> Vec<u8> {
    let operands = operands(case.number % SETS);
    let mut values = before();
    for (context, value) in operands.chunks(OPERANDS * 8).zip(values.chunks_mut(VALUE)) {
        reference::run(&case.raw, context, value, case.rounds);
    }
    values
}

/// Runs cases on the device and compares.
pub fn compare(cases: &[Case]) {
    let mut module = Module::load(&module(cases));
    let mut values = Buffer::new(&module.memory, THREADS * VALUE);
    let mut context = Buffer::new(&module.memory, THREADS * OPERANDS * 8);
    let bytes = descriptor_bytes(&object().maps[0], values.address(), THREADS as u64);
    module.global(DESCRIPTORS).copy_from_slice(&bytes);
    let before = before();
    for case in cases {
        values.bytes().copy_from_slice(&before);
        context
            .bytes()
            .copy_from_slice(&operands(case.number % SETS));
        let name = format!("case_{}", case.number);
        module.launch(&name, [1; 3], [THREADS as u32, 1, 1], context.address());
        let expected = expected(case);
        if values.bytes() != expected {
            let wrong = (0..THREADS * VALUE)
                .find(|&at| values.bytes()[at] != expected[at])
                .unwrap_or(0);
            panic!(
                "program {} differs for thread {} at byte {} of its value\n{}",
                case.number,
                wrong / VALUE,
                wrong % VALUE,
                case.translated.functions
            );
        }
    }
}

/// How many programs: CUTRACE_BPF_PROGRAMS asks for more.
fn wanted() -> u64 {
    match std::env::var("CUTRACE_BPF_PROGRAMS") {
        Ok(text) => text.parse().expect("CUTRACE_BPF_PROGRAMS is a number"),
        Err(_) => PROGRAMS,
    }
}

/// A quarter of the programs: the tests run beside each other.
fn quarter(which: u64) {
    let modules = wanted().div_ceil(IN_A_MODULE);
    for module in (0..modules).filter(|module| module % 4 == which) {
        let numbers = module * IN_A_MODULE..(module + 1) * IN_A_MODULE;
        let cases: Vec<Case> = numbers.map(case).collect();
        compare(&cases);
    }
}

#[test]
fn random_programs_first_quarter() {
    quarter(0);
}

#[test]
fn random_programs_second_quarter() {
    quarter(1);
}

#[test]
fn random_programs_third_quarter() {
    quarter(2);
}

#[test]
fn random_programs_fourth_quarter() {
    quarter(3);
}
