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
use arrow_buffer::{BooleanBufferBuilder, NullBuffer};
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
    let mut bits = BooleanBufferBuilder::new(rows);
    for piece in pieces {
        match piece.array.nulls() {
            None => bits.append_n(piece.rows.len(), true),
            Some(_) if is_empty(piece.array) => bits.append_n(piece.rows.len(), false),
            Some(nulls) => {
                for &row in piece.rows {
                    bits.append(nulls.is_valid(row as usize));
                }
            }
        }
    }
    let valid = NullBuffer::new(bits.finish());
    (valid.null_count() > 0).then_some(valid)
}

fn numbers<T: ArrowPrimitiveType>(pieces: &[Piece<'_>], rows: usize) -> Result<ArrayRef> {
    let mut values: Vec<T::Native> = Vec::with_capacity(rows);
    for piece in pieces {
        let from = piece.array.as_primitive::<T>().values();
        values.extend(piece.rows.iter().map(|&row| from[row as usize]));
    }
    let valid = valid(pieces, rows);
    Ok(Arc::new(PrimitiveArray::<T>::try_new(
        values.into(),
        valid,
    )?))
}

/// Keys of one dictionary as keys of the new one; -1: not used yet.
struct Translation<'a> {
    texts: &'a StringArray,
    keys: Vec<i32>,
}

fn texts<T: ArrowDictionaryKeyType>(pieces: &[Piece<'_>], rows: usize) -> Result<ArrayRef> {
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
            keys.push(new.ok_or(ArrowError::DictionaryKeyOverflowError)?);
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
}
