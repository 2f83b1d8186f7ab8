//! An index beside a trace: where in the file which records are, so that a stretch of a long trace is read
//! without what comes before it.
//!
//! A trace is cut into segments of some ten thousand records, each beginning with a batch of an Arrow stream or with a
//! line of JSON. The index says where each begins, what times it covers and which events are in it. The
//! builder of the index may attach what it needs to understand a segment by itself: `render::detail` attaches the rows that spans
//! are drawn on.

mod codec;
mod dictionaries;
mod file;
mod ranges;
mod read;
mod scan;

pub use codec::{Bytes, Damaged, varint, zigzag};
pub use file::Identity;
pub use ranges::Ranges;
pub use scan::{NoIndex, Scan, Stretch};

use dictionaries::Dictionary;

/// The index of one trace.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Index {
    /// The trace that it belongs to.
    pub identity: Identity,
    /// Bytes of the file's head, which every reading begins with.
    head: u64,
    /// Bytes of the file that were there when the index was made.
    end: u64,
    dictionaries: Vec<Dictionary>,
    segments: Vec<Segment>,
    /// What the builder added.
    pub attachment: Vec<u8>,
    /// What a later reading came to; empty if there was none. Only the code that made it knows what is in it.
    pub report: Vec<u8>,
}

/// A piece of a trace that can be read by itself.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Segment {
    /// Of its first byte in the file. It reaches to the next segment's.
    pub offset: u64,
    pub records: u32,
    /// The earliest and the latest record, in nanoseconds of the trace's clock.
    pub first_ns: u64,
    pub last_ns: u64,
    /// Events that begin in it.
    pub ids: Ranges,
    /// Correlations of the GPU work that begins in it.
    pub gpu_correlations: Ranges,
}

/// Records of a segment at least, where the file allows: enough that the index stays small, few enough that one is read in
/// milliseconds.
const SEGMENT_RECORDS: u32 = 16_384;
/// A batch with more records than this is not cutrace's.
const MOST_RECORDS: u32 = 1 << 20;
/// Segments of an index at most.
const MOST_SEGMENTS: usize = 1 << 20;

impl Index {
    pub fn segments(&self) -> &[Segment] {
        &self.segments
    }

    /// The bytes that a segment is in.
    fn range(&self, number: usize) -> Option<(u64, u64)> {
        let segment = self.segments.get(number)?;
        let next = self.segments.get(number + 1);
        let end = next.map_or(self.end, |next| next.offset);
        Some((segment.offset, end.saturating_sub(segment.offset)))
    }
}
