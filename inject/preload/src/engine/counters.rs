//! The page that all processes of the session share: what was not recorded, and what the tracer's
//! side of the program has cost. Mapped before the program can give up any rights, and inherited by
//! its children.

use super::cost::Costs;
use super::report::{self, Line};
use crate::layout::Stage;
use crate::sys::{self, File};
use core::sync::atomic::{AtomicU8, AtomicU64, AtomicUsize, Ordering};
use event::ring::{COUNTERS_FILE, COUNTERS_SIZE, Counters, GATE_CLOSED, GATE_OPEN, GATES};

static PAGE: AtomicUsize = AtomicUsize::new(0);
/// Stands in where there is no page: the tracer never hears of it, but nothing breaks.
static ALONE: Counters = Counters {
    lost: AtomicU64::new(0),
    spent: AtomicU64::new(0),
    cost: AtomicU64::new(0),
    shed_cost: AtomicU64::new(0),
    unused: [0; 4],
    gates: [const { AtomicU8::new(0) }; GATES],
    open_ranges: AtomicU64::new(0),
};

pub fn start(stage: &Stage) {
    let mut path = Line::<1200>::new();
    path.push(report::folder())
        .push(b"/")
        .push(COUNTERS_FILE.as_bytes())
        .push(b"\0");
    let flags = libc::O_RDWR | libc::O_CREAT | libc::O_NOFOLLOW | libc::O_NONBLOCK;
    let Some(file) = File::open(path.bytes(), flags, 0o600) else {
        return;
    };
    let bytes = COUNTERS_SIZE as u64;
    if file.size() < bytes && (sys::file_size_limit() < bytes || !file.set_size(bytes)) {
        return;
    }
    let protection = libc::PROT_READ | libc::PROT_WRITE;
    let of_file = Some((&file, 0));
    // A page of an earlier session is replaced: a thread may still be counting.
    let (old, flags) = match PAGE.load(Ordering::Acquire) {
        0 => (0, libc::MAP_SHARED),
        old => (old, libc::MAP_SHARED | libc::MAP_FIXED),
    };
    // SAFETY: a fresh mapping, or one in the place of our own.
    let at = unsafe { sys::map(old, COUNTERS_SIZE, protection, flags, of_file) };
    // A page that finds no space would be a SIGBUS.
    if let Some(at) = at.filter(|at| sys::populate(*at, COUNTERS_SIZE)) {
        PAGE.store(at, Ordering::Release);
        // SAFETY: the stage's variable lives as long as the process, and so does the mapping.
        unsafe {
            (*stage.gates).store(
                (&raw mut (*(at as *mut Counters)).gates).cast(),
                Ordering::Release,
            )
        };
    }
}

/// What a call costs, for the tracer, which decides what to record.
pub fn tell_costs(costs: Costs) {
    let counters = counters();
    counters.cost.store(costs.recorded, Ordering::Relaxed);
    counters.shed_cost.store(costs.shed, Ordering::Relaxed);
}

/// The session is over: what is still counted goes nowhere.
pub fn end() {
    let page = PAGE.load(Ordering::Acquire);
    if page != 0 {
        let protection = libc::PROT_READ | libc::PROT_WRITE;
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_FIXED;
        // SAFETY: in the place of our own mapping.
        unsafe { sys::map(page, COUNTERS_SIZE, protection, flags, None) };
    }
}

fn counters() -> &'static Counters {
    match PAGE.load(Ordering::Acquire) {
        0 => &ALONE,
        // SAFETY: mapped for the process's life.
        at => unsafe { &*(at as *const Counters) },
    }
}

/// Something is open that calls are recorded for.
pub fn open_range() {
    let counters = counters();
    if counters.open_ranges.fetch_add(1, Ordering::AcqRel) == 0 {
        set_gates(counters, GATE_OPEN);
    }
}

/// It is over.
pub fn close_range() {
    let counters = counters();
    if counters.open_ranges.fetch_sub(1, Ordering::AcqRel) == 1 {
        set_gates(counters, GATE_CLOSED);
        // Another may have begun since.
        if counters.open_ranges.load(Ordering::Acquire) > 0 {
            set_gates(counters, GATE_OPEN);
        }
    }
}

fn set_gates(counters: &Counters, value: u8) {
    for (class, gate) in counters.gates.iter().enumerate() {
        if class != usize::from(cuda::gate::ALWAYS) {
            gate.store(value, Ordering::Release);
        }
    }
}

/// Calls that no ring counts were not recorded.
pub fn lost(calls: u64) {
    counters().lost.fetch_add(calls, Ordering::Relaxed);
}

/// From `begin` on until now, by the processor's counter, the program waited for us.
pub fn spent_since(begin: u64) {
    let spent = sys::ticks().wrapping_sub(begin);
    // A thread that moved between processors whose counters differ has not spent ages.
    if spent < 1 << 60 {
        counters().spent.fetch_add(spent, Ordering::Relaxed);
    }
}
