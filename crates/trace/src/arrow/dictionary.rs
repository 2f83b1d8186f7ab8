//! The names and texts of a column that repeat, each written once.

use crate::Result;
use ahash::RandomState;
use arrow_array::StringArray;
use event::{Arg, ByStack, Name, Stack, Value};
use std::{collections::HashMap, sync::Arc};

/// Entries after which a dictionary starts afresh, so that it does not grow with the trace.
const MOST_NAMES: usize = 8_192;
/// Bytes of text after which it does so too: it is written anew whenever it has grown.
const MOST_TEXT: usize = 1 << 20;
/// Names that are found by their address.
const RECENT: usize = 256;
/// Lists of arguments whose texts are remembered.
const MOST_LISTS: usize = 16_384;

#[derive(Default)]
pub struct Dictionary {
    keys: HashMap<Name, u64, RandomState>,
    names: Vec<Name>,
    /// Keys by the address of names, which those who record share: most need no hashing of text. Each name is held, so that
    /// no other comes to be at its address.
    recent: Vec<Option<(Name, u32)>>,
    text: usize,
    /// The dictionary as it was last written: unchanged, it is not written again.
    array: Option<Arc<StringArray>>,
    /// Arguments whose text is known, so that it is not made again.
    lists: Vec<List>,
    /// The places of the last ones by their hash.
    by_hash: HashMap<u64, u32, RandomState>,
    /// The place of the last list by the address of its first name: calls of a function often say what the one before said.
    recent_lists: Vec<u32>,
    /// Keys of stacks whose text is known.
    stacks: ByStack<u64>,
    /// What hashes of lists begin with.
    seed: Option<u64>,
    scratch: Vec<u8>,
}

struct List {
    args: Vec<Arg>,
    key: u64,
    /// The place of another one of the same hash.
    next: Option<u32>,
}

impl Dictionary {
    pub fn of_words(words: &[&str]) -> Self {
        Dictionary {
            array: Some(Arc::new(StringArray::from(words.to_vec()))),
            ..Dictionary::default()
        }
    }

    #[inline]
    pub fn of_name(&mut self, name: &Name) -> u64 {
        let place = place_of(name);
        if let Some(Some((known, key))) = self.recent.get(place)
            && Arc::ptr_eq(known, name)
        {
            return u64::from(*key);
        }
        self.of_other_name(name, place)
    }

    fn of_other_name(&mut self, name: &Name, place: usize) -> u64 {
        let key = match self.keys.get(name) {
            Some(&key) => key,
            None => self.add(name.clone()),
        };
        self.recent.resize(RECENT, None);
        self.recent[place] = Some((name.clone(), key as u32));
        key
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
        let place = args.first().map_or(0, |arg| place_of(&arg.name));
        if let Some(&latest) = self.recent_lists.get(place)
            && let Some(known) = self.lists.get(latest as usize)
            && are_same(&known.args, args)
        {
            return Ok(known.key);
        }
        let latest = self.of_other_args(args, write)?;
        self.recent_lists.resize(RECENT, u32::MAX);
        self.recent_lists[place] = latest;
        Ok(self.lists[latest as usize].key)
    }

    /// The text of a stack, which `write` makes if it is new.
    pub fn of_stack(
        &mut self,
        stack: &Stack,
        write: impl FnOnce(&mut Vec<u8>) -> Result<()>,
    ) -> Result<u64> {
        if let Some(&key) = self.stacks.get(stack) {
            return Ok(key);
        }
        let key = self.of_written(write)?;
        Ok(*self.stacks.get_or_insert(stack, |_| key))
    }

    /// The place of a list among those that are known.
    fn of_other_args(
        &mut self,
        args: &[Arg],
        write: impl FnOnce(&mut Vec<u8>) -> Result<()>,
    ) -> Result<u32> {
        let seed = *self
            .seed
            .get_or_insert_with(|| RandomState::new().hash_one(0));
        let hash = hash_args(args, seed);
        let mut place = self.by_hash.get(&hash).copied();
        while let Some(at) = place {
            let known = &self.lists[at as usize];
            if are_same(&known.args, args) {
                return Ok(at);
            }
            place = known.next;
        }
        let key = self.of_written(write)?;
        if self.lists.len() >= MOST_LISTS {
            self.lists.clear();
            self.by_hash.clear();
            self.recent_lists.clear();
        }
        let place = self.lists.len() as u32;
        let next = self.by_hash.insert(hash, place);
        let args = args.to_vec();
        self.lists.push(List { args, key, next });
        Ok(place)
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

/// Where a name's key is kept.
#[inline]
fn place_of(name: &Name) -> usize {
    let address = Arc::as_ptr(name).cast::<u8>() as usize;
    (address >> 4 ^ address >> 12) % RECENT
}

/// Whether two lists are equal, for lists whose names are shared as a rule.
#[inline]
fn are_same(one: &[Arg], other: &[Arg]) -> bool {
    one.len() == other.len()
        && one.iter().zip(other).all(|(one, other)| {
            let is_value = match (&one.value, &other.value) {
                (Value::Uint(one), Value::Uint(other)) => one == other,
                (Value::Pointer(one), Value::Pointer(other)) => one == other,
                (one, other) => one == other,
            };
            is_value && (Arc::ptr_eq(&one.name, &other.name) || one.name == other.name)
        })
}

/// Names by their address, which those who record share: equal lists of different addresses are only remembered
/// twice. `seed` is nobody's to know, so that no program can make lists that are all in one place.
#[inline]
fn hash_args(args: &[Arg], seed: u64) -> u64 {
    let mut hash = mixed(seed, args.len() as u64);
    for arg in args {
        hash = mixed(hash, Arc::as_ptr(&arg.name).cast::<u8>() as u64);
        hash = hash_value(&arg.value, hash, 0);
    }
    hash
}

/// How deep values are looked at; those that differ further down are compared.
const DEEPEST: usize = 3;

#[inline]
fn hash_value(value: &Value, hash: u64, depth: usize) -> u64 {
    match value {
        Value::Uint(number) => mixed(hash, *number),
        Value::Pointer(number) => mixed(hash, !*number),
        value => hash_other(value, hash, depth),
    }
}

fn hash_other(value: &Value, hash: u64, depth: usize) -> u64 {
    match value {
        Value::Uint(number) => mixed(hash, *number),
        Value::Pointer(number) => mixed(hash, !*number),
        Value::Null => mixed(hash, 1),
        Value::Bool(flag) => mixed(hash, 2 + u64::from(*flag)),
        Value::Int(number) => mixed(hash, number.cast_unsigned()),
        // All NaNs are equal.
        Value::Float(number) if number.is_nan() => mixed(hash, 4),
        Value::Float(number) => mixed(hash, number.to_bits()),
        Value::Str(text) => (text.as_bytes().chunks(8)).fold(hash, |hash, chunk| {
            let mut word = [0; 8];
            word[..chunk.len()].copy_from_slice(chunk);
            mixed(hash, u64::from_le_bytes(word))
        }),
        Value::List(list) => {
            let hash = mixed(hash, list.len() as u64);
            let values = list.iter().filter(|_| depth < DEEPEST);
            values.fold(hash, |hash, value| hash_value(value, hash, depth + 1))
        }
        Value::Map(map) => {
            let hash = mixed(hash, map.len() as u64);
            let values = map.iter().filter(|_| depth < DEEPEST);
            values.fold(hash, |hash, arg| hash_value(&arg.value, hash, depth + 1))
        }
    }
}

/// Both halves of a long product: every bit of both numbers counts.
#[inline]
fn mixed(hash: u64, word: u64) -> u64 {
    let product = u128::from(hash ^ word) * u128::from(0x9e37_79b9_7f4a_7c15_u64);
    (product as u64 ^ (product >> 64) as u64).wrapping_add(word.rotate_left(29))
}
