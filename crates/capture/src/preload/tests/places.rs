//! The device, context and stream of calls, where the API determines them.

use super::calls::Traced;
use event::{Extent, Record};

fn longs(numbers: &[u64]) -> Vec<u8> {
    numbers.iter().flat_map(|each| each.to_le_bytes()).collect()
}

type CallPlace = (String, Option<u32>, Option<u64>, Option<u64>);

/// Name, device, context and stream of each call's end.
fn places(traced: Traced) -> Vec<CallPlace> {
    let (records, _) = traced.finish();
    let place = |record: &Record| match record {
        Record::Event(event) if event.extent != Extent::Open => Some((
            event.name.to_string(),
            event.device,
            event.context,
            event.stream,
        )),
        _ => None,
    };
    records.iter().filter_map(place).collect()
}

fn of(all: &[CallPlace], name: &str) -> Vec<String> {
    let shown = |value: Option<u64>| value.map_or("-".into(), |value| format!("{value:#x}"));
    all.iter()
        .filter(|place| place.0 == name)
        .map(|(_, device, context, stream)| {
            format!(
                "{} {} {}",
                device.map_or("-".into(), |device| device.to_string()),
                shown(*context),
                shown(*stream)
            )
        })
        .collect()
}

#[test]
fn the_runtime_goes_from_device_to_device() {
    let mut traced = Traced::new();
    let thread = traced.thread(7, 7);
    let mut time = 0;
    let mut call = |name, args, payload: &[u8]| {
        time += 10;
        traced.call(thread, name, time..time + 5, args, payload, 0);
    };
    for (device, context) in [(0, 0xc0), (1, 0xc1)] {
        call(
            "cuDevicePrimaryCtxRetain",
            [1, device, 0, 0],
            &longs(&[context]),
        );
    }
    call("cudaDeviceSynchronize", [0; 4], &[]);
    call("cudaSetDevice", [1, 0, 0, 0], &[]);
    call("cudaDeviceSynchronize", [0; 4], &[]);
    call("cudaStreamCreate", [1, 0, 0, 0], &longs(&[0x99]));
    call("cudaSetDevice", [0, 0, 0, 0], &[]);
    call("cudaDeviceSynchronize", [0; 4], &[]);
    // A stream stays on its device, whichever is current.
    call("cudaStreamSynchronize", [0x99, 0, 0, 0], &[]);
    call("cudaStreamSynchronize", [0, 0, 0, 0], &[]);
    call("cudaStreamDestroy", [0x99, 0, 0, 0], &[]);
    call("cudaStreamSynchronize", [0x99, 0, 0, 0], &[]);
    let all = places(traced);
    assert_eq!(
        of(&all, "cudaDeviceSynchronize"),
        ["- - -", "1 0xc1 -", "0 0xc0 -"]
    );
    assert_eq!(
        of(&all, "cudaStreamSynchronize"),
        ["1 0xc1 0x99", "0 0xc0 0x0", "0 0xc0 0x99"]
    );
}

#[test]
fn the_drivers_contexts_are_followed_by_thread_and_stream() {
    let mut traced = Traced::new();
    let threads = [traced.thread(7, 7), traced.thread(7, 8)];
    let mut time = 0;
    let mut call = |thread: usize, name, args, payload: &[u8]| {
        time += 10;
        traced.call(threads[thread], name, time..time + 5, args, payload, 0);
    };
    call(0, "cuCtxCreate_v2", [1, 0, 1, 0], &longs(&[0xc1]));
    call(0, "cuStreamCreate", [1, 0, 0, 0], &longs(&[0x51]));
    // Another thread has no context, and learns of one by asking.
    call(1, "cuCtxSynchronize", [0; 4], &[]);
    call(1, "cuStreamSynchronize", [0x51, 0, 0, 0], &[]);
    call(1, "cuCtxSetCurrent", [0xc2, 0, 0, 0], &[]);
    call(1, "cuCtxGetDevice", [1, 0, 0, 0], &[3, 0, 0, 0]);
    call(1, "cuCtxSynchronize", [0; 4], &[]);
    call(1, "cuStreamGetCtx", [0x52, 1, 0, 0], &longs(&[0xc1]));
    call(1, "cuStreamSynchronize", [0x52, 0, 0, 0], &[]);
    // Questions about a device are about that device.
    call(1, "cuDeviceGetAttribute", [1, 16, 5, 0], &[0; 4]);
    call(0, "cuCtxDestroy_v2", [0xc1, 0, 0, 0], &[]);
    call(0, "cuCtxSynchronize", [0; 4], &[]);
    let all = places(traced);
    assert_eq!(of(&all, "cuCtxSynchronize"), ["- - -", "3 0xc2 -", "- - -"]);
    assert_eq!(
        of(&all, "cuStreamSynchronize"),
        ["1 0xc1 0x51", "1 0xc1 0x52"]
    );
    assert_eq!(of(&all, "cuDeviceGetAttribute"), ["5 - -"]);
}

#[test]
fn default_streams_are_told_apart() {
    let mut traced = Traced::new();
    let thread = traced.thread(7, 7);
    let launch = longs(&[1, 0, 0, 0]);
    let calls: [(&'static str, [u64; 4], &[u8]); 7] = [
        ("cudaMemcpy", [1, 2, 3, 1], &[]),
        ("cudaMemcpy_ptds", [1, 2, 3, 1], &[]),
        ("cudaLaunchKernel", [1, 1, 1, 1], &launch),
        ("cudaLaunchKernel_ptsz", [1, 1, 1, 1], &launch),
        ("cuStreamSynchronize_ptsz", [1, 0, 0, 0], &[]),
        ("cuMemsetD8_v2_ptds", [1, 0, 4, 0], &[]),
        ("cudaDeviceSynchronize", [0; 4], &[]),
    ];
    for (place, (name, args, payload)) in calls.into_iter().enumerate() {
        let time = 10 * place as u64;
        traced.call(thread, name, time..time + 5, args, payload, 0);
    }
    let streams: Vec<_> = places(traced).into_iter().map(|place| place.3).collect();
    assert_eq!(
        streams,
        [Some(0), Some(2), Some(0), Some(2), Some(1), Some(2), None]
    );
}
