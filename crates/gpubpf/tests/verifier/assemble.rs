//! Programs by hand: one function an instruction, and the maps they may use.

use gpubpf::instruction::Raw;
use gpubpf::{Attach, Map, MapKind, Object, Program, Refused, Verified, verify, verify_or_budget};

/// 1503, 4 values of 16 bytes.
pub const ARRAY: i32 = 0;
/// 1501, keys of 8 bytes, values of 16.
pub const HASH: i32 = 1;
/// 1527, records of up to 32 bytes.
pub const RING: i32 = 2;
/// 1502, 4 values of 8 bytes.
pub const THREADS: i32 = 3;
/// .rodata: "n=%d\0" and more.
pub const RODATA: i32 = 4;
/// .bss of 12 bytes.
pub const BSS: i32 = 5;
/// A ring buffer of the kernel's.
pub const KERNEL_RING: i32 = 6;
/// 1503, values of 8 bytes.
pub const COUNTERS: i32 = 7;

pub type Code = Vec<Raw>;

pub fn object() -> Object {
    let map = |name: &str, kind: u32, key: u32, value: u32, entries: u32| Map {
        name: name.into(),
        kind: MapKind::from_number(kind).expect("a known kind"),
        key_size: key,
        value_size: value,
        max_entries: entries,
        flags: 0,
        key_type: None,
        value_type: None,
        initial: None,
        read_only: false,
    };
    let mut rodata = map(".rodata", 1503, 4, 32, 1);
    rodata.initial = Some(b"n=%d\0%s\0no end %\0\xff\xfe\0________________"[..32].to_vec());
    rodata.read_only = true;
    let mut bss = map(".bss", 1503, 4, 12, 1);
    bss.initial = Some(vec![0; 12]);
    Object {
        programs: Vec::new(),
        host: Vec::new(),
        maps: vec![
            map("array", 1503, 4, 16, 4),
            map("hash", 1501, 8, 16, 64),
            map("ring", 1527, 4, 32, 16),
            map("threads", 1502, 4, 8, 4),
            rodata,
            bss,
            map("kernel_ring", 27, 0, 0, 4096),
            map("counters", 1503, 4, 8, 64),
        ],
        btf: Default::default(),
    }
}

/// Verifies instructions as a program at a kernel's entry.
pub fn outcome<T>(code: &[Code], then: impl FnOnce(&Verified<'_>) -> T) -> Result<T, Box<Refused>> {
    outcome_at(Attach::Entry("kernel".into()), code, then)
}

pub fn outcome_at<T>(
    attach: Attach,
    code: &[Code],
    then: impl FnOnce(&Verified<'_>) -> T,
) -> Result<T, Box<Refused>> {
    let raw: Vec<Raw> = code.concat();
    let object = object();
    let program = Program::from_slots("cuda__test", attach, &raw).expect("instructions");
    verify(&object, &program).map(|verified| then(&verified))
}

/// As `outcome`, but loops may be stopped by a budget.
pub fn outcome_or_budget<T>(
    code: &[Code],
    then: impl FnOnce(&Verified<'_>) -> T,
) -> Result<T, Box<Refused>> {
    let raw: Vec<Raw> = code.concat();
    let object = object();
    let attach = Attach::Entry("kernel".into());
    let program = Program::from_slots("cuda__test", attach, &raw).expect("instructions");
    verify_or_budget(&object, &program).map(|verified| then(&verified))
}

pub fn one(code: u8, dst: u8, src: u8, offset: i16, immediate: i32) -> Code {
    vec![Raw {
        code,
        dst,
        src,
        offset,
        immediate,
    }]
}

/// dst = immediate
pub fn set(dst: u8, immediate: i32) -> Code {
    one(0xb7, dst, 0, 0, immediate)
}

/// dst = src
pub fn copy(dst: u8, src: u8) -> Code {
    one(0xbf, dst, src, 0, 0)
}

/// dst += immediate
pub fn add(dst: u8, immediate: i32) -> Code {
    one(0x07, dst, 0, 0, immediate)
}

/// dst += src
pub fn plus(dst: u8, src: u8) -> Code {
    one(0x0f, dst, src, 0, 0)
}

/// dst &= immediate
pub fn and(dst: u8, immediate: i32) -> Code {
    one(0x57, dst, 0, 0, immediate)
}

/// dst = a map
pub fn map(dst: u8, map: i32) -> Code {
    [one(0x18, dst, 1, 0, map), one(0, 0, 0, 0, 0)].concat()
}

/// dst = address in global data
pub fn data(dst: u8, map: i32, offset: i32) -> Code {
    [one(0x18, dst, 2, 0, map), one(0, 0, 0, 0, offset)].concat()
}

fn size(bytes: u8) -> u8 {
    match bytes {
        1 => 0x10,
        2 => 0x08,
        4 => 0x00,
        _ => 0x18,
    }
}

/// dst = *(base + offset)
pub fn load(bytes: u8, dst: u8, base: u8, offset: i16) -> Code {
    one(0x61 | size(bytes), dst, base, offset, 0)
}

/// *(base + offset) = src
pub fn store(bytes: u8, base: u8, offset: i16, src: u8) -> Code {
    one(0x63 | size(bytes), base, src, offset, 0)
}

/// *(base + offset) = immediate
pub fn put(bytes: u8, base: u8, offset: i16, immediate: i32) -> Code {
    one(0x62 | size(bytes), base, 0, offset, immediate)
}

pub fn atomic(bytes: u8, base: u8, offset: i16, src: u8, operator: i32) -> Code {
    one(0xc3 | size(bytes), base, src, offset, operator)
}

pub fn call(helper: i32) -> Code {
    one(0x85, 0, 0, 0, helper)
}

/// A call of the function so many slots further.
pub fn call_function(distance: i32) -> Code {
    one(0x85, 0, 1, 0, distance)
}

pub fn jump(distance: i16) -> Code {
    one(0x05, 0, 0, distance, 0)
}

/// Jumps if dst == immediate.
pub fn if_equal(dst: u8, immediate: i32, distance: i16) -> Code {
    one(0x15, dst, 0, distance, immediate)
}

pub fn if_not(dst: u8, immediate: i32, distance: i16) -> Code {
    one(0x55, dst, 0, distance, immediate)
}

/// Jumps if dst > immediate, without sign.
pub fn if_above(dst: u8, immediate: i32, distance: i16) -> Code {
    one(0x25, dst, 0, distance, immediate)
}

/// Jumps if dst < immediate, without sign.
pub fn if_below(dst: u8, immediate: i32, distance: i16) -> Code {
    one(0xa5, dst, 0, distance, immediate)
}

pub fn end() -> Code {
    [set(0, 0), one(0x95, 0, 0, 0, 0)].concat()
}

pub fn exit() -> Code {
    one(0x95, 0, 0, 0, 0)
}

/// Looks key 0 up in an array: r0 is the value, or NULL. Ten slots... the key is at -4.
pub fn lookup(number: i32) -> Code {
    [
        put(4, 10, -4, 0),
        copy(2, 10),
        add(2, -4),
        map(1, number),
        call(1),
    ]
    .concat()
}

/// As `lookup`, and ends the program where there is nothing.
pub fn found(number: i32) -> Code {
    [lookup(number), if_not(0, 0, 2), end()].concat()
}
