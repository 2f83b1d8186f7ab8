//! Memory does not grow with the length of a trace: two million records through both formats,
//! and a merge, under an allocator that keeps count.

#[path = "../benches/workload.rs"]
mod workload;

use std::{
    alloc::{GlobalAlloc, Layout, System},
    sync::atomic::{AtomicUsize, Ordering::Relaxed},
};
use trace::{convert, create, open};

struct Counting;

static NOW: AtomicUsize = AtomicUsize::new(0);
static PEAK: AtomicUsize = AtomicUsize::new(0);

unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let now = NOW.fetch_add(layout.size(), Relaxed) + layout.size();
        PEAK.fetch_max(now, Relaxed);
        // SAFETY: the caller keeps to the same contract.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        NOW.fetch_sub(layout.size(), Relaxed);
        // SAFETY: as above.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// The most memory `run` held at once, beyond what there was.
fn peak(run: impl FnOnce() -> trace::Result<()>) -> usize {
    let before = NOW.load(Relaxed);
    PEAK.store(before, Relaxed);
    run().expect("traces are written and read");
    PEAK.load(Relaxed) - before
}

/// Peaks of writing, reading and merging a trace of so many turns, in each format.
fn peaks(turns: u64) -> Vec<(String, usize)> {
    let folder = tempfile::tempdir().expect("a folder");
    let mut peaks = Vec::new();
    let mut paths = Vec::new();
    for name in ["t.jsonl", "t.arrows"] {
        let path = folder.path().join(name);
        let write = peak(|| {
            let mut writer = create(&path, &workload::meta())?;
            workload::run(turns, |record| writer.write(record))?;
            writer.finish().map(drop)
        });
        peaks.push((format!("write {name}"), write));
        let read = peak(|| {
            let mut events = 0;
            for record in open(&path)?.whole() {
                record?;
                events += 1;
            }
            assert_eq!(events, turns * workload::EVENTS_A_TURN);
            Ok(())
        });
        peaks.push((format!("read {name}"), read));
        paths.push(path);
    }
    let merge = peak(|| convert(&paths, folder.path().join("m.arrows")).map(drop));
    peaks.push(("merge".into(), merge));
    peaks
}

#[test]
fn memory_does_not_grow_with_the_trace() {
    // Also the short one is long enough for batches to wait.
    let (short, long) = (15_000, 45_000);
    let mut records = 0;
    for ((what, short_peak), (_, long_peak)) in peaks(short).into_iter().zip(peaks(long)) {
        println!("{what}: {short_peak} bytes for {short} turns, {long_peak} for {long}");
        assert!(long_peak < 64 << 20, "{what} took {long_peak} bytes");
        assert!(
            long_peak < short_peak + short_peak / 4 + (1 << 20),
            "{what} grew from {short_peak} to {long_peak} bytes"
        );
        records += long * workload::RECORDS_A_TURN;
    }
    println!("{records} records in all");
}
