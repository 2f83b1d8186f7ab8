//! Columns that are being filled, row by row. A column that a row has nothing for costs that
//! row nothing: gaps are filled when the next value, or the batch's end, comes.

use super::columns::{Column, Type};
use arrow_array::{
    ArrayRef, DictionaryArray, PrimitiveArray, StringArray,
    types::{ArrowPrimitiveType, Int8Type, Int32Type, Int64Type, UInt32Type, UInt64Type},
};
use arrow_buffer::{BooleanBuffer, Buffer, NullBuffer, OffsetBuffer, ScalarBuffer};
use arrow_schema::ArrowError;
use event::Name;
use std::{collections::HashMap, sync::Arc};

/// Names after which a dictionary starts afresh, so that it does not grow with the trace.
const MOST_NAMES: usize = 8_192;

pub struct Cells {
    holds: Type,
    /// Numbers, keys of dictionaries, or ends of texts.
    values: Vec<u64>,
    valid: Vec<u8>,
    text: Vec<u8>,
    dictionary: Dictionary,
}

#[derive(Default)]
struct Dictionary {
    keys: HashMap<Name, u64, ahash::RandomState>,
    names: Vec<Name>,
    /// The dictionary as it was last written: unchanged, it is not written again.
    array: Option<Arc<StringArray>>,
}

impl Cells {
    pub fn new(column: Column) -> Self {
        let dictionary = match column.holds() {
            Type::Word(words) => Dictionary {
                array: Some(Arc::new(StringArray::from(words.to_vec()))),
                ..Dictionary::default()
            },
            _ => Dictionary::default(),
        };
        Cells {
            holds: column.holds(),
            values: Vec::new(),
            valid: Vec::new(),
            text: Vec::new(),
            dictionary,
        }
    }

    #[inline]
    pub fn set(&mut self, row: usize, value: u64) {
        if self.values.len() < row {
            self.fill_gap(row);
        }
        self.values.push(value);
        if self.valid.len() <= row / 8 {
            self.valid.resize(row / 8 + 1, 0);
        }
        self.valid[row / 8] |= 1 << (row % 8);
    }

    /// Rows without a value; texts repeat the last end there.
    fn fill_gap(&mut self, rows: usize) {
        let gap = if self.holds == Type::Text {
            self.text_end()
        } else {
            0
        };
        self.values.resize(rows, gap);
    }

    pub fn set_name(&mut self, row: usize, name: &Name) {
        let key = match self.dictionary.keys.get(name) {
            Some(&key) => key,
            None => {
                let key = self.dictionary.names.len() as u64;
                self.dictionary.keys.insert(name.clone(), key);
                self.dictionary.names.push(name.clone());
                self.dictionary.array = None;
                key
            }
        };
        self.set(row, key);
    }

    /// Let `write` append the cell's text.
    pub fn set_text<E>(
        &mut self,
        row: usize,
        write: impl FnOnce(&mut Vec<u8>) -> Result<(), E>,
    ) -> Result<(), E> {
        let before = self.text.len();
        if let Err(error) = write(&mut self.text) {
            self.text.truncate(before);
            return Err(error);
        }
        self.set(row, self.text.len() as u64);
        Ok(())
    }

    fn text_end(&self) -> u64 {
        self.values.last().copied().unwrap_or(0)
    }

    pub fn text_bytes(&self) -> usize {
        self.text.len()
    }

    /// Forget the cell of that row, if it has one.
    pub fn unset(&mut self, row: usize) {
        if self.values.len() > row {
            self.values.truncate(row);
            self.text.truncate(if self.holds == Type::Text {
                self.text_end() as usize
            } else {
                0
            });
            self.valid.resize(row / 8 + 1, 0);
            self.valid[row / 8] &= !(1 << (row % 8));
        }
    }

    /// The column of the last `rows` rows; the cells are empty afterwards.
    pub fn take(&mut self, rows: usize) -> Result<ArrayRef, ArrowError> {
        self.fill_gap(rows);
        let values = std::mem::take(&mut self.values);
        self.valid.resize(rows.div_ceil(8), 0);
        let valid = BooleanBuffer::new(Buffer::from_vec(std::mem::take(&mut self.valid)), 0, rows);
        let valid = Some(NullBuffer::new(valid)).filter(|valid| valid.null_count() > 0);
        Ok(match self.holds {
            Type::U32 => numbers::<UInt32Type>(&values, valid, |value| value as u32)?,
            Type::U64 => Arc::new(PrimitiveArray::<UInt64Type>::try_new(values.into(), valid)?),
            Type::I64 => numbers::<Int64Type>(&values, valid, |value| value as i64)?,
            Type::Word(_) => {
                let keys = PrimitiveArray::<Int8Type>::try_new(
                    values.iter().map(|&value| value as i8).collect(),
                    valid,
                )?;
                Arc::new(DictionaryArray::try_new(keys, self.dictionary.as_array())?)
            }
            Type::Name => {
                let keys = PrimitiveArray::<Int32Type>::try_new(
                    values.iter().map(|&value| value as i32).collect(),
                    valid,
                )?;
                let array = DictionaryArray::try_new(keys, self.dictionary.as_array())?;
                if self.dictionary.names.len() > MOST_NAMES {
                    self.dictionary = Dictionary::default();
                }
                Arc::new(array)
            }
            Type::Text => {
                let ends = std::iter::once(0).chain(values.iter().map(|&end| end as i32));
                let ends = OffsetBuffer::new(ends.collect::<ScalarBuffer<i32>>());
                let text = Buffer::from_vec(std::mem::take(&mut self.text));
                Arc::new(StringArray::try_new(ends, text, valid)?)
            }
        })
    }
}

impl Dictionary {
    fn as_array(&mut self) -> Arc<StringArray> {
        let names = &self.names;
        let array = self.array.get_or_insert_with(|| {
            Arc::new(StringArray::from_iter_values(
                names.iter().map(|name| &**name),
            ))
        });
        Arc::clone(array)
    }
}

fn numbers<T: ArrowPrimitiveType>(
    values: &[u64],
    valid: Option<NullBuffer>,
    narrow: impl Fn(u64) -> T::Native,
) -> Result<ArrayRef, ArrowError> {
    let values = values.iter().map(|&value| narrow(value)).collect();
    Ok(Arc::new(PrimitiveArray::<T>::try_new(values, valid)?))
}

/// One set of cells for each column of the schema, in its order.
pub fn all() -> Vec<Cells> {
    Column::ALL
        .iter()
        .map(|&column| Cells::new(column))
        .collect()
}
