//! Names that people look for, and what has become of them.

/// Functions that documents name, and the truth about them.
const FUNCTIONS: [(&str, &str); 18] = [
    (
        "nvidia_ioctl",
        "the compiler inlines it into nvidia_unlocked_ioctl: hook that",
    ),
    (
        "nv_ioctl",
        "no driver has had it; requests arrive in nvidia_unlocked_ioctl (535: nvidia_frontend_unlocked_ioctl) and go on to rm_ioctl",
    ),
    (
        "nv_ioctl_handler",
        "no driver has had it; requests arrive in nvidia_unlocked_ioctl",
    ),
    (
        "nv_ioctl_dispatcher",
        "no driver has had it; requests arrive in nvidia_unlocked_ioctl and go on to rm_ioctl",
    ),
    (
        "nv_mem_alloc",
        "no driver has had it; memory of the GPU: rmapiAllocWithSecInfo, pmaAllocatePages; of the host: nv_alloc_pages; the kernel's heap: os_alloc_mem",
    ),
    (
        "nv_mem_free",
        "no driver has had it; memory of the GPU: rmapiFreeWithSecInfo; of the host: nv_free_pages; the kernel's heap: os_free_mem",
    ),
    (
        "nv_schedule_work",
        "no driver has had it; work of the driver itself: nv_kthread_q_schedule_q_item, os_queue_work_item; launches pass the kernel by",
    ),
    (
        "nv_queue_work",
        "no driver has had it; work of the driver itself: nv_kthread_q_schedule_q_item, os_queue_work_item",
    ),
    (
        "os_schedule_work",
        "no driver has had it; work of the driver itself: os_queue_work_item, nv_kthread_q_schedule_q_item",
    ),
    (
        "nv_create_context",
        "no driver has had it; contexts: kchangrpapiConstruct_IMPL, kchannelConstruct_IMPL, kctxshareapiConstruct_IMPL",
    ),
    (
        "nv_destroy_context",
        "no driver has had it; contexts go with rmapiFreeWithSecInfo",
    ),
    (
        "nv_bind_context_dma",
        "no driver has had it; the request is RM_BIND_CONTEXT_DMA, which nvidia_unlocked_ioctl receives",
    ),
    (
        "nv_dma_exec_command",
        "no driver has had it; work is submitted by writing to mapped memory, without any function of the kernel",
    ),
    (
        "nv_gpu_scheduler_schedule",
        "no driver has had it; channels are scheduled by kchangrpapiCtrlCmdGpFifoSchedule_IMPL",
    ),
    ("nv_mem_access_ok", "no driver has had it"),
    (
        "nv_ioctl_alloc_memory",
        "no driver has had it; the request is RM_ALLOC_MEMORY, which nvidia_unlocked_ioctl receives",
    ),
    (
        "nv_ioctl_free_memory",
        "no driver has had it; the request is RM_FREE, which nvidia_unlocked_ioctl receives",
    ),
    (
        "nvidia_ioctl_v2",
        "no driver has had it; requests arrive in nvidia_unlocked_ioctl",
    ),
];

/// What is known about a function that is not there.
pub fn lore(function: &str) -> Option<&'static str> {
    FUNCTIONS
        .iter()
        .find(|(name, _)| *name == function)
        .map(|(_, truth)| *truth)
}

/// Tracepoints that can be hooked and stay silent with NVIDIA's driver, by group.
pub const SILENT: [(&str, &str); 3] = [
    (
        "gpu_mem",
        "NVIDIA's driver never fires it: other drivers report their memory this way",
    ),
    (
        "dma_fence",
        "CUDA uses no fences of this kind: only nvidia-drm, for displays, fires it",
    ),
    (
        "gpu_scheduler",
        "NVIDIA's driver has a scheduler of its own: other drivers fire it",
    ),
];

/// Why a group's tracepoints will stay silent.
pub fn silence(group: &str) -> Option<&'static str> {
    SILENT
        .iter()
        .find(|(name, _)| *name == group)
        .map(|(_, why)| *why)
}
