//! Texts that programs print: known when a program is verified, or one of several that are.
//!
//! Where paths to a call differ in the text they bring, the program finds out which one it is by looking
//! at a few bytes of it.

use super::explore::{Checked, Trouble, Walk};
use super::facts::{HelperCall, Memory, Texts};
use super::memory::Use;
use super::refused::Reason;
use super::state::State;
use super::value::{Pointer, Value};
use crate::format::conversions;
use crate::helper::{self, Helper};

/// Texts a program may print, and how long each may be.
const MOST_TEXTS: usize = 256;
const LONGEST_TEXT: usize = 256;
/// Texts that one call may bring.
pub const MOST_CHOICES: usize = 32;

impl Walk<'_> {
    /// The constant text at an address; of a format its size is known.
    pub(super) fn text(
        &mut self,
        state: &State,
        at: usize,
        register: u8,
        size: Option<u64>,
    ) -> Checked<Texts> {
        let unknown = || {
            let text = format!(
                "r{register} is not a string known in advance (a constant, or bytes just written to the stack)"
            );
            (Reason::BadFormat, text)
        };
        let Value::Pointer(pointer) = self.read(state, register)? else {
            return Err(unknown());
        };
        let most = size.unwrap_or(LONGEST_TEXT as u64);
        let mut bytes = self
            .known_bytes(state, register, most.min(LONGEST_TEXT as u64 + 1))
            .ok_or_else(unknown)?;
        let end = bytes.iter().position(|&byte| byte == 0);
        match end {
            Some(end) => bytes.truncate(end),
            // Formats are given with their size, and need no end.
            None if bytes.len() as u64 == most => {}
            None if bytes.len() > LONGEST_TEXT => {
                let text = format!("a string of more than {LONGEST_TEXT} bytes");
                return Err((Reason::BadFormat, text));
            }
            None => return Err(unknown()),
        }
        let text = String::from_utf8(bytes).map_err(|_| {
            let text = "a string that is not UTF-8".to_owned();
            (Reason::BadFormat, text)
        })?;
        let memory =
            self.text_memory(state, at, &pointer, text.len() + usize::from(end.is_some()))?;
        Ok(Texts {
            choices: vec![(self.text_number(text)?, end.is_some())],
            memory,
            telling: Vec::new(),
        })
    }

    /// Where a text is, for who has to look at it.
    fn text_memory(
        &mut self,
        state: &State,
        at: usize,
        pointer: &Pointer,
        bytes: usize,
    ) -> Checked<Memory> {
        let (access, _) = self.check_region(state, at, pointer, bytes as u64, Use::Read)?;
        Ok(Memory {
            place: access.place,
            alignment: 1,
            bytes: Some(bytes as u32),
            written: false,
        })
    }

    fn text_number(&mut self, text: String) -> Checked<u32> {
        if let Some(number) = self.texts.iter().position(|known| *known == text) {
            return Ok(number as u32);
        }
        if self.texts.len() == MOST_TEXTS {
            let text = format!("more than {MOST_TEXTS} different strings");
            return Err((Reason::BadFormat, text));
        }
        self.texts.push(text);
        Ok(self.texts.len() as u32 - 1)
    }

    /// A format: its text, and its conversions.
    pub(super) fn format(
        &mut self,
        state: &State,
        at: usize,
        helper: &Helper,
        index: usize,
        call: &mut HelperCall,
    ) -> Checked<Vec<char>> {
        let size = self.size(state, helper, index + 1)?;
        let Some(size) = size.constant() else {
            let text = "the size of a format is not constant".to_owned();
            return Err((Reason::BadFormat, text));
        };
        let found = self.text(state, at, index as u8 + 1, Some(size))?;
        let text = &self.texts[found.choices[0].0 as usize];
        let letters = conversions(text).map_err(|why| (Reason::BadFormat, why.to_string()))?;
        let room = match helper.number {
            helper::TRACE_PRINTK => 3,
            _ => 12,
        };
        if letters.len() > room {
            let text = format!(
                "{} conversions, but {} takes {room}",
                letters.len(),
                helper.name
            );
            return Err((Reason::BadFormat, text));
        }
        if helper.number == helper::TRACE_VPRINTK && letters.contains(&'s') {
            let text = "trace_vprintk cannot print strings (%s)".to_owned();
            return Err((Reason::BadFormat, text));
        }
        call.texts[index] = Some(found);
        Ok(letters)
    }

    pub(super) fn formatted(
        &mut self,
        state: &State,
        at: usize,
        register: u8,
        letter: char,
        call: &mut HelperCall,
    ) -> Checked {
        let value = self.read(state, register)?;
        match (letter, value) {
            ('s', _) => {
                call.texts[register as usize - 1] = Some(self.text(state, at, register, None)?);
                Ok(())
            }
            (_, Value::Number(_)) => Ok(()),
            (_, other) => {
                let text = format!("r{register} is {} and cannot be printed", other.describe());
                Err((Reason::PointerEscapes, text))
            }
        }
    }

    /// Calls that bring one of several texts can tell which.
    pub(super) fn check_texts(&mut self) -> Result<(), (usize, Trouble)> {
        for (&at, call) in &mut self.facts.calls {
            for found in call.texts.iter_mut().flatten() {
                if found.choices.len() < 2 {
                    continue;
                }
                let texts: Vec<Vec<u8>> = found
                    .choices
                    .iter()
                    .map(|&(number, has_end)| {
                        let mut bytes = self.texts[number as usize].clone().into_bytes();
                        bytes.extend(has_end.then_some(0));
                        bytes
                    })
                    .collect();
                found.telling = telling(&texts).ok_or_else(|| {
                    let text =
                        "this call gets several strings, of which one is a prefix of another and has no NUL at its end"
                            .to_owned();
                    (at, (Reason::BadFormat, text))
                })?;
            }
        }
        Ok(())
    }
}

/// Places at which each text differs from every other; None where one is the beginning of another.
fn telling(texts: &[Vec<u8>]) -> Option<Vec<u16>> {
    let mut places: Vec<u16> = Vec::new();
    for (number, one) in texts.iter().enumerate() {
        for other in &texts[..number] {
            let differ = |&place: &u16| one.get(place as usize) != other.get(place as usize);
            if places.iter().any(differ) {
                continue;
            }
            // Both have a byte there: nothing behind a text's end is known.
            let mut both = one.iter().zip(other);
            places.push(both.position(|(a, b)| a != b)? as u16);
        }
    }
    let shortest = texts.iter().map(Vec::len).min()?;
    // Every text is looked at in every one of the places.
    places
        .iter()
        .all(|&place| usize::from(place) < shortest)
        .then_some(places)
}

#[cfg(test)]
mod tests {
    use super::telling;

    fn places(texts: &[&str]) -> Option<Vec<u16>> {
        let texts: Vec<Vec<u8>> = texts.iter().map(|text| text.as_bytes().to_vec()).collect();
        telling(&texts)
    }

    #[test]
    fn texts_are_told_apart_by_few_bytes() {
        assert_eq!(places(&["enter %d", "leave %d"]), Some(vec![0]));
        assert_eq!(places(&["ab1\0", "ab2\0", "ac1\0"]), Some(vec![2, 1]));
        assert_eq!(places(&["a\0", "ab\0"]), Some(vec![1]));
        assert_eq!(places(&["a", "ab"]), None);
        // Where two of them differ, the third has ended.
        assert_eq!(places(&["a\0", "bcd1", "bcd2"]), None);
    }
}
