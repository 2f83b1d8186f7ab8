//! Records in a ring: each four bytes have the ring's round beside them, what finds no room is counted.

use gpubpf::Counters;
use ptx::device::{self, Map, Orders, RING_DATA, Ring, SLOT_HEADER, TAIL_STRIDE};
use ptx::rewrite::rewrite;

use crate::device::{Buffer, Module};
use crate::kept::{BLOCKS, KERNEL, MULTIPROCESSORS, THREADS, object, plan};

/// Words of a record: a time and a thread.
const WORDS: usize = 4;

fn word(bytes: &[u8], at: usize) -> (u32, u32) {
    let half = |at: usize| u32::from_le_bytes(bytes[at..at + 4].try_into().expect("four bytes"));
    (half(at), half(at + 4))
}

#[test]
fn words_have_their_round() {
    let object = object("cost/objects/ring_thread");
    let plan = plan(&object, &Counters::default());
    let text = rewrite(KERNEL, &plan).expect("PTX").expect("probes").text;
    let mut module = Module::load(&text);
    let spec = &object.maps[0];
    let map = Map {
        name: spec.name.clone(),
        kind: spec.kind.number(),
        key_size: spec.key_size,
        value_size: spec.value_size,
        max_entries: spec.max_entries,
        initial: None,
        summed: 0,
    };
    let orders = Orders {
        records: 1024,
        ..Orders::default()
    };
    let layout = map.layout(&orders, MULTIPROCESSORS).expect("a layout");
    let (parts, capacity) = (layout.parts as usize, layout.capacity);
    assert_eq!((parts, capacity), (3, 512));
    let mut heads = Buffer::new(&module.memory, layout.device_bytes as usize);
    let mut host = Buffer::new(&module.memory, layout.host_bytes as usize);
    let descriptor = map.descriptor(&layout, heads.address(), host.address());
    module.global(device::MAPS)[..descriptor.bytes().len()].copy_from_slice(&descriptor.bytes());
    let data = Buffer::new(&module.memory, THREADS as usize * 8);
    let every_launch = BLOCKS * THREADS;
    let mut tails = vec![0; parts];
    let mut read = 0;
    for launch in 1..=20 {
        let (grid, block) = ([BLOCKS as u32, 1, 1], [THREADS as u32, 1, 1]);
        module.launch("main", grid, block, data.address());
        // Later launches find nobody who reads.
        if launch > 12 {
            continue;
        }
        let mut threads = Vec::new();
        for (part, tail) in tails.iter_mut().enumerate() {
            let head = Ring::read(&heads.bytes()[part * Ring::BYTES..])
                .expect("a head")
                .head;
            while *tail < head {
                let slot = part as u64 * capacity + *tail % capacity;
                let at = RING_DATA + (slot * layout.stride) as usize;
                let round = (*tail / capacity) as u32 + 1;
                let bytes = host.bytes();
                assert_eq!(word(bytes, at), (16, round));
                assert_eq!(word(bytes, at + 8), (0, round));
                let words: Vec<u32> = (0..WORDS)
                    .map(|number| {
                        let (word, of) = word(bytes, at + SLOT_HEADER + 8 * number);
                        assert_eq!(of, round, "launch {launch}, part {part}, record {tail}");
                        word
                    })
                    .collect();
                threads.push(u64::from(words[2]) | u64::from(words[3]) << 32);
                *tail += 1;
            }
            host.bytes()[part * TAIL_STRIDE..][..8].copy_from_slice(&tail.to_le_bytes());
        }
        threads.sort_unstable();
        assert_eq!(
            threads,
            (0..every_launch).collect::<Vec<_>>(),
            "launch {launch}"
        );
        read += every_launch;
    }
    let all = Ring::sum(heads.bytes());
    assert_eq!(read, 12 * every_launch);
    assert_eq!(all.head + all.lost, 20 * every_launch);
    assert!(all.lost > 0 && all.head - read <= parts as u64 * capacity);
}
