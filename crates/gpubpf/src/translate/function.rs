//! One function: its frame, its declarations, its instructions in order.

use std::fmt::Write;

use super::addition::{addition, targets};
use super::budget::{self, Left};
use super::cost::Cost;
use super::emit::Emit;
use super::stack::Cells;
use super::{TranslateOptions, Used};
use crate::disassemble::disassemble;
use crate::instruction::{Callee, Instruction, Operation};
use crate::object::Attach;
use crate::verify::Verified;
use crate::verify::facts::{AccessedMemory, Facts};
use crate::verify::liveness;
use ptx::rewrite::SITE;

pub struct Function {
    pub text: String,
    pub counts: Cost,
}

/// Where the stack of a function is.
pub enum Frame {
    None,
    /// In registers.
    Cells(Cells),
    /// In memory, so many bytes of it.
    Memory(u32),
}

pub struct Translator<'a> {
    pub verified: &'a Verified<'a>,
    pub options: &'a TranslateOptions,
    pub facts: &'a Facts,
    pub used: &'a mut Used,
    pub emit: Emit,
    pub frame: Frame,
    /// Bytes of memory for what helpers are handed, beyond those in use for the present call.
    pub scratch: u32,
    pub scratch_used: u32,
    pub number: usize,
    /// Which registers are read later, before each instruction of the program.
    pub live: Vec<liveness::Live>,
    /// It is written into the kernel, and keeps what it adds.
    pub inline: bool,
    /// Registers that hold an address which is not NULL, whatever happened before: a bit for each.
    pub never_null: liveness::Live,
    /// What is left of its budget, if it has one.
    pub left: Option<Left>,
    targets: Vec<bool>,
}

/// The label behind a program that is written into a kernel.
pub fn end() -> String {
    format!("$L__cutrace_{SITE}_end")
}

/// Names registers so that none can be one of the kernel's: letters, then digits or a count.
pub fn own_registers(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + text.len() / 4);
    let mut rest = text;
    while let Some(at) = rest.find('%') {
        let (before, name) = rest.split_at(at + 1);
        out.push_str(before);
        let letters = name.bytes().take_while(u8::is_ascii_lowercase).count();
        let next = name.as_bytes().get(letters);
        if letters == 1 && next.is_some_and(|byte| byte.is_ascii_digit() || *byte == b'<') {
            out.push_str("cutrace_");
        }
        rest = name;
    }
    out.push_str(rest);
    out
}

/// The name of a function in PTX.
pub fn name(verified: &Verified<'_>, options: &TranslateOptions, number: usize) -> String {
    let clean = |name: &str| -> String {
        name.chars()
            .map(|c| if c.is_ascii_alphanumeric() { c } else { '_' })
            .collect()
    };
    let program = clean(&verified.program.name);
    if number == 0 {
        return format!("{}{program}", options.prefix);
    }
    let function = clean(&verified.program.functions[number].name);
    // The number keeps names apart that differ only in what PTX has no letters for.
    format!("{}{program}__{number}_{function}", options.prefix)
}

pub fn translate(
    verified: &Verified<'_>,
    options: &TranslateOptions,
    number: usize,
    used: &mut Used,
) -> Function {
    let mut translator = begin(verified, options, number, used);
    translator.body();
    translator.finish()
}

/// The program as text for the kernel itself; `None` if its stack is memory.
pub fn inline(
    verified: &Verified<'_>,
    options: &TranslateOptions,
    used: &mut Used,
) -> Option<Function> {
    let mut translator = begin(verified, options, 0, used);
    translator.inline = true;
    if matches!(translator.frame, Frame::Memory(_)) {
        return None;
    }
    translator.body();
    (translator.scratch == 0).then(|| translator.finish_inline())
}

fn begin<'a>(
    verified: &'a Verified<'a>,
    options: &'a TranslateOptions,
    number: usize,
    used: &'a mut Used,
) -> Translator<'a> {
    let mut translator = Translator {
        verified,
        options,
        facts: &verified.facts,
        used,
        emit: Emit::default(),
        frame: Frame::None,
        scratch: 0,
        scratch_used: 0,
        number,
        live: liveness::registers(&verified.program.instructions),
        inline: false,
        never_null: 0,
        left: verified.is_budgeted.then(|| match calls(verified) {
            true => Left::Memory,
            false => Left::Register,
        }),
        targets: targets(verified),
    };
    translator.frame = translator.choose_frame();
    translator
}

/// Whether a program calls functions.
fn calls(verified: &Verified<'_>) -> bool {
    let code = verified.program.instructions.iter().enumerate();
    let mut calls = code.filter(|(_, instruction)| {
        matches!(instruction.operation, Operation::Call(Callee::Function(_)))
    });
    calls.any(|(at, _)| verified.facts.reached[at])
}

impl Translator<'_> {
    pub fn code(&self) -> &[Instruction] {
        &self.verified.program.instructions
    }

    fn range(&self) -> std::ops::Range<usize> {
        let function = &self.verified.program.functions[self.number];
        function.start..function.end
    }

    fn choose_frame(&self) -> Frame {
        let frame = &self.facts.frames[self.number];
        if frame.bytes == 0 {
            return Frame::None;
        }
        let mut places = Vec::new();
        let mut in_memory = frame.addressed || !self.options.promote_stack;
        for (&at, access) in self.facts.accesses.range(self.range()) {
            let bytes = match self.code()[at].operation {
                Operation::Load { bytes, .. }
                | Operation::Store { bytes, .. }
                | Operation::Atomic { bytes, .. } => bytes,
                _ => continue,
            };
            match access.place {
                AccessedMemory::Stack {
                    offset: Some(offset),
                } => places.push((offset, u32::from(bytes))),
                AccessedMemory::Stack { offset: None } | AccessedMemory::Mixed => in_memory = true,
                _ => {}
            }
        }
        for (_, call) in self.facts.calls.range(self.range()) {
            // Texts are read only where there are several.
            let texts = call.texts.iter().flatten();
            let read = texts.filter(|texts| texts.choices.len() > 1);
            let read = read.map(|texts| &texts.memory);
            for memory in call.memory.iter().flatten().chain(read) {
                match (memory.place, memory.bytes) {
                    (
                        AccessedMemory::Stack {
                            offset: Some(offset),
                        },
                        Some(bytes),
                    ) => places.push((offset, bytes)),
                    (AccessedMemory::Stack { .. } | AccessedMemory::Mixed, _) => in_memory = true,
                    _ => {}
                }
            }
        }
        if in_memory {
            Frame::Memory(frame.bytes.next_multiple_of(8))
        } else {
            Frame::Cells(Cells::new(&places))
        }
    }

    fn body(&mut self) {
        let range = self.range();
        let mut at = range.start;
        while at < range.end {
            if !self.facts.reached[at] {
                at += 1;
                continue;
            }
            if self.targets[at] {
                let label = self.label(at);
                self.emit.label(&label);
                self.never_null = 0;
            }
            let comment = format!("{}: {}", self.code()[at].slot, disassemble(self.code(), at));
            self.emit.comment(&comment);
            if let Some(found) = addition(self.verified, &self.live, &self.targets, at)
                && (self.inline || self.options.aggregate || found.length == 1)
            {
                self.count(found);
                at += found.length;
                continue;
            }
            self.instruction(at);
            self.note_null(at);
            at += 1;
        }
        self.stop();
    }

    /// The label of an instruction that is jumped to.
    pub fn label(&self, at: usize) -> String {
        if self.inline {
            format!("$L__cutrace_{SITE}_{at}")
        } else {
            format!("L{at}")
        }
    }

    /// Which addresses are known after an instruction not to be NULL.
    fn note_null(&mut self, at: usize) {
        use crate::instruction::{Alu, Source};
        match self.code()[at].operation {
            Operation::Alu {
                operator: Alu::Move,
                wide: true,
                dst,
                src: Source::Register(src),
            } => {
                let same = self.never_null >> src & 1;
                self.never_null = self.never_null & !(1 << dst) | same << dst;
            }
            // Tells what it gave by itself.
            Operation::Call(Callee::Helper(crate::helper::MAP_LOOKUP)) => {}
            Operation::Call(_) => self.never_null &= !0x3f,
            operation => {
                if let Some(register) = operation.destination() {
                    self.never_null &= !(1 << register);
                }
            }
        }
    }

    fn instruction(&mut self, at: usize) {
        let operation = self.code()[at].operation;
        match operation {
            Operation::Alu { .. }
            | Operation::MoveSigned { .. }
            | Operation::Negate { .. }
            | Operation::Swap { .. }
            | Operation::Constant { .. } => self.arithmetic(operation),
            Operation::Load { .. } | Operation::Store { .. } => self.access(at, operation),
            Operation::Atomic { .. } => self.atomic(at, operation),
            Operation::Jump { .. }
            | Operation::Branch { .. }
            | Operation::Exit
            | Operation::Call(Callee::Function(_)) => self.flow(at, operation),
            Operation::Call(Callee::Helper(number)) => self.helper(at, number),
        }
    }

    fn finish_inline(self) -> Function {
        let mut text = String::from("    .reg .b64 %r<11>;\n");
        if let Frame::Cells(cells) = &self.frame {
            text.push_str(&cells.declarations());
        }
        text.push_str(&self.emit.declarations());
        let context = match self.verified.program.attach {
            Attach::Memory => "4096",
            _ => "%cutrace_ctx",
        };
        let _ = writeln!(text, "    mov.b64 %r1, {context};\n    mov.b64 %r10, 4096;");
        if let Frame::Cells(cells) = &self.frame {
            text.push_str(&cells.initial());
        }
        text.push_str(self.emit.body());
        let end = end();
        if text.contains(&end) {
            let _ = writeln!(text, "{end}:");
        }
        Function {
            text: own_registers(&text),
            counts: self.emit.counts,
        }
    }

    fn finish(mut self) -> Function {
        let parameters = if self.number == 0 {
            ".reg .b64 %context".to_owned()
        } else {
            let more = u8::from(self.left == Some(Left::Memory));
            (1..=5 + more)
                .map(|register| format!(".reg .b64 %a{register}"))
                .collect::<Vec<_>>()
                .join(", ")
        };
        let mut text = String::new();
        let name = name(self.verified, self.options, self.number);
        let _ = writeln!(text, ".func (.reg .b64 %result) {name} ({parameters})\n{{");
        text.push_str("    .reg .b64 %r<11>;\n");
        if let Frame::Cells(cells) = &self.frame {
            text.push_str(&cells.declarations());
        }
        text.push_str(&self.emit.declarations());
        let (declared, begun) = budget::beginning(self.left, self.number, self.options);
        text.push_str(&declared);
        let mut local = match (self.left, self.number) {
            (Some(Left::Memory), 0) => 8,
            _ => 0,
        };
        if let Frame::Memory(bytes) = self.frame {
            let _ = writeln!(text, "    .local .align 8 .b8 %frame[{bytes}];");
            local += bytes;
        }
        if self.scratch > 0 {
            let _ = writeln!(text, "    .local .align 8 .b8 %scratch[{}];", self.scratch);
            local += self.scratch;
        }
        if self.number == 0 {
            text.push_str("    mov.b64 %r1, %context;\n");
        } else {
            for register in 1..=5 {
                let _ = writeln!(text, "    mov.b64 %r{register}, %a{register};");
            }
        }
        match &self.frame {
            Frame::None => text.push_str("    mov.b64 %r10, 4096;\n"),
            Frame::Cells(cells) => {
                // Not where anything is: addresses of the stack are only compared, and are not NULL.
                text.push_str("    mov.b64 %r10, 4096;\n");
                text.push_str(&cells.initial());
            }
            Frame::Memory(bytes) => {
                text.push_str("    mov.u64 %r10, %frame;\n    cvta.local.u64 %r10, %r10;\n");
                let _ = writeln!(text, "    add.s64 %r10, %r10, {bytes};");
            }
        }
        text.push_str(&begun);
        text.push_str(self.emit.body());
        text.push_str("}\n");
        let cells = match &self.frame {
            Frame::Cells(cells) => cells.registers(),
            _ => 0,
        };
        let live = self.live[self.range()]
            .iter()
            .map(|live| (live & 0x3ff).count_ones())
            .max()
            .unwrap_or(0);
        self.emit.counts.local_bytes = local;
        self.emit.counts.registers = live * 2 + cells + 4;
        Function {
            text,
            counts: self.emit.counts,
        }
    }
}
