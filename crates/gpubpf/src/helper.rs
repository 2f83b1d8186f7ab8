//! The helpers a GPU program may call: what they take, what they give, and how they are reached.
//!
//! A helper is either written into the program where it is called, or called as a function of the
//! device runtime, `__cutrace_helper_<number>`: five `.b64` registers in, one out. What is passed
//! differs from BPF's own arguments in two places: a map is passed as the address of its descriptor,
//! and a format (or the text of puts) as its number in [`crate::Translated::texts`].

/// What an argument must be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Argument {
    Context,
    /// A map of these sorts.
    Map(MapSort),
    /// Memory that holds a key of the map argument.
    Key,
    /// Memory that holds a value of the map argument.
    Value,
    /// Memory that is read; the next argument is its size.
    Memory,
    /// The size of the memory before it; at least 1.
    Size,
    /// The size of the memory before it; 0 is allowed.
    SizeOrZero,
    /// Eight bytes that are written.
    Out,
    Number,
    /// A format known when the program is verified; the next argument is its size.
    Format,
    /// A text known when the program is verified.
    Text,
    /// As many of these as the format has conversions.
    Formatted,
}

/// What maps a helper works on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MapSort {
    Keyed,
    /// Arrays of 8-byte values that all threads share.
    Counters,
    Ring,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Gives {
    Number,
    /// A number from 0 to this.
    Below(u64),
    ValueOrNull,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Helper {
    pub number: u32,
    pub name: &'static str,
    pub arguments: &'static [Argument],
    pub gives: Gives,
    pub meaning: &'static str,
}

pub const MAP_LOOKUP: u32 = 1;
pub const MAP_UPDATE: u32 = 2;
pub const TRACE_PRINTK: u32 = 6;
pub const PERF_EVENT_OUTPUT: u32 = 25;
pub const RINGBUF_OUTPUT: u32 = 130;
pub const TRACE_VPRINTK: u32 = 177;
pub const CUDA_EXIT: u32 = 507;
pub const GPU_HISTOGRAM: u32 = 601;

use Argument as A;

macro_rules! helpers {
    ($($number:literal $name:literal ($($argument:expr),*) -> $gives:expr, $meaning:literal;)*) => {
        /// Every helper, by number.
        pub const HELPERS: &[Helper] = &[$(Helper {
            number: $number,
            name: $name,
            arguments: &[$($argument),*],
            gives: $gives,
            meaning: $meaning,
        }),*];
    };
}

helpers! {
    1 "map_lookup_elem" (A::Map(MapSort::Keyed), A::Key) -> Gives::ValueOrNull,
        "address of the value; NULL if there is none or if the index is past the array's end";
    2 "map_update_elem" (A::Map(MapSort::Keyed), A::Key, A::Value, A::Number) -> Gives::Number,
        "copies the value in; 0 on success";
    3 "map_delete_elem" (A::Map(MapSort::Keyed), A::Key) -> Gives::Number,
        "removes a key from a hash map; 0 on success";
    5 "ktime_get_ns" () -> Gives::Number, "the host's monotonic clock, from the calibrated GPU clock";
    6 "trace_printk" (A::Format, A::Size, A::Formatted, A::Formatted, A::Formatted) -> Gives::Number,
        "a line of text, formatted on the host";
    7 "get_prandom_u32" () -> Gives::Below(u32::MAX as u64), "a pseudo-random number";
    8 "get_smp_processor_id" () -> Gives::Below(u32::MAX as u64), "the SM the thread is on";
    14 "get_current_pid_tgid" () -> Gives::Number, "the context's process, in both halves";
    25 "perf_event_output" (A::Context, A::Map(MapSort::Ring), A::Number, A::Memory, A::Size)
        -> Gives::Number, "writes a record to the ring; 0, or 2 if it is full";
    130 "ringbuf_output" (A::Map(MapSort::Ring), A::Memory, A::Size, A::Number) -> Gives::Number,
        "writes a record to the ring; 0, or 2 if it is full";
    177 "trace_vprintk" (A::Format, A::Size, A::Memory, A::SizeOrZero) -> Gives::Number,
        "trace_printk with more than three values";
    501 "puts" (A::Text) -> Gives::Number, "a line of text";
    502 "get_globaltimer" () -> Gives::Number, "%globaltimer, in ns";
    503 "get_block_idx" (A::Out, A::Out, A::Out) -> Gives::Number, "blockIdx.x, .y, .z";
    504 "get_block_dim" (A::Out, A::Out, A::Out) -> Gives::Number, "blockDim.x, .y, .z";
    505 "get_thread_idx" (A::Out, A::Out, A::Out) -> Gives::Number, "threadIdx.x, .y, .z";
    506 "gpu_membar" () -> Gives::Number, "membar.sys";
    507 "cuda_exit" () -> Gives::Number, "ends the kernel's thread";
    508 "get_grid_dim" (A::Out, A::Out, A::Out) -> Gives::Number, "gridDim.x, .y, .z";
    509 "get_sm_id" () -> Gives::Below(u32::MAX as u64), "%smid";
    510 "get_warp_id" () -> Gives::Below(u32::MAX as u64), "%warpid";
    511 "get_lane_id" () -> Gives::Below(31), "%laneid";
    600 "gpu_sample" (A::Number) -> Gives::Below(1), "1 for one thread in n";
    601 "gpu_histogram" (A::Map(MapSort::Counters), A::Number) -> Gives::Number,
        "adds 1 to the entry of the number's power of two";
    602 "gpu_thread_id" () -> Gives::Number, "the thread's number in its grid";
}

pub fn find(number: u32) -> Option<&'static Helper> {
    HELPERS.iter().find(|helper| helper.number == number)
}
