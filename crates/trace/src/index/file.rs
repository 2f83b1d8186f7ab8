//! The index as a file: tied to its trace, checked before it is believed.

use super::{
    Index, MOST_RECORDS, MOST_SEGMENTS, Ranges, Segment,
    codec::{Bytes, Damaged, varint},
    dictionaries,
};
use std::{
    fs::{self, File},
    io::{self, Read, Write},
    os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt},
    path::{Path, PathBuf},
};

/// A change of this, or of what is attached, needs another number.
const MAGIC: &[u8; 8] = b"cutridx3";
/// An index is a small part of its trace: a larger file is none.
const LARGEST: u64 = 512 << 20;
/// Bytes of the trace's beginning and end that the index knows.
const PROBED: usize = 64 << 10;

/// What distinguishes a trace from another, or from itself after a change.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Identity {
    pub size: u64,
    changed_s: i64,
    changed_ns: i64,
    probe: u64,
}

impl Identity {
    pub fn of(file: &File) -> io::Result<Self> {
        let found = file.metadata()?;
        let mut hash = Hash::new();
        let mut buffer = vec![0; PROBED];
        for offset in [0, found.len().saturating_sub(PROBED as u64)] {
            let mut filled = 0;
            while filled < buffer.len() {
                match file.read_at(&mut buffer[filled..], offset + filled as u64)? {
                    0 => break,
                    count => filled += count,
                }
            }
            hash.add(&buffer[..filled]);
        }
        Ok(Identity {
            size: found.len(),
            changed_s: found.mtime(),
            changed_ns: found.mtime_nsec(),
            probe: hash.0,
        })
    }
}

/// FNV-1a, eight bytes at a time: against accidents, not against anybody.
struct Hash(u64);

impl Hash {
    fn new() -> Self {
        Hash(0xcbf2_9ce4_8422_2325)
    }

    fn add(&mut self, bytes: &[u8]) {
        let (chunks, rest) = bytes.as_chunks();
        let words = chunks.iter().map(|&chunk| u64::from_le_bytes(chunk));
        for word in words.chain(rest.iter().map(|&byte| byte.into())) {
            self.0 = (self.0 ^ word).wrapping_mul(0x100_0000_01b3);
            self.0 ^= self.0 >> 29;
        }
    }
}

impl Index {
    /// Where the index of a trace is, if its folder can be written.
    pub fn beside(trace: &Path) -> PathBuf {
        let mut name = trace.as_os_str().to_owned();
        name.push(".index");
        name.into()
    }

    /// The index in a file; None if there is none for this trace, whatever the file holds. One that another user made is
    /// not used.
    pub fn load(path: &Path, identity: &Identity) -> Option<Index> {
        let file = File::open(path).ok()?;
        let found = file.metadata().ok()?;
        let owner = fs::metadata("/proc/self").ok()?.uid();
        if !found.is_file() || found.len() > LARGEST || ![owner, 0].contains(&found.uid()) {
            return None;
        }
        let mut bytes = Vec::new();
        file.take(LARGEST).read_to_end(&mut bytes).ok()?;
        let index = Index::from_bytes(&bytes).ok()?;
        (index.identity == *identity).then_some(index)
    }

    /// Writes the index, or leaves what was there.
    pub fn save(&self, path: &Path) -> io::Result<()> {
        let mut name = path.as_os_str().to_owned();
        name.push(format!(".{}", std::process::id()));
        let unfinished = PathBuf::from(name);
        let written = File::options()
            .write(true)
            .create_new(true)
            .mode(0o600)
            .open(&unfinished)
            .and_then(|mut file| file.write_all(&self.to_bytes()))
            .and_then(|()| fs::rename(&unfinished, path));
        if written.is_err() {
            let _ = fs::remove_file(&unfinished);
        }
        written
    }

    pub fn to_bytes(&self) -> Vec<u8> {
        let mut out = Vec::new();
        for number in [
            self.identity.size,
            self.identity.changed_s as u64,
            self.identity.changed_ns as u64,
            self.identity.probe,
            self.head,
            self.end,
        ] {
            varint(&mut out, number);
        }
        dictionaries::encode(&mut out, &self.dictionaries);
        varint(&mut out, self.segments.len() as u64);
        let mut before = 0;
        for segment in &self.segments {
            varint(&mut out, segment.offset - before);
            before = segment.offset;
            varint(&mut out, segment.records.into());
            varint(&mut out, segment.first_ns.min(segment.last_ns));
            varint(
                &mut out,
                segment.last_ns - segment.first_ns.min(segment.last_ns),
            );
            segment.ids.encode(&mut out);
            segment.gpu_correlations.encode(&mut out);
        }
        for block in [&self.attachment, &self.report] {
            varint(&mut out, block.len() as u64);
            out.extend(block);
        }
        let mut hash = Hash::new();
        hash.add(&out);
        [MAGIC, &hash.0.to_le_bytes()[..], &out].concat()
    }

    /// An index from bytes that may be anything.
    pub fn from_bytes(bytes: &[u8]) -> Result<Index, Damaged> {
        let rest = bytes.strip_prefix(MAGIC).ok_or(Damaged)?;
        let (sum, rest) = rest.split_first_chunk().ok_or(Damaged)?;
        let mut hash = Hash::new();
        hash.add(rest);
        if hash.0 != u64::from_le_bytes(*sum) {
            return Err(Damaged);
        }
        Index::from_body(rest)
    }

    /// The same behind the sum, which says only that nothing happened to the bytes.
    pub fn from_body(bytes: &[u8]) -> Result<Index, Damaged> {
        let mut bytes = Bytes::new(bytes);
        let identity = Identity {
            size: bytes.varint()?,
            changed_s: bytes.varint()? as i64,
            changed_ns: bytes.varint()? as i64,
            probe: bytes.varint()?,
        };
        let (head, end) = (bytes.varint()?, bytes.varint()?);
        if head > end || end > identity.size {
            return Err(Damaged);
        }
        let dictionaries = dictionaries::decode(&mut bytes, end)?;
        let count = bytes.count()?;
        if count > MOST_SEGMENTS {
            return Err(Damaged);
        }
        let mut segments = Vec::with_capacity(count.min(1 << 16));
        let mut offset = 0u64;
        for number in 0..count {
            let step = bytes.varint()?;
            offset = offset.checked_add(step).ok_or(Damaged)?;
            let records = bytes.u32()?;
            let first_ns = bytes.varint()?;
            let last_ns = first_ns.checked_add(bytes.varint()?).ok_or(Damaged)?;
            if (number > 0 && step == 0) || offset > end || records > MOST_RECORDS {
                return Err(Damaged);
            }
            segments.push(Segment {
                offset,
                records,
                first_ns,
                last_ns,
                ids: Ranges::decode(&mut bytes)?,
                gpu_correlations: Ranges::decode(&mut bytes)?,
            });
        }
        let attachment = bytes.block()?.to_vec();
        let report = bytes.block()?.to_vec();
        if !bytes.is_empty() {
            return Err(Damaged);
        }
        Ok(Index {
            identity,
            head,
            end,
            dictionaries,
            segments,
            attachment,
            report,
        })
    }
}
