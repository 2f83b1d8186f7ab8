//! What a function does to the GPU's work, by its name: starts some, waits for it, copies.

use event::Layer;

/// What a call does to the GPU's work. Categories say what a call is about; this says what is
/// known of the GPU when it returns.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    /// Puts a kernel or a graph into a stream.
    Launch,
    /// Puts a copy into a stream and may return before it is done.
    QueueCopy,
    /// Fills or moves device memory, and may return before that is done.
    Fill,
    /// Copies, and returns when the copy is done or the source can be reused.
    Copy,
    /// Returns when one stream's work is done.
    SyncStream,
    /// Returns when all work of the context or device is done.
    SyncDevice,
    /// Returns when the work before an event is done.
    SyncEvent,
    RecordEvent,
    /// Says whether a stream's work is done.
    QueryStream,
    /// Ends a context, and its work with it.
    EndContext,
    Alloc,
    Free,
    Other,
}

impl Role {
    /// The role of a function of that layer.
    pub fn of(layer: Layer, name: &str) -> Self {
        if !matches!(layer, Layer::Runtime | Layer::Driver) {
            return Role::Other;
        }
        let name = name.strip_prefix("__").unwrap_or(name);
        let stem = name
            .strip_prefix("cuda")
            .or_else(|| name.strip_prefix("cu"));
        let Some(stem) = stem else { return Role::Other };
        // Versions and per-thread-default-stream variants do the same.
        let stem = stem.strip_suffix("_ptsz").unwrap_or(stem);
        let stem = stem.strip_suffix("_ptds").unwrap_or(stem);
        let stem = stem
            .rsplit_once("_v")
            .filter(|(_, version)| version.bytes().all(|byte| byte.is_ascii_digit()))
            .map_or(stem, |(stem, _)| stem);
        match stem {
            "StreamSynchronize" => Role::SyncStream,
            "CtxSynchronize" | "DeviceSynchronize" | "ThreadSynchronize" => Role::SyncDevice,
            "EventSynchronize" => Role::SyncEvent,
            "EventRecord" | "EventRecordWithFlags" => Role::RecordEvent,
            "StreamQuery" => Role::QueryStream,
            "CtxDestroy" | "DeviceReset" | "DevicePrimaryCtxReset" | "ThreadExit" => {
                Role::EndContext
            }
            "LaunchHostFunc" => Role::Other,
            "GraphLaunch" => Role::Launch,
            _ if stem.starts_with("Launch") => Role::Launch,
            _ if stem.starts_with("Memset") || stem.contains("Prefetch") => Role::Fill,
            _ if stem.starts_with("Memcpy") && stem.contains("Async") => Role::QueueCopy,
            _ if stem.starts_with("Memcpy") => Role::Copy,
            _ if stem.starts_with("Malloc")
                || stem.starts_with("MemAlloc")
                || stem.starts_with("MemCreate")
                || stem.starts_with("HostAlloc")
                || stem.starts_with("MemHostAlloc") =>
            {
                Role::Alloc
            }
            _ if stem.starts_with("MemFree")
                || stem.starts_with("Free")
                || stem.starts_with("MemRelease") =>
            {
                Role::Free
            }
            _ => Role::Other,
        }
    }

    /// Whether it gives the GPU something to do.
    pub fn starts_work(self) -> bool {
        matches!(
            self,
            Role::Launch | Role::QueueCopy | Role::Copy | Role::Fill
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_both_apis_and_all_versions() {
        for (name, role) in [
            ("cuLaunchKernel", Role::Launch),
            ("cudaLaunchKernelExC", Role::Launch),
            ("cuLaunchKernel_ptsz", Role::Launch),
            ("__cudaLaunchKernel", Role::Launch),
            ("cuGraphLaunch", Role::Launch),
            ("cudaLaunchHostFunc", Role::Other),
            ("cuMemcpyHtoDAsync_v2", Role::QueueCopy),
            ("cuMemcpyHtoDAsync_v2_ptsz", Role::QueueCopy),
            ("cudaMemcpy", Role::Copy),
            ("cuMemcpyDtoH_v2", Role::Copy),
            ("cuMemsetD8_v2", Role::Fill),
            ("cudaDeviceSynchronize", Role::SyncDevice),
            ("cuStreamSynchronize_ptsz", Role::SyncStream),
            ("cuEventRecord", Role::RecordEvent),
            ("cuMemAlloc_v2", Role::Alloc),
            ("cudaMallocAsync", Role::Alloc),
            ("cuMemFree_v2", Role::Free),
            ("cuCtxDestroy_v2", Role::EndContext),
            ("cuMemGetInfo_v2", Role::Other),
            ("memcpy", Role::Other),
        ] {
            assert_eq!(Role::of(Layer::Driver, name), role, "{name}");
        }
        assert_eq!(Role::of(Layer::Library, "cudaMemcpy"), Role::Other);
    }
}
