//! A vector of up to 16 bytes is loaded and stored as one, as on a GPU: what another thread writes at the same
//! time is seen whole or not at all.
#![cfg(target_arch = "x86_64")]

use std::arch::{asm, x86_64 as cpu};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use crate::support::{Arg, Device, kernel};

/// The host's own side, whole by what CPUs with AVX promise.
unsafe fn store(to: u64, word: u64) {
    unsafe {
        let both = cpu::_mm_set1_epi64x(word as i64);
        asm!("movdqa [{to}], {both}", to = in(reg) to, both = in(xmm_reg) both, options(nostack));
    }
}

unsafe fn load(from: u64) -> (u64, u64) {
    let both: cpu::__m128i;
    unsafe {
        asm!("movdqa {both}, [{from}]", from = in(reg) from, both = out(xmm_reg) both, options(nostack));
        let high = cpu::_mm_unpackhi_epi64(both, both);
        (
            cpu::_mm_cvtsi128_si64(both) as u64,
            cpu::_mm_cvtsi128_si64(high) as u64,
        )
    }
}

/// Every form of a vector access, with the registers of its parts.
const FORMS: &[(&str, &str)] = &[
    ("relaxed.gpu.global.v2.u64", "{%rd8, %rd9}"),
    ("volatile.global.v2.b64", "{%rd8, %rd9}"),
    ("global.v2.f64", "{%fd1, %fd2}"),
    ("global.v4.u32", "{%r8, %r9, %r10, %r11}"),
    ("v4.f32", "{%f1, %f2, %f3, %f4}"),
    ("volatile.global.v2.u32", "{%r8, %r9}"),
    ("global.v4.u16", "{%rs1, %rs2, %rs3, %rs4}"),
];

/// Fails unless two threads really run at once for a while: then there was something to tear.
const ENOUGH: Duration = Duration::from_millis(400);

#[test]
fn loads_see_whole_vectors() {
    if !std::is_x86_feature_detected!("avx") {
        return eprintln!("skipped: without AVX the host has no whole stores to test with");
    }
    for (form, registers) in FORMS {
        // All parts are one 16-bit number repeated: the parts of a vector are put together and compared.
        let text = kernel(&format!(
            "mov.u32 %r20, 20000; mov.u32 %r21, 0; .local .align 16 .b8 got[16];
             again: ld.{form} {registers}, [%rd1];
             st.local.{0} [got], {registers};
             ld.local.u32 %r1, [got]; ld.local.u32 %r2, [got+4];
             setp.ne.u32 %p1, %r1, %r2; @%p1 add.u32 %r21, %r21, 1;
             {1}
             sub.u32 %r20, %r20, 1; setp.ne.u32 %p2, %r20, 0; @%p2 bra again;
             st.global.u32 [%rd2], %r21; ret;",
            form.rsplit_once("global.").map_or(*form, |(_, form)| form),
            if form.ends_with("16") || form.ends_with("v2.u32") {
                ""
            } else {
                "ld.local.u32 %r3, [got+8]; ld.local.u32 %r4, [got+12];
                 setp.ne.u32 %p1, %r1, %r3; @%p1 add.u32 %r21, %r21, 1;
                 setp.ne.u32 %p1, %r1, %r4; @%p1 add.u32 %r21, %r21, 1;"
            }
        ));
        let mut device = Device::new();
        let loaded = device.load(&text);
        let (out, input) = (device.allocate(32 * 4), device.allocate(16));
        let done = AtomicBool::new(false);
        let torn = std::thread::scope(|scope| {
            scope.spawn(|| {
                let mut number = 0u64;
                while !done.load(Ordering::Relaxed) {
                    number = (number + 1) & 0xFFFF;
                    // SAFETY: an allocation of 16 aligned bytes.
                    unsafe { store(input, number * 0x0001_0001_0001_0001) };
                }
            });
            let began = Instant::now();
            let mut torn = 0;
            while torn == 0 && began.elapsed() < ENOUGH {
                let args = [Arg::Pointer(out), Arg::Pointer(input)];
                device.launch(&loaded, "main", 1, 32, &args).expect("runs");
                torn += device.download::<u32>(out, 32).iter().sum::<u32>();
            }
            done.store(true, Ordering::Relaxed);
            torn
        });
        assert_eq!(torn, 0, "ld.{form}");
    }
}

#[test]
fn stores_are_seen_whole() {
    if !std::is_x86_feature_detected!("avx") {
        return eprintln!("skipped: without AVX the host has no whole loads to test with");
    }
    for (form, registers) in FORMS {
        let parts = registers.trim_matches(['{', '}']).split(", ");
        let moves: String = parts
            .map(|register| match &register[..3] {
                "%rd" => format!("mov.b64 {register}, %rd20;"),
                "%fd" => format!("mov.b64 {register}, %rd20;"),
                "%rs" => format!("cvt.u16.u32 {register}, %r20;"),
                _ if register.starts_with("%f") => format!("mov.b32 {register}, %r22;"),
                _ => format!("mov.u32 {register}, %r22;"),
            })
            .collect();
        let text = kernel(&format!(
            "mov.u32 %r20, 20000;
             again: and.b32 %r21, %r20, 65535; shl.b32 %r22, %r21, 16; or.b32 %r22, %r22, %r21;
             mov.b64 %rd20, {{%r22, %r22}}; {moves}
             st.{form} [%rd1], {registers};
             sub.u32 %r20, %r20, 1; setp.ne.u32 %p2, %r20, 0; @%p2 bra again; ret;"
        ));
        let mut device = Device::new();
        let loaded = device.load(&text);
        let (out, input) = (device.allocate(32 * 4), device.allocate(16));
        let narrow = form.ends_with("16") || form.ends_with("v2.u32");
        let done = AtomicBool::new(false);
        let torn = std::thread::scope(|scope| {
            let reader = scope.spawn(|| {
                let mut torn = 0u64;
                while !done.load(Ordering::Relaxed) {
                    // SAFETY: an allocation of 16 aligned bytes.
                    let (low, high) = unsafe { load(input) };
                    let repeated = (low & 0xFFFF) * 0x0001_0001_0001_0001;
                    torn += u64::from(low != repeated || (!narrow && high != low));
                }
                torn
            });
            let began = Instant::now();
            while began.elapsed() < ENOUGH {
                let args = [Arg::Pointer(out), Arg::Pointer(input)];
                device.launch(&loaded, "main", 1, 32, &args).expect("runs");
            }
            done.store(true, Ordering::Relaxed);
            reader.join().expect("read")
        });
        assert_eq!(torn, 0, "st.{form}");
    }
}

/// Each part goes to its own register and place, of every form, in and out of global, shared and local memory.
#[test]
fn parts_are_where_they_belong() {
    let text = kernel(
        "mul.wide.u32 %rd3, %r0, 16; add.u64 %rd4, %rd1, %rd3; add.u64 %rd5, %rd0, %rd3;
         .shared .align 16 .b8 common[512]; .local .align 16 .b8 own[32];
         mov.u32 %r2, common; shl.b32 %r3, %r0, 4; add.u32 %r2, %r2, %r3;
         ld.global.v4.u32 {%r4, %r5, %r6, %r7}, [%rd4];
         st.shared.v4.u32 [%r2], {%r4, %r5, %r6, %r7};
         ld.shared.v2.u64 {%rd6, %rd7}, [%r2];
         st.local.v2.u64 [own+16], {%rd6, %rd7};
         ld.local.v4.u16 {%rs1, %rs2, %rs3, %rs4}, [own+16];
         ld.local.v2.u32 {%r8, %r9}, [own+24];
         st.global.v4.u16 [%rd5], {%rs1, %rs2, %rs3, %rs4};
         st.global.v2.u32 [%rd5+8], {%r8, %r9};
         ret;",
    );
    let input: Vec<u8> = (0..512u32).map(|i| (i * 7 + i / 256) as u8).collect();
    for threads in [32, 5] {
        let mut device = Device::new();
        let got: Vec<u8> = device
            .run_main(&text, threads, &input, 512)
            .unwrap_or_else(|fault| panic!("{fault}"));
        let written = 16 * threads as usize;
        assert_eq!(got[..written], input[..written]);
        assert!(got[written..].iter().all(|byte| *byte == 0));
    }
}
