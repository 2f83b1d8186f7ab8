//! Whose trace this is among the traces of a job: which run, which rank, where.

use alloc::string::String;

/// What a launcher (torchrun, mpirun, srun) and the container say about a process. What is not known is None.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[cfg_attr(
    feature = "serde",
    derive(serde::Serialize, serde::Deserialize),
    serde(default)
)]
pub struct Identity {
    /// The same for every rank of a job.
    #[cfg_attr(feature = "serde", serde(skip_serializing_if = "Option::is_none"))]
    pub run: Option<String>,
    #[cfg_attr(feature = "serde", serde(skip_serializing_if = "Option::is_none"))]
    pub rank: Option<u32>,
    /// The rank among those of its host.
    #[cfg_attr(feature = "serde", serde(skip_serializing_if = "Option::is_none"))]
    pub local_rank: Option<u32>,
    #[cfg_attr(feature = "serde", serde(skip_serializing_if = "Option::is_none"))]
    pub world_size: Option<u32>,
    /// The container's id, as its cgroup has it.
    #[cfg_attr(feature = "serde", serde(skip_serializing_if = "Option::is_none"))]
    pub container: Option<String>,
    /// Process numbers mean the same in traces of one boot only if this is the same, too.
    #[cfg_attr(feature = "serde", serde(skip_serializing_if = "Option::is_none"))]
    pub pid_namespace: Option<u64>,
    /// CUDA_VISIBLE_DEVICES, by which CUDA numbers devices.
    #[cfg_attr(feature = "serde", serde(skip_serializing_if = "Option::is_none"))]
    pub visible_devices: Option<String>,
}

impl Identity {
    /// Whether nothing is known.
    pub fn is_empty(&self) -> bool {
        *self == Identity::default()
    }
}
