//! Calls of helpers: written in place where that is a few instructions, else called with their memory
//! arguments at addresses they can read.

use super::function::Translator;
use super::helper_name;
use crate::helper;
use crate::verify::facts::{HelperCall, Memory, Texts};

impl Translator<'_> {
    pub fn helper(&mut self, at: usize, number: u32) {
        let call = self.facts.calls.get(&at).cloned().unwrap_or_default();
        if self.options.inline_helpers && self.in_place(at, number, &call) {
            return;
        }
        match number {
            // These have no other form: there is no helper for what changes this very thread.
            helper::CUDA_EXIT => {
                self.emit.line("exit");
                return;
            }
            503..=505 | 508 => {
                self.dimensions(number, &call);
                return;
            }
            _ => {}
        }
        self.call(number, &call);
    }

    fn in_place(&mut self, at: usize, number: u32, call: &HelperCall) -> bool {
        match number {
            helper::MAP_LOOKUP => return self.lookup(call),
            helper::MAP_UPDATE => return self.update(at, call),
            8 | 509 => self.give_special("%smid"),
            510 => self.give_special("%warpid"),
            511 => self.give_special("%laneid"),
            502 => self.emit.line("mov.u64 %r0, %globaltimer"),
            506 => {
                self.emit.line("membar.sys");
                self.emit.line("mov.b64 %r0, 0");
            }
            602 => {
                let thread = self.thread_number();
                self.emit.line(format!("mov.b64 %r0, {thread}"));
            }
            _ => return false,
        }
        true
    }

    fn give_special(&mut self, name: &str) {
        let value = self.emit.special(name);
        self.emit.line(format!("mov.b64 %r0, {value}"));
    }

    /// blockIdx, blockDim, threadIdx, gridDim into three places.
    fn dimensions(&mut self, number: u32, call: &HelperCall) {
        let name = match number {
            503 => "%ctaid",
            504 => "%ntid",
            505 => "%tid",
            _ => "%nctaid",
        };
        for (index, axis) in ["x", "y", "z"].into_iter().enumerate() {
            let value = self.emit.special(&format!("{name}.{axis}"));
            let Some(memory) = call.memory[index] else {
                continue;
            };
            match self.cell(memory.place) {
                Some(cell) => self.write_cell(cell, 8, &value),
                None => {
                    let space = super::memory::space(memory.place);
                    let to = (format!("%r{}", index + 1), 0);
                    self.store(space, &to, 8, 8, &value);
                }
            }
        }
        self.emit.line("mov.b64 %r0, 0");
    }

    fn call(&mut self, number: u32, call: &HelperCall) {
        self.used.helpers.insert(number);
        self.emit.counts.calls += 1;
        self.scratch_used = 0;
        let mut arguments = Vec::new();
        for index in 0..5 {
            let register = format!("%r{}", index + 1);
            let argument = if let Some(texts) = &call.texts[index] {
                self.text(&register, texts)
            } else if index >= call.arguments {
                self.emit.set("mov.b64", "0")
            } else if let Some(memory) = call.memory[index] {
                self.hand_over(&register, memory)
            } else {
                register
            };
            arguments.push(argument);
        }
        let name = helper_name(number);
        self.emit
            .line(format!("call (%r0), {name}, ({})", arguments.join(", ")));
    }

    /// The number of a text; of several, the one that is there.
    fn text(&mut self, register: &str, texts: &Texts) -> String {
        let number = |(text, _): &(u32, bool)| self.options.first_text + text;
        let numbers: Vec<u32> = texts.choices.iter().map(number).collect();
        let first = numbers.first().copied().unwrap_or(0);
        let mut found = self.emit.set("mov.b64", &first.to_string());
        let place = texts.memory.place;
        let bytes: Vec<String> = texts
            .telling
            .iter()
            .map(|&at| match self.cell(place) {
                Some(cell) => self.read_cell(cell + at as i16, 1),
                None => {
                    let from = (register.to_owned(), i64::from(at));
                    self.load(super::memory::space(place), &from, 1, 1, false)
                }
            })
            .collect();
        for (&(text, has_end), number) in texts.choices.iter().zip(&numbers).skip(1) {
            let known = self.verified.texts[text as usize].as_bytes();
            let mut is_it: Option<String> = None;
            for (&at, byte) in texts.telling.iter().zip(&bytes) {
                let known = known.get(usize::from(at)).copied();
                debug_assert!(known.is_some() || has_end, "a byte behind the text");
                let operands = format!("{byte}, {}", known.unwrap_or(0));
                let same = self.emit.set_predicate("setp.eq.s64", &operands);
                if let Some(before) = is_it {
                    self.emit.line(format!("and.pred {same}, {same}, {before}"));
                }
                is_it = Some(same);
            }
            if let Some(is_it) = is_it {
                let operands = format!("{number}, {found}, {is_it}");
                found = self.emit.set("selp.b64", &operands);
            }
        }
        found
    }

    /// An address a helper can read memory at: the memory's own, or a copy's.
    fn hand_over(&mut self, register: &str, memory: Memory) -> String {
        let Some(bytes) = memory.bytes else {
            return register.to_owned();
        };
        if self.is_handed_over(memory.place, memory.alignment) {
            return register.to_owned();
        }
        let start = self.scratch_used;
        self.scratch_used += bytes.next_multiple_of(8);
        self.scratch = self.scratch.max(self.scratch_used);
        let scratch = self.emit.set("mov.u64", "%scratch");
        let mut at = 0;
        while at < bytes {
            let left = bytes - at;
            let step = [8, 4, 2, 1]
                .into_iter()
                .find(|step| *step <= left)
                .unwrap_or(1) as u8;
            let value = match self.cell(memory.place) {
                Some(cell) => self.read_cell(cell + at as i16, step),
                None => {
                    let space = super::memory::space(memory.place);
                    let from = (register.to_owned(), i64::from(at));
                    self.load(space, &from, step, memory.alignment.min(step), false)
                }
            };
            let to = (scratch.clone(), i64::from(start + at));
            self.store(".local", &to, step, step, &value);
            at += u32::from(step);
        }
        let address = self.emit.set("cvta.local.u64", &scratch);
        self.emit.set("add.s64", &format!("{address}, {start}"))
    }
}
