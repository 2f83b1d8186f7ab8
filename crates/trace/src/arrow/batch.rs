//! Decoding one batch. Every length, offset and key in it is checked before it is believed.

use super::{
    columns::Column,
    message::LARGEST_BODY,
    plan::{IntLayout, Layout, Plan},
};
use crate::{Parts, error::BatchDamage};
use arrow_ipc::{BodyCompressionMethod, CompressionType, RecordBatch};
use event::Name;
use std::{collections::HashMap, io::Read, sync::Arc};

pub type Dictionaries = HashMap<i64, Texts>;
type Decoded<T> = Result<T, BatchDamage>;

/// A decoded column.
pub enum Values {
    /// Sign-extended if signed.
    Ints {
        values: Vec<u64>,
        signed: bool,
    },
    Texts {
        text: String,
        offsets: Vec<usize>,
    },
    Names {
        keys: Vec<u64>,
        names: Arc<Vec<Name>>,
    },
}

/// A column of a batch, and which of its rows have a value.
pub struct Cells {
    pub values: Values,
    /// None: all of them.
    valid: Option<Vec<u8>>,
}

impl Cells {
    /// `valid`: which rows have a value, a bit each; None: all of them.
    pub fn new(values: Values, valid: Option<Vec<u8>>) -> Self {
        Cells { values, valid }
    }

    /// Which rows have a value, a bit each; None: all of them.
    pub fn valid(&self) -> Option<&[u8]> {
        self.valid.as_deref()
    }

    #[inline]
    pub fn has(&self, row: usize) -> bool {
        match &self.valid {
            None => true,
            Some(bits) => bits
                .get(row / 8)
                .is_some_and(|byte| byte >> (row % 8) & 1 == 1),
        }
    }
}

#[derive(Default)]
pub struct Batch {
    pub rows: usize,
    /// Only ours, and only those with a value in some row.
    pub columns: Vec<(Column, Cells)>,
    spare: Spare,
}

impl Batch {
    pub fn new(rows: usize, columns: Vec<(Column, Cells)>) -> Self {
        Batch {
            rows,
            columns,
            spare: Spare::default(),
        }
    }

    /// None if no row has a value in it, or it was not wanted.
    pub fn column(&self, wanted: Column) -> Option<&Cells> {
        let mut columns = self.columns.iter();
        let found = columns.find(|(column, _)| *column == wanted);
        found.map(|(_, cells)| cells)
    }
}

/// Buffers of old batches: large ones are dear to come by anew.
#[derive(Default)]
struct Spare {
    ints: Vec<Vec<u64>>,
    /// For what is unpacked and at once made something else.
    unpacked: Vec<u8>,
    zstd: Option<zstd::bulk::Decompressor<'static>>,
}

impl Spare {
    /// Unpack to exactly so many bytes, for which there is room.
    fn unpack(&mut self, packed: &[u8], unpacked: &mut Vec<u8>, size: usize) -> Decoded<()> {
        if self.zstd.is_none() {
            let new = zstd::bulk::Decompressor::new();
            self.zstd = Some(new.map_err(|_| "there is no memory to unpack with")?);
        }
        let zstd = self.zstd.as_mut().ok_or("nothing to unpack with")?;
        match zstd.decompress_to_buffer(packed, unpacked) {
            Ok(length) if length == size && unpacked.len() == size => Ok(()),
            Ok(_) => Err(BatchDamage("a column that unpacks to another length")),
            Err(_) => Err(BatchDamage("a column that cannot be unpacked")),
        }
    }
}

/// Dictionaries with names of a thread's own: counting references to names that other threads
/// count too costs more than reading a row.
#[derive(Default)]
pub struct OwnDictionaries {
    /// Theirs, to see that it changed, and ours.
    own: HashMap<i64, (Texts, Texts)>,
}

type Texts = Arc<Vec<Name>>;

impl OwnDictionaries {
    /// Take over what is new.
    pub fn follow(&mut self, dictionaries: &Dictionaries) {
        for (&id, theirs) in dictionaries {
            let known = self.own.get(&id);
            if known.is_some_and(|(known, _)| Arc::ptr_eq(known, theirs)) {
                continue;
            }
            // Dictionaries mostly grow at their end.
            let old: &[Name] = known.map_or(&[], |(_, own)| own);
            let own = theirs.iter().enumerate().map(|(place, name)| {
                let same = old.get(place).filter(|&old| old == name);
                same.map_or_else(|| Name::from(&**name), Name::clone)
            });
            let own = Arc::new(own.collect());
            self.own.insert(id, (Arc::clone(theirs), own));
        }
    }

    fn get(&self, id: i64) -> Option<Texts> {
        self.own.get(&id).map(|(_, own)| Arc::clone(own))
    }
}

/// Rows a batch may have: bounds what a lie about it can cost.
const MOST_ROWS: i64 = 16 << 20;
/// Names a dictionary may have.
const MOST_NAMES: usize = 4 << 20;

/// Which columns are unpacked for these parts of events.
pub fn of_parts(parts: Parts) -> impl Fn(Column, &Batch) -> bool {
    move |column, batch| match column {
        Column::Details => parts.args || may_have_summary(batch),
        Column::Outputs => parts.args,
        Column::Decoded => parts.decoded,
        Column::Stack => parts.stack,
        _ => true,
    }
}

/// Decode a batch, but for the columns not wanted, in the place of an old one.
pub fn decode(
    header: RecordBatch<'_>,
    body: &[u8],
    plan: &Plan,
    wanted: &dyn Fn(Column, &Batch) -> bool,
    dictionaries: &OwnDictionaries,
    batch: &mut Batch,
) -> Decoded<()> {
    let mut input = Input::new(header, body)?;
    input.spare = std::mem::take(&mut batch.spare);
    for (_, cells) in batch.columns.drain(..) {
        if let Values::Ints { values, .. } | Values::Names { keys: values, .. } = cells.values {
            input.spare.ints.push(values);
        }
    }
    batch.rows = input.rows;
    for &(column, layout) in &plan.columns {
        let nulls = input.node()?;
        if let Layout::Skip { buffers } = layout {
            input.skip(buffers)?;
            continue;
        }
        let all_null = nulls == input.rows && input.rows > 0;
        let wanted = |column: &Column| !all_null && wanted(*column, batch);
        let Some(column) = column.filter(wanted) else {
            input.skip(if matches!(layout, Layout::Text { .. }) {
                3
            } else {
                2
            })?;
            continue;
        };
        let valid = input.validity(nulls)?;
        let values = match layout {
            Layout::Int(int) => Values::Ints {
                values: input.ints(int)?,
                signed: int.signed,
            },
            Layout::Text { large } => input.texts(large)?,
            Layout::Keys { keys, dictionary } => Values::Names {
                keys: input.ints(keys)?,
                names: dictionaries
                    .get(dictionary)
                    .ok_or("a dictionary is missing")?,
            },
            Layout::Skip { .. } => continue,
        };
        batch.columns.push((column, Cells { values, valid }));
    }
    batch.spare = input.spare;
    Ok(())
}

/// The tail is in the details of its row.
pub fn may_have_summary(batch: &Batch) -> bool {
    let mut kinds = batch.columns.iter();
    let kinds = { kinds.find(|(column, _)| *column == Column::Kind) };
    match kinds.map(|(_, cells)| &cells.values) {
        Some(Values::Names { keys, names }) => {
            let summary = names.iter().position(|name| &**name == "summary");
            summary.is_some_and(|summary| keys.contains(&(summary as u64)))
        }
        // Another writer's: its types or their place are not known.
        _ => true,
    }
}

/// The texts of a dictionary batch.
pub fn decode_dictionary(batch: RecordBatch<'_>, body: &[u8], large: bool) -> Decoded<Vec<Name>> {
    let mut input = Input::new(batch, body)?;
    let nulls = input.node()?;
    input.validity(nulls)?;
    let Values::Texts { text, offsets } = input.texts(large)? else {
        return Ok(Vec::new());
    };
    if offsets.len() > MOST_NAMES {
        return Err(BatchDamage("a dictionary with too many names"));
    }
    let names = offsets
        .windows(2)
        .map(|ends| text.get(ends[0]..ends[1]).map(Name::from));
    names
        .collect::<Option<_>>()
        .ok_or(BatchDamage("a name that begins inside a character"))
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Packed {
    Not,
    Lz4,
    Zstd,
}

impl Packed {
    /// What one byte can unpack to: more is a lie. A block of zstd is 3 bytes at least, and 128 KiB unpacked.
    fn most(self) -> u64 {
        match self {
            Packed::Not => 1,
            Packed::Lz4 => 255,
            Packed::Zstd => (128 << 10) / 3 + 1,
        }
    }
}

/// The nodes and buffers of a batch, taken one after the other.
struct Input<'a> {
    rows: usize,
    nodes: Vec<(i64, i64)>,
    next_node: usize,
    buffers: Vec<(i64, i64)>,
    next_buffer: usize,
    body: &'a [u8],
    packed: Packed,
    /// What may still be unpacked of this batch.
    allowance: u64,
    spare: Spare,
}

impl<'a> Input<'a> {
    fn new(batch: RecordBatch<'_>, body: &'a [u8]) -> Decoded<Self> {
        let packed = match batch.compression() {
            None => Packed::Not,
            Some(how) if how.method() != BodyCompressionMethod::BUFFER => {
                return Err(BatchDamage("compressed in an unknown way"));
            }
            Some(how) if how.codec() == CompressionType::LZ4_FRAME => Packed::Lz4,
            Some(how) if how.codec() == CompressionType::ZSTD => Packed::Zstd,
            Some(_) => return Err(BatchDamage("compressed in an unknown way")),
        };
        let rows = batch.length();
        if !(0..=MOST_ROWS).contains(&rows) {
            return Err(BatchDamage("a batch with an impossible number of rows"));
        }
        let nodes = batch
            .nodes()
            .map(|nodes| nodes.iter())
            .into_iter()
            .flatten();
        let buffers = batch
            .buffers()
            .map(|buffers| buffers.iter())
            .into_iter()
            .flatten();
        Ok(Input {
            rows: rows as usize,
            nodes: nodes
                .map(|node| (node.length(), node.null_count()))
                .collect(),
            next_node: 0,
            buffers: buffers
                .map(|buffer| (buffer.offset(), buffer.length()))
                .collect(),
            next_buffer: 0,
            body,
            packed,
            allowance: LARGEST_BODY,
            spare: Spare::default(),
        })
    }

    /// The next column's count of nulls.
    fn node(&mut self) -> Decoded<usize> {
        let &(length, nulls) = self
            .nodes
            .get(self.next_node)
            .ok_or("a column is missing")?;
        self.next_node += 1;
        if length != self.rows as i64 || !(0..=length).contains(&nulls) {
            return Err(BatchDamage(
                "a column whose length differs from its batch's",
            ));
        }
        Ok(nulls as usize)
    }

    fn skip(&mut self, buffers: usize) -> Decoded<()> {
        self.next_buffer += buffers;
        if self.next_buffer > self.buffers.len() {
            Err(BatchDamage("a column is missing"))
        } else {
            Ok(())
        }
    }

    fn buffer(&mut self) -> Decoded<Vec<u8>> {
        let mut unpacked = Vec::new();
        self.buffer_into(&mut unpacked)?;
        Ok(unpacked)
    }

    /// Put the next buffer, unpacked, in the place of what `unpacked` holds.
    fn buffer_into(&mut self, unpacked: &mut Vec<u8>) -> Decoded<()> {
        unpacked.clear();
        let &(offset, length) = self
            .buffers
            .get(self.next_buffer)
            .ok_or("a column is missing")?;
        self.next_buffer += 1;
        let bytes = usize::try_from(offset)
            .ok()
            .zip(usize::try_from(length).ok());
        let bytes =
            bytes.and_then(|(offset, length)| self.body.get(offset..offset.checked_add(length)?));
        let bytes = bytes.ok_or("a column that extends beyond its batch")?;
        if self.packed == Packed::Not || bytes.is_empty() {
            unpacked.extend_from_slice(bytes);
            return Ok(());
        }
        let (size, packed) = bytes
            .split_first_chunk()
            .ok_or("a column without its length")?;
        let size = i64::from_le_bytes(*size);
        if size == -1 {
            unpacked.extend_from_slice(packed);
            return Ok(());
        }
        let size = u64::try_from(size).map_err(|_| "a column of an impossible length")?;
        if size > self.allowance || size > (packed.len() as u64).saturating_mul(self.packed.most())
        {
            return Err(BatchDamage("a column of an impossible length"));
        }
        self.allowance -= size;
        unpacked.reserve(size as usize);
        if self.packed == Packed::Zstd {
            return self.spare.unpack(packed, unpacked, size as usize);
        }
        let mut decoder = lz4_flex::frame::FrameDecoder::new(packed).take(size + 1);
        match decoder.read_to_end(unpacked) {
            Ok(_) if unpacked.len() as u64 == size => Ok(()),
            Ok(_) => Err(BatchDamage("a column that unpacks to the wrong length")),
            Err(_) => Err(BatchDamage("a column that cannot be unpacked")),
        }
    }

    fn validity(&mut self, nulls: usize) -> Decoded<Option<Vec<u8>>> {
        let bits = self.buffer()?;
        if nulls == 0 {
            return Ok(None);
        }
        if bits.len() < self.rows.div_ceil(8) {
            return Err(BatchDamage("a column that does not say which rows it has"));
        }
        Ok(Some(bits))
    }

    fn ints(&mut self, layout: IntLayout) -> Decoded<Vec<u64>> {
        let rows = self.rows;
        self.ints_of(layout, rows)
    }

    fn ints_of(&mut self, layout: IntLayout, count: usize) -> Decoded<Vec<u64>> {
        let mut bytes = std::mem::take(&mut self.spare.unpacked);
        self.buffer_into(&mut bytes)?;
        let length = count
            .checked_mul(layout.bytes)
            .ok_or("a column is too long")?;
        let mut values = self.spare.ints.pop().unwrap_or_default();
        values.clear();
        widen(
            bytes.get(..length).ok_or("a column is too short")?,
            layout,
            &mut values,
        );
        self.spare.unpacked = bytes;
        Ok(values)
    }

    fn texts(&mut self, large: bool) -> Decoded<Values> {
        let layout = IntLayout {
            bytes: if large { 8 } else { 4 },
            signed: true,
        };
        let offsets = if self.rows == 0 {
            // An empty column may leave its offsets out.
            self.buffer()?;
            vec![0]
        } else {
            self.ints_of(layout, self.rows + 1)?
        };
        let text = String::from_utf8(self.buffer()?).map_err(|_| "text that is not UTF-8")?;
        if offsets.is_sorted() && offsets.last().is_none_or(|&last| last <= text.len() as u64) {
            Ok(Values::Texts {
                text,
                offsets: offsets.into_iter().map(|end| end as usize).collect(),
            })
        } else {
            Err(BatchDamage("strings that extend beyond their column"))
        }
    }
}

/// Append integers of any width as 64 bits, sign-extended if signed.
fn widen(bytes: &[u8], layout: IntLayout, values: &mut Vec<u64>) {
    macro_rules! widen {
        ($signed:ty, $unsigned:ty) => {{
            let (chunks, _) = bytes.as_chunks();
            if layout.signed {
                let chunks = chunks.iter();
                values.extend(chunks.map(|&bytes| <$signed>::from_le_bytes(bytes) as i64 as u64));
            } else {
                let chunks = chunks.iter();
                values.extend(chunks.map(|&bytes| <$unsigned>::from_le_bytes(bytes) as u64));
            }
        }};
    }
    match layout.bytes {
        1 => widen!(i8, u8),
        2 => widen!(i16, u16),
        4 => widen!(i32, u32),
        _ => widen!(i64, u64),
    }
}
