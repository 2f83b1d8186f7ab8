//! What a hooked call costs here, measured: a function of our own is called through a thunk and
//! directly, a few thousand times, before anything of the program's is hooked. Its records go into
//! memory that nobody reads.

use super::entry::entry;
use super::thunks;
use crate::layout::{Stage, Thread};
use crate::sys;
use core::hint::black_box;
use core::sync::atomic::{AtomicU8, AtomicU64, AtomicUsize, Ordering};
use event::ring::{GATE_SHED, GATES, RingHeader, ring_stride};

const SLOTS: u32 = 256;
const BYTES: usize = ring_stride(SLOTS);
const BATCHES: u32 = 6;
const CALLS: u32 = 400;

/// The ring to record into while it is measured; 0: nothing is being measured.
static RING: AtomicUsize = AtomicUsize::new(0);

/// One value comes back: the commonest kind of call.
extern "C" fn measured(value: *mut usize) -> u32 {
    // SAFETY: called below.
    unsafe { value.write_volatile(1) };
    0
}

type Function = extern "C" fn(*mut usize) -> u32;

/// Tenths of nanoseconds that are added to a call; 0: not known.
#[derive(Clone, Copy)]
pub struct Costs {
    pub recorded: u64,
    /// It is counted and nothing else.
    pub shed: u64,
}

static RECORDED: AtomicU64 = AtomicU64::new(0);
static SHED: AtomicU64 = AtomicU64::new(0);
/// All gates shed.
static GATES_SHED: [AtomicU8; GATES] = [const { AtomicU8::new(GATE_SHED) }; GATES];

/// What has been measured, for every session of the process.
pub fn known() -> Costs {
    Costs {
        recorded: RECORDED.load(Ordering::Relaxed),
        shed: SHED.load(Ordering::Relaxed),
    }
}

/// Measures it, once.
pub fn measure(stage: &Stage) {
    if let Some(Costs { recorded, shed }) = of_a_call(stage) {
        RECORDED.store(recorded, Ordering::Relaxed);
        SHED.store(shed, Ordering::Relaxed);
    }
}

fn of_a_call(stage: &Stage) -> Option<Costs> {
    // SAFETY: fresh memory, all zeros.
    let ring = unsafe {
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
        let ring = sys::map(0, BYTES, libc::PROT_READ | libc::PROT_WRITE, flags, None)?;
        let header = ring as *mut RingHeader;
        (&raw mut (*header).capacity).write(SLOTS);
        (*header).backed.store(SLOTS.into(), Ordering::Relaxed);
        ring
    };
    let number = thunks::MOST - 1;
    // SAFETY: the table's rows are free until functions are hooked.
    let row = unsafe { stage.entries.add(number) };
    let target = measured as *const () as usize;
    // SAFETY: as above.
    unsafe {
        row.write(entry(
            b"cuCtxGetCurrent",
            b"",
            number as u16,
            target,
            stage.thread,
        ))
    };
    RING.store(ring, Ordering::Relaxed);
    let thunk = thunks::of(number).map(|thunk| {
        // SAFETY: it calls the function above.
        unsafe { core::mem::transmute::<usize, Function>(thunk) }
    });
    let costs = thunk.map(|thunk| {
        // SAFETY: the stage's variable; nothing else is called yet.
        let gates = unsafe { &*stage.gates };
        let (mut direct, mut recorded, mut shed) = (u64::MAX, u64::MAX, u64::MAX);
        for _ in 0..BATCHES {
            direct = direct.min(time(measured));
            recorded = recorded.min(time(thunk));
            let theirs = gates.swap(GATES_SHED.as_ptr().cast_mut(), Ordering::Relaxed);
            shed = shed.min(time(thunk));
            gates.store(theirs, Ordering::Relaxed);
        }
        let added = |time: u64| time.saturating_sub(direct) * 10 / u64::from(CALLS);
        Costs {
            recorded: added(recorded),
            shed: added(shed),
        }
    });
    let thread = THREAD.swap(0, Ordering::Relaxed) as *mut Thread;
    if !thread.is_null() {
        // As if nothing had been called.
        // SAFETY: the calling thread's own, which no call is using.
        unsafe {
            (*thread).pid = u32::MAX;
            (*thread).header = 0;
        }
    }
    RING.store(0, Ordering::Relaxed);
    // SAFETY: nothing uses them any more.
    unsafe {
        row.write_bytes(0, 1);
        sys::unmap(ring, BYTES);
    }
    costs
}

static THREAD: AtomicUsize = AtomicUsize::new(0);

/// Gives the thread the ring of the measurement, if there is one.
pub fn adopt(thread: &mut Thread, generation: u32) -> bool {
    let ring = RING.load(Ordering::Relaxed);
    if ring == 0 {
        return false;
    }
    THREAD.store(thread as *mut Thread as usize, Ordering::Relaxed);
    super::rings::adopt(thread, generation, ring);
    thread.limit = u64::MAX;
    true
}

fn time(function: Function) -> u64 {
    let function = black_box(function);
    let mut value = 0;
    let begin = sys::monotonic_ns();
    for _ in 0..CALLS {
        function(&mut value);
    }
    sys::monotonic_ns().saturating_sub(begin)
}
