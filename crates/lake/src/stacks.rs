//! Stacks of a recording: each gets a number, and its frames become rows of a table once.

use crate::{Result, tables::Frames};
use arrow_array::{
    Array, ArrayRef, StringArray, UInt32Array, cast::AsArray, new_null_array, types::Int32Type,
};
use arrow_schema::{ArrowError, DataType};
use std::{
    collections::HashMap,
    hash::{BuildHasher, RandomState},
    sync::Arc,
};

/// Numbers for the texts of stacks.
///
/// Texts are long and many: what is kept of each is 128 bits that no other has, but by a chance of one to 10^26 with a
/// million stacks.
pub struct Stacks {
    hashes: [RandomState; 2],
    numbers: HashMap<(u64, u64), u32, ahash::RandomState>,
    /// Of the dictionary that was seen last.
    known: Option<(Arc<StringArray>, Vec<u32>)>,
    /// Frames that are not written yet.
    pub frames: Frames,
}

impl Default for Stacks {
    fn default() -> Self {
        Stacks {
            hashes: [RandomState::new(), RandomState::new()],
            numbers: HashMap::default(),
            known: None,
            frames: Frames::default(),
        }
    }
}

impl Stacks {
    /// The numbers of a column of stacks.
    pub fn ids(&mut self, stacks: &ArrayRef) -> Result<ArrayRef> {
        if stacks.null_count() == stacks.len() {
            return Ok(new_null_array(&DataType::UInt32, stacks.len()));
        }
        let Some(array) = stacks.as_dictionary_opt::<Int32Type>() else {
            return Err(ArrowError::SchemaError("stacks are not texts".into()).into());
        };
        let texts = array.values().as_string::<i32>();
        let is_known = |(known, _): &(Arc<StringArray>, Vec<u32>)| {
            known.value_data().as_ptr() == texts.value_data().as_ptr() && known.len() == texts.len()
        };
        if !self.known.as_ref().is_some_and(is_known) {
            let numbers = (0..texts.len()).map(|at| self.number(texts.value(at)));
            let numbers = numbers.collect();
            self.known = Some((Arc::new(texts.clone()), numbers));
        }
        let numbers = self.known.as_ref().map_or(&[][..], |(_, numbers)| numbers);
        let ids = (array.keys().iter())
            .map(|key| key.and_then(|key| numbers.get(usize::try_from(key).ok()?).copied()));
        Ok(Arc::new(ids.collect::<UInt32Array>()))
    }

    fn number(&mut self, text: &str) -> u32 {
        let [one, other] = &self.hashes;
        let hash = (one.hash_one(text), other.hash_one(text));
        let next = self.numbers.len() as u32;
        let frames = &mut self.frames;
        *self.numbers.entry(hash).or_insert_with(|| {
            frames.add(next, &trace::parse_stack(text));
            next
        })
    }
}
