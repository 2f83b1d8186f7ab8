//! Branches, calls, special registers, linking.

use softgpu_machine::program::Program;

use crate::support::{Arg, Device, module, outputs};

#[test]
fn branch_tables() {
    let body = "ts: .branchtargets a, b, c;
        rem.u32 %r1, %r0, 3; brx.idx %r1, ts;
        a: mov.u32 %r2, 10; bra end;
        b: mov.u32 %r2, 20; bra end;
        c: mov.u32 %r2, 30;
        end: activemask.b32 %r3; setp.ne.u32 %p1, %r3, -1; @%p1 mov.u32 %r2, 0;
        st.global.u32 [%rd2], %r2; ret;";
    let expected: Vec<u32> = (0..32).map(|lane| (lane % 3 + 1) * 10).collect();
    assert_eq!(outputs(body, 32), expected);
}

#[test]
fn predicated_returns_and_nested_loops() {
    let body = "mov.u32 %r1, 0; mov.u32 %r2, 0;
        outer: setp.ge.u32 %p1, %r1, %r0; @%p1 bra done;
        mov.u32 %r3, 0;
        inner: add.u32 %r2, %r2, 1; add.u32 %r3, %r3, 1; setp.lt.u32 %p2, %r3, %r1; @%p2 bra inner;
        add.u32 %r1, %r1, 1; bra outer;
        done: setp.eq.u32 %p3, %r0, 13; st.global.u32 [%rd2], %r2; @%p3 ret;
        add.u32 %r2, %r2, 1000; st.global.u32 [%rd2], %r2; ret;";
    let count = |lane: u32| (0..lane).map(|i| i.max(1)).sum::<u32>();
    let expected: Vec<u32> = (0..64)
        .map(|lane| count(lane) + if lane == 13 { 0 } else { 1000 })
        .collect();
    assert_eq!(outputs(body, 64), expected);
}

#[test]
fn calls_with_registers_and_divergent_returns() {
    let text = module(
        ".func (.reg .u32 %result) twice(.reg .u32 %x) {
           .reg .pred %p; setp.gt.u32 %p, %x, 10; add.u32 %result, %x, %x; @%p ret;
           add.u32 %result, %result, 1; ret; }
         .visible .entry main(.param .u64 out, .param .u64 in) {
           .reg .b64 %rd<9>; .reg .b32 %r<9>;
           ld.param.u64 %rd0, [out]; mov.u32 %r0, %tid.x;
           call (%r1), twice, (%r0);
           call (%r2), twice, (5);
           add.u32 %r1, %r1, %r2;
           mul.wide.u32 %rd1, %r0, 4; add.u64 %rd1, %rd1, %rd0; st.global.u32 [%rd1], %r1; ret; }",
    );
    let got: Vec<u32> = Device::new().run_main(&text, 32, &[0u32], 32).unwrap();
    let twice = |x: u32| if x > 10 { x * 2 } else { x * 2 + 1 };
    let expected: Vec<u32> = (0..32).map(|x| twice(x) + 11).collect();
    assert_eq!(got, expected);
}

#[test]
fn exit_in_a_function_ends_the_thread() {
    let text = module(
        ".func leave(.param .b32 x) { .reg .b32 %r; .reg .pred %p; ld.param.u32 %r, [x];
           setp.lt.u32 %p, %r, 5; @%p exit; ret; }
         .visible .entry main(.param .u64 out, .param .u64 in) {
           .reg .b64 %rd<9>; .reg .b32 %r<9>;
           ld.param.u64 %rd0, [out]; mov.u32 %r0, %tid.x;
           { .param .b32 a; st.param.b32 [a], %r0; call.uni leave, (a); }
           bar.sync 0;
           mul.wide.u32 %rd1, %r0, 4; add.u64 %rd1, %rd1, %rd0; st.global.u32 [%rd1], 1; ret; }",
    );
    let got: Vec<u32> = Device::new().run_main(&text, 64, &[0u32], 64).unwrap();
    let expected: Vec<u32> = (0..64).map(|lane| u32::from(lane >= 5)).collect();
    assert_eq!(got, expected);
}

#[test]
fn special_registers() {
    let text = module(
        ".visible .entry main(.param .u64 out, .param .u64 in) {
         .reg .b64 %rd<9>; .reg .b32 %r<32>;
         ld.param.u64 %rd0, [out];
         mov.u32 %r1, %ctaid.x; mov.u32 %r2, %ctaid.y; mov.u32 %r3, %nctaid.x; mad.lo.u32 %r1, %r2, %r3, %r1;
         mov.u32 %r4, %tid.x; mov.u32 %r5, %tid.y; mov.u32 %r6, %tid.z;
         mad.lo.u32 %r7, %r6, %ntid.y, %r5; mad.lo.u32 %r7, %r7, %ntid.x, %r4;
         mad.lo.u32 %r8, %r1, 60, %r7;
         mul.wide.u32 %rd1, %r8, 16; add.u64 %rd1, %rd1, %rd0;
         mov.u32 %r9, %laneid; mov.u32 %r10, %warpid; mov.u32 %r11, %nctaid.y; mov.u32 %r12, %ntid.z;
         st.global.v4.u32 [%rd1], {%r9, %r10, %r11, %r12}; ret; }",
    );
    let mut device = Device::new();
    let loaded = device.load(&text);
    let out = device.allocate(6 * 60 * 16);
    let args = [Arg::Pointer(out), Arg::Pointer(0)];
    device
        .launch(&loaded, "main", [3, 2], [5, 4, 3], &args)
        .unwrap();
    for (i, value) in device
        .download::<[u32; 4]>(out, 360)
        .into_iter()
        .enumerate()
    {
        let thread = i as u32 % 60;
        assert_eq!(value, [thread % 32, thread / 32, 2, 3], "{i}");
    }
}

#[test]
fn clocks_move_forward() {
    let body = "mov.u64 %rd3, %clock64; mov.u64 %rd4, %globaltimer;
        nanosleep.u32 100;
        mov.u64 %rd5, %clock64; mov.u64 %rd6, %globaltimer;
        setp.lt.u64 %p1, %rd3, %rd5; setp.le.u64 %p2, %rd4, %rd6; and.pred %p3, %p1, %p2;
        selp.u32 %r1, 1, 0, %p3; st.global.u32 [%rd2], %r1; ret;";
    assert_eq!(outputs(body, 32), [1; 32]);
}

#[test]
fn carries_cross_instructions() {
    let body = "mov.u32 %r1, 0xFFFFFFFF; add.cc.u32 %r2, %r1, %r0; addc.u32 %r3, 0, 0;
        st.global.u32 [%rd2], %r3; ret;";
    let expected: Vec<u32> = (0..32).map(|lane| u32::from(lane > 0)).collect();
    assert_eq!(outputs(body, 32), expected);
}

#[test]
fn labels_and_registers_belong_to_their_block() {
    let body = "mov.u32 %r1, 0;
        { .reg .b32 t; mov.u32 t, 5; L: add.u32 %r1, %r1, t; setp.lt.u32 %p1, %r1, 20; @%p1 bra L; }
        { .reg .b32 t; mov.u32 t, 7; L: add.u32 %r1, %r1, t; setp.lt.u32 %p1, %r1, 50; @%p1 bra L; }
        st.global.u32 [%rd2], %r1; ret;";
    assert_eq!(outputs(body, 1), [55]);
}

#[test]
fn old_style_vector_registers() {
    let body = ".reg .v2 .u32 v; mov.u32 v.x, 3; mov.u32 v.y, 4;
        add.u32 %r1, v.x, v.y; st.global.u32 [%rd2], %r1; ret;";
    assert_eq!(outputs(body, 1), [7]);
}

#[test]
fn stack_allocation() {
    let body = "and.b32 %r1, %r0, 3; add.u32 %r1, %r1, 1; mul.wide.u32 %rd3, %r1, 8;
        stacksave.u64 %rd9; alloca.u64 %rd4, %rd3; st.local.u32 [%rd4], %r0; stackrestore.u64 %rd9;
        alloca.u64 %rd5, 16; ld.local.u32 %r2, [%rd5]; st.global.u32 [%rd2], %r2; ret;";
    assert_eq!(outputs(body, 32), (0..32).collect::<Vec<_>>());
}

#[test]
fn modules_link() {
    let one = module(
        ".extern .func (.param .b32 r) helper(.param .b32 x);
         .extern .global .align 4 .u32 shared_value;
         .visible .entry main(.param .u64 out, .param .u64 in) {
           .reg .b64 %rd<4>; .reg .b32 %r<4>; ld.param.u64 %rd0, [out];
           { .param .b32 a; .param .b32 b; st.param.b32 [a], 4; call (b), helper, (a); ld.param.b32 %r1, [b]; }
           ld.global.u32 %r2, [shared_value]; add.u32 %r1, %r1, %r2; st.global.u32 [%rd0], %r1; ret; }",
    );
    let two = module(
        ".visible .global .align 4 .u32 shared_value = 100;
         .visible .func (.param .b32 r) helper(.param .b32 x) { .reg .b32 %r; ld.param.b32 %r, [x];
           mul.lo.u32 %r, %r, 3; st.param.b32 [r], %r; ret; }",
    );
    assert!(Program::build(&one).is_err());
    let mut device = Device::new();
    let loaded = device.place(Program::link(&[&one, &two]).unwrap());
    let out = device.allocate(4);
    let args = [Arg::Pointer(out), Arg::Pointer(0)];
    device.launch(&loaded, "main", 1, 1, &args).unwrap();
    assert_eq!(device.download::<u32>(out, 1), [112]);
    assert!(Program::link(&[&two, &two]).is_err());
}

#[test]
fn kernels_tell_their_needs() {
    let text = module(
        ".extern .shared .align 16 .b8 dynamic[];
         .visible .entry main(.param .u8 a, .param .align 16 .b8 b[20], .param .f64 c)
         .maxntid 16, 8, 1 .minnctapersm 2 {
         .shared .align 8 .b8 s[12]; .local .b8 l[40]; .reg .b32 %r<3>;
         mov.u32 %r1, s; mov.u32 %r2, dynamic; st.shared.u32 [%r2], %r1; ret; }",
    );
    let program = Program::build(&text).unwrap();
    let kernel = &program.kernels()[0];
    let layout: Vec<_> = kernel.params.iter().map(|p| (p.offset, p.size)).collect();
    assert_eq!(layout, [(0, 1), (16, 20), (40, 8)]);
    assert_eq!(kernel.param_size, 48);
    assert_eq!(kernel.static_shared, 16);
    assert_eq!(kernel.local_size, 48);
    assert_eq!(kernel.max_threads, Some(128));
    assert_eq!(kernel.max_block, Some([16, 8, 1]));
    assert_eq!(kernel.min_blocks_per_sm, Some(2));
    assert!((8..32).contains(&kernel.register_count));
}

#[test]
fn device_malloc() {
    let text = module(
        ".extern .func (.param .b64 r) malloc(.param .b64 n);
         .extern .func free(.param .b64 p);
         .visible .entry main(.param .u64 out, .param .u64 in) {
           .reg .b64 %rd<9>; .reg .b32 %r<4>; ld.param.u64 %rd0, [out]; mov.u32 %r0, %tid.x;
           { .param .b64 a; .param .b64 b; st.param.b64 [a], 64; call (b), malloc, (a); ld.param.b64 %rd1, [b]; }
           st.u32 [%rd1+60], %r0; ld.u32 %r1, [%rd1+60];
           mul.wide.u32 %rd2, %r0, 4; add.u64 %rd2, %rd2, %rd0; st.global.u32 [%rd2], %r1;
           { .param .b64 a; st.param.b64 [a], %rd1; call free, (a); }
           ret; }",
    );
    let got: Vec<u32> = Device::new().run_main(&text, 64, &[0u32], 64).unwrap();
    assert_eq!(got, (0..64).collect::<Vec<_>>());
}

/// ptxas has compiled for 64-bit addresses only since CUDA 12: old texts do not say how wide theirs are.
#[test]
fn a_text_that_does_not_say_how_wide_addresses_are_has_wide_ones() {
    let text = ".version 1.4\n.target sm_13\n.entry main (.param .u64 out, .param .u64 in) {\n\
                .reg .u64 %d<2>; .reg .u32 %r; ld.param.u64 %d0, [out]; mov.u32 %r, 7;\n\
                st.global.u32 [%d0], %r; exit; }";
    let mut device = crate::support::Device::new();
    let got = device.run_main::<u32, u32>(text, 1, &[0], 1);
    assert_eq!(got.expect("runs"), [7]);
    let narrow = text.replace("sm_13\n", "sm_13\n.address_size 32\n");
    let why = softgpu_machine::program::Program::build(&narrow).map(drop);
    assert!(why.expect_err("refused").to_string().contains("64-bit"));
}
