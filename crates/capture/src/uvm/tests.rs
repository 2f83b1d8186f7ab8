//! What a real driver wrote (fixtures/uvm), decoded: the program moved a known number of bytes.

use super::entry::{Layout, UvmEntry, What, decode};
use super::gpu_clock::GpuClocks;
use super::words::{Processors, event};
use event::Extent;
use flate2::read::GzDecoder;
use std::collections::BTreeMap;
use std::fmt::Write;
use std::io::Read;

/// tests/gpu/uvm.cu with 16 MiB: every byte moves to the GPU twice and back twice.
const MOVED: u64 = 2 * (16 << 20);

fn recorded() -> Vec<UvmEntry> {
    let path = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../../fixtures/uvm/h200-580.159.04.bin.gz"
    );
    let mut bytes = Vec::new();
    let file = std::fs::File::open(path).expect("the fixture");
    GzDecoder::new(file).read_to_end(&mut bytes).expect("whole");
    let layout = Layout::Second;
    assert!(bytes.len().is_multiple_of(layout.bytes()));
    let entries = bytes.chunks(layout.bytes());
    entries
        .map(|entry| decode(layout, entry).expect("a known kind"))
        .collect()
}

#[test]
fn every_byte_that_moved_is_in_the_queue() {
    let mut moved: BTreeMap<(u16, u16), u64> = BTreeMap::new();
    let (mut by_cpu, mut by_gpu) = (0, 0);
    for entry in recorded() {
        match entry.what {
            What::Migration {
                source,
                target,
                bytes,
                ..
            } => *moved.entry((source, target)).or_default() += bytes,
            What::CpuFault { .. } => by_cpu += 1,
            What::GpuFault { gpu, .. } => {
                assert_eq!(gpu, 1);
                by_gpu += 1;
            }
            What::Replay { gpu, .. } => assert_eq!(gpu, 1),
            other => panic!("{other:?}"),
        }
    }
    assert_eq!(moved, BTreeMap::from([((0, 1), MOVED), ((1, 0), MOVED)]));
    assert_eq!((by_cpu, by_gpu), (96, 1510));
}

#[test]
fn migrations_take_the_time_their_copies_took() {
    let entries = recorded();
    let mut clocks = GpuClocks::default();
    entries.iter().for_each(|entry| clocks.learn(entry));
    let first = entries.iter().map(|entry| entry.start).min();
    let first = first.expect("entries");
    let (mut copying, mut migrations) = (0, 0);
    for entry in entries {
        let asked = entry.start;
        let event = event(&clocks.placed(entry), &Processors::default());
        // The whole program took less than a second.
        assert!(event.start >= first && event.start - first < 1_000_000_000);
        if let Extent::Closed(duration) = event.extent {
            assert!(event.start >= asked, "before it was asked for");
            copying += duration;
            migrations += 1;
        }
    }
    assert_eq!(migrations, 360);
    // 64 MiB over PCIe: between 5 and 60 GB/s, or the times are something else.
    let rate = (2 * MOVED) as f64 / copying as f64;
    assert!((5.0..60.0).contains(&rate), "{rate} GB/s");
}

/// Each byte of the entries is the number of its place, so that what was read says where.
#[test]
fn every_field_is_read_from_its_place_and_has_its_word() {
    let mut text = String::new();
    for layout in [Layout::First, Layout::Second] {
        for kind in 1..=14 {
            let mut bytes: Vec<u8> = (0..).take(layout.bytes()).collect();
            bytes[0] = kind;
            let entry = decode(layout, &bytes).expect("a known kind");
            let event = event(&entry, &Processors::default());
            let (on, args) = (event.device, event.args.iter().chain(&event.outputs));
            let _ = writeln!(text, "{layout:?} {entry:x?}\n  {} on {on:?}", event.name);
            for arg in args {
                let _ = writeln!(text, "  {}: {:x?}", arg.name, arg.value);
            }
        }
    }
    insta::assert_snapshot!(text);
}
