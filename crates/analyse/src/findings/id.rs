//! What findings there are. docs/FINDINGS.md explains each: a test compares. An id that nothing reports is a warning.

macro_rules! ids {
    ($($name:ident $text:literal,)*) => {
        /// What a finding is, for those who make and rank them.
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub(crate) enum Id {
            $($name,)*
        }

        impl Id {
            pub(super) const fn as_str(self) -> &'static str {
                match self {
                    $(Id::$name => $text,)*
                }
            }
        }

        /// Every id that a finding can have.
        pub const IDS: &[&str] = &[$($text,)*];
    };
}

ids! {
    AllocationInLoop "allocation-in-loop",
    BadFree "bad-free",
    ContextThrash "context-thrash",
    DefaultStream "default-stream",
    FailedCalls "failed-calls",
    Fragmentation "fragmentation",
    GpuContextSwitches "gpu-context-switches",
    GpuCrash "gpu-crash",
    HostBound "host-bound",
    IdleGap "idle-gap",
    IdleGpu "idle-gpu",
    ItemInLoop "item-in-loop",
    Leak "leak",
    LostEvents "lost-events",
    MemoryNotFollowed "memory-not-followed",
    NeverFreed "never-freed",
    OutOfMemory "out-of-memory",
    PageableCopies "pageable-copies",
    Pauses "pauses",
    Pool "pool",
    SlowDataLoading "slow-data-loading",
    SmallCopies "small-copies",
    SmallKernelsInModule "small-kernels-in-module",
    SmallLaunches "small-launches",
    StartUp "start-up",
    Starved "starved",
    SyncAfterEveryLaunch "sync-after-every-launch",
    TensorLeak "tensor-leak",
    TransferBound "transfer-bound",
    UnfusedOptimizer "unfused-optimizer",
}
