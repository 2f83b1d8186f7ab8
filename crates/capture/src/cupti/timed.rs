//! Work that events were put around: its call is found as for CUPTI's, and says what the work was.

use super::link::{CallMeaning, Calls, CauseLookup};
use super::process::{ByEvents, Work};
use cuda::cupti::{Activity, Copy, Fill, Kernel, NONE, WorkPlacement};
use event::gpu_times::{TIMED_BYTES, Timed};

/// Both times were taken inside of the call: one that ended just before is another.
const SLACK: u64 = 0;
/// Work waits so long for its call, in nanoseconds: a thread may be held up before it is seen to end.
const PATIENCE: u64 = 5_000_000_000;

/// A piece of work that waits for its call.
#[derive(Debug)]
pub struct Waiting {
    since: u64,
    pub piece: Timed,
}

/// The pieces of a frame that came at `now`; what cannot be true is left out.
pub fn read(payload: &[u8], now: u64) -> impl Iterator<Item = Waiting> {
    let (pieces, _) = payload.as_chunks::<TIMED_BYTES>();
    let pieces = pieces.iter().map(Timed::decode);
    pieces
        .filter(|piece| piece.start > 0 && piece.end >= piece.start && piece.taken >= piece.given)
        .map(move |piece| Waiting { since: now, piece })
}

impl Waiting {
    pub fn is_patient(&self, now: u64) -> bool {
        now.saturating_sub(self.since) < PATIENCE
    }

    /// The work with its call. None: it may come yet, and there is time.
    pub fn resolve(&self, pid: u32, calls: &Calls, patient: bool) -> Option<Work> {
        let piece = &self.piece;
        let thread = narrow(piece.thread);
        let found = calls.find(pid, thread, (piece.given, piece.taken), SLACK);
        let cause = match found {
            CauseLookup::Call(cause) => Some(cause),
            CauseLookup::NotYet if patient => return None,
            CauseLookup::NotYet | CauseLookup::Never => None,
        };
        let meant = cause.and_then(|cause| calls.meaning_of(pid, thread, &cause));
        // What the runtime's call around the driver's meant is told when that has ended.
        let says_more = matches!(piece.kind, Timed::KERNEL | Timed::COPY);
        if says_more && meant.is_none() && patient && !calls.is_complete(piece.taken) {
            return None;
        }
        let place = WorkPlacement {
            start: piece.start,
            end: piece.end,
            device: narrow(piece.device),
            correlation: NONE,
            ..WorkPlacement::default()
        };
        let (mut name, mut direction) = (None, None);
        let mut bytes = piece.bytes;
        match meant {
            Some(CallMeaning::Kernel(kernel)) => name = Some(kernel),
            Some(CallMeaning::Copy(towards, size)) => {
                direction = Some(towards);
                bytes = size;
            }
            None => {}
        }
        let record = match piece.kind {
            Timed::COPY => Activity::Copy(Copy {
                place,
                bytes,
                ..Copy::default()
            }),
            Timed::FILL => Activity::Fill(Fill {
                place,
                bytes,
                value: narrow(piece.value),
                ..Fill::default()
            }),
            _ => Activity::Kernel(Kernel {
                place,
                grid: piece.grid.map(narrow),
                block: piece.block.map(narrow),
                dynamic_shared: narrow(piece.shared),
                ..Kernel::default()
            }),
        };
        Some(Work {
            pid,
            thread: Some(thread),
            start: piece.start,
            end: piece.end,
            record,
            timed: Some(ByEvents {
                error: piece.error,
                every: piece.every,
                is_graph: piece.kind == Timed::GRAPH,
                direction,
            }),
            name,
            context: cause
                .and_then(|cause| cause.context)
                .unwrap_or(piece.context),
            stream: cause.and_then(|cause| cause.stream).or(Some(piece.stream)),
            cause,
        })
    }
}

/// What a process writes is not to be trusted.
pub fn narrow(word: u64) -> u32 {
    u32::try_from(word).unwrap_or(u32::MAX)
}
