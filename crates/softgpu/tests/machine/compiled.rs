//! Kernels as nvcc compiles them, against a reference on the CPU.

use crate::support::{Arg, COMPILED, Device};

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
