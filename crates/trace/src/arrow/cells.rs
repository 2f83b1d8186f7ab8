//! Columns that are being filled, row by row. A column that a row has nothing for costs that
//! row nothing: gaps are filled when the next value, or the batch's end, comes. A row may get a value later: a
//! span's row gets its end's.

use super::{
    columns::{Column, Type, data_type},
    dictionary::Dictionary,
};
use crate::Result;
use arrow_array::{
    Array, ArrayRef, DictionaryArray, PrimitiveArray, new_null_array,
    types::{ArrowPrimitiveType, Int8Type, Int32Type, Int64Type, UInt32Type, UInt64Type},
};
use arrow_buffer::{BooleanBuffer, Buffer, NullBuffer};
use arrow_schema::ArrowError;
use event::{Arg, Name, Stack};
use std::sync::Arc;

/// Rows that room is made for at once, at least and at most: a short trace takes little memory.
const LEAST_ROOM: usize = 64;
const MOST_ROOM: usize = 4_096;

pub struct Cells {
    holds: Type,
    /// Numbers, or keys of the dictionary. Room for more rows than have one is 0; none at all if no row has one.
    values: Vec<u64>,
    /// A bit for each of `values`.
    valid: Vec<u8>,
    dictionary: Dictionary,
    /// Numbers of which no row has one: the same array for every batch of that length.
    nothing: Option<ArrayRef>,
}

impl Cells {
    pub fn new(column: Column) -> Self {
        let dictionary = match column.holds() {
            Type::Word(words) => Dictionary::of_words(words),
            _ => Dictionary::default(),
        };
        Cells {
            holds: column.holds(),
            values: Vec::new(),
            valid: Vec::new(),
            dictionary,
            nothing: None,
        }
    }

    #[inline]
    pub fn set(&mut self, row: usize, value: u64) {
        if let Some(cell) = self.values.get_mut(row)
            && let Some(bits) = self.valid.get_mut(row / 8)
        {
            *cell = value;
            *bits |= 1 << (row % 8);
        } else {
            self.set_further(row, value);
        }
    }

    /// The same, of a row that there is no room for yet.
    #[cold]
    fn set_further(&mut self, row: usize, value: u64) {
        let more = self.values.len().clamp(LEAST_ROOM, MOST_ROOM);
        let room = (row + more).next_multiple_of(LEAST_ROOM);
        self.values.resize(room, 0);
        self.valid.resize(room / 8, 0);
        self.values[row] = value;
        self.valid[row / 8] |= 1 << (row % 8);
    }

    pub fn get(&self, row: usize) -> Option<u64> {
        let is_valid = self.valid.get(row / 8)? >> (row % 8) & 1 == 1;
        is_valid.then(|| self.values.get(row).copied()).flatten()
    }

    /// Row `place` becomes what row `order[place]` was.
    pub fn reorder(&mut self, order: &[usize]) {
        if self.values.is_empty() {
            return;
        }
        let (values, valid) = (&self.values, &self.valid);
        let value = |row: usize| values.get(row).copied().unwrap_or(0);
        let is_valid = |row: usize| {
            valid
                .get(row / 8)
                .is_some_and(|byte| byte >> (row % 8) & 1 == 1)
        };
        let mut bits = vec![0; order.len().div_ceil(8)];
        for (place, _) in order.iter().enumerate().filter(|(_, row)| is_valid(**row)) {
            bits[place / 8] |= 1 << (place % 8);
        }
        self.values = order.iter().map(|&row| value(row)).collect();
        self.valid = bits;
    }

    /// The key of a name in the column's dictionary.
    pub fn key_of(&mut self, name: &Name) -> u64 {
        self.dictionary.of_name(name)
    }

    pub fn set_name(&mut self, row: usize, name: &Name) {
        let key = self.dictionary.of_name(name);
        self.set(row, key);
    }

    /// The key of the text that `write` makes, to be set.
    pub fn written(&mut self, write: impl FnOnce(&mut Vec<u8>) -> Result<()>) -> Result<u64> {
        self.dictionary.of_written(write)
    }

    /// The key of the text that `write` makes of the arguments, to be set.
    pub fn args(
        &mut self,
        args: &[Arg],
        write: impl FnOnce(&mut Vec<u8>) -> Result<()>,
    ) -> Result<u64> {
        self.dictionary.of_args(args, write)
    }

    /// The key of the text that `write` makes of a stack, to be set.
    pub fn stack(
        &mut self,
        stack: &Stack,
        write: impl FnOnce(&mut Vec<u8>) -> Result<()>,
    ) -> Result<u64> {
        self.dictionary.of_stack(stack, write)
    }

    pub fn text_bytes(&self) -> usize {
        self.dictionary.text()
    }

    /// Forget the cell of that row, which is the last, if it has one.
    pub fn unset(&mut self, row: usize) {
        if let Some(cell) = self.values.get_mut(row) {
            *cell = 0;
            self.valid[row / 8] &= !(1 << (row % 8));
        }
    }

    /// The column of the last `rows` rows; the cells are empty afterwards.
    pub fn take(&mut self, rows: usize) -> std::result::Result<ArrayRef, ArrowError> {
        if self.values.is_empty() && matches!(self.holds, Type::U32 | Type::U64 | Type::I64) {
            let known = self.nothing.take().filter(|array| array.len() == rows);
            let array = known.unwrap_or_else(|| new_null_array(&data_type(self.holds), rows));
            self.nothing = Some(array.clone());
            return Ok(array);
        }
        self.values.resize(rows, 0);
        self.valid.resize(rows.div_ceil(8), 0);
        let valid = Buffer::from(&*self.valid);
        self.valid.clear();
        let valid = NullBuffer::new(BooleanBuffer::new(valid, 0, rows));
        let valid = Some(valid).filter(|valid| valid.null_count() > 0);
        let array: ArrayRef = match self.holds {
            Type::U32 => numbers::<UInt32Type>(&self.values, valid, |value| value as u32)?,
            Type::U64 => numbers::<UInt64Type>(&self.values, valid, |value| value)?,
            Type::I64 => numbers::<Int64Type>(&self.values, valid, |value| value as i64)?,
            Type::Word(_) => {
                let keys = keys::<Int8Type>(&self.values, valid, |value| value as i8)?;
                Arc::new(DictionaryArray::try_new(keys, self.dictionary.as_array())?)
            }
            Type::Name | Type::Json => {
                let keys = keys::<Int32Type>(&self.values, valid, |value| value as i32)?;
                let array = DictionaryArray::try_new(keys, self.dictionary.as_array())?;
                self.dictionary.end_batch();
                Arc::new(array)
            }
        };
        self.values.clear();
        Ok(array)
    }
}

fn numbers<T: ArrowPrimitiveType>(
    values: &[u64],
    valid: Option<NullBuffer>,
    narrow: impl Fn(u64) -> T::Native,
) -> std::result::Result<ArrayRef, ArrowError> {
    Ok(Arc::new(keys::<T>(values, valid, narrow)?))
}

fn keys<T: ArrowPrimitiveType>(
    values: &[u64],
    valid: Option<NullBuffer>,
    narrow: impl Fn(u64) -> T::Native,
) -> std::result::Result<PrimitiveArray<T>, ArrowError> {
    PrimitiveArray::try_new(values.iter().map(|&value| narrow(value)).collect(), valid)
}

/// One set of cells for each column of the schema, in its order.
pub type AllCells = [Cells; Column::ALL.len()];

pub fn all() -> Box<AllCells> {
    Box::new(std::array::from_fn(|place| Cells::new(Column::ALL[place])))
}
