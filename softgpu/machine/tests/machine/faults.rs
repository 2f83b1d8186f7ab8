//! What goes wrong is reported with its place, and the host process lives on.

use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use softgpu_machine::fault::{Fault, FaultKind};
use softgpu_machine::program::Program;

use crate::support::{Arg, Device, kernel, module};

fn fault_of(body: &str, threads: u32) -> Fault {
    let mut device = Device::new();
    let result = device.run_main::<u32, u32>(&kernel(body), threads, &[0; 4], 64);
    result.expect_err("a fault")
}

#[test]
fn out_of_bounds_names_kernel_line_block_thread_and_address() {
    let fault = fault_of(
        "mov.u32 %r1, 7;
         setp.eq.u32 %p0, %r0, 40;
         @!%p0 bra done;
         add.u64 %rd3, %rd0, 1048576;
         st.global.u32 [%rd3+4], %r1;
         done: ret;",
        64,
    );
    assert_eq!(fault.kind, FaultKind::IllegalAddress);
    for part in ["main", "PTX line", "block (0,0,0)", "thread (40,0,0)", "0x"] {
        assert!(fault.detail.contains(part), "{part} in {}", fault.detail);
    }
}

#[test]
fn null_and_wild_pointers() {
    for address in [
        "0",
        "0x7fffffffffff",
        "-8",
        "0x0500000000000000",
        "0x0100000000ffff00",
    ] {
        for access in [
            "ld.u32 %r1, [%rd3];",
            "st.u32 [%rd3], %r1;",
            "atom.add.u32 %r1, [%rd3], 1;",
        ] {
            let fault = fault_of(&format!("mov.u64 %rd3, {address}; {access} ret;"), 32);
            let expected = [FaultKind::IllegalAddress, FaultKind::MisalignedAddress];
            assert!(
                expected.contains(&fault.kind),
                "{address} {access}: {fault}"
            );
        }
    }
}

#[test]
fn one_byte_beyond_an_allocation() {
    let mut device = Device::new();
    let text = kernel("ld.global.u8 %rs1, [%rd1+15]; ret;");
    assert!(device.run_main::<u32, u8>(&text, 1, &[0; 16], 1).is_ok());
    let text = kernel("ld.global.u8 %rs1, [%rd1+16]; ret;");
    let fault = device
        .run_main::<u32, u8>(&text, 1, &[0; 16], 1)
        .unwrap_err();
    assert_eq!(fault.kind, FaultKind::IllegalAddress);
}

#[test]
fn misaligned() {
    let fault = fault_of("ld.global.u32 %r1, [%rd0+2]; ret;", 1);
    assert_eq!(fault.kind, FaultKind::MisalignedAddress);
    let fault = fault_of("ld.global.v2.u32 {%r1, %r2}, [%rd0+4]; ret;", 1);
    assert_eq!(fault.kind, FaultKind::MisalignedAddress);
}

#[test]
fn shared_local_and_parameter_bounds() {
    let cases = [
        ".shared .b32 s[4]; mov.u32 %r1, s; st.shared.u32 [%r1+16], %r0; ret;",
        ".shared .b32 s[4]; mov.u32 %r1, s; st.shared.u32 [%r1+-4], %r0; ret;",
        ".local .b32 s[4]; mov.u64 %rd3, s; st.local.u32 [%rd3+1048576], %r0; ret;",
        "mov.u64 %rd3, in; ld.param.u64 %rd4, [%rd3+8]; ret;",
        "mov.u64 %rd3, out; cvta.param.u64 %rd3, %rd3; st.u64 [%rd3], %rd4; ret;",
    ];
    for body in cases {
        let fault = fault_of(body, 32);
        assert_eq!(fault.kind, FaultKind::IllegalAddress, "{body}: {fault}");
    }
}

#[test]
fn trap() {
    let fault = fault_of("setp.eq.u32 %p0, %r0, 33; @%p0 trap; ret;", 64);
    assert_eq!(fault.kind, FaultKind::LaunchFailed);
    assert!(fault.detail.contains("thread (33,0,0)"), "{fault}");
}

#[test]
fn call_of_no_function() {
    let body = "mov.u64 %rd3, 12345; proto: .callprototype _ (); call %rd3, (), proto; ret;";
    assert_eq!(fault_of(body, 1).kind, FaultKind::InvalidPc);
}

#[test]
fn branch_table_index_beyond_its_end() {
    let body = "ts: .branchtargets a, b; mov.u32 %r1, 2; brx.idx %r1, ts; a: ret; b: ret;";
    assert_eq!(fault_of(body, 1).kind, FaultKind::InvalidPc);
}

#[test]
fn recursion_without_end() {
    let text = module(
        ".func f() { .local .b32 x[4]; call f, (); ret; }
         .visible .entry main(.param .u64 out, .param .u64 in) { call f, (); ret; }",
    );
    let fault = Device::new()
        .run_main::<u32, u32>(&text, 256, &[0], 1)
        .unwrap_err();
    assert_eq!(fault.kind, FaultKind::StackOverflow);
}

#[test]
fn an_endless_loop_stops_when_cancelled() {
    let mut device = Device::new();
    let loaded = device.load(&kernel("again: bra again;"));
    let args = [Arg::Pointer(0), Arg::Pointer(0)];
    std::thread::scope(|scope| {
        scope.spawn(|| {
            std::thread::sleep(Duration::from_millis(50));
            device.cancelled.store(true, Ordering::Relaxed);
        });
        let start = Instant::now();
        let fault = device.launch(&loaded, "main", 64, 64, &args).unwrap_err();
        assert_eq!(fault.kind, FaultKind::LaunchFailed);
        assert!(fault.detail.contains("cancelled"), "{fault}");
        assert!(start.elapsed() < Duration::from_secs(20));
    });
}

#[test]
fn barriers_that_nobody_completes() {
    // Warp 1 waits at barrier 1 for 64 threads, warp 0 never comes.
    let fault = fault_of(
        "setp.lt.u32 %p0, %r0, 32; @%p0 bra done; bar.sync 1, 64; done: ret;",
        64,
    );
    assert_eq!(fault.kind, FaultKind::LaunchFailed);
    assert!(fault.detail.contains("barrier 1"), "{fault}");
}

#[test]
fn a_wrong_barrier_is_a_fault() {
    let fault = fault_of("mov.u32 %r1, 16; barrier.sync %r1; ret;", 32);
    assert_eq!(fault.kind, FaultKind::IllegalInstruction);
}

fn error_of(text: &str) -> softgpu_machine::program::BuildError {
    match Program::build(text) {
        Ok(_) => panic!("built: {text}"),
        Err(error) => error,
    }
}

#[test]
fn unknown_instructions_are_named_with_their_line() {
    let text = ".version 8.0\n.target sm_80\n.address_size 64\n\
                .visible .entry k() {\n.reg .b32 %r<4>;\nmov.u32 %r1, 1;\n\
                frobnicate.sync.b32 %r1, %r2;\nret;\n}";
    let error = error_of(text);
    assert_eq!(error.line, 7);
    assert!(error.message.contains("frobnicate.sync.b32"), "{error}");
}

#[test]
fn what_is_not_understood_does_not_load() {
    let bodies = [
        "ld.global.frob.u32 %r1, [%rd0];",
        "ld.global.u32 %r1, [nowhere];",
        "add.u32 %r1, %r2;",
        "add.u32 %r1, %r2, %nothing;",
        "bra nowhere;",
        "mov.u32 %rs1, %r1;",
        "st.global.u32 [%rd0], %p0;",
        "call undefined, ();",
        "shfl.sync.bfly.b32 %r1, %r2, 1, 31;",
        "atom.global.frob.u32 %r1, [%rd0], 1;",
        "wmma.load.a.sync.aligned.m16n16k16.row.f16 {%r1}, [%rd0];",
        "tex.2d.v4.f32.f32 {%f1,%f2,%f3,%f4}, [%rd0, {%f1,%f2}];",
        "@%r1 bra somewhere; somewhere: ret;",
    ];
    for body in bodies {
        let error = error_of(&kernel(body));
        assert!(error.line > 0, "{error}");
    }
}

#[test]
fn not_ptx_at_all() {
    assert!(Program::build("").is_err() || Program::build("").unwrap().kernels().is_empty());
    for text in [
        "garbage",
        ".version 8.0\n.target sm_80\n.entry",
        "\u{0}\u{1}",
    ] {
        assert!(Program::build(text).is_err(), "{text}");
    }
}

#[test]
fn launches_that_make_no_sense_are_refused() {
    let mut device = Device::new();
    let loaded = device.load(&kernel("ret;"));
    let args = [Arg::Pointer(0), Arg::Pointer(0)];
    for (grid, block) in [(0, 1), (1, 0), (1, 1025)] {
        assert!(device.launch(&loaded, "main", grid, block, &args).is_err());
    }
    let too_much =
        |launch: &mut softgpu_machine::machine::Launch| launch.dynamic_shared = usize::MAX;
    assert!(
        device
            .launch_with(&loaded, "main", 1, 1, &args, too_much)
            .is_err()
    );
    let no_params = |launch: &mut softgpu_machine::machine::Launch| launch.params = &[];
    assert!(
        device
            .launch_with(&loaded, "main", 1, 1, &args, no_params)
            .is_err()
    );
}
