//! Requests inside IOCTL_XFER_CMD: a pointer to a struct that may point further.

use super::layouts::version;
use nvidia_ioctl::{DeviceFile, Handles, IoctlCall, Memory, Range, decode, wanted};

fn xfer(number: u32, size: u32, pointer: u64) -> Vec<u8> {
    [
        &number.to_le_bytes()[..],
        &size.to_le_bytes(),
        &pointer.to_le_bytes(),
    ]
    .concat()
}

#[test]
fn a_wrapped_control_is_unwrapped_in_two_rounds() {
    let outer = xfer(0x2a, 32, 0x1000);
    let words: [u32; 8] = [1, 1, 0xa06c_0103, 0, 0x2000, 0, 8, 0];
    let control: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
    let parameters = 1500u64.to_le_bytes();
    let call = |memory| IoctlCall {
        file: DeviceFile::Gpu(0),
        cmd: 0xc010_46d3,
        version: version("580"),
        before: &outer,
        after: Some(&outer),
        memory,
        memory_after: memory,
    };
    let range = |address, length| vec![Range { address, length }];
    assert_eq!(wanted(&call(&[])), range(0x1000, 32));
    let first = [Memory {
        address: 0x1000,
        bytes: &control,
    }];
    assert_eq!(wanted(&call(&first)), range(0x2000, 8));
    let both = [
        first[0],
        Memory {
            address: 0x2000,
            bytes: &parameters,
        },
    ];
    assert_eq!(wanted(&call(&both)), []);

    assert_eq!(decode(&call(&[])).line(), "IOCTL_XFER_CMD");
    let (decoded, facts) = Handles::default().returned(&call(&both));
    assert!(decoded.wrapped);
    assert_eq!(
        decoded.line_with_details(),
        "RM_CONTROL 0x1 SET_TIMESLICE {params={timesliceUs=1500}} → ok"
    );
    assert_eq!(
        facts[0].to_string(),
        "timeslice set: client=0x1 tsg=0x1 microseconds=1500"
    );
}

#[test]
fn wrapping_is_followed_once_and_bounded() {
    let outer = xfer(211, 16, 0x1000);
    let inner = xfer(211, 16, 0x1000);
    let memory = [Memory {
        address: 0x1000,
        bytes: &inner,
    }];
    let call = IoctlCall {
        file: DeviceFile::Control,
        cmd: 0xc010_46d3,
        version: version("580"),
        before: &outer,
        after: None,
        memory: &memory,
        memory_after: &[],
    };
    assert_eq!(decode(&call).name, Some("NV_ESC_IOCTL_XFER_CMD"));
    assert_eq!(wanted(&call), []);
    let huge = xfer(0x2a, u32::MAX, 0x1000);
    let huge = IoctlCall {
        before: &huge,
        memory: &[],
        ..call
    };
    assert_eq!(
        wanted(&huge),
        [Range {
            address: 0x1000,
            length: 16 << 10
        }]
    );
}
