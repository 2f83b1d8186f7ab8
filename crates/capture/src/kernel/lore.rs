//! Names that people look for, and what has become of them.

/// Functions that documents name, and the truth about them.
const FUNCTIONS: &[(&str, &str)] = &[
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
        "no driver has had it; GPU memory: rmapiAllocWithSecInfo, pmaAllocatePages; host memory: nv_alloc_pages; kernel heap: os_alloc_mem",
    ),
    (
        "nv_mem_free",
        "no driver has had it; GPU memory: rmapiFreeWithSecInfo; host memory: nv_free_pages; kernel heap: os_free_mem",
    ),
    (
        "nv_schedule_work",
        "no driver has had it; the driver's own work: nv_kthread_q_schedule_q_item, os_queue_work_item; launches bypass the kernel",
    ),
    (
        "nv_queue_work",
        "no driver has had it; the driver's own work: nv_kthread_q_schedule_q_item, os_queue_work_item",
    ),
    (
        "os_schedule_work",
        "no driver has had it; the driver's own work: os_queue_work_item, nv_kthread_q_schedule_q_item",
    ),
    (
        "nv_create_context",
        "no driver has had it; contexts: kchangrpapiConstruct_IMPL, kchannelConstruct_IMPL, kctxshareapiConstruct_IMPL",
    ),
    (
        "nv_destroy_context",
        "no driver has had it; rmapiFreeWithSecInfo frees contexts",
    ),
    (
        "nv_bind_context_dma",
        "no driver has had it; the request is RM_BIND_CONTEXT_DMA, which nvidia_unlocked_ioctl receives",
    ),
    (
        "nv_dma_exec_command",
        "no driver has had it; work is submitted by writing to mapped memory, without calling the kernel",
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
    (
        "nvidia_compat_ioctl",
        "no driver since 515 has had it; requests of 32-bit programs arrive in nvidia_unlocked_ioctl (535: nvidia_frontend_compat_ioctl)",
    ),
    (
        "nv_ioctl_xfer_mode_params",
        "no driver has had it; long requests are NV_ESC_IOCTL_XFER_CMD, which nvidia_unlocked_ioctl receives",
    ),
    (
        "nv_ioctl_alloc_os_event",
        "no driver has had such a function; the request is NV_ESC_ALLOC_OS_EVENT, which nvidia_unlocked_ioctl receives and allocate_os_event handles",
    ),
    (
        "nv_ioctl_sync_gpu_objects",
        "no driver has had it; programs wait for the GPU in user space, or by poll() on the driver's files: nvidia_poll",
    ),
    (
        "nv_ioctl_graphics_object_ctrl",
        "no driver has had it; the request is NV_ESC_RM_CONTROL, which nvidia_unlocked_ioctl receives and rm_ioctl handles",
    ),
    (
        "nv_wait_for_*",
        "no driver for this architecture has had it; programs wait for the GPU in user space, or by poll() on the driver's files: nvidia_poll; --waits records when",
    ),
    (
        "nv_bind_context*",
        "no driver has had it; the request is NV_ESC_RM_BIND_CONTEXT_DMA, which nvidia_unlocked_ioctl receives",
    ),
    (
        "nv*ctx*",
        "no driver has had such a function; contexts: kchangrpapiConstruct_IMPL, kchannelConstruct_IMPL, kctxshareapiConstruct_IMPL; --method=fecs records switches between them",
    ),
    (
        "*nv*ctx*",
        "contexts: kchangrpapiConstruct_IMPL, kchannelConstruct_IMPL, kctxshareapiConstruct_IMPL; --method=fecs records switches between them",
    ),
    (
        "nv*mem*",
        "GPU memory: rmapiAllocWithSecInfo, pmaAllocatePages; host memory: nv_alloc_pages; kernel heap: os_alloc_mem",
    ),
];

/// What is known about a function that is not there, or about the first that a glob means.
pub fn lore(function: &str) -> Option<&'static str> {
    let exact = FUNCTIONS.iter().find(|(name, _)| *name == function);
    let meant = || {
        let is_glob = function.contains(['*', '?']);
        // A glob over everything asks for nothing in particular.
        let names_something = function.bytes().filter(u8::is_ascii_alphanumeric).count() > 5;
        let mut all = FUNCTIONS.iter().filter(|_| is_glob && names_something);
        all.find(|(name, _)| event::matches_glob(function.as_bytes(), name.as_bytes()))
    };
    exact.or_else(meant).map(|(_, truth)| *truth)
}

/// What is known about a group of tracepoints that is not there.
pub fn lore_of_group(group: &str) -> Option<&'static str> {
    match group {
        "gpu" => Some(
            "no kernel has had this group; the real one is gpu_mem:gpu_mem_total, which NVIDIA's driver never fires: report memory shows what programs allocate",
        ),
        "nvidia" => Some(
            "the driver's only tracepoint is nvidia:nvidia_dev_xid; the open driver has it from 575 on, while loaded",
        ),
        _ => None,
    }
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
        "NVIDIA's driver has its own scheduler; other drivers fire it",
    ),
];

/// Why a group's tracepoints will stay silent.
pub fn silence(group: &str) -> Option<&'static str> {
    SILENT
        .iter()
        .find(|(name, _)| *name == group)
        .map(|(_, why)| *why)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The names that documents on tracing the driver hand on.
    #[test]
    fn invented_names_lead_to_real_ones() {
        for name in [
            "nv_ioctl",
            "nv_ioctl_handler",
            "nv_ioctl_dispatcher",
            "nv_ioctl_alloc_os_event",
            "nv_ioctl_alloc_memory",
            "nv_ioctl_free_memory",
            "nv_ioctl_sync_gpu_objects",
            "nv_ioctl_graphics_object_ctrl",
            "nv_ioctl_xfer_mode_params",
            "nvidia_ioctl_v2",
            "nvidia_compat_ioctl",
            "nv_mem_alloc",
            "nv_mem_free",
            "nv_mem_access_ok",
            "nv_schedule_work",
            "nv_queue_work",
            "nv_dma_exec_command",
            "nv_create_context",
            "nv_destroy_context",
            "nv_bind_context_dma",
            "nv_bind_context*",
            "nv_gpu_scheduler_schedule",
            "nv_wait_for_*",
            "nv*ctx*",
        ] {
            let truth = lore(name).unwrap_or_default();
            assert!(truth.starts_with("no driver"), "{name}: {truth}");
        }
        assert!(lore("nv_create_con*").is_some_and(|it| it.contains("contexts: ")));
        // Those that drivers do have, and what nobody means in particular.
        for name in [
            "os_alloc_mem",
            "nv_kthread_q_schedule_q_item",
            "nv*",
            "*",
            "vfs_open",
        ] {
            assert_eq!(lore(name), None, "{name}");
        }
        assert!(lore_of_group("gpu").is_some_and(|it| it.contains("gpu_mem:gpu_mem_total")));
        assert_eq!(lore_of_group("irq"), None);
    }
}
