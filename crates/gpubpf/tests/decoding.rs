//! Bytes of records as named values, and lines of formats.

use gpubpf::Object;
use gpubpf::btf::{Field, Value, decode, event_type};
use gpubpf::format::{conversions, render};

fn object() -> Object {
    named("fields.v3.o")
}

fn named(name: &str) -> Object {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/objects");
    Object::parse(&std::fs::read(format!("{folder}/{name}")).unwrap()).unwrap()
}

#[test]
fn every_kind_of_field() {
    let object = object();
    let mut bytes = Vec::new();
    // flags 5, level -2 in the five bits above.
    bytes.extend((5u32 | 0b11110 << 3).to_le_bytes());
    bytes.extend((-1i32).to_le_bytes());
    for value in [-3i16, 4, 5, 6] {
        bytes.extend(value.to_le_bytes());
    }
    bytes.extend(0x0403_0201u32.to_le_bytes());
    bytes.extend([1, b'z']);
    bytes.extend(b"abc\0\0\0");
    bytes.resize(32, 0);
    bytes.extend(123u64.to_le_bytes());
    bytes.extend(0xdead_beefu64.to_le_bytes());
    let found = event_type(&object.btf, object.maps[0].value_type, bytes.len() as u32);
    let found = found.expect("a struct of 48 bytes");
    assert_eq!(found.name, "record");
    let field = |name: &str, value| Field {
        name: name.to_owned(),
        value,
    };
    let pair = |x, y| {
        Value::Struct(vec![
            field("x", Value::Signed(x)),
            field("y", Value::Unsigned(y)),
        ])
    };
    let parts = [1, 2, 3, 4].map(Value::Unsigned).to_vec();
    let union = Value::Struct(vec![
        field("whole", Value::Unsigned(0x0403_0201)),
        field("parts", Value::Array(parts)),
    ]);
    assert_eq!(
        decode(&object.btf, found.ty, &bytes),
        Value::Struct(vec![
            field("flags", Value::Unsigned(5)),
            field("level", Value::Signed(-2)),
            field("color", Value::Enum(-1, Some("RED".into()))),
            field("pairs", Value::Array(vec![pair(-3, 4), pair(5, 6)])),
            field("", union),
            field("set", Value::Bool(true)),
            field("letter", Value::Signed(i64::from(b'z'))),
            field("text", Value::Text("abc".into())),
            field("time", Value::Unsigned(123)),
            field("address", Value::Pointer(0xdead_beef)),
        ])
    );
    // Cut short, it is bytes.
    let short = decode(&object.btf, found.ty, &bytes[..40]);
    assert_eq!(short, Value::Bytes(bytes[..40].to_vec()));
}

#[test]
fn structs_are_found_by_size_and_name() {
    let object = object();
    // Without the ring's definition: by its name.
    let found = event_type(&object.btf, None, 48).expect("a struct");
    assert_eq!(found.why, "the only event struct of this size");
    // No struct of 5 bytes.
    assert_eq!(event_type(&object.btf, None, 5), None);
    // A map's value that is smaller than the record does not name it.
    let found = event_type(&object.btf, object.maps[0].value_type, 4).expect("inner");
    assert_eq!(
        (found.name.as_str(), found.why),
        ("inner", "the only struct of this size")
    );
}

#[test]
fn lines_are_formatted() {
    let line = |format: &str, values: &[u64]| render(format, values, |_| Some("text".into()));
    assert_eq!(line("%d %u", &[u64::MAX, u64::MAX]), "-1 4294967295");
    assert_eq!(
        line("%ld %lu", &[u64::MAX, u64::MAX]),
        "-1 18446744073709551615"
    );
    assert_eq!(
        line("[%5d|%-5d|%05d|%+d]", &[42, 42, 42, 42]),
        "[   42|42   |00042|+42]"
    );
    assert_eq!(
        line("%x %#x %X %p %c%%", &[255, 255, 255, 255, 65]),
        "ff 0xff FF 0xff A%"
    );
    assert_eq!(line("%s and %s", &[0, 1]), "text and text");
    assert_eq!(line("%05d", &[-42i64 as u64]), "-0042");
    assert_eq!(line("%lld", &[]), "0");
    assert_eq!(line("%9999999d", &[1]).len(), 256);
    assert_eq!(conversions("%d%% %lx %s"), Ok(vec!['d', 'x', 's']));
    for wrong in ["%", "%5", "%q", "%llld", "%123456789d"] {
        assert!(conversions(wrong).is_err(), "{wrong}");
    }
}

#[test]
fn definitions_of_maps_are_no_records() {
    // Its maps' structs have 32 bytes, and no other has.
    let object = named("published.v3.o");
    assert_eq!(event_type(&object.btf, None, 32), None);
    assert!(event_type(&object.btf, None, 24).is_some_and(|found| found.name == "event"));
}
