//! An event without its texts and lists.

use event::{Category, Event, Kind, Layer};

/// What much of the analysis needs of an event: it can be read without the rest.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Brief {
    pub id: u64,
    pub start: u64,
    pub pid: u32,
    pub tid: u32,
    pub parent: Option<u64>,
    pub depth: u32,
    pub kind: Kind,
    pub layer: Layer,
    pub category: Category,
    /// The code that was returned.
    pub status: Option<i64>,
}

impl Brief {
    #[inline]
    pub fn of(event: &Event) -> Self {
        Brief {
            id: event.id,
            start: event.start,
            pid: event.pid,
            tid: event.tid,
            parent: event.parent,
            depth: event.depth,
            kind: event.kind,
            layer: event.layer,
            category: event.category,
            status: event.status.as_ref().map(|status| status.code),
        }
    }
}
