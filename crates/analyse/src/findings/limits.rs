//! When a finding is worth a reader's time, each limit with its reason. A healthy program stays
//! below all of them.

/// A fifth of the run is what people notice.
pub const HIGH_SHARE: f64 = 0.20;
/// A twentieth is above the noise of most measurements.
pub const MEDIUM_SHARE: f64 = 0.05;
/// Below a hundredth nothing is said about time at all.
pub const LEAST_SHARE: f64 = 0.01;

/// Fewer steps say nothing of those to come …
pub const FEWEST_STEPS: f64 = 8.0;
/// … nor do steps that take less of the run than this and are over sooner than that.
pub const STEPS_SHARE: f64 = 0.005;
pub const STEPS_NS: u64 = 20_000_000;

/// Work that goes on for less is over before anybody could make it faster.
pub const LONG_WORK_NS: u64 = 100_000_000;

/// Events named as evidence of one finding.
pub const OPS: usize = 8;

/// Copies in this part of the working time: more than a pipeline that overlaps them shows.
pub const TRANSFER_BOUND: f64 = 0.20;
/// One copy in so many steps or fewer is no part of a step.
pub const COPIES_PER_STEP: f64 = 0.5;
/// Copies up to this size take the same time whatever their size: the latency of a call and of the
/// bus, about 10 µs, is what 64 KiB take at the lowest PCIe speed in use.
pub const SMALL_COPY: u64 = 64 << 10;
/// So many of them make a habit.
pub const MANY_SMALL_COPIES: u64 = 100;
/// Pageable memory matters where it is copied by the mebibyte: below, latency hides it.
pub const PAGEABLE_BYTES: u64 = 16 << 20;

/// An optimizer that updates one parameter after another has several kernels for each; one that is fused has a few in all.
pub const OPTIMIZER_KERNELS: u64 = 50;

/// Kernels of one call of a module that could be one, forward and backward: a fused norm has four or five.
pub const FUSIBLE_PER_CALL: u64 = 8;
/// Fewer in a step are not worth a compiler.
pub const FUSIBLE_PER_STEP: u64 = 32;

/// What a line or a module makes the GPU wait for, of all its waiting, that is named before it: the user can change that line
/// today, and 'the host is too slow' names nothing to change.
pub const CAUSE_SHARE: f64 = 0.1;
/// A line that waits in so many of the steps does so in each.
pub const EVERY_STEP: f64 = 0.9;

/// Tensors that stay from step to step, below which nobody runs out of memory …
pub const GROWTH_BYTES: u64 = 1 << 20;
/// … or that are less than this part of all.
pub const GROWTH_SHARE: f64 = 0.02;

/// So many launches make a pattern.
pub const MANY_LAUNCHES: u64 = 32;
/// Half of all launches waited for at once is no accident.
pub const SYNC_EACH: f64 = 0.5;
/// A launch takes the host 2 to 10 µs, so that kernels shorter than this cannot keep a GPU busy.
pub const SHORT_KERNEL_NS: u64 = 10_000;
/// So many short kernels are worth a graph.
pub const MANY_SHORT_KERNELS: u64 = 200;
/// Launching while the GPU has nothing to do, for this part of the working time: a graph would show.
pub const GRAPH_SHARE: f64 = 0.10;
/// Launch calls in this part of the working time: the host is busy launching.
pub const LAUNCHING: f64 = 0.20;
/// Changes between the default stream and others: fewer are a set-up, not a habit.
pub const STREAM_CHANGES: u64 = 16;
/// Streams that overlap by less than this part run one after the other.
pub const NO_OVERLAP: f64 = 0.05;

/// Allocations in the working time: fewer are caches that fill up.
pub const LOOP_ALLOCATIONS: u64 = 16;
/// Or one in so many iterations.
pub const ALLOCATIONS_PER_ITERATION: f64 = 0.5;
/// Blocks that hold so much more than is live …
pub const WASTED_BYTES: u64 = 64 << 20;
/// … and of which less than this part is live.
pub const LIVE_OF_BLOCKS: f64 = 0.5;

/// A framework's pool below this is not worth a line.
pub const POOL_BYTES: u64 = 64 << 20;

/// The GPU without work for this part of the working time: a wait or two a step cost less than that.
pub const IDLE_SHARE: f64 = 0.20;
/// Of that time, waiting for launches: with less of it, the work was queued in time, and what takes long is something else
/// (a copy that begins when the kernel before it has ended).
pub const LATE_LAUNCHES: f64 = 0.1;
/// And is no gap that a person would call one below 1 ms.
pub const GAP_NS: u64 = 1_000_000;

/// Changes of the current context: fewer are a set-up, not a habit.
pub const CONTEXT_SWITCHES: u64 = 100;
/// Or so many a second.
pub const GPU_SWITCHES: u64 = 100;

/// A first call so many times longer than the usual one was doing something else too.
pub const FIRST_CALL_RATIO: u64 = 10;
/// Loading code for less than this is not worth a word.
pub const LOADING_NS: u64 = 50_000_000;
