//! The table `names`: what a recording has of each name, counted while its events pass.

use super::{TableColumns, texts};
use crate::Result;
use arrow_array::{
    Array, Int64Array, RecordBatch, UInt64Array,
    cast::AsArray,
    types::{Int8Type, Int32Type, Int64Type, UInt64Type},
};
use std::{collections::HashMap, sync::Arc};

/// Names that are counted apart; a program may make up as many as it likes.
const MOST: usize = 1 << 20;
const OTHERS: &str = "(others)";
/// No value, where keys are bytes.
const NONE: u8 = u8::MAX;

/// What there is of one name.
#[derive(Clone, Copy)]
struct Count {
    rows: u64,
    spans: u64,
    total_ns: u64,
    min_ns: u64,
    max_ns: u64,
    first_ns: i64,
    last_ns: i64,
}

impl Default for Count {
    fn default() -> Self {
        Count {
            rows: 0,
            spans: 0,
            total_ns: 0,
            min_ns: u64::MAX,
            max_ns: 0,
            first_ns: i64::MAX,
            last_ns: i64::MIN,
        }
    }
}

impl Count {
    fn add(&mut self, start: i64, duration: Option<u64>) {
        self.rows += 1;
        self.first_ns = self.first_ns.min(start);
        self.last_ns = self.last_ns.max(start);
        if let Some(duration) = duration {
            self.spans += 1;
            self.total_ns = self.total_ns.saturating_add(duration);
            self.min_ns = self.min_ns.min(duration);
            self.max_ns = self.max_ns.max(duration);
        }
    }

    fn merge(&mut self, other: &Count) {
        self.rows += other.rows;
        self.spans += other.spans;
        self.total_ns = self.total_ns.saturating_add(other.total_ns);
        self.min_ns = self.min_ns.min(other.min_ns);
        self.max_ns = self.max_ns.max(other.max_ns);
        self.first_ns = self.first_ns.min(other.first_ns);
        self.last_ns = self.last_ns.max(other.last_ns);
    }
}

/// Type, layer, category and name.
type Key = [Option<Box<str>>; 4];

#[derive(Default)]
pub struct Names {
    counts: HashMap<Key, Count, ahash::RandomState>,
}

impl Names {
    /// Counts rows of the lake.
    pub fn add(&mut self, rows: &RecordBatch) {
        let column = |name: &str| rows.column_by_name(name);
        let words = ["type", "layer", "category"]
            .map(|name| column(name).and_then(|column| column.as_dictionary_opt::<Int8Type>()));
        let names = column("name").and_then(|column| column.as_dictionary_opt::<Int32Type>());
        let starts = column("start_ns").and_then(|column| column.as_primitive_opt::<Int64Type>());
        let durations =
            column("duration_ns").and_then(|column| column.as_primitive_opt::<UInt64Type>());
        let (Some(names), Some(starts), Some(durations)) = (names, starts, durations) else {
            return;
        };
        // By the name's key, then by the words': few for each name.
        let mut counts: Vec<Vec<([u8; 3], Count)>> = vec![Vec::new(); names.values().len() + 1];
        for row in 0..rows.num_rows() {
            let key = words.map(|column| match column {
                Some(column) if column.is_valid(row) => column.keys().value(row).cast_unsigned(),
                _ => NONE,
            });
            let name = match names.is_valid(row) {
                true => names.keys().value(row) as usize + 1,
                false => 0,
            };
            let counts = &mut counts[name];
            let place = counts.iter().position(|(known, _)| *known == key);
            let place = place.unwrap_or_else(|| {
                counts.push((key, Count::default()));
                counts.len() - 1
            });
            let duration = durations.is_valid(row).then(|| durations.value(row));
            counts[place].1.add(starts.value(row), duration);
        }
        let texts = names.values().as_string::<i32>();
        for (name, counts) in counts.iter().enumerate() {
            let name = name.checked_sub(1).map(|name| texts.value(name));
            for (key, count) in counts {
                let word = |at: usize| {
                    let words = words[at].filter(|_| key[at] != NONE)?;
                    Some(words.values().as_string::<i32>().value(key[at] as usize))
                };
                self.merge([word(0), word(1), word(2), name], count);
            }
        }
    }

    fn merge(&mut self, key: [Option<&str>; 4], count: &Count) {
        let mut key: Key = key.map(|word| word.map(Into::into));
        if self.counts.len() >= MOST && !self.counts.contains_key(&key) {
            key[3] = Some(OTHERS.into());
        }
        self.counts.entry(key).or_default().merge(count);
    }

    pub fn table(self, recording: &str) -> Result<RecordBatch> {
        let mut rows: Vec<(Key, Count)> = self.counts.into_iter().collect();
        rows.sort_by(|(one, _), (other, _)| one.cmp(other));
        let word = |at: usize| texts(rows.iter().map(move |(key, _)| key[at].as_deref()));
        let number = |of: fn(&Count) -> Option<u64>| {
            let numbers = rows.iter().map(|(_, count)| of(count));
            Arc::new(numbers.collect::<UInt64Array>())
        };
        let time = |of: fn(&Count) -> i64| {
            let times = rows.iter().map(|(_, count)| of(count));
            Arc::new(Int64Array::from_iter_values(times))
        };
        TableColumns::of(recording, rows.len())?
            .with("type", word(0))
            .with("layer", word(1))
            .with("category", word(2))
            .with("name", word(3))
            .with("rows", number(|count| Some(count.rows)))
            .with("spans", number(|count| Some(count.spans)))
            .with("total_ns", number(|count| Some(count.total_ns)))
            .with(
                "min_ns",
                number(|count| (count.spans > 0).then_some(count.min_ns)),
            )
            .with(
                "max_ns",
                number(|count| (count.spans > 0).then_some(count.max_ns)),
            )
            .with("first_ns", time(|count| count.first_ns))
            .with("last_ns", time(|count| count.last_ns))
            .batch()
    }
}
