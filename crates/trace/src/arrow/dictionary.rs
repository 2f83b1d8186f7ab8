//! The names and texts of a column that repeat, each written once.

use crate::Result;
use ahash::RandomState;
use arrow_array::StringArray;
use event::{Arg, Name, Value};
use std::{
    collections::HashMap,
    hash::{BuildHasher, Hash, Hasher},
    sync::Arc,
};

/// Entries after which a dictionary starts afresh, so that it does not grow with the trace.
const MOST_NAMES: usize = 8_192;
/// Bytes of text after which it does so too: it is written anew whenever it has grown.
const MOST_TEXT: usize = 1 << 20;
/// Lists of arguments whose texts are remembered.
const MOST_LISTS: usize = 16_384;

#[derive(Default)]
pub struct Dictionary {
    keys: HashMap<Name, u64, RandomState>,
    names: Vec<Name>,
    text: usize,
    /// The dictionary as it was last written: unchanged, it is not written again.
    array: Option<Arc<StringArray>>,
    /// Arguments whose text is known, so that it is not made again, by their hash.
    lists: HashMap<u64, Vec<(Vec<Arg>, u64)>, RandomState>,
    list_count: usize,
    hash: RandomState,
    scratch: Vec<u8>,
}

impl Dictionary {
    pub fn of_words(words: &[&str]) -> Self {
        Dictionary {
            array: Some(Arc::new(StringArray::from(words.to_vec()))),
            ..Dictionary::default()
        }
    }

    pub fn of_name(&mut self, name: &Name) -> u64 {
        match self.keys.get(name) {
            Some(&key) => key,
            None => self.add(name.clone()),
        }
    }

    fn of_text(&mut self, text: &str) -> u64 {
        match self.keys.get(text) {
            Some(&key) => key,
            None => self.add(text.into()),
        }
    }

    fn add(&mut self, name: Name) -> u64 {
        let key = self.names.len() as u64;
        self.text += name.len();
        self.keys.insert(name.clone(), key);
        self.names.push(name);
        self.array = None;
        key
    }

    /// The text that `write` makes. It makes UTF-8.
    pub fn of_written(&mut self, write: impl FnOnce(&mut Vec<u8>) -> Result<()>) -> Result<u64> {
        let mut scratch = std::mem::take(&mut self.scratch);
        scratch.clear();
        let written = write(&mut scratch);
        let key = written.map(|()| self.of_text(&String::from_utf8_lossy(&scratch)));
        self.scratch = scratch;
        key
    }

    /// The text of arguments, which `write` makes if they are new.
    pub fn of_args(
        &mut self,
        args: &[Arg],
        write: impl FnOnce(&mut Vec<u8>) -> Result<()>,
    ) -> Result<u64> {
        let mut hasher = self.hash.build_hasher();
        hash_args(args, &mut hasher);
        let hash = hasher.finish();
        if let Some(lists) = self.lists.get(&hash)
            && let Some((_, key)) = lists.iter().find(|(known, _)| known == args)
        {
            return Ok(*key);
        }
        let key = self.of_written(write)?;
        if self.list_count >= MOST_LISTS {
            self.lists.clear();
            self.list_count = 0;
        }
        self.list_count += 1;
        let lists = self.lists.entry(hash).or_default();
        lists.push((args.to_vec(), key));
        Ok(key)
    }

    /// Bytes of text in it.
    pub fn text(&self) -> usize {
        self.text
    }

    pub fn as_array(&mut self) -> Arc<StringArray> {
        let names = &self.names;
        let array = self.array.get_or_insert_with(|| {
            Arc::new(StringArray::from_iter_values(
                names.iter().map(|name| &**name),
            ))
        });
        Arc::clone(array)
    }

    /// A batch is over: what has become too large starts afresh.
    pub fn end_batch(&mut self) {
        if self.names.len() > MOST_NAMES || self.text > MOST_TEXT {
            *self = Dictionary::default();
        }
    }
}

/// Names by their address, which those who record share: equal lists of different addresses are only remembered
/// twice.
fn hash_args(args: &[Arg], hasher: &mut impl Hasher) {
    args.len().hash(hasher);
    for arg in args {
        (Arc::as_ptr(&arg.name).cast::<u8>() as usize).hash(hasher);
        hash_value(&arg.value, hasher, 0);
    }
}

/// How deep values are looked at; those that differ further down are compared.
const DEEPEST: usize = 3;

fn hash_value(value: &Value, hasher: &mut impl Hasher, depth: usize) {
    std::mem::discriminant(value).hash(hasher);
    match value {
        Value::Null => {}
        Value::Bool(flag) => flag.hash(hasher),
        Value::Int(number) => number.hash(hasher),
        Value::Uint(number) | Value::Pointer(number) => number.hash(hasher),
        // All NaNs are equal.
        Value::Float(number) if number.is_nan() => {}
        Value::Float(number) => number.to_bits().hash(hasher),
        Value::Str(text) => text.hash(hasher),
        Value::List(list) => {
            list.len().hash(hasher);
            if depth < DEEPEST {
                let values = list.iter();
                values.for_each(|value| hash_value(value, hasher, depth + 1));
            }
        }
        Value::Map(map) => {
            map.len().hash(hasher);
            if depth < DEEPEST {
                let values = map.iter();
                values.for_each(|arg| hash_value(&arg.value, hasher, depth + 1));
            }
        }
    }
}
