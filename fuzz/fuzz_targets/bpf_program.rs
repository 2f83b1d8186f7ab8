//! Any bytes as instructions: what the verifier accepts must load on the software device, and end there
//! without a fault.
#![no_main]

use std::fmt::Write;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use gpubpf::instruction::Raw;
use gpubpf::map::{DESCRIPTOR_BYTES, DESCRIPTORS};
use gpubpf::{
    Attach, Budget, Map, MapKind, Object, Program, TranslateOptions, helper_name, translate, verify_or_budget_within,
};
use libfuzzer_sys::fuzz_target;
use softgpu_machine::machine::{self, Environment, Launch, Loaded, Seats};
use softgpu_machine::memory::Memory;

const CONTEXT: u32 = 256;
const COPIES: u64 = 32;

fn maps() -> Vec<Map> {
    let map = |kind: u32, key_size: u32, value_size: u32, max_entries: u32| Map {
        name: format!("map_{kind}"),
        kind: MapKind::from_number(kind).expect("a known kind"),
        key_size,
        value_size,
        max_entries,
        flags: 0,
        key_type: None,
        value_type: None,
        initial: None,
        read_only: false,
    };
    let mut data = map(1503, 4, 64, 1);
    data.initial = Some(b"%d %lx\0%s\0text\0".iter().copied().cycle().take(64).collect());
    data.read_only = true;
    let mut bss = map(1503, 4, 60, 1);
    bss.initial = Some(vec![0; 60]);
    vec![
        map(1503, 4, 24, 5),
        map(1502, 4, 8, 3),
        map(1501, 6, 20, 16),
        map(1527, 4, 48, 16),
        data,
        bss,
        map(1600, 4, 12, 2),
        map(1601, 4, 16, 2),
        map(1503, 4, 8, 64),
    ]
}

fuzz_target!(|bytes: &[u8]| {
    let (slots, _) = bytes.as_chunks::<8>();
    if slots.is_empty() || slots.len() > 256 {
        return;
    }
    let raw: Vec<Raw> = slots.iter().map(|slot| Raw::read(*slot)).collect();
    let object = Object {
        programs: Vec::new(),
        host: Vec::new(),
        maps: maps(),
        btf: Default::default(),
    };
    let attach = Attach::Entry("kernel".into());
    let Ok(program) = Program::from_slots("cuda__fuzzed", attach, &raw) else {
        return;
    };
    let Ok(verified) = verify_or_budget_within(&object, &program, 10_000) else {
        return;
    };
    if verified.context_bytes > CONTEXT {
        return;
    }
    for promote_stack in [true, false] {
        let options = TranslateOptions {
            promote_stack,
            budget: Budget { rounds: 100, stopped: None },
            ..TranslateOptions::default()
        };
        let translated = translate(&verified, &options);
        run(&object, &translated.functions, &translated.entry_name, &translated.helpers);
    }
});

/// Runs the program in a warp and a half; helpers that are called find nothing and do nothing.
fn run(object: &Object, functions: &str, entry: &str, helpers: &[u32]) {
    let mut text = format!(
        ".version 8.0\n.target sm_75\n.address_size 64\n.visible .global .align 16 .b8 {DESCRIPTORS}[{}];\n",
        DESCRIPTOR_BYTES * object.maps.len()
    );
    for number in helpers {
        let _ = writeln!(
            text,
            ".func (.reg .b64 %r) {} (.reg .b64 %a, .reg .b64 %b, .reg .b64 %c, .reg .b64 %d, .reg .b64 %e) \
             {{ mov.b64 %r, 0; ret; }}",
            helper_name(*number)
        );
    }
    let _ = writeln!(
        text,
        "{functions}.visible .entry main(.param .u64 context) {{ .reg .b64 %x<2>; ld.param.u64 %x0, [context]; \
         call (%x1), {entry}, (%x0); ret; }}"
    );
    let program = match softgpu_machine::program::Program::build(&text) {
        Ok(program) => Arc::new(program),
        Err(error) => panic!("{error}\n{text}"),
    };
    let memory = Memory::default();
    let allocate = |bytes: usize| {
        let buffer = vec![0u128; bytes.div_ceil(16).max(1)];
        memory.add(buffer.as_ptr() as u64, bytes.max(1) as u64);
        buffer
    };
    let mut kept = Vec::new();
    let mut descriptors = vec![0u64; object.maps.len() * DESCRIPTOR_BYTES / 8];
    for (map, words) in object.maps.iter().zip(descriptors.chunks_mut(DESCRIPTOR_BYTES / 8)) {
        let copies = match map.kind {
            MapKind::PerThread { .. } | MapKind::PerSm | MapKind::PerWarp => COPIES,
            _ => 1,
        };
        let bytes = u64::from(map.value_size) * u64::from(map.max_entries) * copies;
        let buffer = allocate(bytes as usize);
        words[0] = buffer.as_ptr() as u64;
        words[4] = copies;
        kept.push(buffer);
    }
    let mut globals = allocate(descriptors.len() * 8);
    let loaded = Loaded::place(program, vec![globals.as_ptr() as u64]);
    // Placing a module sets its variables to what they start as.
    for (pair, place) in descriptors.chunks(2).zip(&mut globals) {
        *place = u128::from(pair[0]) | u128::from(pair[1]) << 64;
    }
    let context = allocate(CONTEXT as usize);
    let launch = Launch {
        loaded: &loaded,
        kernel: loaded.program().kernel("main").expect("the kernel"),
        grid: [1; 3],
        block: [48, 1, 1],
        cluster: [1; 3],
        dynamic_shared: 0,
        params: &(context.as_ptr() as u64).to_le_bytes(),
        cooperative: false,
        grid_id: 1,
    };
    let environment = Environment {
        memory: &memory,
        workers: 1,
        seats: &Seats::new(1),
        print: &|_| {},
        cancelled: &AtomicBool::new(false),
    };
    if let Err(fault) = machine::run(&launch, &environment) {
        panic!("{fault}\n{text}");
    }
}
