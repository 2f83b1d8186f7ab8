//! Any bytes decode to something.

use nvidia_ioctl::{
    DeviceFile, Handles, IoctlCall, MOST_BYTES, Memory, Version, argument_size, wanted,
};
use proptest::prelude::*;

fn files() -> impl Strategy<Value = DeviceFile> {
    use DeviceFile::*;
    prop_oneof![
        Just(Control),
        Just(Gpu(0)),
        Just(Uvm),
        Just(UvmTools),
        Just(Other)
    ]
}

/// Numbers that mean something, and all others.
fn commands() -> impl Strategy<Value = u32> {
    prop_oneof![
        any::<u32>(),
        (0u32..256, 0u32..300).prop_map(|(number, size)| 0xc000_4600 | size << 16 | number),
        0u32..100,
        Just(0xc020_462a),
        Just(0xc030_462b),
        Just(0xc010_46d3),
    ]
}

fn versions() -> impl Strategy<Value = Version> {
    (400u32..700, 0u32..200, 0u32..10).prop_map(|(branch, minor, patch)| Version {
        branch,
        minor,
        patch,
    })
}

proptest! {
    #[test]
    fn nothing_panics_and_everything_has_a_line(
        file in files(),
        version in versions(),
        calls in prop::collection::vec(
            (commands(), prop::collection::vec(any::<u8>(), 0..400), prop::collection::vec(any::<u8>(), 0..400)),
            1..8,
        ),
    ) {
        let mut handles = Handles::default();
        for (cmd, before, after) in &calls {
            // Whatever the struct points to holds bytes as well.
            let bare = IoctlCall { file, cmd: *cmd, version, before, after: Some(after), memory: &[], memory_after: &[] };
            let ranges = wanted(&bare);
            prop_assert!(ranges.iter().all(|range| range.length <= MOST_BYTES));
            prop_assert!(argument_size(file, *cmd, version) <= MOST_BYTES);
            let memory: Vec<Memory> = ranges.iter().map(|range| Memory { address: range.address, bytes: after }).collect();
            let call = IoctlCall { memory: &memory, memory_after: &memory, ..bare };
            let (decoded, facts) = handles.returned(&call);
            prop_assert!(!decoded.line_with_details().is_empty());
            prop_assert!(decoded.line_with_details().chars().all(|letter| !letter.is_control()));
            prop_assert!(decoded.map(file).len() < 16);
            for fact in facts {
                prop_assert!(!fact.to_string().is_empty());
            }
        }
    }
}
