//! What a program costs a thread, as far as it is known without running it.

/// Counts over a translated program. Instructions are PTX's, each counted once however often it runs.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Cost {
    /// The most BPF instructions one thread executes.
    pub longest_path: u64,
    pub instructions: u32,
    pub global_loads: u32,
    pub global_stores: u32,
    pub atomics: u32,
    /// Of these, how many are done once for all lanes with the same address.
    pub aggregated: u32,
    pub calls: u32,
    /// Bytes of memory per thread (stack that is not in registers, and what helpers are handed).
    pub local_bytes: u32,
    /// 32-bit registers that hold the program's variables at once, at most; ptxas may need fewer.
    pub registers: u32,
}

impl Cost {
    pub(super) fn add(&mut self, other: &Cost) {
        self.instructions += other.instructions;
        self.global_loads += other.global_loads;
        self.global_stores += other.global_stores;
        self.atomics += other.atomics;
        self.aggregated += other.aggregated;
        self.calls += other.calls;
        self.local_bytes += other.local_bytes;
        self.registers = self.registers.max(other.registers);
    }
}
