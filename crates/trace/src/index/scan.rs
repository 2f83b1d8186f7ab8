//! Making an index: one pass over the trace, which others may watch.

use super::{
    Identity, Index, MOST_RECORDS, MOST_SEGMENTS, Ranges, SEGMENT_RECORDS, Segment, dictionaries,
};
use crate::{Error, Parts, Reader, Result, Warnings, source};
use event::{Extent, Layer, Meta, Record, Summary};
use std::{fs::File, path::Path};

/// Why a trace can have no index.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum NoIndex {
    #[error("it is too long")]
    TooLong,
    #[error("its batches are too large")]
    LargeBatches,
    #[error("it cannot be read again")]
    Unreadable,
    #[error("it has become shorter")]
    Shorter,
}

/// A trace that is read from its beginning to its end, segment by segment.
pub struct Scan {
    reader: Reader,
    file: File,
    index: Index,
    /// Of the segment that is being read.
    ids: Vec<u64>,
    gpu_correlations: Vec<u64>,
    /// Where the last records' batch, or line, begins.
    unit: Option<u64>,
    /// Why there will be no index.
    hopeless: Option<NoIndex>,
    segment_records: u32,
}

/// Some records of one segment.
pub struct Stretch<'a> {
    pub records: &'a [Record],
    /// They are the first of another segment.
    pub begins: bool,
}

impl Scan {
    pub fn open(path: impl AsRef<Path>, parts: Parts) -> Result<Self> {
        let path = path.as_ref();
        let reader = source::open_with(path, parts)?.ahead();
        let of_path = |source| Error::Open {
            path: path.into(),
            source,
        };
        let file = File::open(path).map_err(of_path)?;
        let found = dictionaries::find(&file).map_err(of_path)?;
        Ok(Scan {
            reader,
            file,
            index: Index {
                head: found.head,
                dictionaries: found.dictionaries,
                ..Index::default()
            },
            ids: Vec::new(),
            gpu_correlations: Vec::new(),
            unit: None,
            hopeless: None,
            segment_records: SEGMENT_RECORDS,
        })
    }

    /// For segments of so many records at least, instead of the usual number.
    pub fn with_segments_of(mut self, records: u32) -> Self {
        self.segment_records = records;
        self
    }

    pub fn meta(&self) -> &Meta {
        self.reader.meta()
    }

    pub fn summary(&self) -> Option<&Summary> {
        self.reader.summary()
    }

    pub fn warnings(&self) -> &Warnings {
        self.reader.warnings()
    }

    /// How much of the trace has been read, from 0 to 1.
    pub fn share(&self) -> Option<f64> {
        self.reader.share()
    }

    /// The next records; None at the end.
    pub fn next_stretch(&mut self) -> Result<Option<Stretch<'_>>> {
        // The batch that was handed out is given back first: a unit is known only with its records.
        if self.reader.next_batch()?.is_none() {
            return Ok(None);
        }
        let unit = self.reader.unit();
        let begins = self.unit != Some(unit) && self.is_time();
        if self.unit.is_none() && self.index.head == 0 {
            // JSON lines: whatever precedes the first record is the head.
            self.index.head = unit;
        }
        self.unit = Some(unit);
        if begins {
            self.close_segment();
            if self.index.segments.len() >= MOST_SEGMENTS {
                self.hopeless = Some(NoIndex::TooLong);
                self.index.segments.clear();
            }
            self.index.segments.push(Segment {
                offset: unit,
                first_ns: u64::MAX,
                ..Segment::default()
            });
        }
        let records = self.reader.handed_out();
        if let Some(segment) = self.index.segments.last_mut() {
            note(segment, &mut self.ids, &mut self.gpu_correlations, records);
            if segment.records > MOST_RECORDS {
                self.hopeless = Some(NoIndex::LargeBatches);
            }
        }
        Ok(Some(Stretch { records, begins }))
    }

    /// Whether a new segment may begin.
    fn is_time(&self) -> bool {
        let segment = self.index.segments.last();
        segment.is_none_or(|segment| segment.records >= self.segment_records)
    }

    fn close_segment(&mut self) {
        if let Some(segment) = self.index.segments.last_mut() {
            segment.ids = Ranges::of(&mut self.ids);
            segment.gpu_correlations = Ranges::of(&mut self.gpu_correlations);
        }
        self.ids.clear();
        self.gpu_correlations.clear();
    }

    /// The index, or why there can be none.
    pub fn finish(mut self, attachment: Vec<u8>) -> std::result::Result<Index, NoIndex> {
        self.close_segment();
        if let Some(why) = self.hopeless {
            return Err(why);
        }
        // A trace that is still being written has grown meanwhile: what was read is in it.
        let unreadable = |_| NoIndex::Unreadable;
        if !self.index.dictionaries.is_empty() {
            self.index.dictionaries = dictionaries::find(&self.file)
                .map_err(unreadable)?
                .dictionaries;
        }
        self.index.identity = Identity::of(&self.file).map_err(unreadable)?;
        self.index.end = self.index.identity.size;
        let last = self.index.segments.last().map_or(0, |last| last.offset);
        if last.max(self.index.head) > self.index.end {
            return Err(NoIndex::Shorter);
        }
        self.index.attachment = attachment;
        Ok(self.index)
    }
}

fn note(segment: &mut Segment, ids: &mut Vec<u64>, gpu: &mut Vec<u64>, records: &[Record]) {
    segment.records = segment.records.saturating_add(records.len() as u32);
    for record in records {
        let ts = record.ts();
        segment.first_ns = segment.first_ns.min(ts);
        segment.last_ns = segment.last_ns.max(ts);
        let Record::Event(event) = record else {
            continue;
        };
        if matches!(event.extent, Extent::Closed(_)) {
            continue;
        }
        ids.push(event.id);
        if let (Layer::Gpu, Some(correlation)) = (event.layer, event.correlation) {
            gpu.push(correlation);
        }
    }
}
