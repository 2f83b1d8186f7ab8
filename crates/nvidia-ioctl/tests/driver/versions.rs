//! Structs of other versions than the recorded one: made by hand, field by field.

use super::layouts::version;
use nvidia_ioctl::{DeviceFile, IoctlCall, Memory, decode};

/// A buffer with some words in it.
pub fn bytes(size: usize, words: &[(usize, u32)]) -> Vec<u8> {
    let mut bytes = vec![0; size];
    for (at, word) in words {
        bytes[*at..at + 4].copy_from_slice(&word.to_le_bytes());
    }
    bytes
}

fn line(file: DeviceFile, cmd: u32, text: &str, before: &[u8], memory: &[u8]) -> String {
    let memory = [Memory {
        address: 0x1000,
        bytes: memory,
    }];
    let decoded = decode(&IoctlCall {
        file,
        cmd,
        version: version(text),
        before,
        after: Some(before),
        memory: &memory,
        memory_after: &memory,
    });
    let doubt = decoded.doubt.as_ref().map(|doubt| format!(" ({doubt})"));
    decoded.line_with_details() + &doubt.unwrap_or_default()
}

/// RM_ALLOC of a class with parameters, as a version lays them out.
fn alloc(text: &str, class: u32, parameters: &[u8]) -> String {
    let size = u32::try_from(parameters.len()).unwrap();
    let outer = bytes(
        48,
        &[
            (0, 0xc1d0_0001),
            (4, 0x5c00_0002),
            (8, 0x5c00_0003),
            (12, class),
            (16, 0x1000),
            (32, size),
        ],
    );
    line(DeviceFile::Control, 0xc030_462b, text, &outer, parameters)
}

#[test]
fn allocations_of_older_and_newer_drivers() {
    let channel = [
        (8, 0x2000),
        (16, 1024),
        (28, 0x5c00_0009),
        (32, 0x5c00_000a),
        (64, 0x4000),
        (128, 9),
        (296, 77),
    ];
    let mut lines = vec![
        alloc("535.261.03", 0xc36f, &bytes(360, &channel)),
        alloc(
            "580.142",
            0xc86f,
            &bytes(368, &[&channel[..], &[(360, 5)]].concat()),
        ),
        alloc(
            "535.261.03",
            0x40,
            &bytes(
                120,
                &[(8, 0x1c101), (24, 0x1800_0000), (64, 4096), (80, 0x100)],
            ),
        ),
        alloc(
            "545.29.06",
            0x40,
            &bytes(
                128,
                &[(8, 0x1c101), (24, 0x1800_0000), (64, 4096), (120, 1)],
            ),
        ),
        alloc("570.211.01", 0x90f1, &bytes(48, &[(4, 0x40), (40, 0x1000)])),
        alloc(
            "580.142",
            0x90f1,
            &bytes(56, &[(4, 0x40), (40, 0x1000), (48, 3)]),
        ),
        alloc(
            "535.261.03",
            0xa06c,
            &bytes(20, &[(8, 0x5c00_0009), (12, 1)]),
        ),
    ];
    // The older struct of RM_ALLOC.
    let older = bytes(
        32,
        &[
            (0, 0xc1d0_0001),
            (4, 0x5c00_0002),
            (8, 0x5c00_0003),
            (12, 0x2080),
        ],
    );
    lines.push(line(
        DeviceFile::Control,
        0xc020_462b,
        "535.261.03",
        &older,
        &[],
    ));
    insta::assert_snapshot!(lines.join("\n"));
}

#[test]
fn requests_of_older_and_newer_drivers() {
    let map = [
        (0, 0xc1d0_0001),
        (4, 2),
        (8, 3),
        (12, 4),
        (16, 0x100),
        (24, 0x200),
        (32, 0x7),
    ];
    let heap = [
        (0, 0xc1d0_0001),
        (4, 2),
        (8, 2),
        (44, 0x5c00_0001),
        (52, 0x1),
        (56, 0x1800_0000),
        (88, 8192),
        (96, 4096),
    ];
    let lines = [
        line(
            DeviceFile::Control,
            0xc038_4657,
            "575.64.05",
            &bytes(56, &[&map[..], &[(40, 0x9000)]].concat()),
            &[],
        ),
        line(
            DeviceFile::Control,
            0xc040_4657,
            "580.142",
            &bytes(64, &[&map[..], &[(36, 1), (48, 0x9000)]].concat()),
            &[],
        ),
        line(
            DeviceFile::Control,
            0xc028_4658,
            "535.261.03",
            &bytes(40, &[(0, 1), (24, 0x9000)]),
            &[],
        ),
        line(
            DeviceFile::Control,
            0xc030_4658,
            "550.163.01",
            &bytes(48, &[(0, 1), (24, 0x9000), (32, 4096)]),
            &[],
        ),
        line(
            DeviceFile::Control,
            0xc0b8_464a,
            "535.261.03",
            &bytes(184, &heap),
            &[],
        ),
        line(
            DeviceFile::Control,
            0xc0b8_464a,
            "595.45.04",
            &bytes(184, &[(8, 3), (44, 0x5c00_0001)]),
            &[],
        ),
        line(
            DeviceFile::Control,
            0xc008_46d4,
            "580.142",
            &bytes(8, &[(0, 6), (4, 7)]),
            &[],
        ),
        line(
            DeviceFile::Uvm,
            34,
            "580.142",
            &bytes(24, &[(0, 0x20_0000), (8, 4096)]),
            &[],
        ),
        line(
            DeviceFile::Uvm,
            34,
            "595.45.04",
            &bytes(16, &[(0, 0x20_0000)]),
            &[],
        ),
        line(
            DeviceFile::Uvm,
            33,
            "535.261.03",
            &bytes(
                1200,
                &[(0, 0x20_0000), (8, 4096), (24, 0xab), (1176, 1), (1192, 7)],
            ),
            &[],
        ),
        line(
            DeviceFile::UvmTools,
            56,
            "580.142",
            &bytes(56, &[(16, 8)]),
            &[],
        ),
        // A newer driver's struct where an older driver is said to run, and one that fits nothing.
        line(
            DeviceFile::Control,
            0xc040_4657,
            "535.261.03",
            &bytes(64, &map),
            &[],
        ),
        line(
            DeviceFile::Control,
            0xc024_462a,
            "580.142",
            &bytes(36, &[(8, 0x101)]),
            &[],
        ),
        line(
            DeviceFile::Control,
            0xc010_46ff,
            "580.142",
            &bytes(16, &[]),
            &[],
        ),
        line(DeviceFile::Uvm, 9999, "580.142", &[], &[]),
        line(DeviceFile::Other, 0x5401, "580.142", &[], &[]),
    ];
    insta::assert_snapshot!(lines.join("\n"));
}
