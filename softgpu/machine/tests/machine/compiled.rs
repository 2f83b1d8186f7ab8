//! Kernels as nvcc compiles them, against a reference on the CPU.

use softgpu_machine::fault::FaultKind;

use crate::support::{Arg, COMPILED, Device};

/// Numbers that look random and repeat in every run.
fn scrambled(seed: u64) -> impl Iterator<Item = u64> {
    let mut state = seed;
    std::iter::repeat_with(move || {
        state = state
            .wrapping_mul(6364136223846793005)
            .wrapping_add(1442695040888963407);
        state >> 33
    })
}

#[test]
fn vector_add() {
    let mut device = Device::new();
    let loaded = device.load(COMPILED);
    let n = 100_003;
    let a: Vec<f32> = (0..n).map(|i| i as f32 * 0.25).collect();
    let b: Vec<f32> = (0..n).map(|i| 1000.0 - i as f32).collect();
    let (da, db) = (device.upload(&a), device.upload(&b));
    let dc = device.allocate(n * 4);
    let args = [
        Arg::Pointer(da),
        Arg::Pointer(db),
        Arg::Pointer(dc),
        Arg::Int(n as i32),
    ];
    let blocks = (n as u32).div_ceil(256);
    device
        .launch(&loaded, "vectorAdd", blocks, 256, &args)
        .unwrap();
    let expected: Vec<f32> = a.iter().zip(&b).map(|(a, b)| a + b).collect();
    assert_eq!(device.download::<f32>(dc, n), expected);
}

#[test]
fn tiled_matmul() {
    let mut device = Device::new();
    let loaded = device.load(COMPILED);
    let n = 64usize;
    let a: Vec<f32> = scrambled(1).take(n * n).map(|v| (v % 17) as f32).collect();
    let b: Vec<f32> = scrambled(2).take(n * n).map(|v| (v % 13) as f32).collect();
    let (da, db) = (device.upload(&a), device.upload(&b));
    let dc = device.allocate(n * n * 4);
    let args = [
        Arg::Pointer(da),
        Arg::Pointer(db),
        Arg::Pointer(dc),
        Arg::Int(n as i32),
    ];
    device
        .launch(&loaded, "matmul", [4, 4], [16, 16], &args)
        .unwrap();
    let mut expected = vec![0f32; n * n];
    for row in 0..n {
        for col in 0..n {
            expected[row * n + col] = (0..n).map(|k| a[row * n + k] * b[k * n + col]).sum();
        }
    }
    assert_eq!(device.download::<f32>(dc, n * n), expected);
}

#[test]
fn shuffle_reduction() {
    let mut device = Device::new();
    let loaded = device.load(COMPILED);
    let n = 50_000;
    let data: Vec<i32> = scrambled(3)
        .take(n)
        .map(|v| v as i32 % 1000 - 500)
        .collect();
    let input = device.upload(&data);
    let out = device.upload(&[0i32]);
    let args = [Arg::Pointer(input), Arg::Pointer(out), Arg::Int(n as i32)];
    device.launch(&loaded, "reduce", 7, 256, &args).unwrap();
    assert_eq!(device.download::<i32>(out, 1)[0], data.iter().sum::<i32>());
}

#[test]
fn histogram_with_shared_and_global_atomics() {
    let mut device = Device::new();
    let loaded = device.load(COMPILED);
    let n = 30_000;
    let data: Vec<u8> = scrambled(4).take(n).map(|v| (v ^ (v >> 9)) as u8).collect();
    let input = device.upload(&data);
    let bins = device.upload(&[0u32; 256]);
    let args = [Arg::Pointer(input), Arg::Pointer(bins), Arg::Int(n as i32)];
    device.launch(&loaded, "histogram", 5, 192, &args).unwrap();
    let mut expected = [0u32; 256];
    for byte in data {
        expected[usize::from(byte)] += 1;
    }
    assert_eq!(device.download::<u32>(bins, 256), expected);
}

#[test]
fn divergence_in_loops_branches_and_a_switch() {
    let mut device = Device::new();
    let loaded = device.load(COMPILED);
    let n = 1000;
    let out = device.upload(&vec![-7i32; n + 24]);
    let args = [Arg::Pointer(out), Arg::Int(n as i32)];
    device.launch(&loaded, "diverge", 8, 128, &args).unwrap();
    let mut expected = Vec::new();
    for i in 0..n as i32 {
        let (mut v, mut steps) = (i, 0i32);
        while v != 1 && v > 0 {
            if v & 1 == 1 {
                steps += if v % 3 == 0 { 2 } else { 1 };
                v = 3 * v + 1;
            } else {
                v >>= 1;
                steps += 1;
            }
        }
        expected.push(match i % 7 {
            0 => steps ^ 0x100,
            1 => steps * 3,
            2 => -(steps - 5),
            3 => -steps,
            4 if steps > 50 => -1,
            4 => steps,
            5 => steps << 2,
            _ => steps + i,
        });
    }
    assert_eq!(device.download::<i32>(out, n), expected);
    assert_eq!(device.download::<i32>(out, n + 24)[n..], [-7; 24]);
}

fn ackermann(m: i32, n: i32) -> i32 {
    match (m, n) {
        (0, n) => n + 1,
        (m, 0) => ackermann(m - 1, 1),
        (m, n) => ackermann(m - 1, ackermann(m, n - 1)),
    }
}

#[test]
fn recursion() {
    let mut device = Device::new();
    let loaded = device.load(COMPILED);
    let out = device.allocate(64 * 4);
    device
        .launch(&loaded, "recurse", 1, 64, &[Arg::Pointer(out)])
        .unwrap();
    let expected: Vec<i32> = (0..64).map(|i| ackermann(i % 3, i % 5)).collect();
    assert_eq!(device.download::<i32>(out, 64), expected);
}

#[test]
fn structures_by_value() {
    let mut device = Device::new();
    let loaded = device.load(COMPILED);
    let out = device.allocate(40 * 8);
    device
        .launch(&loaded, "structs", 1, 40, &[Arg::Pointer(out)])
        .unwrap();
    let expected: Vec<f64> = (0..40).map(|i| f64::from(i) * 15.5 + 65.0).collect();
    assert_eq!(device.download::<f64>(out, 40), expected);
}

#[test]
fn function_pointers_and_virtual_functions() {
    let mut device = Device::new();
    let loaded = device.load(COMPILED);
    let out = device.allocate(64 * 4);
    let areas = device.allocate(64 * 4);
    let args = [Arg::Pointer(out), Arg::Pointer(areas)];
    device.launch(&loaded, "indirect", 1, 64, &args).unwrap();
    for (i, (value, area)) in device
        .download::<i32>(out, 64)
        .into_iter()
        .zip(device.download::<f32>(areas, 64))
        .enumerate()
    {
        let n = i as i32;
        assert_eq!(value, [n + 7, n * 7, n - 7][i % 3], "thread {i}");
        let side = i as f32;
        let expected = if i % 2 == 1 {
            side * side
        } else {
            3.0 * side * side
        };
        assert_eq!(area, expected, "thread {i}");
    }
}

#[test]
fn spin_lock_between_lanes_and_blocks() {
    let mut device = Device::new();
    let loaded = device.load(COMPILED);
    let n = 4 * 96;
    let order = device.upload(&vec![-1i32; n]);
    device
        .launch(&loaded, "spinlock", 4, 96, &[Arg::Pointer(order)])
        .unwrap();
    let mut order = device.download::<i32>(order, n);
    order.sort_unstable();
    assert_eq!(order, (0..n as i32).collect::<Vec<_>>());
}

#[test]
fn spin_lock_that_needs_independent_lanes() {
    let mut device = Device::new();
    let loaded = device.load(COMPILED);
    let count = device.upload(&[0i32]);
    device
        .launch(&loaded, "spinlockNaive", 6, 64, &[Arg::Pointer(count)])
        .unwrap();
    assert_eq!(device.download::<i32>(count, 1)[0], 6 * 64);
}

#[test]
fn blocks_that_wait_for_all_others() {
    for (workers, blocks) in [(1, 40), (2, 140)] {
        let mut device = Device::new();
        device.workers = workers;
        let loaded = device.load(COMPILED);
        let data = device.allocate(blocks * 4);
        let out = device.allocate(blocks * 4);
        let args = [Arg::Pointer(data), Arg::Pointer(out)];
        device
            .launch(&loaded, "gridBarrier", blocks as u32, 64, &args)
            .unwrap();
        let sum = (blocks * (blocks + 1) / 2) as i32;
        assert_eq!(device.download::<i32>(out, blocks), vec![sum; blocks]);
    }
}

#[test]
fn printf() {
    let mut device = Device::new();
    device.workers = 1;
    let loaded = device.load(COMPILED);
    let args = [Arg::Int(3), Arg::Double(1.25)];
    device.launch(&loaded, "say", 1, 32, &args).unwrap();
    assert_eq!(
        device.printed(),
        "thread 0 of block:  1.25 z 123456789abc %\n\
         thread 1 of block:  2.25 z 123456789abd %\n\
         thread 2 of block:  3.25 z 123456789abe %\n"
    );
}

#[test]
fn assertions() {
    let mut device = Device::new();
    let loaded = device.load(COMPILED);
    let mut data = [1i32; 64];
    let good = device.upload(&data);
    data[37] = 2;
    let bad = device.upload(&data);
    device
        .launch(&loaded, "check", 1, 64, &[Arg::Pointer(good)])
        .unwrap();
    let fault = device
        .launch(&loaded, "check", 1, 64, &[Arg::Pointer(bad)])
        .unwrap_err();
    assert_eq!(fault.kind, FaultKind::Assert);
    let message = "void check(const int *): block: [0,0,0], thread: [37,0,0] \
                   Assertion `data[threadIdx.x] == 1` failed.";
    assert!(fault.detail.contains(message), "{}", fault.detail);
}

#[test]
fn constants_local_arrays_and_dynamic_shared_memory() {
    let mut device = Device::new();
    let loaded = device.load(COMPILED);
    let n = 96;
    let out = device.allocate(n * 4);
    device
        .launch_with(
            &loaded,
            "constants",
            1,
            n as u32,
            &[Arg::Pointer(out)],
            |l| {
                l.dynamic_shared = n * 4;
            },
        )
        .unwrap();
    let value = |thread: usize| {
        let mut w = [0f32; 4];
        for k in 0..4 {
            w[(k + thread) % 4] = (k + 1) as f32 * thread as f32;
        }
        w[thread % 3] + w[3]
    };
    let expected: Vec<f32> = (0..n).map(|thread| value(n - 1 - thread)).collect();
    assert_eq!(device.download::<f32>(out, n), expected);
}

#[test]
fn warp_operations_in_divergent_code() {
    let mut device = Device::new();
    let loaded = device.load(COMPILED);
    let out = device.allocate(64 * 4);
    device
        .launch(&loaded, "warpOps", 1, 64, &[Arg::Pointer(out)])
        .unwrap();
    let thirds = (0..32u32).filter(|lane| lane % 3 == 0);
    let ballot = thirds
        .filter(|lane| *lane > 10)
        .fold(0u32, |mask, lane| mask | 1 << lane);
    let others: Vec<u32> = (0..32).filter(|lane| lane % 3 != 0).collect();
    let sum: u32 = others.iter().sum();
    for (thread, value) in device.download::<u32>(out, 64).into_iter().enumerate() {
        let lane = thread as u32 % 32;
        let r = if lane.is_multiple_of(3) {
            ballot + 18
        } else {
            let group = others.iter().filter(|other| *other / 8 == lane / 8);
            group.fold(0u32, |mask, other| mask | 1 << other) ^ sum
        };
        assert_eq!(value, r.wrapping_mul(4) + 2, "thread {thread}");
    }
}
