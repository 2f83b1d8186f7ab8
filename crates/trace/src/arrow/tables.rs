//! The rows of a stream as tables, for formats that hold the same rows: no record is made of them.

use super::{
    VERSION,
    batch::{self, Batch, Cells, OwnDictionaries, Values},
    columns::{self, Column, Type},
    message::{Messages, Next},
    plan::Plan,
    row,
    units::{Unit, Units},
};
use crate::{Error, Result, error::RowsError, pipeline::Cut};
use arrow_array::{
    Array, ArrayRef, DictionaryArray, PrimitiveArray, RecordBatch, StringArray, new_null_array,
    types::{ArrowPrimitiveType, Int8Type, Int32Type, Int64Type, UInt32Type, UInt64Type},
};
use arrow_buffer::{BooleanBuffer, Buffer, NullBuffer};
use arrow_schema::{DataType, SchemaRef};
use event::{Meta, Name, Summary};
use std::{
    collections::{BTreeMap, HashMap},
    fs::File,
    io::{BufReader, Read, Seek, SeekFrom},
    path::Path,
    sync::Arc,
};

/// A finished trace whose rows can be handed on as they are.
pub struct Tables {
    meta: Meta,
    schema: SchemaRef,
    plan: Arc<Plan>,
    units: Units<BufReader<File>>,
    unit: Unit,
    dictionaries: OwnDictionaries,
    rows: Batch,
    /// Dictionaries as arrays, while they stay the same.
    arrays: HashMap<u8, (Arc<Vec<Name>>, Arc<StringArray>)>,
    /// Columns without values, by type: most are, and batches that wait may share them.
    empty: HashMap<DataType, ArrayRef>,
    counts: BTreeMap<String, u64>,
    opened: u64,
    ended: u64,
    lost: u64,
    latest: i64,
    summary: Option<Summary>,
    warning: Option<String>,
}

/// What a stream that was finished ends with.
const END: [u8; 8] = [0xff, 0xff, 0xff, 0xff, 0, 0, 0, 0];

impl Tables {
    /// None if it must be read record by record: it is not Arrow, of another version, or not finished.
    pub fn open(path: impl AsRef<Path>) -> Result<Option<Self>> {
        let path = path.as_ref();
        let mut file = File::open(path).map_err(|source| Error::Open {
            path: path.into(),
            source,
        })?;
        if !file.metadata().is_ok_and(|found| found.is_file()) {
            return Ok(None);
        }
        let mut end = [0; 8];
        let read = file
            .seek(SeekFrom::End(-8))
            .and_then(|_| file.read_exact(&mut end));
        if read.is_err() || end != END {
            return Ok(None);
        }
        file.seek(SeekFrom::Start(0))?;
        let mut messages = Messages::new(BufReader::with_capacity(256 << 10, file));
        let (_, Next::Message) = messages.next()? else {
            return Ok(None);
        };
        let message = arrow_ipc::root_as_message(messages.header());
        let schema = message.ok().and_then(|message| message.header_as_schema());
        let Some(Ok(plan)) = schema.map(Plan::new) else {
            return Ok(None);
        };
        if plan.version != VERSION {
            return Ok(None);
        }
        let plan = Arc::new(plan);
        Ok(Some(Tables {
            meta: plan.meta.clone(),
            schema: Arc::new(columns::schema(&plan.meta).map_err(std::io::Error::from)?),
            units: Units::new(messages, plan.clone()),
            plan,
            unit: Unit::default(),
            dictionaries: OwnDictionaries::default(),
            rows: Batch::default(),
            arrays: HashMap::new(),
            empty: HashMap::new(),
            counts: BTreeMap::new(),
            opened: 0,
            ended: 0,
            lost: 0,
            latest: 0,
            summary: None,
            warning: None,
        }))
    }

    pub fn schema(&self) -> SchemaRef {
        self.schema.clone()
    }

    pub fn meta(&self) -> &Meta {
        &self.meta
    }

    /// The tail; of a damaged trace, what its readable rows add up to.
    pub fn summary(&self) -> Summary {
        self.summary.clone().unwrap_or_else(|| {
            let open = self.opened.saturating_sub(self.ended);
            Summary {
                end_ns: self.meta.start_ns.saturating_add_signed(self.latest),
                events: self.events(),
                counts: self.counts.clone(),
                open,
                lost: self.lost,
                ..Summary::default()
            }
        })
    }

    /// Spans, instants and meanings that were read.
    pub fn events(&self) -> u64 {
        self.counts.values().sum::<u64>() + self.opened.saturating_sub(self.ended)
    }

    /// Events that its rows say were lost.
    pub fn lost(&self) -> u64 {
        self.lost
    }

    pub fn warning(&self) -> Option<&str> {
        self.warning.as_deref()
    }

    /// The next rows, without the tail's; None at the end.
    pub fn next_batch(&mut self) -> Result<Option<RecordBatch>> {
        if self.warning.is_some() {
            return Ok(None);
        }
        let Some(unit) = self.units.next(std::mem::take(&mut self.unit))? else {
            return Ok(None);
        };
        self.unit = unit;
        if let Some((place, what)) = self.unit.warning.take() {
            self.warning = Some(format!("{place}: {what}"));
            return Ok(None);
        }
        match self.decode() {
            Ok(batch) => Ok(Some(batch)),
            Err(what) => {
                self.warning = Some(format!(
                    "byte {}: {what}: nothing behind it is read",
                    self.unit.offset
                ));
                Ok(None)
            }
        }
    }

    fn decode(&mut self) -> std::result::Result<RecordBatch, RowsError> {
        let message = arrow_ipc::root_as_message(&self.unit.header);
        let message = message.map_err(|_| RowsError::Header)?;
        let header = message.header_as_record_batch().ok_or(RowsError::Header)?;
        self.dictionaries.follow(&self.unit.dictionaries);
        batch::decode(
            header,
            &self.unit.body,
            &self.plan,
            &|_, _| true,
            &self.dictionaries,
            &mut self.rows,
        )?;
        let rows = self.count()?;
        let columns = (Column::ALL.iter())
            .map(|&column| {
                let kind = columns::data_type(column.holds());
                match self.rows.column(column) {
                    None => {
                        let known = self.empty.get(&kind).filter(|array| array.len() == rows);
                        let array = match known {
                            Some(array) => array.clone(),
                            None => new_null_array(&kind, rows),
                        };
                        self.empty.insert(kind, array.clone());
                        Ok(array)
                    }
                    Some(cells) => array(column, cells, rows, &mut self.arrays),
                }
            })
            .collect::<std::result::Result<Vec<_>, RowsError>>()?;
        Ok(RecordBatch::try_new(self.schema.clone(), columns)?)
    }

    /// Counts the rows, and takes out the tail. How many are left.
    fn count(&mut self) -> std::result::Result<usize, RowsError> {
        let mut rows = self.rows.rows;
        if let (Some(kinds), Some(details)) = (
            self.rows.column(Column::Kind),
            self.rows.column(Column::Details),
        ) && rows > 0
            && row::text(kinds, rows - 1).is_ok_and(|kind| kind == "summary")
        {
            rows -= 1;
            let text = row::text(details, rows).unwrap_or_default();
            self.summary = serde_json::from_str(text).ok();
        }
        let keyed = |column| match self.rows.column(column).map(|cells| (cells, &cells.values)) {
            Some((cells, Values::Names { keys, names })) => Some((cells, keys, names)),
            _ => None,
        };
        let (_, kinds, words) = keyed(Column::Kind).ok_or(RowsError::NoType)?;
        let phases = keyed(Column::Phase);
        let phase_of = |row: usize| {
            let (cells, keys, names) = phases?;
            let name = names.get(*keys.get(row)? as usize)?;
            cells.has(row).then(|| name.bytes().next()).flatten()
        };
        let mut sums = vec![0u64; words.len()];
        for (row, &kind) in kinds.iter().enumerate().take(rows) {
            let sum = sums.get_mut(kind as usize);
            let sum = sum.ok_or(RowsError::Key)?;
            match phase_of(row) {
                Some(b'B') => self.opened += 1,
                Some(b'E') => {
                    self.ended += 1;
                    *sum += 1;
                }
                _ => *sum += 1,
            }
        }
        for (word, sum) in words.iter().zip(sums) {
            if sum > 0 && &**word != "lost" && &**word != "summary" {
                *self.counts.entry(word.to_string()).or_default() += sum;
            }
        }
        if let Some(Cells {
            values: Values::Ints { values, .. },
            ..
        }) = self.rows.column(Column::Count)
        {
            // Cells without a value are 0.
            let lost = values
                .iter()
                .take(rows)
                .fold(0, |sum: u64, &count| sum.saturating_add(count));
            self.lost = self.lost.saturating_add(lost);
        }
        if let Some(Cells {
            values: Values::Ints { values, .. },
            ..
        }) = self.rows.column(Column::Ts)
        {
            let latest = values.iter().take(rows).map(|&ts| ts as i64).max();
            self.latest = self.latest.max(latest.unwrap_or(0));
        }
        Ok(rows)
    }
}

fn array(
    column: Column,
    cells: &Cells,
    rows: usize,
    arrays: &mut HashMap<u8, (Arc<Vec<Name>>, Arc<StringArray>)>,
) -> std::result::Result<ArrayRef, RowsError> {
    let valid = cells.valid().map(|bits| {
        let bits = Buffer::from(&bits[..rows.div_ceil(8)]);
        NullBuffer::new(BooleanBuffer::new(bits, 0, rows))
    });
    let valid = valid.filter(|valid| valid.null_count() > 0);
    match (&cells.values, column.holds()) {
        (Values::Ints { values, .. }, Type::U32) => {
            numbers::<UInt32Type>(&values[..rows], valid, |value| u32::try_from(value).ok())
        }
        (Values::Ints { values, .. }, Type::U64) => {
            numbers::<UInt64Type>(&values[..rows], valid, Some)
        }
        (Values::Ints { values, .. }, Type::I64) => {
            numbers::<Int64Type>(&values[..rows], valid, |value| Some(value as i64))
        }
        (Values::Names { keys, names }, holds) => {
            let known = arrays.get(&(column as u8));
            let texts = match known.filter(|(known, _)| Arc::ptr_eq(known, names)) {
                Some((_, array)) => array.clone(),
                None => {
                    let texts = names.iter().map(|name| &**name);
                    let array = Arc::new(StringArray::from_iter_values(texts));
                    arrays.insert(column as u8, (names.clone(), array.clone()));
                    array
                }
            };
            let keys = &keys[..rows];
            Ok(if matches!(holds, Type::Word(_)) {
                let keys = primitive::<Int8Type>(keys, valid, |key| i8::try_from(key).ok())?;
                Arc::new(DictionaryArray::try_new(keys, texts)?)
            } else {
                let keys = primitive::<Int32Type>(keys, valid, |key| i32::try_from(key).ok())?;
                Arc::new(DictionaryArray::try_new(keys, texts)?)
            })
        }
        _ => Err(RowsError::ColumnType(column.name().into())),
    }
}

fn numbers<T: ArrowPrimitiveType>(
    values: &[u64],
    valid: Option<NullBuffer>,
    narrow: impl Fn(u64) -> Option<T::Native>,
) -> std::result::Result<ArrayRef, RowsError> {
    Ok(Arc::new(primitive::<T>(values, valid, narrow)?))
}

fn primitive<T: ArrowPrimitiveType>(
    values: &[u64],
    valid: Option<NullBuffer>,
    narrow: impl Fn(u64) -> Option<T::Native>,
) -> std::result::Result<PrimitiveArray<T>, RowsError> {
    let mut narrowed = Vec::with_capacity(values.len());
    for &value in values {
        narrowed.push(narrow(value).ok_or(RowsError::TooLarge)?);
    }
    Ok(PrimitiveArray::try_new(narrowed.into(), valid)?)
}
