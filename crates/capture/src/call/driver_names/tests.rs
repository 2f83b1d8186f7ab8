//! Memories that were made up, and one of a real process.

use super::*;
use std::cell::Cell;
use std::collections::BTreeMap;
use std::ffi::{CStr, CString};

/// Pages that are not written cannot be read.
#[derive(Default)]
struct Made {
    bytes: BTreeMap<u64, u8>,
}

impl Made {
    fn word(&mut self, at: u64, word: u64) {
        self.put(at, &word.to_le_bytes());
    }

    fn text(&mut self, at: u64, text: &str) -> u64 {
        self.put(at, text.as_bytes());
        self.put(at + text.len() as u64, &[0]);
        at
    }

    fn put(&mut self, at: u64, bytes: &[u8]) {
        let places = (at..).zip(bytes.iter().copied());
        self.bytes.extend(places);
    }

    /// A structure of so many bytes that is zero.
    fn structure(&mut self, at: u64, size: u64) -> u64 {
        self.bytes.extend((at..at + size).map(|at| (at, 0)));
        at
    }
}

impl Memory for Made {
    fn read(&self, address: u64, to: &mut [u8]) -> usize {
        for (done, byte) in to.iter_mut().enumerate() {
            let at = address.checked_add(done as u64);
            match at.and_then(|at| self.bytes.get(&at)) {
                Some(known) => *byte = *known,
                None => return done,
            }
        }
        to.len()
    }
}

const HANDLES: u64 = 0x7f00_0000_0000;
const TEXTS: u64 = 0x7e00_0000_0000;
const OTHERS: u64 = 0x7d00_0000_0000;

fn handle(number: u64) -> u64 {
    HANDLES + number * 0x1000
}

/// A text of its own.
fn text(memory: &mut Made, number: u64, name: &str) -> u64 {
    memory.text(TEXTS + number * 0x2000 + 3, name)
}

fn mangled(number: u64) -> String {
    format!("_Z5kern{number}Pf")
}

fn taught(names: &mut DriverNames, memory: &Made, handle: u64, name: &str) {
    names.teach(memory, handle, &demangled(name), true);
}

fn found(names: &mut DriverNames, memory: &Made, handle: u64) -> Option<String> {
    Some(names.name(memory, handle, 1)?.to_string())
}

/// Handles whose names lie behind so many pointers.
fn behind(pointers: u64, count: u64) -> Made {
    let mut memory = Made::default();
    for number in 0..count {
        let mut at = memory.structure(handle(number), 0x400);
        if pointers == 0 {
            memory.text(at + 0x18, &mangled(number));
            continue;
        }
        for step in 1..pointers {
            let next = memory.structure(OTHERS + number * 0x10000 + step * 0x1000, 0x100);
            memory.word(at + 0x38, next);
            at = next;
        }
        let name = text(&mut memory, number, &mangled(number));
        memory.word(at + 0x40, name);
    }
    memory
}

#[test]
fn names_are_found_behind_pointers() {
    for pointers in 0..=3 {
        let memory = behind(pointers, 4);
        let mut names = DriverNames::default();
        taught(&mut names, &memory, handle(0), &mangled(0));
        // One kernel is not enough.
        assert_eq!(found(&mut names, &memory, handle(2)), None, "{pointers}");
        taught(&mut names, &memory, handle(1), &mangled(1));
        let third = Some("kern2(float*)".to_owned());
        assert_eq!(found(&mut names, &memory, handle(2)), third, "{pointers}");
        // It stays when the memory is gone.
        assert_eq!(found(&mut names, &Made::default(), handle(2)), third);
        assert_eq!(found(&mut names, &Made::default(), handle(3)), None);
    }
    let memory = behind(4, 3);
    let mut names = DriverNames::default();
    taught(&mut names, &memory, handle(0), &mangled(0));
    taught(&mut names, &memory, handle(1), &mangled(1));
    assert_eq!(found(&mut names, &memory, handle(2)), None);
}

#[test]
fn the_same_kernel_twice_is_one_kernel() {
    let mut memory = behind(1, 3);
    memory.structure(handle(7), 0x400);
    memory.word(handle(7) + 0x40, TEXTS + 3);
    let mut names = DriverNames::default();
    taught(&mut names, &memory, handle(0), &mangled(0));
    taught(&mut names, &memory, handle(7), &mangled(0));
    assert_eq!(found(&mut names, &memory, handle(2)), None);
    taught(&mut names, &memory, handle(1), &mangled(1));
    assert!(found(&mut names, &memory, handle(2)).is_some());
}

#[test]
fn decoys_are_told_from_names() {
    let mut memory = behind(1, 5);
    let module = text(&mut memory, 100, "elf_image");
    for number in 0..5 {
        // What all share, and what is right for the first kernels only.
        memory.word(handle(number) + 0x10, module);
        let other = [0, 1, 0, 0, 0][number as usize];
        memory.word(handle(number) + 0x20, TEXTS + other * 0x2000 + 3);
    }
    let mut names = DriverNames::default();
    taught(&mut names, &memory, handle(0), &mangled(0));
    taught(&mut names, &memory, handle(1), &mangled(1));
    // Two paths have been right so far, and do not agree here: nobody guesses.
    assert_eq!(found(&mut names, &memory, handle(3)), None);
    taught(&mut names, &memory, handle(2), &mangled(2));
    let right = Some("kern3(float*)".to_owned());
    assert_eq!(found(&mut names, &memory, handle(3)), right);
}

/// Names that lie behind their structures, as malloc puts what is made one after the other.
#[test]
fn neighbours_are_not_looked_at() {
    let mut memory = behind(1, 4);
    for number in 0..4 {
        memory.word(handle(number) - 8, 0x61);
        memory.word(
            handle(number) + 0x68,
            TEXTS + [0, 1, 0, 0][number as usize] * 0x2000 + 3,
        );
    }
    let mut names = DriverNames::default();
    taught(&mut names, &memory, handle(0), &mangled(0));
    taught(&mut names, &memory, handle(1), &mangled(1));
    let right = Some("kern2(float*)".to_owned());
    assert_eq!(found(&mut names, &memory, handle(2)), right);
}

/// A path that was right by chance leads nowhere from some handles.
#[test]
fn paths_that_lead_nowhere_are_dropped_for_those_that_never_do() {
    let mut memory = behind(1, 6);
    for (number, other) in [(0, 0), (1, 1), (2, 5), (3, 5)] {
        memory.word(handle(number) + 0x88, TEXTS + other * 0x2000 + 3);
    }
    let mut names = DriverNames::default();
    taught(&mut names, &memory, handle(0), &mangled(0));
    taught(&mut names, &memory, handle(1), &mangled(1));
    assert_eq!(found(&mut names, &memory, handle(2)), None);
    assert_eq!(found(&mut names, &memory, handle(3)), None);
    // Half of the paths are enough where the others say nothing.
    let right = |number| Some(format!("kern{number}(float*)"));
    assert_eq!(found(&mut names, &memory, handle(4)), right(4));
    memory.word(handle(4) + 0x40, 0);
    memory.structure(handle(5) + 0x40, 8);
    assert_eq!(found(&mut names, &memory, handle(5)), None);
    let last = TEXTS + 5 * 0x2000 + 3;
    memory.word(handle(5) + 0x40, last);
    names.generation += 1;
    assert_eq!(found(&mut names, &memory, handle(2)), right(2));
    assert_eq!(found(&mut names, &memory, handle(3)), right(3));
    assert_eq!(found(&mut names, &memory, handle(5)), right(5));
}

#[test]
fn a_path_that_was_wrong_once_is_not_followed() {
    let mut memory = behind(1, 5);
    let wrong = text(&mut memory, 9, "_Z5otherPf");
    memory.word(handle(2) + 0x40, wrong);
    let mut names = DriverNames::default();
    for number in [0, 1] {
        taught(&mut names, &memory, handle(number), &mangled(number));
    }
    assert!(found(&mut names, &memory, handle(3)).is_some());
    taught(&mut names, &memory, handle(2), &mangled(2));
    assert_eq!(found(&mut names, &memory, handle(4)), None);
    // Nor is it found again.
    taught(&mut names, &memory, handle(3), &mangled(3));
    taught(&mut names, &memory, handle(0) + 8, &mangled(0));
    assert_eq!(found(&mut names, &memory, handle(4)), None);
    // What only the program's symbols say is not the driver's fault.
    let mut names = DriverNames::default();
    names.teach(&memory, handle(0), &demangled(&mangled(0)), true);
    names.teach(&memory, handle(2), &demangled(&mangled(2)), false);
    names.teach(&memory, handle(1), &demangled(&mangled(1)), true);
    assert!(found(&mut names, &memory, handle(4)).is_some());
}

#[test]
fn functions_and_kernels_are_learnt_apart() {
    let mut memory = behind(1, 6);
    for number in [1, 3, 5] {
        // Another structure: the name is elsewhere, and something else is where the other has it.
        let name = TEXTS + number * 0x2000 + 3;
        memory.word(handle(number) + 0x40, 0x77);
        memory.word(handle(number) + 0x80, name);
    }
    let mut names = DriverNames::default();
    for number in 0..4 {
        taught(&mut names, &memory, handle(number), &mangled(number));
    }
    let right = |number| Some(format!("kern{number}(float*)"));
    assert_eq!(found(&mut names, &memory, handle(4)), right(4));
    assert_eq!(found(&mut names, &memory, handle(5)), right(5));
    // One that could be either is neither.
    memory.structure(handle(8), 0x400);
    memory.word(handle(8) + 0x40, TEXTS + 3);
    memory.word(handle(8) + 0x80, TEXTS + 0x2000 + 3);
    assert_eq!(found(&mut names, &memory, handle(8)), None);
}

#[test]
fn only_identifiers_are_names() {
    let long = "x".repeat(4096);
    let too_long = "x".repeat(4097);
    let cases = [
        ("sm90_xmma_gemm_f32f32_tf32f32_f32_tn_n", true),
        ("triton_poi_fused_add_0", true),
        (&long, true),
        (&too_long, false),
        ("", false),
        ("7zip", false),
        ("two words", false),
        (".text.kern", false),
        ("kern\u{e9}l", false),
        ("/usr/lib/libcuda.so", false),
    ];
    for (number, (name, is_name)) in (2..).zip(cases) {
        let mut memory = behind(1, 2);
        memory.structure(handle(number), 0x400);
        let at = text(&mut memory, number, name);
        memory.word(handle(number) + 0x40, at);
        let mut names = DriverNames::default();
        taught(&mut names, &memory, handle(0), &mangled(0));
        taught(&mut names, &memory, handle(1), &mangled(1));
        let expected = is_name.then(|| name.to_owned());
        assert_eq!(found(&mut names, &memory, handle(number)), expected);
    }
}

#[test]
fn memory_that_cannot_be_read_has_no_names() {
    let mut memory = behind(2, 4);
    let mut names = DriverNames::default();
    for nothing in [0, 1, 0x6000_5000_0010, u64::MAX, u64::MAX - 7, 1 << 63] {
        taught(&mut names, &memory, nothing, "_Z5kern0Pf");
        assert_eq!(found(&mut names, &memory, nothing), None);
    }
    let mut names = DriverNames::default();
    taught(&mut names, &memory, handle(0), &mangled(0));
    taught(&mut names, &memory, handle(1), &mangled(1));
    // A pointer to nowhere, and a text without an end.
    memory.word(handle(2) + 0x38, 0x7c00_0000_0000);
    assert_eq!(found(&mut names, &memory, handle(2)), None);
    let end = TEXTS + 3 * 0x2000 + 3 + mangled(3).len() as u64;
    memory.bytes.remove(&end);
    assert_eq!(found(&mut names, &memory, handle(3)), None);
}

/// Every word points somewhere: the search ends, and soon.
#[test]
fn mazes_are_left() {
    struct Maze(Cell<u64>);
    impl Memory for Maze {
        fn read(&self, address: u64, to: &mut [u8]) -> usize {
            self.0.set(self.0.get() + 1);
            for (number, word) in to.chunks_mut(8).enumerate() {
                let next = address.wrapping_mul(31).wrapping_add(number as u64 * 4096);
                let bytes = (next & 0x7fff_ffff_fff8 | 0x1000).to_le_bytes();
                word.copy_from_slice(&bytes[..word.len()]);
            }
            to.len()
        }
    }
    let maze = Maze(Cell::new(0));
    let mut names = DriverNames::default();
    for number in 0..1000 {
        names.teach(&maze, handle(number), &"kern".into(), true);
        assert_eq!(names.name(&maze, handle(number), 1), None);
        names.agree(&maze);
    }
    assert!(names.taught.len() <= MOST_TAUGHT && names.searches <= MOST_SEARCHES);
    assert!(maze.0.get() < u64::from(2 * MOST_SEARCHES * SEARCH));
}

#[test]
fn handles_lose_their_names_with_their_code() {
    let mut memory = behind(1, 4);
    let mut names = DriverNames::default();
    taught(&mut names, &memory, handle(0), &mangled(0));
    taught(&mut names, &memory, handle(1), &mangled(1));
    let name = |names: &mut DriverNames, memory: &Made, handle, time| {
        Some(names.name(memory, handle, time)?.to_string())
    };
    let third = Some("kern2(float*)".to_owned());
    assert_eq!(name(&mut names, &memory, handle(2), 10), third);
    names.unloaded(20);
    let after = text(&mut memory, 50, "_Z5afterPf");
    memory.word(handle(2) + 0x40, after);
    // Another thread's call of before; one that was not looked at in time; one of after.
    assert_eq!(name(&mut names, &memory, handle(2), 15), third);
    assert_eq!(name(&mut names, &memory, handle(3), 15), None);
    let after = Some("after(float*)".to_owned());
    assert_eq!(name(&mut names, &memory, handle(2), 30), after);
    assert_eq!(name(&mut names, &memory, handle(2), 31), after);
}

fn ask(names: &mut DriverNames, memory: &Made, count: u64) -> bool {
    for number in 0..count {
        assert_eq!(found(names, memory, handle(number)), None);
    }
    names.agree(memory)
}

#[test]
fn without_known_kernels_handles_must_agree() {
    for pointers in 1..=3 {
        let memory = behind(pointers, 4);
        let mut names = DriverNames::default();
        // Two are not enough, and the same two are not looked at again.
        assert!(!ask(&mut names, &memory, 2));
        assert!(ask(&mut names, &memory, 3));
        let right = Some("kern3(float*)".to_owned());
        assert_eq!(found(&mut names, &memory, handle(3)), right);
    }
}

#[test]
fn handles_that_do_not_agree_stay_without_names() {
    // Two paths to different names.
    let mut memory = behind(1, 4);
    for number in 0..4 {
        let next = TEXTS + (number + 1) % 4 * 0x2000 + 3;
        memory.word(handle(number) + 0x88, next);
    }
    assert!(!ask(&mut DriverNames::default(), &memory, 4));
    // The same name for all of them.
    let mut memory = Made::default();
    let shared = text(&mut memory, 0, &mangled(0));
    for number in 0..4 {
        memory.structure(handle(number), 0x400);
        memory.word(handle(number) + 0x40, shared);
    }
    assert!(!ask(&mut DriverNames::default(), &memory, 4));
    // A name that is none of C++'s: may be anything.
    let mut memory = behind(1, 4);
    text(&mut memory, 2, "plain_name");
    assert!(!ask(&mut DriverNames::default(), &memory, 4));
    // Two paths to the same names are as good as one.
    let mut memory = behind(1, 4);
    for number in 0..4 {
        memory.word(handle(number) + 0x88, TEXTS + number * 0x2000 + 3);
    }
    assert!(ask(&mut DriverNames::default(), &memory, 4));
}

#[test]
fn what_handles_agree_upon_is_given_up_when_it_is_wrong() {
    let mut memory = behind(1, 8);
    let mut names = DriverNames::default();
    assert!(ask(&mut names, &memory, 3));
    for number in 0..3 {
        assert!(found(&mut names, &memory, handle(number)).is_some());
    }
    // Another handle with a name that one has already.
    memory.word(handle(4) + 0x40, TEXTS + 3);
    assert_eq!(found(&mut names, &memory, handle(4)), None);
    assert_eq!(found(&mut names, &memory, handle(5)), None);
    // A kernel that is known, and has another name.
    let mut names = DriverNames::default();
    assert!(ask(&mut names, &memory, 3));
    names.teach(&memory, handle(6), &"other".into(), false);
    assert_eq!(found(&mut names, &memory, handle(7)), None);
}

/// A structure of this very process.
/// What handles of NVIDIA's libcuda lead to, as it was on an H200.
const RECORDED: &str = include_str!("../../../../../fixtures/driver/handles-580.159.04.txt");

#[test]
fn handles_of_a_real_driver_have_their_names() {
    let mut memory = Made::default();
    let mut handles = Vec::new();
    let number = |text: &str| u64::from_str_radix(&text[2..], 16).expect("a number");
    for line in RECORDED.lines() {
        match *line.splitn(4, ' ').collect::<Vec<_>>() {
            ["handle", address, name, kind] => handles.push((number(address), name, kind)),
            ["block", address, hex] => {
                let digit = |at| u8::from_str_radix(&hex[at..at + 2], 16).expect("hex digits");
                let bytes: Vec<u8> = (0..hex.len()).step_by(2).map(digit).collect();
                memory.put(number(address), &bytes);
            }
            _ => assert!(line.starts_with('#'), "{line}"),
        }
    }
    for kind in ["CUfunction", "CUkernel", "CUfunction of a CUkernel"] {
        let of_kind = || handles.iter().filter(|(.., it)| *it == kind);
        assert_eq!(of_kind().count(), 4);
        // Whichever two are known, the others follow.
        for (first, second) in [(0, 1), (1, 2), (2, 3), (0, 3)] {
            let mut names = DriverNames::default();
            for known in [first, second] {
                let (handle, name, _) = of_kind().nth(known).expect("four");
                taught(&mut names, &memory, *handle, name);
            }
            for (handle, name, _) in of_kind() {
                let shown = demangled(name).to_string();
                assert_eq!(found(&mut names, &memory, *handle), Some(shown), "{kind}");
            }
        }
    }
}

#[test]
fn names_are_read_from_a_process() {
    #[repr(C)]
    struct Function {
        size: u64,
        name: *const u8,
    }
    let texts: Vec<CString> = (0..3)
        .map(|number| CString::new(mangled(number)).expect("no NUL"))
        .collect();
    let made = |text: &CStr| {
        Box::new(Function {
            size: 16,
            name: text.as_ptr().cast(),
        })
    };
    let functions: Vec<Box<Function>> = texts.iter().map(|text| made(text)).collect();
    let handle = |number: usize| &raw const *functions[number] as u64;
    let memory = || Process::new(std::process::id());
    let mut names = DriverNames::default();
    for number in 0..2 {
        let name = demangled(&mangled(number as u64));
        names.teach(&memory(), handle(number), &name, true);
    }
    let found = names.name(&memory(), handle(2), 1);
    assert_eq!(found.as_deref(), Some("kern2(float*)"));
    assert!(
        functions
            .iter()
            .all(|one| one.size == 16 && !one.name.is_null())
    );
}
