//! What the page gets about a lane: whose it is, and what is in it.

use super::{
    colour::COLOURS,
    lanes::{Lane, Owner},
};
use serde::Serialize;

/// Whose lane it is. Handles do not fit a JSON number.
#[derive(Serialize, Default)]
pub struct OwnerHead {
    kind: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    pid: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    tid: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    device: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    context: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    stream: Option<String>,
    /// The multiprocessor.
    #[serde(skip_serializing_if = "Option::is_none")]
    sm: Option<u32>,
}

/// A lane's line in the text alternative.
#[derive(Serialize)]
pub struct LaneHead {
    #[serde(flatten)]
    owner: OwnerHead,
    spans: u64,
    failed: u64,
    busy: u64,
    first: u64,
    last: u64,
    longest: (u64, u32),
    by_category: [u64; COLOURS],
}

impl<T> From<&Lane<T>> for LaneHead {
    fn from(lane: &Lane<T>) -> Self {
        LaneHead {
            owner: lane.owner.into(),
            spans: lane.spans,
            failed: lane.failed,
            busy: lane.busy,
            first: lane.first.min(lane.last),
            last: lane.last,
            longest: lane.longest,
            by_category: lane.by_category,
        }
    }
}

impl From<Owner> for OwnerHead {
    fn from(owner: Owner) -> Self {
        match owner {
            Owner::Thread { pid, tid } => OwnerHead {
                kind: "thread",
                pid: Some(pid),
                tid: Some(tid),
                ..OwnerHead::default()
            },
            Owner::Stream {
                device,
                context,
                stream,
            } => OwnerHead {
                kind: "stream",
                device: Some(device),
                context: context.map(handle),
                stream: stream.map(handle),
                ..OwnerHead::default()
            },
            Owner::Probes { device, sm } => OwnerHead {
                kind: "probes",
                device: Some(device),
                sm,
                ..OwnerHead::default()
            },
            Owner::Managed { device } => OwnerHead {
                kind: "managed",
                device: Some(device),
                ..OwnerHead::default()
            },
            Owner::Rest => OwnerHead {
                kind: "rest",
                ..OwnerHead::default()
            },
        }
    }
}

/// Small ones are numbers (CUPTI counts streams), large ones addresses.
fn handle(value: u64) -> String {
    if value < 1 << 16 {
        value.to_string()
    } else {
        format!("{value:#x}")
    }
}
