//! What the library inside a traced process and the tracer share about GPU times.
//!
//! A process appends frames to the file `cupti.PID.TIME` of the session's folder: a header of
//! [`HEADER_BYTES`], then the payload, filled up to a multiple of 8. The tracer reads them as they
//! come and gives the file's blocks back to the system.

/// `CUPF`, little-endian: every frame begins with it.
pub const MAGIC: u32 = u32::from_le_bytes(*b"CUPF");
/// Magic, kind, and the payload's bytes as 8: without what it is filled up with.
pub const HEADER_BYTES: usize = 16;
/// No frame is longer.
pub const MOST_BYTES: usize = 64 << 20;
/// How files of GPU times are called.
/// While a file of this name is in the session's folder, GPU times are not wanted.
pub const PAUSE_FILE: &str = "pause";
pub const FILE_PREFIX: &str = "cupti.";

/// Text: `version=130000 path=/usr/lib/libcupti.so.13`
pub const BEGIN: u32 = 1;
/// Three words of 8 bytes: CLOCK_MONOTONIC before, CUPTI's clock, CLOCK_MONOTONIC after.
pub const CLOCK: u32 = 2;
/// A word of 8 bytes by which records name a text, and the text.
pub const NAME: u32 = 3;
/// CUPTI's records, each behind its length as 8 bytes and filled up to a multiple of 8.
pub const RECORDS: u32 = 4;
/// Text for the user.
pub const NOTE: u32 = 5;
/// A word of 8 bytes: records that CUPTI dropped.
pub const DROPPED: u32 = 6;
/// All has been handed over: the process ends in order, or watching has ended in it.
pub const END: u32 = 7;

/// Work timed by events instead of by CUPTI: [`Timed`], [`TIMED_BYTES`] each.
pub const TIMED: u32 = 8;
/// Three words of 8 bytes, sums so far: pieces of work that could have been timed, those that events
/// were put around, and those of them whose events were never reached.
pub const COUNTED: u32 = 9;

/// Nodes of CUDA graphs: [`GraphNode`], [`GRAPH_NODE_BYTES`] each.
pub const GRAPH_NODES: u32 = 10;

/// A piece of work with an event before and one behind it. Times are CLOCK_MONOTONIC's.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Timed {
    /// [`Timed::KERNEL`] …
    pub kind: u64,
    /// The thread that gave the work, and when it did: a time within its call.
    pub thread: u64,
    pub given: u64,
    pub taken: u64,
    pub start: u64,
    pub end: u64,
    /// How wrong the times may be, in nanoseconds, and how much of that is the clock's.
    pub error: u64,
    pub clock_error: u64,
    pub device: u64,
    pub context: u64,
    pub stream: u64,
    /// One piece of so many was timed.
    pub every: u64,
    pub bytes: u64,
    /// Of a fill.
    pub value: u64,
    pub grid: [u64; 3],
    pub block: [u64; 3],
    pub shared: u64,
}

const TIMED_WORDS: usize = 21;
pub const TIMED_BYTES: usize = TIMED_WORDS * 8;

impl Timed {
    pub const KERNEL: u64 = 1;
    pub const COPY: u64 = 2;
    pub const FILL: u64 = 3;
    pub const GRAPH: u64 = 4;

    pub fn encode(&self) -> [u8; TIMED_BYTES] {
        let [gx, gy, gz] = self.grid;
        let [bx, by, bz] = self.block;
        let words: [u64; TIMED_WORDS] = [
            self.kind,
            self.thread,
            self.given,
            self.taken,
            self.start,
            self.end,
            self.error,
            self.clock_error,
            self.device,
            self.context,
            self.stream,
            self.every,
            self.bytes,
            self.value,
            gx,
            gy,
            gz,
            bx,
            by,
            bz,
            self.shared,
        ];
        let mut bytes = [0; TIMED_BYTES];
        for (place, word) in bytes.chunks_exact_mut(8).zip(words) {
            place.copy_from_slice(&word.to_le_bytes());
        }
        bytes
    }

    pub fn decode(bytes: &[u8; TIMED_BYTES]) -> Self {
        let mut words = [0u64; TIMED_WORDS];
        for (word, place) in words.iter_mut().zip(bytes.chunks_exact(8)) {
            let mut whole = [0; 8];
            whole.copy_from_slice(place);
            *word = u64::from_le_bytes(whole);
        }
        let [
            kind,
            thread,
            given,
            taken,
            start,
            end,
            error,
            clock_error,
            device,
            context,
            stream,
            every,
            bytes,
            value,
            gx,
            gy,
            gz,
            bx,
            by,
            bz,
            shared,
        ] = words;
        Timed {
            kind,
            thread,
            given,
            taken,
            start,
            end,
            error,
            clock_error,
            device,
            context,
            stream,
            every,
            bytes,
            value,
            grid: [gx, gy, gz],
            block: [bx, by, bz],
            shared,
        }
    }
}

/// CUPTI says that a graph has a node: once when it is made, and once more if it is a copy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct GraphNode {
    /// CLOCK_MONOTONIC's, within the call that makes the node.
    pub at: u64,
    /// That makes the call.
    pub thread: u64,
    /// The node, and what it is a copy of, by the numbers that work has; 0: of none that is known.
    pub node: u64,
    pub original: u64,
}

pub const GRAPH_NODE_BYTES: usize = 4 * 8;

impl GraphNode {
    pub fn encode(&self) -> [u8; GRAPH_NODE_BYTES] {
        let words = [self.at, self.thread, self.node, self.original];
        let mut bytes = [0; GRAPH_NODE_BYTES];
        for (place, word) in bytes.chunks_exact_mut(8).zip(words) {
            place.copy_from_slice(&word.to_le_bytes());
        }
        bytes
    }

    pub fn decode(bytes: &[u8; GRAPH_NODE_BYTES]) -> Self {
        let mut words = bytes.chunks_exact(8).map(|bytes| {
            let mut word = [0; 8];
            word.copy_from_slice(bytes);
            u64::from_le_bytes(word)
        });
        let mut word = || words.next().unwrap_or(0);
        GraphNode {
            at: word(),
            thread: word(),
            node: word(),
            original: word(),
        }
    }
}

/// A frame's header; None if it is none.
pub fn header(bytes: &[u8]) -> Option<(u32, usize)> {
    let word = |at: usize| Some(u32::from_le_bytes(bytes.get(at..at + 4)?.try_into().ok()?));
    let length = u64::from_le_bytes(bytes.get(8..HEADER_BYTES)?.try_into().ok()?);
    let length = usize::try_from(length).ok()?;
    (word(0)? == MAGIC && length <= MOST_BYTES).then_some((word(4)?, length))
}

/// The header of a frame.
pub fn frame(kind: u32, bytes: usize) -> [u8; HEADER_BYTES] {
    let mut header = [0; HEADER_BYTES];
    header[..4].copy_from_slice(&MAGIC.to_le_bytes());
    header[4..8].copy_from_slice(&kind.to_le_bytes());
    header[8..].copy_from_slice(&(bytes as u64).to_le_bytes());
    header
}

/// Bytes that a payload is followed by.
pub fn padding(bytes: usize) -> usize {
    bytes.next_multiple_of(8) - bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn timed_work_is_read_as_it_was_written() {
        let mut bytes = [0; TIMED_BYTES];
        for (place, byte) in bytes.iter_mut().enumerate() {
            *byte = place as u8;
        }
        assert_eq!(Timed::decode(&bytes).encode(), bytes);
    }

    #[test]
    fn a_node_is_read_as_it_was_written() {
        let node = GraphNode {
            at: 1,
            thread: 2,
            node: 3 << 32,
            original: 4,
        };
        assert_eq!(GraphNode::decode(&node.encode()), node);
    }

    #[test]
    fn a_header_is_read_as_it_was_written() {
        assert_eq!(header(&frame(RECORDS, 77)), Some((RECORDS, 77)));
        assert_eq!((padding(77), padding(80), padding(0)), (3, 0, 0));
        assert_eq!(header(&frame(RECORDS, MOST_BYTES + 1)), None);
        assert_eq!(header(&[0; 16]), None);
        assert_eq!(header(&frame(NOTE, 1)[..15]), None);
    }
}
