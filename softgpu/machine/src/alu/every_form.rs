//! Every form that resolves, found by the resolvers themselves: a form whose words are still open
//! is resolved again and again, each question answered in every possible way, and the words of
//! those answers that end well are a form. Nothing is listed here that could fall behind.

use std::collections::BTreeSet;

use super::form::{Form, TYPES};
use super::{Alu, FAMILIES, resolve_form};

/// The answers of one run: those to repeat, then always the first.
#[derive(Debug, Default)]
pub struct Open {
    /// Which answer of how many, question by question.
    answers: Vec<(usize, usize)>,
    next: usize,
    taken: Vec<&'static str>,
    absent: BTreeSet<&'static str>,
    types: Vec<&'static str>,
    no_more_types: bool,
}

impl Open {
    fn choose(&mut self, count: usize) -> usize {
        if self.next == self.answers.len() {
            self.answers.push((0, count));
        }
        self.next += 1;
        self.answers[self.next - 1].0
    }

    /// The answers of the next run, if there is one.
    fn advance(mut self) -> Option<Open> {
        while let Some((answer, count)) = self.answers.pop() {
            if answer + 1 < count {
                self.answers.push((answer + 1, count));
                return Some(Open {
                    answers: self.answers,
                    ..Open::default()
                });
            }
        }
        None
    }

    fn is_open(&self, word: &str) -> bool {
        !self.taken.contains(&word) && !self.absent.contains(word)
    }
}

impl Form<'_> {
    /// Is this word there? Asked once; the answer stays.
    pub(super) fn decide(&mut self, word: &'static str) {
        let Some(open) = &mut self.open else { return };
        if !open.is_open(word) {
            return;
        }
        if open.choose(2) == 1 {
            open.taken.push(word);
            self.words.push(word);
        } else {
            open.absent.insert(word);
        }
    }

    /// Which of these words is there, if any?
    pub(super) fn decide_one(&mut self, table: impl Iterator<Item = &'static str> + Clone) {
        let Some(open) = &mut self.open else { return };
        if table.clone().any(|word| self.words.contains(&word)) {
            return;
        }
        let candidates: Vec<&str> = table.clone().filter(|word| open.is_open(word)).collect();
        match open.choose(candidates.len() + 1) {
            0 => open.absent.extend(table),
            chosen => {
                open.taken.push(candidates[chosen - 1]);
                self.words.push(candidates[chosen - 1]);
            }
        }
    }

    /// Which types are there, in which order, up to so many?
    pub(super) fn decide_types(&mut self, most: usize) {
        let Some(open) = &mut self.open else { return };
        while open.types.len() < most && !open.no_more_types {
            match open.choose(TYPES.len() + 1) {
                0 => open.no_more_types = true,
                chosen => {
                    open.types.push(TYPES[chosen - 1].0);
                    self.words.push(TYPES[chosen - 1].0);
                }
            }
        }
    }
}

/// A form: its flags in order of the alphabet, its types as they stand.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Name {
    pub opcode: String,
    pub flags: Vec<String>,
    pub types: Vec<String>,
}

impl Name {
    /// Reads an instruction as PTX writes it.
    pub fn of(instruction: &str) -> Name {
        let mut words = instruction.split('.').map(str::to_string);
        let opcode = words.next().unwrap_or_default();
        let is_type = |word: &String| TYPES.iter().any(|(name, _)| name == word);
        let (types, mut flags): (Vec<_>, Vec<_>) = words.partition(is_type);
        flags.sort();
        Name {
            opcode,
            flags,
            types,
        }
    }

    pub fn words(&self) -> Vec<String> {
        self.flags.iter().chain(&self.types).cloned().collect()
    }
}

/// All forms.
pub fn all() -> Vec<(Name, Alu)> {
    let mut found = Vec::new();
    for opcode in FAMILIES.iter().flat_map(|(opcodes, _)| *opcodes) {
        let mut next = Some(Open::default());
        while let Some(open) = next {
            let mut form = Form::new(opcode, &[]);
            form.open = Some(open);
            let resolved = resolve_form(&mut form);
            let open = form.open.take().unwrap_or_default();
            if let Ok(alu) = resolved {
                let mut flags: Vec<_> = open.taken.iter().map(|w| w.to_string()).collect();
                flags.sort();
                let types = open.types.iter().map(|w| w.to_string()).collect();
                let opcode = opcode.to_string();
                found.push((
                    Name {
                        opcode,
                        flags,
                        types,
                    },
                    alu,
                ));
            }
            next = open.advance();
        }
    }
    found
}
