//! cudaDeviceProp, in the layout of the version being built, filled from driver attributes.

use std::ffi::{c_char, c_int, c_uint};

use crate::call::given;
use crate::context::Runtime;
use crate::driver::Api;
use crate::error::{Error, Outcome};

/// A field made of one or more device attributes.
trait FromAttributes {
    fn read(cu: &Api, device: c_int, attributes: &[c_int]) -> Self;
}

/// An attribute newer than the driver reads as 0, as a driver without the feature would say.
fn attribute(cu: &Api, device: c_int, attribute: c_int) -> c_int {
    let mut value = 0;
    let known = unsafe { cu.cuDeviceGetAttribute(&mut value, attribute, device) };
    if known.is_ok() { value } else { 0 }
}

impl FromAttributes for c_int {
    fn read(cu: &Api, device: c_int, attributes: &[c_int]) -> c_int {
        attribute(cu, device, attributes[0])
    }
}

impl FromAttributes for c_uint {
    fn read(cu: &Api, device: c_int, attributes: &[c_int]) -> c_uint {
        attribute(cu, device, attributes[0]).cast_unsigned()
    }
}

impl FromAttributes for usize {
    fn read(cu: &Api, device: c_int, attributes: &[c_int]) -> usize {
        usize::try_from(attribute(cu, device, attributes[0])).unwrap_or(0)
    }
}

impl<const N: usize> FromAttributes for [c_int; N] {
    fn read(cu: &Api, device: c_int, attributes: &[c_int]) -> [c_int; N] {
        std::array::from_fn(|at| attribute(cu, device, attributes[at]))
    }
}

/// Declares the structure's attribute fields, in order, each with its CUdevice_attribute
/// numbers, and how to fill them.
macro_rules! device_prop {
    (head { $($head:ident: $head_kind:ty,)* }
     attributes { $($(#[$only:meta])* $field:ident: $kind:ty = $attributes:expr;)* }
     tail { $($(#[$tail_only:meta])* $tail:ident: $tail_kind:ty,)* }) => {
        #[repr(C)]
        #[derive(Clone, Copy)]
        pub struct DeviceProp {
            $(pub(crate) $head: $head_kind,)*
            $($(#[$only])* pub(crate) $field: $kind,)*
            $($(#[$tail_only])* $tail: $tail_kind,)*
        }

        impl DeviceProp {
            fn fill(&mut self, cu: &Api, device: c_int) {
                $($(#[$only])* {
                    self.$field = FromAttributes::read(cu, device, &$attributes);
                })*
            }

            /// Names and offsets of the fields, for the test that compares them with the header.
            #[cfg(test)]
            fn offsets() -> Vec<(&'static str, usize)> {
                vec![
                    $((stringify!($head), std::mem::offset_of!(DeviceProp, $head)),)*
                    $($(#[$only])* (stringify!($field), std::mem::offset_of!(DeviceProp, $field)),)*
                ]
            }
        }
    };
}

device_prop! {
    head {
        name: [c_char; 256],
        uuid: [u8; 16],
        luid: [c_char; 8],
        luid_device_node_mask: c_uint,
        total_global_mem: usize,
    }
    attributes {
        shared_mem_per_block: usize = [8];
        regs_per_block: c_int = [12];
        warp_size: c_int = [10];
        mem_pitch: usize = [11];
        max_threads_per_block: c_int = [1];
        max_threads_dim: [c_int; 3] = [2, 3, 4];
        max_grid_size: [c_int; 3] = [5, 6, 7];
        #[cfg(feature = "cuda12")]
        clock_rate: c_int = [13];
        total_const_mem: usize = [9];
        major: c_int = [75];
        minor: c_int = [76];
        texture_alignment: usize = [14];
        texture_pitch_alignment: usize = [51];
        #[cfg(feature = "cuda12")]
        device_overlap: c_int = [15];
        multi_processor_count: c_int = [16];
        #[cfg(feature = "cuda12")]
        kernel_exec_timeout_enabled: c_int = [17];
        integrated: c_int = [18];
        can_map_host_memory: c_int = [19];
        #[cfg(feature = "cuda12")]
        compute_mode: c_int = [20];
        max_texture1_d: c_int = [21];
        max_texture1_d_mipmap: c_int = [77];
        #[cfg(feature = "cuda12")]
        max_texture1_d_linear: c_int = [69];
        max_texture2_d: [c_int; 2] = [22, 23];
        max_texture2_d_mipmap: [c_int; 2] = [73, 74];
        max_texture2_d_linear: [c_int; 3] = [70, 71, 72];
        max_texture2_d_gather: [c_int; 2] = [45, 46];
        max_texture3_d: [c_int; 3] = [24, 25, 26];
        max_texture3_d_alt: [c_int; 3] = [47, 48, 49];
        max_texture_cubemap: c_int = [52];
        max_texture1_d_layered: [c_int; 2] = [42, 43];
        max_texture2_d_layered: [c_int; 3] = [27, 28, 29];
        max_texture_cubemap_layered: [c_int; 2] = [53, 54];
        max_surface1_d: c_int = [55];
        max_surface2_d: [c_int; 2] = [56, 57];
        max_surface3_d: [c_int; 3] = [58, 59, 60];
        max_surface1_d_layered: [c_int; 2] = [61, 62];
        max_surface2_d_layered: [c_int; 3] = [63, 64, 65];
        max_surface_cubemap: c_int = [66];
        max_surface_cubemap_layered: [c_int; 2] = [67, 68];
        surface_alignment: usize = [30];
        concurrent_kernels: c_int = [31];
        ecc_enabled: c_int = [32];
        pci_bus_id: c_int = [33];
        pci_device_id: c_int = [34];
        pci_domain_id: c_int = [50];
        tcc_driver: c_int = [35];
        async_engine_count: c_int = [40];
        unified_addressing: c_int = [41];
        #[cfg(feature = "cuda12")]
        memory_clock_rate: c_int = [36];
        memory_bus_width: c_int = [37];
        l2_cache_size: c_int = [38];
        persisting_l2_cache_max_size: c_int = [108];
        max_threads_per_multi_processor: c_int = [39];
        stream_priorities_supported: c_int = [78];
        global_l1_cache_supported: c_int = [79];
        local_l1_cache_supported: c_int = [80];
        shared_mem_per_multiprocessor: usize = [81];
        regs_per_multiprocessor: c_int = [82];
        managed_memory: c_int = [83];
        is_multi_gpu_board: c_int = [84];
        multi_gpu_board_group_id: c_int = [85];
        host_native_atomic_supported: c_int = [86];
        #[cfg(feature = "cuda12")]
        single_to_double_precision_perf_ratio: c_int = [87];
        pageable_memory_access: c_int = [88];
        concurrent_managed_access: c_int = [89];
        compute_preemption_supported: c_int = [90];
        can_use_host_pointer_for_registered_mem: c_int = [91];
        cooperative_launch: c_int = [95];
        #[cfg(feature = "cuda12")]
        cooperative_multi_device_launch: c_int = [96];
        shared_mem_per_block_optin: usize = [97];
        pageable_memory_access_uses_host_page_tables: c_int = [100];
        direct_managed_mem_access_from_host: c_int = [101];
        max_blocks_per_multi_processor: c_int = [106];
        access_policy_max_window_size: c_int = [109];
        reserved_shared_mem_per_block: usize = [111];
        host_register_supported: c_int = [99];
        sparse_cuda_array_supported: c_int = [112];
        host_register_read_only_supported: c_int = [113];
        timeline_semaphore_interop_supported: c_int = [114];
        memory_pools_supported: c_int = [115];
        gpu_direct_rdma_supported: c_int = [116];
        gpu_direct_rdma_flush_writes_options: c_uint = [117];
        gpu_direct_rdma_writes_ordering: c_int = [118];
        memory_pool_supported_handle_types: c_uint = [119];
        deferred_mapping_cuda_array_supported: c_int = [121];
        ipc_event_supported: c_int = [125];
        cluster_launch: c_int = [120];
        unified_function_pointers: c_int = [129];
        #[cfg(not(feature = "cuda12"))]
        device_numa_config: c_int = [130];
        #[cfg(not(feature = "cuda12"))]
        device_numa_id: c_int = [131];
        #[cfg(not(feature = "cuda12"))]
        mps_enabled: c_int = [133];
        #[cfg(not(feature = "cuda12"))]
        host_numa_id: c_int = [134];
        #[cfg(not(feature = "cuda12"))]
        gpu_pci_device_id: c_uint = [139];
        #[cfg(not(feature = "cuda12"))]
        gpu_pci_subsystem_id: c_uint = [140];
        #[cfg(not(feature = "cuda12"))]
        host_numa_multinode_ipc_supported: c_int = [143];
    }
    tail {
        #[cfg(feature = "cuda12")]
        reserved: [c_int; 63],
        #[cfg(not(feature = "cuda12"))]
        reserved: [c_int; 56],
    }
}

/// What is written to the caller's structure: all but the reserved words, as NVIDIA's does.
pub(crate) const FILLED: usize = std::mem::offset_of!(DeviceProp, reserved);

/// The properties of a device.
pub(crate) fn of_device(cu: &Api, device: c_int) -> Result<Box<DeviceProp>, Error> {
    // All fields are integers, for which zero bytes are a value.
    let mut prop: Box<DeviceProp> = Box::new(unsafe { std::mem::zeroed() });
    unsafe {
        let mut handle = 0;
        cu.cuDeviceGet(&mut handle, device)?;
        cu.cuDeviceGetName(prop.name.as_mut_ptr(), prop.name.len() as c_int, handle)?;
        cu.cuDeviceTotalMem(&mut prop.total_global_mem, handle)?;
        cu.cuDeviceGetUuid(prop.uuid.as_mut_ptr().cast(), handle)?;
    }
    prop.fill(cu, device);
    Ok(prop)
}

/// Writes the first `size` bytes of a device's properties.
pub(crate) unsafe fn write(to: *mut DeviceProp, size: usize, device: c_int) -> Outcome {
    given(to)?;
    let from = std::ptr::from_ref(Runtime::get()?.properties(device)?).cast::<u8>();
    unsafe { std::ptr::copy_nonoverlapping(from, to.cast::<u8>(), size) };
    Ok(())
}

/// The device that fits a wish best: each field that the wish sets counts if the device has at
/// least that much; the lowest number wins a tie.
pub(crate) fn choose(wish: &DeviceProp) -> Result<c_int, Error> {
    let runtime = Runtime::get()?;
    let mut best = (0, -1);
    for device in 0..runtime.device_count() {
        let prop = runtime.properties(device)?;
        let (has, wants) = ((prop.major, prop.minor), (wish.major, wish.minor));
        let fits = [
            wish.name[0] != 0 && wish.name == prop.name,
            wish.major != 0 && has == wants,
            wish.major != 0 && has >= wants,
            wish.total_global_mem != 0 && prop.total_global_mem >= wish.total_global_mem,
            wish.shared_mem_per_block != 0
                && prop.shared_mem_per_block >= wish.shared_mem_per_block,
            wish.multi_processor_count != 0
                && prop.multi_processor_count >= wish.multi_processor_count,
        ];
        let score = fits.iter().filter(|fit| **fit).count() as c_int;
        if score > best.1 {
            best = (device, score);
        }
    }
    Ok(best.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The committed layout comes from a C program compiled against NVIDIA's header
    /// (gen/device_prop.sh).
    #[test]
    fn the_layout_is_the_headers() {
        let text = if cfg!(feature = "cuda12") {
            include_str!("../../exports/device_prop-12.txt")
        } else {
            include_str!("../../exports/device_prop-13.txt")
        };
        let mut lines = text.lines().map(|line| {
            let (name, number) = line.split_once(' ').expect("name and number");
            (name, number.parse::<usize>().expect("a number"))
        });
        assert_eq!(lines.next(), Some(("sizeof", size_of::<DeviceProp>())));
        let header: Vec<_> = lines.collect();
        let plain = |name: &str| name.replace('_', "").to_lowercase();
        let ours = DeviceProp::offsets();
        assert_eq!(header.len(), ours.len());
        for ((theirs, offset), (name, at)) in header.into_iter().zip(ours) {
            assert_eq!((plain(theirs), offset), (plain(name), at));
        }
    }
}
