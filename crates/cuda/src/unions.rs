//! Which arm of a union is used: a field beside it says so, or the struct around it does.

use crate::model::{Field, Struct};

struct Row {
    /// The structs with this union; drivers and runtimes number their arms alike.
    layouts: &'static [&'static str],
    /// The field that tells; none where it is in the struct around this one.
    tag: Option<&'static str>,
    /// Values of the tag, and the fields that are used then: with this name, or below it.
    arms: &'static [(u32, &'static str)],
}

const ROWS: &[Row] = &[
    Row {
        layouts: &["CUlaunchAttributeValue", "cudaLaunchAttributeValue"],
        tag: None,
        arms: &[
            (1, "accessPolicyWindow"),
            (2, "cooperative"),
            (3, "syncPolicy"),
            (4, "clusterDim"),
            (5, "clusterSchedulingPolicyPreference"),
            (6, "programmaticStreamSerializationAllowed"),
            (7, "programmaticEvent"),
            (8, "priority"),
            (9, "memSyncDomainMap"),
            (10, "memSyncDomain"),
            (11, "preferredClusterDim"),
            (12, "launchCompletionEvent"),
            (13, "deviceUpdatableKernelNode"),
            (14, "sharedMemCarveout"),
            (16, "nvlinkUtilCentricScheduling"),
        ],
    },
    Row {
        layouts: &["CUgraphNodeParams", "cudaGraphNodeParams"],
        tag: Some("type"),
        arms: &[
            (0, "kernel"),
            (1, "memcpy"),
            (2, "memset"),
            (3, "host"),
            (4, "graph"),
            (6, "eventWait"),
            (7, "eventRecord"),
            (8, "extSemSignal"),
            (9, "extSemWait"),
            (10, "alloc"),
            (11, "free"),
            (12, "memOp"),
            (13, "conditional"),
        ],
    },
    Row {
        layouts: &["CUDA_RESOURCE_DESC_v1", "cudaResourceDesc"],
        tag: Some("resType"),
        arms: &[
            (0, "res.array"),
            (1, "res.mipmap"),
            (2, "res.linear"),
            (3, "res.pitch2D"),
        ],
    },
    Row {
        layouts: &["CUstreamBatchMemOpParams_v1"],
        tag: Some("operation"),
        arms: &[
            (1, "waitValue"),
            (2, "writeValue"),
            (3, "flushRemoteWrites"),
            (4, "waitValue"),
            (5, "writeValue"),
            (6, "memoryBarrier"),
        ],
    },
    Row {
        layouts: &[
            "CUstreamMemOpWaitValueParams_st",
            "CUstreamMemOpWriteValueParams_st",
        ],
        tag: Some("operation"),
        arms: &[(1, "value"), (2, "value"), (4, "value64"), (5, "value64")],
    },
    Row {
        layouts: &[
            "CUDA_EXTERNAL_MEMORY_HANDLE_DESC_v1",
            "cudaExternalMemoryHandleDesc",
        ],
        tag: Some("type"),
        arms: &[
            (1, "handle.fd"),
            (2, "handle.win32"),
            (3, "handle.win32"),
            (4, "handle.win32"),
            (5, "handle.win32"),
            (6, "handle.win32"),
            (7, "handle.win32"),
            (8, "handle.nvSciBufObject"),
            (9, "handle.fd"),
        ],
    },
    Row {
        layouts: &[
            "CUDA_EXTERNAL_SEMAPHORE_HANDLE_DESC_v1",
            "cudaExternalSemaphoreHandleDesc",
        ],
        tag: Some("type"),
        arms: &[
            (1, "handle.fd"),
            (2, "handle.win32"),
            (3, "handle.win32"),
            (4, "handle.win32"),
            (5, "handle.win32"),
            (6, "handle.nvSciSyncObj"),
            (7, "handle.win32"),
            (8, "handle.win32"),
            (9, "handle.fd"),
            (10, "handle.win32"),
        ],
    },
    Row {
        layouts: &["CUmemcpy3DOperand_v1", "cudaMemcpy3DOperand"],
        tag: Some("type"),
        arms: &[(1, "op.ptr"), (2, "op.array")],
    },
    Row {
        layouts: &["CUarrayMapInfo_v1"],
        tag: Some("resourceType"),
        arms: &[(0, "resource.array"), (1, "resource.mipmap")],
    },
    Row {
        layouts: &["CUarrayMapInfo_v1"],
        tag: Some("subresourceType"),
        arms: &[(0, "subresource.sparseLevel"), (1, "subresource.miptail")],
    },
    Row {
        layouts: &["CUarrayMapInfo_v1"],
        tag: Some("memHandleType"),
        arms: &[(0, "memHandle.memHandle")],
    },
    Row {
        layouts: &["CUdevResource_v1"],
        tag: Some("type"),
        arms: &[(1, "sm")],
    },
    Row {
        layouts: &["CUexecAffinityParam_v1"],
        tag: Some("type"),
        arms: &[(0, "param.smCount")],
    },
    Row {
        layouts: &["CUeglFrame_v1", "cudaEglFrame"],
        tag: Some("frameType"),
        arms: &[(0, "frame.pArray"), (1, "frame.pPitch")],
    },
    // Which kind of semaphore it is was said when it was imported; fences are not in the union.
    Row {
        layouts: &[
            "CUDA_EXTERNAL_SEMAPHORE_SIGNAL_PARAMS_v1",
            "CUDA_EXTERNAL_SEMAPHORE_WAIT_PARAMS_v1",
            "cudaExternalSemaphoreSignalParams",
            "cudaExternalSemaphoreSignalParams_v1",
            "cudaExternalSemaphoreWaitParams",
            "cudaExternalSemaphoreWaitParams_v1",
        ],
        tag: None,
        arms: &[],
    },
];

/// Whether a field is used. `tag` gives the value of a field of the same struct, or, for none,
/// what the struct around it says.
pub fn is_meant(
    layout: &Struct,
    field: &Field,
    mut tag: impl FnMut(Option<&str>) -> Option<u32>,
) -> bool {
    if !field.shared {
        return true;
    }
    let rows = ROWS.iter().filter(|row| row.layouts.contains(&layout.name));
    let mut arms = rows.flat_map(|row| row.arms.iter().map(move |arm| (row.tag, arm)));
    arms.any(|(name, (value, arm))| {
        let rest = field.name.strip_prefix(arm);
        rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
            && tag(name) == Some(*value)
    })
}

/// Whether it is known which arms of this struct's unions are used.
pub fn is_known(layout: &Struct) -> bool {
    ROWS.iter().any(|row| row.layouts.contains(&layout.name))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lookup::{functions, older_functions, structure};
    use crate::model::{Kind, Type};

    fn visit(kind: &'static Type, seen: &mut [Option<&'static Struct>; 600], count: &mut usize) {
        if let Some(inner) = kind.pointee() {
            return visit(inner, seen, count);
        }
        let Some(layout) = kind.structure() else {
            return;
        };
        let known =
            |one: &Option<&'static Struct>| one.is_some_and(|one| core::ptr::eq(one, layout));
        if seen[..*count].iter().any(known) {
            return;
        }
        seen[*count] = Some(layout);
        *count += 1;
        for field in layout.fields {
            visit(field.kind, seen, count);
        }
    }

    #[test]
    fn every_struct_with_a_union_says_which_arm_is_meant() {
        let (mut seen, mut count) = ([None; 600], 0);
        for function in functions().iter().chain(older_functions()) {
            for parameter in function.parameters {
                visit(parameter.kind, &mut seen, &mut count);
            }
        }
        let mut unions = 0;
        for layout in seen[..count].iter().flatten() {
            if layout.fields.iter().any(|field| field.shared) {
                assert!(is_known(layout), "{}", layout.name);
                unions += 1;
            }
        }
        assert!(unions >= 30, "{unions}");
    }

    #[test]
    fn every_tag_and_arm_exists() {
        for row in ROWS {
            for name in row.layouts {
                // Only runtime 12 has the ones with versions; they have no arms.
                let Some(layout) = structure(name) else {
                    assert!(row.arms.is_empty(), "{name}");
                    continue;
                };
                if let Some(tag) = row.tag {
                    let field = layout.field(tag).unwrap_or_else(|| panic!("{name} {tag}"));
                    assert_eq!((field.kind.kind, field.kind.size), (Kind::Enum, 4));
                }
                for (value, arm) in row.arms {
                    let meant = layout.fields.iter().filter(|field| {
                        field.name.starts_with(arm) && is_meant(layout, field, |_| Some(*value))
                    });
                    // The runtime has no nodes of batched memory operations.
                    let none = *name == "cudaGraphNodeParams" && *arm == "memOp";
                    assert!(none || meant.count() > 0, "{name} {arm}");
                }
            }
        }
    }
}
