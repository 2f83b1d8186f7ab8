//! Notes as compilers write them, and as nobody should.

use super::{Markers, NoMarker, Unreadable, notes::read, operand::parse};
use crate::ebpf::layout::{
    OPERAND_CONSTANT, OPERAND_MEMORY, OPERAND_REGISTER, Operand, REGISTER_NONE,
};

const CODE: usize = 0x400;
const DATA: usize = 0x500;
const NOTES: usize = 0x600;
/// Addresses are so far ahead of places in the file.
const AHEAD: u64 = 0x10_0000;

/// One note: where the marker, the base and the counter are, and the texts.
fn note(addresses: [u64; 3], texts: &[u8]) -> Vec<u8> {
    let mut desc: Vec<u8> = addresses.iter().flat_map(|one| one.to_le_bytes()).collect();
    desc.extend(texts);
    let mut note = Vec::new();
    for number in [8, desc.len() as u32, 3] {
        note.extend(number.to_le_bytes());
    }
    note.extend(b"stapsdt\0");
    note.extend(desc);
    note.resize(note.len().next_multiple_of(4), 0);
    note
}

/// An ELF file with code (nops, then returns), data and these notes; the base at `base`.
fn file(notes: &[u8], base: u64) -> Vec<u8> {
    let mut bytes = vec![0; NOTES];
    let names = b"\0.note.stapsdt\0.stapsdt.base\0.shstrtab\0";
    bytes[CODE..CODE + 16].fill(0x90);
    bytes[CODE + 16..DATA].fill(0xc3);
    bytes.extend(notes);
    let names_at = bytes.len();
    bytes.extend(names);
    bytes.resize(bytes.len().next_multiple_of(8), 0);
    let sections_at = bytes.len();
    // Name, kind, address, place, size, alignment.
    for (name, kind, address, at, size, align) in [
        (0u32, 0u32, 0u64, 0, 0, 0u64),
        (1, 7, 0, NOTES, notes.len(), 4),
        (15, 1, base, DATA, 1, 1),
        (29, 3, 0, names_at, names.len(), 1),
    ] {
        bytes.extend(name.to_le_bytes());
        bytes.extend(kind.to_le_bytes());
        bytes.extend(0u64.to_le_bytes());
        bytes.extend(address.to_le_bytes());
        bytes.extend((at as u64).to_le_bytes());
        bytes.extend((size as u64).to_le_bytes());
        bytes.extend([0; 8]);
        bytes.extend(align.to_le_bytes());
        bytes.extend([0; 8]);
    }
    let put = |bytes: &mut Vec<u8>, at: usize, with: &[u8]| {
        bytes[at..at + with.len()].copy_from_slice(with);
    };
    put(&mut bytes, 0, b"\x7fELF\x02\x01\x01");
    for (at, number) in [
        (16, 3u16),
        (18, 62),
        (54, 56),
        (56, 2),
        (58, 64),
        (60, 4),
        (62, 3),
    ] {
        put(&mut bytes, at, &number.to_le_bytes());
    }
    put(&mut bytes, 20, &1u32.to_le_bytes());
    put(&mut bytes, 32, &64u64.to_le_bytes());
    put(&mut bytes, 40, &(sections_at as u64).to_le_bytes());
    for (place, flags, at) in [(64, 5u32, CODE), (120, 6, DATA)] {
        put(&mut bytes, place, &1u32.to_le_bytes());
        put(&mut bytes, place + 4, &flags.to_le_bytes());
        for (more, number) in [
            (8, at as u64),
            (16, at as u64 + AHEAD),
            (24, at as u64 + AHEAD),
            (32, 0x100),
            (40, 0x100),
        ] {
            put(&mut bytes, place + more, &number.to_le_bytes());
        }
    }
    bytes
}

fn marker_of(addresses: [u64; 3], texts: &[u8], base: u64) -> Markers {
    read(&file(&note(addresses, texts), base))
}

const HERE: u64 = CODE as u64 + AHEAD;
const BASE: u64 = 0x77_0000;

#[test]
fn places_are_those_of_the_file() {
    let counter = DATA as u64 + AHEAD + 6;
    let found = marker_of(
        [HERE + 4, BASE, counter],
        b"py\0gc__start\0-4@%eax 8@$3\0",
        BASE,
    );
    assert_eq!(found.refused, []);
    let marker = &found.markers[0];
    assert_eq!((&*marker.provider, &*marker.name), ("py", "gc__start"));
    assert_eq!(
        (marker.offset, marker.semaphore),
        (CODE as u64 + 4, Some(DATA as u64 + 6))
    );
    assert_eq!(marker.arguments.len(), 2);
    assert!(marker.matches("p?", "gc__*") && !marker.matches("p?", "gc"));
    assert_eq!(marker.lacks(1), None);
    assert_eq!(marker.lacks(2).as_deref(), Some("it has 2 arguments"));
    assert_eq!(marker.site().at[1].value, 3);
    // Moved after it was linked, down and up: notes are not moved.
    for moved in [0x2_0000u64, 0x2_0000u64.wrapping_neg()] {
        let said = [HERE, BASE, counter].map(|one| one.wrapping_sub(moved));
        let found = marker_of(said, b"a\0b\0\0", BASE);
        assert_eq!(found.markers[0].offset, CODE as u64);
        assert_eq!(found.markers[0].semaphore, Some(DATA as u64 + 6));
    }
    // Old ones say nothing of arguments; a base that nobody knows moves nothing.
    let found = marker_of([HERE, 0, 0], b"a\0b\0", BASE);
    assert_eq!(
        (found.markers[0].offset, found.markers[0].semaphore),
        (CODE as u64, None)
    );
}

#[test]
fn what_would_take_a_program_down_is_refused() {
    let refused = |addresses, texts: &[u8]| {
        let found = marker_of(addresses, texts, BASE);
        assert_eq!(found.markers, []);
        let refused = &found.refused[0];
        (refused.marker.clone(), refused.why.to_string())
    };
    let named = |why: &str| ("a:b".to_owned(), why.to_owned());
    let ab = b"a\0b\0\0";
    let nothing = named("there is no code at its address");
    for place in [0, HERE - 1, HERE + 0x100, DATA as u64 + AHEAD, u64::MAX] {
        assert_eq!(refused([place, BASE, 0], ab), nothing, "{place:#x}");
    }
    let full = named("there is no NOP at its address");
    assert_eq!(refused([HERE + 16, BASE, 0], ab), full);
    let data = DATA as u64 + AHEAD;
    let lost = named("its counter is not in the file");
    for counter in [1, HERE, data + 1, data + 0xff, data + 0x100, u64::MAX] {
        assert_eq!(refused([HERE, BASE, counter], ab), lost, "{counter:#x}");
    }
    let unread = ("?".to_owned(), "its note cannot be read".to_owned());
    let long = [&[b'a'; 300][..], b"\0b\0\0"].concat();
    for texts in [
        &b""[..],
        b"a",
        b"a\0",
        b"a\0b",
        b"\0b\0\0",
        b"a\0\0\0",
        b"a\0b\0c",
        b"a\x1b\0b\0\0",
        b"\xff\0b\0\0",
        &long,
    ] {
        assert_eq!(refused([HERE, BASE, 0], texts), unread, "{texts:?}");
    }
}

#[test]
fn hostile_files_are_read_to_their_end() {
    let good = note([HERE, BASE, 0], b"a\0b\0-4@%eax 8@x(%rip)\0");
    let whole = file(&[&*good, &*good].concat(), BASE);
    assert_eq!(read(&whole).markers.len(), 2);
    // Cut short, and with any byte of head, notes or sections set to something else.
    for cut in 0..whole.len() {
        let _ = read(&whole[..cut]);
    }
    for at in (0..176).chain(NOTES..whole.len()) {
        for value in [0, 1, 0x7f, 0xff] {
            let mut wrong = whole.clone();
            wrong[at] = value;
            let found = read(&wrong);
            assert!(found.markers.len() <= 2);
        }
    }
    // A note that is longer than all of them: those before it are there.
    let mut long = good.clone();
    long[4..8].copy_from_slice(&u32::MAX.to_le_bytes());
    let found = read(&file(&[&*good, &*long, &*good].concat(), BASE));
    assert_eq!(found.markers.len(), 1);
    assert_eq!(found.refused[0].why, NoMarker::Long);
    // Others' notes in between, and far too many.
    let mut other = good.clone();
    other[12] = b'S';
    assert_eq!(
        read(&file(&[&*other, &*good].concat(), BASE)).markers.len(),
        1
    );
    let many = note([HERE, BASE, 0], b"a\0b\0\0").repeat(super::MOST_MARKERS + 5);
    let found = read(&file(&many, BASE));
    assert_eq!(
        (found.markers.len(), found.refused.len()),
        (super::MOST_MARKERS, 1)
    );
    let wrong = note([0, BASE, 0], b"a\0b\0\0").repeat(5_000);
    assert_eq!(read(&file(&wrong, BASE)).refused.len(), 1_000);
    let own = std::fs::read(std::env::current_exe().expect("known")).expect("readable");
    assert_eq!(read(&own).refused, []);
}

fn parsed(text: &str) -> Result<Operand, Unreadable> {
    parse(text, |name| match name {
        "counter" => Ok(-0x1000),
        _ => Err(Unreadable::Undefined),
    })
}

#[test]
fn arguments_are_where_the_compiler_had_them() {
    let register = |size: u8, is_signed: u8, base: u8, shift: u8| Operand {
        kind: OPERAND_REGISTER,
        size,
        is_signed,
        shift,
        base,
        index: REGISTER_NONE,
        ..Operand::default()
    };
    for (text, expected) in [
        ("8@%rax", register(8, 0, 10, 0)),
        ("-4@%eax", register(4, 1, 10, 0)),
        ("2@%ax", register(2, 0, 10, 0)),
        ("-1@%al", register(1, 1, 10, 0)),
        ("1@%ah", register(1, 0, 10, 8)),
        ("1@%sil", register(1, 0, 13, 0)),
        ("1@%bpl", register(1, 0, 4, 0)),
        ("8@%rsp", register(8, 0, 19, 0)),
        ("8@%r8", register(8, 0, 9, 0)),
        ("4@%r9d", register(4, 0, 8, 0)),
        ("2@%r15w", register(2, 0, 0, 0)),
        ("1@%r12b", register(1, 0, 3, 0)),
        // What is not in the register is not read of it.
        ("8@%edi", register(4, 0, 14, 0)),
        ("%rbx", register(8, 0, 5, 0)),
    ] {
        assert_eq!(parsed(text), Ok(expected), "{text}");
    }
    let constant = |value: i64| Operand {
        kind: OPERAND_CONSTANT,
        size: 8,
        base: REGISTER_NONE,
        index: REGISTER_NONE,
        value: value as u64,
        ..Operand::default()
    };
    for (text, value) in [
        ("8@$0", 0),
        ("8@$-1", -1),
        ("8@$0x10", 16),
        ("8@$18446744073709551615", -1),
    ] {
        assert_eq!(parsed(text), Ok(constant(value)), "{text}");
    }
    let memory = |base: u8, index: u8, shift: u8, value: i64| Operand {
        kind: OPERAND_MEMORY,
        size: 4,
        is_signed: 1,
        shift,
        base,
        index,
        value: value as u64,
        ..Operand::default()
    };
    const NONE: u8 = REGISTER_NONE;
    for (text, expected) in [
        ("-4@-8(%rbp)", memory(4, NONE, 0, -8)),
        ("-4@(%rdi)", memory(14, NONE, 0, 0)),
        ("-4@0x20(%rsp)", memory(19, NONE, 0, 32)),
        ("-4@16(%rdi,%rcx,8)", memory(14, 11, 3, 16)),
        ("-4@(%rdi,%rcx)", memory(14, 11, 0, 0)),
        ("-4@4(,%rcx,4)", memory(NONE, 11, 2, 4)),
        ("-4@counter(%rip)", memory(16, NONE, 0, -0x1000)),
        ("-4@counter+4(%rip)", memory(16, NONE, 0, -0xffc)),
        ("-4@counter-4(%rip)", memory(16, NONE, 0, -0x1004)),
        ("-4@4+counter(%rip)", memory(16, NONE, 0, -0xffc)),
    ] {
        assert_eq!(parsed(text), Ok(expected), "{text}");
    }
}

#[test]
fn what_is_no_argument_is_said_not_guessed() {
    for (text, why) in [
        ("8f@%xmm0", "not an integer of 1, 2, 4 or 8 bytes"),
        ("16@(%rax)", "not an integer of 1, 2, 4 or 8 bytes"),
        ("8@%xmm1", "in a vector register"),
        ("8@$counter", "the address of something"),
        ("4@other(%rip)", "at a symbol that the file does not define"),
        ("4@counter(%rax)", "at an address by name"),
        ("4@x@tpoff(%rip)", "at an address by name"),
        ("4@%fs:16", "not understood"),
    ] {
        let found = parsed(text).map_err(|why| why.to_string());
        assert_eq!(found, Err(why.to_owned()), "{text}");
    }
    for text in [
        "",
        "@",
        "4@",
        "-@%eax",
        "4@%",
        "4@$",
        "4@()",
        "4@(%eax)",
        "4@(%rax,%rbx,3)",
        "4@(%rax,%rbx,8,1)",
        "4@8(%rax",
        "4@(%r16)",
        "4@%r8x",
        "4@%l",
        "4@%é",
        "4@%rdb",
        "4@+(%rip)",
        "4@4+(%rip)",
        "4@(%rip)",
        "4@counter+(%rip)",
        "4@99999999999999999999(%rax)",
        "4@$010",
        "4@$0xg",
        "4@$--1",
        "4@counter+9223372036854775807(%rip)x",
    ] {
        assert!(parsed(text).is_err(), "{text}");
    }
}
