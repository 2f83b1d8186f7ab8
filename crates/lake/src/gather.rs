//! Rows of several batches as one batch, in any order, column by column.
//!
//! By hand: arrow-select merges dictionaries by their texts, which costs more than everything else here together. Texts that
//! come twice do no harm, because the Parquet writer makes dictionaries of its own.

use crate::Result;
use arrow_array::{
    Array, ArrayRef, ArrowPrimitiveType, DictionaryArray, PrimitiveArray, RecordBatch, StringArray,
    cast::AsArray,
    new_null_array,
    types::{
        ArrowDictionaryKeyType, Float64Type, Int8Type, Int32Type, Int64Type, UInt32Type, UInt64Type,
    },
};
use arrow_buffer::{BooleanBuffer, NullBuffer};
use arrow_schema::{ArrowError, DataType, SchemaRef};
use std::{collections::HashMap, sync::Arc};

/// Rows of one batch.
#[derive(Debug, Clone)]
pub struct Segment {
    pub batch: Arc<RecordBatch>,
    pub rows: Vec<u32>,
}

/// The rows of these segments, one after the other.
pub fn gather(schema: &SchemaRef, segments: &[Segment]) -> Result<RecordBatch> {
    let rows = segments.iter().map(|segment| segment.rows.len()).sum();
    // Most columns have no values: those of one type share an array.
    let mut empty: HashMap<&DataType, ArrayRef> = HashMap::new();
    let columns = (0..schema.fields().len())
        .map(|at| {
            let pieces: Vec<Piece<'_>> = (segments.iter())
                .map(|segment| Piece {
                    array: segment.batch.column(at),
                    rows: &segment.rows,
                })
                .collect();
            let kind = schema.field(at).data_type();
            if pieces.iter().all(|piece| is_empty(piece.array)) {
                let array = empty
                    .entry(kind)
                    .or_insert_with(|| new_null_array(kind, rows));
                return Ok(array.clone());
            }
            column(kind, &pieces)
        })
        .collect::<Result<Vec<_>>>()?;
    Ok(RecordBatch::try_new(schema.clone(), columns)?)
}

/// Some rows of one array.
#[derive(Clone, Copy)]
pub struct Piece<'a> {
    pub array: &'a ArrayRef,
    pub rows: &'a [u32],
}

/// One column of them.
pub fn column(kind: &DataType, pieces: &[Piece<'_>]) -> Result<ArrayRef> {
    let rows = pieces.iter().map(|piece| piece.rows.len()).sum();
    if pieces.iter().all(|piece| is_empty(piece.array)) {
        return Ok(new_null_array(kind, rows));
    }
    match kind {
        DataType::UInt32 => numbers::<UInt32Type>(pieces, rows),
        DataType::UInt64 => numbers::<UInt64Type>(pieces, rows),
        DataType::Int64 => numbers::<Int64Type>(pieces, rows),
        DataType::Float64 => numbers::<Float64Type>(pieces, rows),
        DataType::Dictionary(key, _) if **key == DataType::Int8 => texts::<Int8Type>(pieces, rows),
        DataType::Dictionary(..) => texts::<Int32Type>(pieces, rows),
        other => Err(ArrowError::NotYetImplemented(format!("a column of {other}")).into()),
    }
}

/// Whether no row has a value.
fn is_empty(array: &ArrayRef) -> bool {
    array.null_count() == array.len()
}

/// Which of the rows have a value; None: all.
fn valid(pieces: &[Piece<'_>], rows: usize) -> Option<NullBuffer> {
    if pieces.iter().all(|piece| piece.array.null_count() == 0) {
        return None;
    }
    let mut bits = Bits::with_room(rows);
    for piece in pieces {
        match piece.array.nulls() {
            None => bits.extend(piece.rows.iter().map(|_| true)),
            Some(_) if is_empty(piece.array) => bits.extend(piece.rows.iter().map(|_| false)),
            Some(nulls) => {
                let (from, offset) = (nulls.validity(), nulls.offset());
                bits.extend(piece.rows.iter().map(|&row| {
                    let at = row as usize + offset;
                    from[at / 8] >> (at % 8) & 1 != 0
                }));
            }
        }
    }
    let valid = NullBuffer::new(bits.finish());
    (valid.null_count() > 0).then_some(valid)
}

/// Bits, one after the other, eight bytes at a time: a bit by itself costs more than the value it is about.
struct Bits {
    words: Vec<u64>,
    current: u64,
    length: usize,
}

impl Bits {
    fn with_room(bits: usize) -> Self {
        Bits {
            words: Vec::with_capacity(bits.div_ceil(64)),
            current: 0,
            length: 0,
        }
    }

    fn extend(&mut self, bits: impl Iterator<Item = bool>) {
        let (mut current, mut length) = (self.current, self.length);
        for bit in bits {
            current |= u64::from(bit) << (length % 64);
            length += 1;
            if length.is_multiple_of(64) {
                self.words.push(current.to_le());
                current = 0;
            }
        }
        (self.current, self.length) = (current, length);
    }

    fn finish(mut self) -> BooleanBuffer {
        self.words.push(self.current.to_le());
        BooleanBuffer::new(self.words.into(), 0, self.length)
    }
}

fn numbers<T: ArrowPrimitiveType>(pieces: &[Piece<'_>], rows: usize) -> Result<ArrayRef> {
    let arrays = pieces.iter().map(|piece| piece.array.as_primitive::<T>());
    let numbers = gathered(arrays.zip(pieces), valid(pieces, rows), rows)?;
    Ok(Arc::new(numbers))
}

/// The numbers of rows, whatever is in those without a value.
fn gathered<'a, T: ArrowPrimitiveType>(
    pieces: impl Iterator<Item = (&'a PrimitiveArray<T>, &'a Piece<'a>)>,
    valid: Option<NullBuffer>,
    rows: usize,
) -> Result<PrimitiveArray<T>> {
    let mut values: Vec<T::Native> = Vec::with_capacity(rows);
    for (array, piece) in pieces {
        let from: &[T::Native] = array.values();
        values.extend(piece.rows.iter().map(|&row| from[row as usize]));
    }
    Ok(PrimitiveArray::<T>::try_new(values.into(), valid)?)
}

/// The dictionary that all others are the beginning of, if there is one: a trace's dictionaries grow at their ends.
fn common_dictionary<'a, T: ArrowDictionaryKeyType>(pieces: &[Piece<'a>]) -> Option<&'a ArrayRef> {
    let mut different: Vec<&'a ArrayRef> = Vec::new();
    for piece in pieces {
        let values = piece.array.as_dictionary::<T>().values();
        if !different.iter().any(|known| Arc::ptr_eq(known, values)) {
            different.push(values);
        }
    }
    let longest = *different.iter().max_by_key(|values| values.len())?;
    let all = longest.as_string::<i32>();
    let is_beginning = |values: &&ArrayRef| {
        let (texts, length) = (values.as_string::<i32>(), values.len());
        let end = texts.value_offsets()[length] as usize;
        // Dictionaries have no nulls here, and begin with their buffers.
        texts.null_count() == 0
            && texts.value_offsets() == &all.value_offsets()[..=length]
            && texts.value_data()[..end] == all.value_data()[..end]
    };
    different.iter().all(is_beginning).then_some(longest)
}

/// Keys of one dictionary as keys of the new one; -1: not used yet.
struct Translation<'a> {
    texts: &'a StringArray,
    keys: Vec<i32>,
}

fn texts<T: ArrowDictionaryKeyType>(pieces: &[Piece<'_>], rows: usize) -> Result<ArrayRef> {
    if let Some(common) = common_dictionary::<T>(pieces) {
        let keys = (pieces.iter()).map(|piece| piece.array.as_dictionary::<T>().keys());
        let keys = gathered(keys.zip(pieces), valid(pieces, rows), rows)?;
        return Ok(Arc::new(DictionaryArray::try_new(keys, common.clone())?));
    }
    let mut translations: HashMap<*const u8, Translation<'_>> = HashMap::new();
    let mut texts: Vec<&str> = Vec::new();
    let mut same: HashMap<&str, i32> = HashMap::new();
    let mut keys: Vec<T::Native> = Vec::with_capacity(rows);
    let few = T::DATA_TYPE == DataType::Int8;
    for piece in pieces {
        let array = piece.array.as_dictionary::<T>();
        let from = array.keys().values();
        let words = array.values().as_string::<i32>();
        // Batches that follow each other mostly share a dictionary.
        let place = words.value_data().as_ptr();
        let known = translations.entry(place).or_insert_with(|| Translation {
            texts: words,
            keys: vec![-1; words.len()],
        });
        let has_nulls = piece.array.null_count() > 0;
        for &row in piece.rows {
            if has_nulls && array.is_null(row as usize) {
                keys.push(T::Native::default());
                continue;
            }
            let old = from[row as usize];
            let old = arrow_buffer::ArrowNativeType::as_usize(old);
            let mut new = known.keys[old];
            if new < 0 {
                let text = known.texts.value(old);
                new = match few {
                    // A key must fit into a byte.
                    true => *same.entry(text).or_insert_with(|| {
                        texts.push(text);
                        texts.len() as i32 - 1
                    }),
                    false => {
                        texts.push(text);
                        texts.len() as i32 - 1
                    }
                };
                known.keys[old] = new;
            }
            let new = <T::Native as arrow_buffer::ArrowNativeType>::from_usize(new as usize);
            keys.push(new.ok_or_else(|| ArrowError::DictionaryKeyOverflowError)?);
        }
    }
    let keys = PrimitiveArray::<T>::try_new(keys.into(), valid(pieces, rows))?;
    let texts = StringArray::from_iter_values(texts);
    Ok(Arc::new(DictionaryArray::try_new(keys, Arc::new(texts))?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow_array::types::Int32Type;
    use arrow_schema::{Field, Schema};

    fn batch(schema: &SchemaRef, numbers: Vec<Option<u64>>, names: Vec<Option<&str>>) -> Segment {
        let rows = (0..numbers.len() as u32).rev().collect();
        let names: DictionaryArray<Int32Type> = names.into_iter().collect();
        let numbers = PrimitiveArray::<UInt64Type>::from(numbers);
        let columns: Vec<ArrayRef> = vec![Arc::new(numbers), Arc::new(names)];
        Segment {
            batch: Arc::new(RecordBatch::try_new(schema.clone(), columns).expect("a batch")),
            rows,
        }
    }

    #[test]
    fn rows_of_several_dictionaries() {
        let name = DataType::Dictionary(Box::new(DataType::Int32), Box::new(DataType::Utf8));
        let schema = Arc::new(Schema::new(vec![
            Field::new("number", DataType::UInt64, true),
            Field::new("name", name, true),
        ]));
        let one = batch(&schema, vec![Some(1), None], vec![Some("a"), Some("b")]);
        let other = batch(&schema, vec![Some(3), Some(4)], vec![None, Some("a")]);
        let rows = gather(&schema, &[one, other]).expect("rows");
        let numbers = rows.column(0).as_primitive::<UInt64Type>();
        let numbers: Vec<Option<u64>> = numbers.iter().collect();
        assert_eq!(numbers, [None, Some(1), Some(4), Some(3)]);
        let names = rows.column(1).as_dictionary::<Int32Type>();
        let names = names.downcast_dict::<StringArray>().expect("texts");
        let names: Vec<Option<&str>> = names.into_iter().collect();
        assert_eq!(names, [Some("b"), Some("a"), Some("a"), None]);
    }

    /// Rows of dictionaries of which one goes on where the other ends, and more of them than a word has bits.
    #[test]
    fn a_dictionary_that_grew_is_kept() {
        let name = DataType::Dictionary(Box::new(DataType::Int32), Box::new(DataType::Utf8));
        let schema = Arc::new(Schema::new(vec![
            Field::new("number", DataType::UInt64, true),
            Field::new("name", name, true),
        ]));
        let few = ["a", "b"];
        let more = ["a", "b", "c"];
        let piece = |words: &[&'static str], rows: usize| {
            let text = |row: usize| match row {
                // Each word comes once, so that dictionaries are the same up to their ends.
                row if row < words.len() => Some(words[row]),
                row => (row % 3 > 0).then(|| words[row % words.len()]),
            };
            let numbers = (0..rows).map(|row| (row % 5 > 1).then_some(row as u64));
            batch(&schema, numbers.collect(), (0..rows).map(text).collect())
        };
        let segments = [piece(&few, 100), piece(&more, 70)];
        let rows = gather(&schema, &segments).expect("rows");
        let names = rows.column(1).as_dictionary::<Int32Type>();
        assert_eq!(names.values().len(), 3);
        let found: Vec<Option<&str>> = (names.downcast_dict::<StringArray>().expect("texts"))
            .into_iter()
            .collect();
        let wanted: Vec<Option<&str>> = (segments.iter())
            .flat_map(|segment| {
                let names = segment.batch.column(1).as_dictionary::<Int32Type>();
                let names = names.downcast_dict::<StringArray>().expect("texts");
                let names: Vec<Option<&str>> = names.into_iter().collect();
                segment
                    .rows
                    .iter()
                    .map(move |row| names[*row as usize])
                    .collect::<Vec<_>>()
            })
            .collect();
        assert_eq!(found, wanted);
        let numbers = rows.column(0).as_primitive::<UInt64Type>();
        for (at, row) in (0..100).rev().chain((0..70).rev()).enumerate() {
            let wanted = (row % 5 > 1).then_some(row as u64);
            assert_eq!(
                numbers.is_valid(at).then(|| numbers.value(at)),
                wanted,
                "{at}"
            );
        }
    }
}
