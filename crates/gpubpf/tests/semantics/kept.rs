//! Programs that only add, with their sums in registers of the kernel, or in a copy of the map for each
//! multiprocessor: what the host sees at the end is what every thread added.

use gpubpf::{Attach, Counters, Object, TranslateOptions, translate, verify};
use ptx::device::{self, Map, Orders};
use ptx::rewrite::{Isa, Pattern, Plan, Probe, ProbePoint, rewrite};

use crate::device::{Buffer, Module};

pub const MULTIPROCESSORS: u64 = 3;
/// Lanes go round as often as their number says, and leave at three places.
pub const KERNEL: &str = "
.version 7.0
.target sm_75
.address_size 64
.visible .entry main(.param .u64 p)
{
    .reg .b32 %r<8>;
    .reg .b64 %rd<8>;
    .reg .pred %p<4>;
    ld.param.u64 %rd1, [p];
    mov.u32 %r1, %tid.x;
    mov.u32 %r2, 0;
    mul.wide.u32 %rd2, %r1, 8;
    add.s64 %rd3, %rd1, %rd2;
again:
    ld.global.u32 %r3, [%rd3];
    add.u32 %r3, %r3, 1;
    st.global.u64 [%rd3], %rd2;
    add.u32 %r2, %r2, 1;
    setp.le.u32 %p1, %r2, %r1;
    @%p1 bra again;
    setp.gt.u32 %p2, %r1, 40;
    @%p2 exit;
    setp.gt.u32 %p3, %r1, 20;
    @!%p3 ret;
    ret;
}
";
pub const BLOCKS: u64 = 3;
pub const THREADS: u64 = 70;

pub fn object(name: &str) -> Object {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/gpu");
    let path = format!("{folder}/{name}.bpf.o");
    let bytes = std::fs::read(&path).unwrap_or_else(|error| panic!("{path}: {error}"));
    Object::parse(&bytes).unwrap_or_else(|error| panic!("{path}: {error}"))
}

pub fn plan(object: &Object, counters: &Counters) -> Plan {
    let mut functions = String::new();
    let mut probes = Vec::new();
    for program in &object.programs {
        let verified = verify(object, program).unwrap_or_else(|refused| panic!("{refused}"));
        let options = TranslateOptions {
            prefix: format!("program_{}_", probes.len()),
            counters: Some(counters.clone()),
            ..TranslateOptions::default()
        };
        let translated = translate(&verified, &options);
        functions.push_str(&translated.functions);
        probes.push(Probe {
            place: match program.attach {
                Attach::Return(_) => ProbePoint::Return,
                Attach::Memory => ProbePoint::Memory,
                _ => ProbePoint::Entry,
            },
            kernels: Pattern::any(),
            function: translated.entry_name,
            context_bytes: verified.context_bytes,
            one_of: 1,
            inline: translated.inline,
        });
    }
    Plan {
        probes,
        prelude: device::runtime(&functions, object.maps.len()) + &functions,
        isa: Isa::PROBES,
    }
}

/// What each map holds after two launches, and the text that ran.
fn run(name: &str, changed: impl Fn(&mut Plan)) -> (Vec<Vec<u64>>, String) {
    let object = object(name);
    let counters = {
        let verified: Vec<_> = (object.programs.iter())
            .map(|program| verify(&object, program).unwrap_or_else(|refused| panic!("{refused}")))
            .collect();
        Counters::of(&object, &verified)
    };
    let mut plan = plan(&object, &counters);
    changed(&mut plan);
    let rewritten = rewrite(KERNEL, &plan).expect("PTX").expect("probes");
    let mut module = Module::load(&rewritten.text);
    let mut buffers = Vec::new();
    let mut descriptors = Vec::new();
    // Fewer than there are: those that come later go without.
    let orders = Orders {
        threads: 200,
        ..Orders::default()
    };
    for (number, map) in object.maps.iter().enumerate() {
        let map = Map {
            name: map.name.clone(),
            kind: map.kind.number(),
            key_size: map.key_size,
            value_size: map.value_size,
            max_entries: map.max_entries,
            initial: None,
            summed: counters.width(number).unwrap_or(0),
        };
        let layout = map.layout(&orders, MULTIPROCESSORS).expect("a layout");
        let buffer = Buffer::new(&module.memory, layout.device_bytes as usize);
        descriptors.extend(map.descriptor(&layout, buffer.address(), 0).bytes());
        buffers.push((map, layout, buffer));
    }
    module.global(device::MAPS).copy_from_slice(&descriptors);
    let data = Buffer::new(&module.memory, THREADS as usize * 8);
    for _ in 0..2 {
        let (grid, block) = ([BLOCKS as u32, 1, 1], [THREADS as u32, 1, 1]);
        module.launch("main", grid, block, data.address());
    }
    let found = buffers.iter_mut().map(|(map, layout, buffer)| {
        let bytes = map.gathered(layout, buffer.bytes().to_vec());
        let words = bytes.as_chunks::<8>().0;
        words.iter().map(|word| u64::from_le_bytes(*word)).collect()
    });
    (found.collect(), rewritten.text)
}

fn plain(plan: &mut Plan) {
    for probe in &mut plan.probes {
        probe.inline = None;
    }
}

fn keeps(text: &str) -> bool {
    text.contains("%cutrace_sum_")
}

/// Loads, and stores, of two launches.
const ROUNDS: u64 = 2 * BLOCKS * THREADS * (THREADS + 1) / 2;

#[test]
fn accesses_are_counted_in_registers() {
    for (is_kept, change) in [(true, (|_| ()) as fn(&mut Plan)), (false, plain)] {
        let (maps, text) = run("objects/mem_trace", change);
        assert_eq!(keeps(&text), is_kept, "{text}");
        assert_eq!(maps[0], [ROUNDS, ROUNDS, 12 * ROUNDS, 2 * ROUNDS], "{text}");
        for name in ["cost/objects/memory", "cost/objects/memory_shared"] {
            let (maps, text) = run(name, change);
            assert_eq!(keeps(&text), is_kept, "{text}");
            assert_eq!(maps[0].iter().sum::<u64>(), 2 * ROUNDS, "{name}");
        }
    }
}

#[test]
fn nobody_waits_where_all_lanes_go_the_same_way() {
    let (_, text) = run("objects/mem_trace", |_| ());
    let (_, kernel) = text.split_once(".entry main").expect("the kernel");
    assert!(!kernel.contains("bar.warp.sync"), "{kernel}");
}

#[test]
fn entry_and_return_add_once() {
    for (is_kept, change) in [(true, (|_| ()) as fn(&mut Plan)), (false, plain)] {
        let (maps, text) = run("cost/objects/per_thread", change);
        assert_eq!(keeps(&text), is_kept, "{text}");
        assert_eq!(maps[0], [4; 200], "{text}");
        let (maps, _) = run("cost/objects/entry_exit_time", change);
        // Times are differences: none is as long as the clock has been running.
        assert_eq!(maps[0].len(), 200);
        assert!(maps[0].iter().all(|time| *time < 1 << 40), "{:?}", maps[0]);
    }
}

#[test]
fn counters_are_spread_over_multiprocessors() {
    for (name, expected) in [
        ("counter", vec![2 * BLOCKS * THREADS]),
        ("counter_sm", vec![2 * BLOCKS * THREADS]),
        ("histogram", vec![2 * BLOCKS * THREADS]),
    ] {
        let (maps, text) = run(&format!("cost/objects/{name}"), |_| ());
        assert!(!keeps(&text), "{name} runs once a thread");
        assert_eq!(vec![maps[0].iter().sum::<u64>()], expected, "{name}");
    }
}

#[test]
fn a_thread_that_ends_elsewhere_would_take_its_sums_along() {
    let (maps, text) = run("objects/mem_trace", |plan| {
        plan.prelude.push_str(".func __elsewhere () { exit; }\n");
    });
    assert!(!keeps(&text));
    assert_eq!(maps[0][3], 2 * ROUNDS);
}
