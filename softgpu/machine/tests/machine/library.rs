//! Cooperative groups and libcu++, as compiled for sm_80 (cp.async) and sm_90 (bulk copies).

use crate::support::{Arg, Device};

const BUILDS: [&str; 2] = [
    include_str!("../ptx/library_80.ptx"),
    include_str!("../ptx/library_90.ptx"),
];

#[test]
fn copies_that_a_barrier_waits_for() {
    for text in BUILDS {
        let mut device = Device::new();
        let loaded = device.load(text);
        let input: Vec<i32> = (0..1024).map(|i| i * 7).collect();
        let (out, input) = (device.allocate(4096), device.upload(&input));
        let args = [Arg::Pointer(out), Arg::Pointer(input)];
        device
            .launch(&loaded, "barrierCopy", 4, 256, &args)
            .unwrap_or_else(|fault| panic!("{fault}"));
        let expected: Vec<i32> = (0..1024)
            .map(|i| (i / 256 * 256 + 255 - i % 256) * 7)
            .collect();
        assert_eq!(device.download::<i32>(out, 1024), expected);
    }
}

#[test]
fn a_pipeline_of_two_stages() {
    for text in BUILDS {
        let mut device = Device::new();
        let loaded = device.load(text);
        let steps = 9;
        let input: Vec<i32> = (0..steps * 256).map(|i| i * i % 1009).collect();
        let (out, source) = (device.allocate(1024), device.upload(&input));
        let args = [Arg::Pointer(out), Arg::Pointer(source), Arg::Int(steps)];
        device
            .launch(&loaded, "pipeline", 1, 256, &args)
            .unwrap_or_else(|fault| panic!("{fault}"));
        let sum = |thread: i32| {
            (0..steps)
                .map(|step| input[(step * 256 + (thread + step) % 256) as usize])
                .sum::<i32>()
        };
        let expected: Vec<i32> = (0..256).map(sum).collect();
        assert_eq!(device.download::<i32>(out, 256), expected);
    }
}

#[test]
fn atomics_that_wait_for_all_threads() {
    for text in BUILDS {
        let mut device = Device::new();
        let loaded = device.load(text);
        let (value, out) = (device.upload(&[0i32]), device.allocate(6 * 96 * 4));
        let args = [Arg::Pointer(value), Arg::Pointer(out)];
        device
            .launch(&loaded, "atomics", 6, 96, &args)
            .unwrap_or_else(|fault| panic!("{fault}"));
        assert_eq!(device.download::<i32>(out, 6 * 96), [1; 6 * 96]);
    }
}

#[test]
fn tiles_and_coalesced_groups() {
    for text in BUILDS {
        let mut device = Device::new();
        let loaded = device.load(text);
        let out = device.allocate(96 * 4);
        device
            .launch(&loaded, "groups", 1, 96, &[Arg::Pointer(out)])
            .unwrap_or_else(|fault| panic!("{fault}"));
        for (i, value) in device.download::<i32>(out, 96).into_iter().enumerate() {
            let tile = i / 8 * 8;
            let mut expected = (tile..tile + 8).sum::<usize>() + 1000 * (i % 8);
            if i % 3 == 0 {
                let before = (i / 32 * 32..i).filter(|other| other % 3 == 0).count();
                expected += 100_000 * before + 10_000_000;
            }
            assert_eq!(value, expected as i32, "thread {i}");
        }
    }
}

#[test]
fn a_grid_that_synchronizes() {
    for text in BUILDS {
        let mut device = Device::new();
        let loaded = device.load(text);
        let threads = 12 * 64;
        let (data, out) = (device.allocate(threads * 4), device.allocate(threads * 4));
        let args = [Arg::Pointer(data), Arg::Pointer(out)];
        device
            .launch_with(&loaded, "gridSync", 12, 64, &args, |l| l.cooperative = true)
            .unwrap_or_else(|fault| panic!("{fault}"));
        let expected: Vec<i32> = (0..threads as i32).map(|i| i * (i + 1) / 2).collect();
        assert_eq!(device.download::<i32>(out, threads), expected);
        // Without a cooperative launch there is no grid to synchronise: the library traps.
        let fault = device
            .launch(&loaded, "gridSync", 12, 64, &args)
            .unwrap_err();
        assert_eq!(fault.kind, softgpu_machine::fault::FaultKind::LaunchFailed);
    }
}
