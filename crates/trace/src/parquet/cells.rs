//! Rows of Parquet as the cells that rows of Arrow traces are read from.

use crate::{
    Parts,
    arrow::{
        batch::{Batch, Cells, Values},
        columns::Column,
    },
    error::RowsError,
    json::value::write_stack,
};
use arrow_array::{
    Array, ArrayRef, RecordBatch, StringArray,
    cast::AsArray,
    types::{Int8Type, Int32Type, Int64Type, UInt32Type, UInt64Type},
};
use arrow_schema::DataType;
use event::{Frame, Name};
use std::{collections::HashMap, sync::Arc};

/// Dictionaries that were seen last, by column: batches of a row group share them.
#[derive(Default)]
pub struct KnownTexts {
    by_column: HashMap<u8, (StringArray, Arc<Vec<Name>>)>,
}

/// The texts of stacks, by number.
pub type StackTexts = Arc<Vec<Name>>;

/// Which column of a lake is which of a trace; None for those that traces have not.
fn column_of(name: &str) -> Option<Column> {
    let name = match name {
        "start_ns" => "ts_ns",
        "stack_id" => "stack",
        other => other,
    };
    (Column::ALL.iter().copied()).find(|column| column.name() == name)
}

/// Whether it is read at all.
pub fn is_wanted(name: &str, parts: Parts) -> bool {
    match column_of(name) {
        Some(Column::Details | Column::Outputs) => parts.args,
        Some(Column::Decoded) => parts.decoded,
        Some(Column::Stack) => parts.stack,
        Some(Column::LinesInside) => false,
        Some(_) => true,
        None => name == "recording",
    }
}

/// The cells; times count from `base`.
pub fn cells(
    rows: &RecordBatch,
    base: i64,
    stacks: &StackTexts,
    known: &mut KnownTexts,
) -> Result<Batch, RowsError> {
    let mut columns = Vec::new();
    for (field, array) in rows.schema_ref().fields().iter().zip(rows.columns()) {
        let Some(column) = column_of(field.name()) else {
            continue;
        };
        if array.null_count() == array.len() {
            continue;
        }
        let is_absolute = field.name() == "start_ns";
        let stacks = (field.name() == "stack_id").then_some(stacks);
        let values = values(column, array, is_absolute.then_some(base), stacks, known)
            .ok_or_else(|| RowsError::ColumnType(field.name().clone()))?;
        let valid = array.nulls().map(|nulls| nulls.inner().sliced().to_vec());
        columns.push((column, Cells::new(values, valid)));
    }
    Ok(Batch::new(rows.num_rows(), columns))
}

fn values(
    column: Column,
    array: &ArrayRef,
    base: Option<i64>,
    stacks: Option<&StackTexts>,
    known: &mut KnownTexts,
) -> Option<Values> {
    let ints = |values: Vec<u64>, signed| Values::Ints { values, signed };
    let wide = |values: &[u32]| {
        values
            .iter()
            .map(|&value| value.into())
            .collect::<Vec<u64>>()
    };
    Some(match array.data_type() {
        DataType::UInt32 => {
            let numbers = wide(array.as_primitive::<UInt32Type>().values());
            match stacks {
                Some(stacks) => Values::Names {
                    keys: numbers,
                    names: stacks.clone(),
                },
                None => ints(numbers, false),
            }
        }
        DataType::UInt64 => ints(array.as_primitive::<UInt64Type>().values().to_vec(), false),
        DataType::Int64 => {
            let values = array.as_primitive::<Int64Type>().values().iter();
            let base = base.unwrap_or(0);
            let values = values.map(|value| value.wrapping_sub(base).cast_unsigned());
            ints(values.collect(), true)
        }
        DataType::Dictionary(key, _) => {
            let (keys, texts) = match **key {
                DataType::Int8 => {
                    let array = array.as_dictionary::<Int8Type>();
                    let keys = array.keys().values().iter();
                    let keys = keys.map(|&key| u64::from(key.cast_unsigned())).collect();
                    (keys, array.values())
                }
                DataType::Int32 => {
                    let array = array.as_dictionary::<Int32Type>();
                    let keys = array.keys().values().iter();
                    let keys = keys.map(|&key| u64::from(key.cast_unsigned())).collect();
                    (keys, array.values())
                }
                _ => return None,
            };
            let names = known.names(column, texts.as_string_opt::<i32>()?);
            Values::Names { keys, names }
        }
        DataType::Utf8 => {
            let texts = array.as_string::<i32>();
            let mut text = String::new();
            let mut offsets = vec![0];
            for row in 0..texts.len() {
                if texts.is_valid(row) {
                    text.push_str(texts.value(row));
                }
                offsets.push(text.len());
            }
            Values::Texts { text, offsets }
        }
        _ => return None,
    })
}

impl KnownTexts {
    fn names(&mut self, column: Column, texts: &StringArray) -> Arc<Vec<Name>> {
        let same = |(known, _): &&(StringArray, Arc<Vec<Name>>)| {
            known.value_data().as_ptr() == texts.value_data().as_ptr() && known.len() == texts.len()
        };
        if let Some((_, names)) = self.by_column.get(&(column as u8)).filter(same) {
            return names.clone();
        }
        let names = texts
            .iter()
            .map(|text| Name::from(text.unwrap_or_default()));
        let names: Arc<Vec<Name>> = Arc::new(names.collect());
        let known = (texts.clone(), names.clone());
        self.by_column.insert(column as u8, known);
        names
    }
}

/// Frames by their stacks' numbers, as cells have them.
pub fn stack_texts(frames: impl Iterator<Item = (u32, u32, Frame)>) -> StackTexts {
    let mut stacks: Vec<Vec<(u32, Frame)>> = Vec::new();
    for (stack, level, frame) in frames {
        let stack = stack as usize;
        // They are numbered without gaps: what claims more is damaged.
        if stack > stacks.len() + MOST_MISSING {
            continue;
        }
        if stacks.len() <= stack {
            stacks.resize_with(stack + 1, Vec::new);
        }
        stacks[stack].push((level, frame));
    }
    let texts = stacks.into_iter().map(|mut stack| {
        stack.sort_by_key(|(level, _)| *level);
        let frames: Vec<Frame> = stack.into_iter().map(|(_, frame)| frame).collect();
        let mut text = Vec::new();
        write_stack(&mut text, &frames);
        Name::from(String::from_utf8_lossy(&text).as_ref())
    });
    Arc::new(texts.collect())
}

const MOST_MISSING: usize = 1 << 16;
