//! Loads, stores, atomics, address spaces.

use crate::support::{Arg, Device, kernel, module, outputs};

fn run<T: Copy, I: Copy>(body: &str, threads: u32, input: &[I], count: usize) -> Vec<T> {
    let mut device = Device::new();
    device
        .run_main(&kernel(body), threads, input, count)
        .unwrap_or_else(|fault| panic!("{fault}"))
}

#[test]
fn narrow_loads_extend_by_their_type() {
    let got: Vec<u64> = run(
        "ld.global.s8 %rs1, [%rd1]; cvt.s64.s16 %rd5, %rs1; st.global.u64 [%rd0], %rd5;
         ld.global.s8 %r1, [%rd1]; cvt.u64.u32 %rd5, %r1; st.global.u64 [%rd0+8], %rd5;
         ld.global.u8 %r1, [%rd1]; cvt.u64.u32 %rd5, %r1; st.global.u64 [%rd0+16], %rd5;
         ld.global.s16 %rd5, [%rd1]; st.global.u64 [%rd0+24], %rd5;
         ld.global.b16 %rd5, [%rd1]; st.global.u64 [%rd0+32], %rd5;
         ld.global.s32 %rd5, [%rd1]; st.global.u64 [%rd0+40], %rd5; ret;",
        1,
        &[0x8182_8384_8586_8788u64],
        6,
    );
    assert_eq!(
        got,
        [
            0xFFFF_FFFF_FFFF_FF88,
            0xFFFF_FF88,
            0x88,
            0xFFFF_FFFF_FFFF_8788,
            0x8788,
            0xFFFF_FFFF_8586_8788
        ]
    );
}

#[test]
fn narrow_stores_keep_their_neighbours() {
    let got: Vec<u32> = run(
        "mov.u32 %r1, 0x12345678; mov.u16 %rs1, 0xABCD;
         st.global.u8 [%rd0+1], %r1; st.global.u16 [%rd0+6], %rs1; st.global.b16 [%rd0+8], %r1; ret;",
        1,
        &[0u32],
        3,
    );
    assert_eq!(got, [0x7800, 0xABCD_0000, 0x5678]);
}

#[test]
fn vectors() {
    let input: Vec<u32> = (0..32 * 4).collect();
    let got: Vec<u32> = run(
        "mul.wide.u32 %rd5, %r0, 16; add.u64 %rd6, %rd1, %rd5; add.u64 %rd7, %rd0, %rd5;
         ld.global.nc.L1::no_allocate.v4.u32 {%r1, %r2, %r3, %r4}, [%rd6];
         st.global.v4.b32 [%rd7], {%r4, %r3, %r2, %r1};
         ld.global.v2.u64 {%rd8, _}, [%rd6];
         ret;",
        32,
        &input,
        128,
    );
    let expected: Vec<u32> = (0..128).map(|i| i / 4 * 4 + 3 - i % 4).collect();
    assert_eq!(got, expected);
}

#[test]
fn packing_and_unpacking() {
    let got: Vec<u32> = run(
        "mov.b64 %rd5, {%r1, %r0}; mov.u32 %r2, 0xAABBCCDD;
         mov.b32 {%rs1, %rs2}, %r2; mov.b32 %r3, {%rs2, %rs1}; st.global.u32 [%rd0], %r3;
         mov.b64 %rd5, {%r2, %r3}; mov.b64 {_, %r4}, %rd5; st.global.u32 [%rd0+4], %r4;
         mov.b64 {%rs1, %rs2, %rs3, %rs4}, %rd5; mov.b32 %r5, {%rs4, %rs1}; st.global.u32 [%rd0+8], %r5;
         ret;",
        1,
        &[0u32],
        3,
    );
    assert_eq!(got, [0xCCDD_AABB, 0xCCDD_AABB, 0xCCDD_CCDD]);
}

#[test]
fn generic_addresses_of_every_space_in_one_instruction() {
    let body = ".shared .b32 s[4]; .local .b32 l[4];
        mov.u64 %rd3, s; cvta.shared.u64 %rd3, %rd3; st.u32 [%rd3+4], 11;
        mov.u64 %rd4, l; cvta.local.u64 %rd4, %rd4; st.u32 [%rd4+8], %r0;
        mov.u64 %rd5, in; cvta.param.u64 %rd5, %rd5;
        add.u64 %rd3, %rd3, 4; add.u64 %rd4, %rd4, 8;
        rem.u32 %r1, %r0, 4;
        setp.eq.u32 %p1, %r1, 0; setp.eq.u32 %p2, %r1, 1; setp.eq.u32 %p3, %r1, 2;
        mov.u64 %rd6, %rd1; @%p1 mov.u64 %rd6, %rd3; @%p2 mov.u64 %rd6, %rd4; @%p3 mov.u64 %rd6, %rd5;
        bar.sync 0;
        ld.u32 %r2, [%rd6];
        isspacep.shared %p4, %rd6; @%p4 add.u32 %r2, %r2, 100;
        isspacep.local %p4, %rd6; @%p4 add.u32 %r2, %r2, 200;
        isspacep.global %p4, %rd6; @%p4 add.u32 %r2, %r2, 300;
        isspacep.param %p4, %rd6; @%p4 mov.u32 %r2, 400;
        st.global.u32 [%rd2], %r2; ret;";
    let expected: Vec<u32> = (0..32)
        .map(|lane| match lane % 4 {
            0 => 111,
            1 => 200 + lane,
            2 => 400,
            _ => 377,
        })
        .collect();
    assert_eq!(run::<u32, u32>(body, 32, &[77], 32), expected);
}

#[test]
fn local_memory_is_private() {
    let body = ".local .align 8 .b8 depot[64];
        .reg .b64 %SP; .reg .b64 %SPL; mov.u64 %SPL, depot; cvta.local.u64 %SP, %SPL;
        st.local.u32 [%SPL+12], %r0; add.u64 %rd5, %SP, 12; ld.u32 %r1, [%rd5];
        ld.local.u32 %r2, [depot+12]; add.u32 %r1, %r1, %r2; st.global.u32 [%rd2], %r1; ret;";
    let expected: Vec<u32> = (0..100).map(|thread| thread * 2).collect();
    assert_eq!(outputs(body, 100), expected);
}

#[test]
fn atomics_on_integers() {
    // Each of 64 threads does one; `start` is what is there before, then the value afterwards.
    let cases: [(&str, u32, u32); 12] = [
        ("atom.global.add.u32 %r1, [%rd0], 3;", 0, 192),
        ("red.global.add.u32 [%rd0], 3;", 0, 192),
        ("atom.global.max.s32 %r1, [%rd0], %r0;", -5i32 as u32, 63),
        ("atom.global.min.s32 %r1, [%rd0], -4;", 3, -4i32 as u32),
        ("atom.global.min.u32 %r1, [%rd0], %r0;", 77, 0),
        ("red.relaxed.gpu.global.max.u32 [%rd0], %r0;", 5, 63),
        ("atom.global.or.b32 %r1, [%rd0], %r0;", 64, 127),
        ("atom.global.and.b32 %r1, [%rd0], 0xF0;", 0x1FF, 0xF0),
        ("atom.global.xor.b32 %r1, [%rd0], %r0;", 9, 9),
        ("atom.global.inc.u32 %r1, [%rd0], 9;", 0, 4),
        ("atom.global.dec.u32 %r1, [%rd0], 9;", 0, 6),
        ("atom.acq_rel.sys.global.exch.b32 %r1, [%rd0], 5;", 1, 5),
    ];
    for (instruction, start, expected) in cases {
        let mut device = Device::new();
        let loaded = device.load(&kernel(&format!("{instruction} ret;")));
        let out = device.upload(&[start]);
        let args = [Arg::Pointer(out), Arg::Pointer(0)];
        device
            .launch(&loaded, "main", 2, 32, &args)
            .unwrap_or_else(|f| panic!("{f}"));
        // `inc` and `dec` wrap at 10: 64 steps; %tid repeats in both blocks.
        let got = device.download::<u32>(out, 1)[0];
        let expected = match expected {
            63 => 31,
            127 => 95,
            other => other,
        };
        assert_eq!(got, expected, "{instruction}");
    }
}

#[test]
fn atomics_give_the_old_value() {
    let body = ".shared .b32 s; setp.eq.u32 %p1, %r0, 0; @%p1 st.shared.u32 [s], 40; bar.sync 0;
        atom.shared.add.u32 %r1, [s], 1; bar.sync 0;
        sub.u32 %r1, %r1, 40; mul.wide.u32 %rd5, %r1, 4; add.u64 %rd5, %rd5, %rd0;
        st.global.u32 [%rd5], 1; ret;";
    assert_eq!(outputs(body, 96), [1; 96]);
}

#[test]
fn compare_and_swap_of_every_width() {
    let got: Vec<u64> = run(
        "mov.u64 %rd5, 1; mov.u64 %rd6, 9; st.global.u64 [%rd0], %rd5; st.global.u64 [%rd0+8], %rd5;
         atom.global.cas.b64 %rd7, [%rd0], 1, 9; atom.global.cas.b32 %r1, [%rd0+8], 2, 9;
         mov.u16 %rs1, 1; mov.u16 %rs2, 7; atom.global.cas.b16 %rs3, [%rd0+8], %rs1, %rs2;
         .reg .b128 %q<4>; mov.b128 %q1, {%rd5, %rd6}; mov.b128 %q2, {%rd6, %rd5};
         st.global.b128 [%rd0+16], %q1;
         atom.global.cas.b128 %q3, [%rd0+16], %q1, %q2;
         mov.b128 {%rd8, %rd9}, %q3; st.global.v2.u64 [%rd0+32], {%rd8, %rd9}; ret;",
        1,
        &[0u32],
        6,
    );
    assert_eq!(got, [9, 7, 9, 1, 1, 9]);
}

#[test]
fn atomics_on_floats() {
    let got: Vec<u32> = run(
        "atom.global.add.f32 %f1, [%rd0], 0f3F000000;
         atom.global.add.f64 %fd1, [%rd0+8], 0d3FE0000000000000;
         mov.b32 %r1, 0x3C003800; atom.global.add.noftz.f16x2 %r2, [%rd0+16], %r1;
         mov.b16 %rs1, 0x3F80; red.global.add.noftz.bf16 [%rd0+20], %rs1; ret;",
        32,
        &[0u32],
        6,
    );
    assert_eq!(f32::from_bits(got[0]), 16.0);
    assert_eq!(u64::from(got[3]) << 32 | u64::from(got[2]), 16f64.to_bits());
    assert_eq!(got[4], 0x5000_4C00);
    assert_eq!(got[5], 0x4200);
}

#[test]
fn asynchronous_copies() {
    let body = ".shared .align 16 .b8 s[512];
        mov.u32 %r1, s; shl.b32 %r2, %r0, 4; add.u32 %r1, %r1, %r2;
        mul.wide.u32 %rd5, %r0, 16; add.u64 %rd6, %rd1, %rd5; add.u64 %rd7, %rd0, %rd5;
        cp.async.cg.shared.global [%r1], [%rd6], 16;
        cp.async.commit_group; cp.async.wait_group 0;
        setp.eq.u32 %p1, %r0, 3; mov.u32 %r9, 16; @%p1 mov.u32 %r9, 8;
        cp.async.ca.shared.global [%r1], [%rd6], 16, %r9; cp.async.wait_all;
        ld.shared.v4.u32 {%r3, %r4, %r5, %r6}, [%r1];
        st.global.v4.u32 [%rd7], {%r3, %r4, %r5, %r6}; ret;";
    let input: Vec<u32> = (1000..1128).collect();
    let mut expected = input.clone();
    expected[14..16].fill(0);
    assert_eq!(run::<u32, u32>(body, 32, &input, 128), expected);
}

#[test]
fn initialized_variables_and_relocations() {
    let text = module(
        ".visible .global .align 4 .u32 table[2][3] = {{1, 2, 3}, {4, 5}};
         .global .align 8 .u64 pointer = table+8;
         .global .align 8 .u64 pair[2] = {generic(table), pointer};
         .const .align 4 .f32 scale = 0f40400000;
         .visible .entry main(.param .u64 out, .param .u64 in) {
         .reg .b64 %rd<9>; .reg .b32 %r<9>; .reg .f32 %f<3>;
         ld.param.u64 %rd0, [out];
         ld.global.u64 %rd1, [pointer]; ld.global.u32 %r1, [%rd1]; st.global.u32 [%rd0], %r1;
         ld.global.u64 %rd2, [pair]; ld.u32 %r2, [%rd2+16]; st.global.u32 [%rd0+4], %r2;
         ld.global.u64 %rd3, [pair+8]; ld.u64 %rd4, [%rd3]; ld.u32 %r3, [%rd4+4]; st.global.u32 [%rd0+8], %r3;
         ld.const.f32 %f1, [scale]; st.global.f32 [%rd0+12], %f1;
         mov.u64 %rd5, table; ld.global.u32 %r4, [%rd5+20]; st.global.u32 [%rd0+16], %r4;
         ret; }",
    );
    let got: Vec<u32> = Device::new().run_main(&text, 1, &[0u32], 5).unwrap();
    assert_eq!(got, [3, 5, 4, 0x4040_0000, 0]);
}
