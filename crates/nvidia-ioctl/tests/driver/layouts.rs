//! Sizes and the place of the status of every request, by driver version: what was compiled from
//! the headers of each against what is known of the drivers.

use nvidia_ioctl::{DeviceFile, IoctlCall, Known, NvStatus, Version, argument_size, decode, known};

/// number, name, bytes, offset of the status. The sizes of driver 580.
const ESCAPES: &[(u32, &str, u32, Option<usize>)] = &[
    (0x27, "NV_ESC_RM_ALLOC_MEMORY", 56, Some(40)),
    (0x28, "NV_ESC_RM_ALLOC_OBJECT", 20, Some(16)),
    (0x29, "NV_ESC_RM_FREE", 16, Some(12)),
    (0x2a, "NV_ESC_RM_CONTROL", 32, Some(28)),
    (0x2b, "NV_ESC_RM_ALLOC", 48, Some(40)),
    (0x2b, "NV_ESC_RM_ALLOC", 32, Some(28)),
    (0x34, "NV_ESC_RM_DUP_OBJECT", 28, Some(24)),
    (0x35, "NV_ESC_RM_SHARE", 24, Some(20)),
    (0x39, "NV_ESC_RM_I2C_ACCESS", 32, Some(24)),
    (0x41, "NV_ESC_RM_IDLE_CHANNELS", 56, Some(48)),
    (0x4a, "NV_ESC_RM_VID_HEAP_CONTROL", 184, Some(20)),
    (0x4d, "NV_ESC_RM_ACCESS_REGISTRY", 72, Some(64)),
    (0x4e, "NV_ESC_RM_MAP_MEMORY", 56, Some(40)),
    (0x4f, "NV_ESC_RM_UNMAP_MEMORY", 32, Some(24)),
    (0x52, "NV_ESC_RM_GET_EVENT_DATA", 16, Some(12)),
    (0x54, "NV_ESC_RM_ALLOC_CONTEXT_DMA2", 56, Some(48)),
    (0x56, "NV_ESC_RM_ADD_VBLANK_CALLBACK", 56, Some(52)),
    (0x57, "NV_ESC_RM_MAP_MEMORY_DMA", 64, Some(56)),
    (0x58, "NV_ESC_RM_UNMAP_MEMORY_DMA", 48, Some(40)),
    (0x59, "NV_ESC_RM_BIND_CONTEXT_DMA", 16, Some(12)),
    (0x5e, "NV_ESC_RM_UPDATE_DEVICE_MAPPING_INFO", 40, Some(32)),
    (0x5f, "NV_ESC_RM_LOCKLESS_DIAGNOSTIC", 15412, Some(4)),
    (200, "NV_ESC_CARD_INFO", 72, None),
    (200, "NV_ESC_CARD_INFO", 2304, None),
    (201, "NV_ESC_REGISTER_FD", 4, None),
    (206, "NV_ESC_ALLOC_OS_EVENT", 16, Some(12)),
    (207, "NV_ESC_FREE_OS_EVENT", 16, Some(12)),
    (209, "NV_ESC_STATUS_CODE", 12, Some(8)),
    (210, "NV_ESC_CHECK_VERSION_STR", 72, None),
    (211, "NV_ESC_IOCTL_XFER_CMD", 16, None),
    (213, "NV_ESC_QUERY_DEVICE_INTR", 8, Some(4)),
    (214, "NV_ESC_SYS_PARAMS", 8, None),
    (215, "NV_ESC_NUMA_INFO", 560, None),
    (216, "NV_ESC_SET_NUMA_STATUS", 4, None),
    (217, "NV_ESC_EXPORT_TO_DMABUF_FD", 2608, Some(2600)),
    (218, "NV_ESC_WAIT_OPEN_COMPLETE", 8, Some(4)),
];

/// number, name, bytes, offset of the status. The sizes of driver 595.
const UVM: &[(u32, &str, usize, usize)] = &[
    (0x3000_0001, "INITIALIZE", 16, 8),
    (23, "CREATE_RANGE_GROUP", 16, 8),
    (24, "DESTROY_RANGE_GROUP", 16, 8),
    (25, "REGISTER_GPU_VASPACE", 32, 28),
    (26, "UNREGISTER_GPU_VASPACE", 20, 16),
    (27, "REGISTER_CHANNEL", 56, 48),
    (28, "UNREGISTER_CHANNEL", 12, 8),
    (29, "ENABLE_PEER_ACCESS", 36, 32),
    (30, "DISABLE_PEER_ACCESS", 36, 32),
    (31, "SET_RANGE_GROUP", 32, 24),
    (33, "MAP_EXTERNAL_ALLOCATION", 9264, 9260),
    (34, "FREE", 16, 8),
    (35, "MEM_MAP", 24, 16),
    (37, "REGISTER_GPU", 40, 36),
    (38, "UNREGISTER_GPU", 20, 16),
    (39, "PAGEABLE_MEM_ACCESS", 8, 4),
    (40, "PREVENT_MIGRATION_RANGE_GROUPS", 272, 264),
    (41, "ALLOW_MIGRATION_RANGE_GROUPS", 272, 264),
    (42, "SET_PREFERRED_LOCATION", 40, 36),
    (43, "UNSET_PREFERRED_LOCATION", 24, 16),
    (44, "ENABLE_READ_DUPLICATION", 24, 16),
    (45, "DISABLE_READ_DUPLICATION", 24, 16),
    (46, "SET_ACCESSED_BY", 40, 32),
    (47, "UNSET_ACCESSED_BY", 40, 32),
    (51, "MIGRATE", 80, 72),
    (53, "MIGRATE_RANGE_GROUP", 32, 24),
    (56, "TOOLS_INIT_EVENT_TRACKER", 56, 48),
    (57, "TOOLS_SET_NOTIFICATION_THRESHOLD", 8, 4),
    (58, "TOOLS_EVENT_QUEUE_ENABLE_EVENTS", 16, 8),
    (59, "TOOLS_EVENT_QUEUE_DISABLE_EVENTS", 16, 8),
    (60, "TOOLS_ENABLE_COUNTERS", 16, 8),
    (61, "TOOLS_DISABLE_COUNTERS", 16, 8),
    (62, "TOOLS_READ_PROCESS_MEMORY", 40, 32),
    (63, "TOOLS_WRITE_PROCESS_MEMORY", 40, 32),
    (64, "TOOLS_GET_PROCESSOR_UUID_TABLE", 16, 8),
    (65, "MAP_DYNAMIC_PARALLELISM_REGION", 40, 32),
    (66, "UNMAP_EXTERNAL", 40, 32),
    (67, "TOOLS_FLUSH_EVENTS", 4, 0),
    (68, "ALLOC_SEMAPHORE_POOL", 9248, 9240),
    (69, "CLEAN_UP_ZOMBIE_RESOURCES", 4, 0),
    (70, "PAGEABLE_MEM_ACCESS_ON_GPU", 24, 20),
    (71, "POPULATE_PAGEABLE", 24, 20),
    (72, "VALIDATE_VA_RANGE", 24, 16),
    (73, "CREATE_EXTERNAL_RANGE", 24, 16),
    (74, "MAP_EXTERNAL_SPARSE", 40, 32),
    (75, "MM_INITIALIZE", 8, 4),
    (76, "TOOLS_INIT_EVENT_TRACKER_V2", 56, 48),
    (77, "TOOLS_GET_PROCESSOR_UUID_TABLE_V2", 16, 8),
    (78, "ALLOC_DEVICE_P2P", 56, 52),
    (79, "CLEAR_ALL_ACCESS_COUNTERS", 4, 0),
    (80, "DISCARD", 32, 24),
];

pub fn version(text: &str) -> Version {
    text.parse().unwrap()
}

/// Decodes a struct that holds nothing but a status at the given place.
fn refused(
    file: DeviceFile,
    cmd: u32,
    version: Version,
    size: usize,
    at: usize,
) -> (Option<&'static str>, Option<NvStatus>, Option<String>) {
    let mut bytes = vec![0; size];
    bytes[at..at + 4].copy_from_slice(&0x1fu32.to_le_bytes());
    let before = vec![0; size];
    let decoded = decode(&IoctlCall {
        file,
        cmd,
        version,
        before: &before,
        after: Some(&bytes),
        memory: &[],
        memory_after: &[],
    });
    (decoded.name, decoded.status, decoded.doubt)
}

fn request(number: u32, size: u32) -> u32 {
    0xc000_4600 | size << 16 | number
}

#[test]
fn frontend_requests_have_their_name_size_and_status() {
    for &(number, name, size, status) in ESCAPES {
        let cmd = request(number, size);
        let size = usize::try_from(size).unwrap();
        let at = status.unwrap_or(0);
        let found = refused(DeviceFile::Control, cmd, version("580"), size, at);
        let expected = status.map(|_| NvStatus(0x1f));
        assert_eq!(found, (Some(name), expected, None), "{name}");
    }
}

#[test]
fn uvm_requests_have_their_name_size_and_status() {
    for &(number, name, size, at) in UVM {
        let newest = version("595");
        assert_eq!(
            argument_size(DeviceFile::Uvm, number, newest),
            size,
            "{name}"
        );
        let found = refused(DeviceFile::Uvm, number, newest, size, at);
        let name = format!("UVM_{name}");
        assert_eq!(found, (Some(&*name), Some(NvStatus(0x1f)), None));
    }
    let bare = decode(&IoctlCall {
        file: DeviceFile::Uvm,
        cmd: 0x3000_0002,
        version: version("595"),
        before: &[],
        after: Some(&[]),
        memory: &[],
        memory_after: &[],
    });
    assert_eq!(bare.line(), "UVM_DEINITIALIZE");
}

#[test]
fn what_changed_between_versions_changed_here() {
    // number, size, status' offset; the first and the last version that has it so.
    for (number, size, at, versions) in [
        (0x57, 56, 48, ["535.261.03", "575.64.05"]),
        (0x57, 64, 56, ["580.65.06", "595.45.04"]),
        (0x58, 40, 32, ["535.54.03", "545.29.06"]),
        (0x58, 48, 40, ["550.40.07", "595.45.04"]),
        (217, 2600, 2592, ["535.261.03", "550.163.01"]),
        (217, 2608, 2600, ["570.86.15", "595.45.04"]),
    ] {
        for text in versions {
            let cmd = request(number, size);
            let size = usize::try_from(size).unwrap();
            let found = refused(DeviceFile::Control, cmd, version(text), size, at);
            assert_eq!(
                (found.1, found.2),
                (Some(NvStatus(0x1f)), None),
                "{number:#x} {text}"
            );
        }
    }
    for (number, size, at, versions) in [
        (34, 24, 16, ["535.261.03", "580.159.04"]),
        (34, 16, 8, ["590.44.01", "610.43.02"]),
        (28, 28, 24, ["535.261.03", "580.159.04"]),
        (28, 12, 8, ["590.44.01", "610.43.02"]),
        (33, 1200, 1196, ["535.261.03", "550.40.07"]),
        (33, 9264, 9260, ["550.54.14", "595.45.04"]),
        (68, 1184, 1176, ["535.261.03", "550.40.07"]),
        (68, 9248, 9240, ["550.54.14", "595.45.04"]),
        (42, 40, 32, ["535.261.03", "545.29.06"]),
        (42, 40, 36, ["550.40.07", "595.45.04"]),
    ] {
        for text in versions {
            assert_eq!(
                argument_size(DeviceFile::Uvm, number, version(text)),
                size,
                "{number} {text}"
            );
            let found = refused(DeviceFile::Uvm, number, version(text), size, at);
            assert_eq!(found.1, Some(NvStatus(0x1f)), "{number} {text}");
        }
    }
}

#[test]
fn tables_hold_what_the_versions_have() {
    let counts = ["535.261.03", "550.163.01", "580.142", "595.45.04"].map(|text| {
        [Known::Escapes, Known::Uvm, Known::Controls, Known::Classes]
            .map(|kind| known(kind, version(text)).count())
    });
    assert_eq!(
        counts,
        [
            [40, 72, 1375, 150],
            [41, 72, 1449, 157],
            [41, 76, 1564, 214],
            [37, 70, 1566, 214],
        ]
    );
    let has = |kind, text: &str, name: &str| known(kind, version(text)).any(|row| row.1 == name);
    assert!(!has(Known::Uvm, "575", "UVM_DISCARD") && has(Known::Uvm, "580", "UVM_DISCARD"));
    assert!(!has(Known::Escapes, "545", "NV_ESC_WAIT_OPEN_COMPLETE"));
    assert!(has(Known::Escapes, "550", "NV_ESC_WAIT_OPEN_COMPLETE"));
    assert!(has(Known::Escapes, "535", "NV_ESC_RM_NVLOG_CTRL"));
    assert!(!has(Known::Escapes, "595", "NV_ESC_RM_CONFIG_GET"));
}
