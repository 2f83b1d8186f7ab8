//! What a request is about, in the categories of the API.

use event::Category;

use super::call::{RM_ALLOC, RM_ALLOC_MEMORY, RM_ALLOC_OBJECT, RM_CONTROL, RM_FREE, Request};
use super::class::ObjectKind;
use super::decode::{Decoded, Subject, short_control};

/// `kind` is that of the object acted upon, where it is known.
pub(super) fn of(request: &Request<'_>, decoded: &Decoded, kind: Option<ObjectKind>) -> Category {
    let Some(name) = decoded.name else {
        return Category::Other;
    };
    if request.file.is_uvm() {
        return uvm(name);
    }
    match request.number() {
        RM_CONTROL => control(decoded, kind),
        RM_ALLOC | RM_ALLOC_OBJECT | RM_ALLOC_MEMORY => match decoded.subject {
            Some(Subject::Class { id, name }) => ObjectKind::of(id, name).category(),
            _ => Category::Other,
        },
        RM_FREE => kind.map_or(Category::Other, ObjectKind::category),
        _ => escape(name),
    }
}

fn control(decoded: &Decoded, kind: Option<ObjectKind>) -> Category {
    let Some(Subject::Control { id, name, .. }) = decoded.subject else {
        return Category::Other;
    };
    let name = short_control(name.unwrap_or_default());
    if ["GET_", "QUERY_", "_INFO"]
        .iter()
        .any(|word| name.contains(word))
        && !name.contains("WORK_SUBMIT")
    {
        return Category::Query;
    }
    if name.contains("VIDMEM") || name.contains("VA_SPACE") {
        return Category::Memory;
    }
    if name.contains("EVENT") {
        return Category::Event;
    }
    let kind = kind.unwrap_or_else(|| ObjectKind::of(id >> 16, None));
    match kind {
        ObjectKind::Channel | ObjectKind::ChannelGroup | ObjectKind::ContextShare => {
            Category::Context
        }
        _ if name.contains("PREEMPTION") || name.contains("GPFIFO") => Category::Context,
        _ => Category::Other,
    }
}

fn escape(name: &str) -> Category {
    match name.strip_prefix("NV_ESC_").unwrap_or(name) {
        "CARD_INFO" | "REGISTER_FD" | "CHECK_VERSION_STR" | "SYS_PARAMS" | "NUMA_INFO"
        | "ATTACH_GPUS_TO_FD" | "WAIT_OPEN_COMPLETE" => Category::Init,
        "ALLOC_OS_EVENT" | "FREE_OS_EVENT" | "RM_GET_EVENT_DATA" => Category::Event,
        "STATUS_CODE" | "QUERY_DEVICE_INTR" => Category::Query,
        "RM_IDLE_CHANNELS" => Category::Sync,
        name if name.contains("MEMORY") || name.contains("HEAP") || name.contains("MAPPING") => {
            Category::Memory
        }
        "EXPORT_TO_DMABUF_FD" => Category::Memory,
        _ => Category::Other,
    }
}

fn uvm(name: &str) -> Category {
    let name = name.strip_prefix("UVM_").unwrap_or(name);
    if name.starts_with("MIGRATE") {
        Category::Transfer
    } else if name.contains("INITIALIZE") || name.ends_with("REGISTER_GPU") {
        Category::Init
    } else if name.contains("CHANNEL") || name.contains("VASPACE") || name.contains("PEER_ACCESS") {
        Category::Context
    } else if name.starts_with("TOOLS_") || name.contains("TEST") || name.contains("SESSION") {
        Category::Other
    } else if name.starts_with("PAGEABLE_MEM_ACCESS") {
        Category::Query
    } else {
        Category::Memory
    }
}
