//! Lines of PTX and registers for what is in between.

use std::fmt::Write;

use super::cost::Cost;

/// The text of a function under construction.
#[derive(Default)]
pub struct Emit {
    body: String,
    words: u32,
    halves: u32,
    predicates: u32,
    pub counts: Cost,
}

impl Emit {
    /// An instruction, without its semicolon.
    pub fn line(&mut self, text: impl AsRef<str>) {
        self.counts.instructions += 1;
        let _ = writeln!(self.body, "    {};", text.as_ref());
    }

    pub fn label(&mut self, name: &str) {
        let _ = writeln!(self.body, "{name}:");
    }

    pub fn comment(&mut self, text: &str) {
        let _ = writeln!(self.body, "    // {text}");
    }

    /// A new 64-bit register.
    pub fn word(&mut self) -> String {
        self.words += 1;
        format!("%t{}", self.words - 1)
    }

    /// A new 32-bit register.
    pub fn half(&mut self) -> String {
        self.halves += 1;
        format!("%w{}", self.halves - 1)
    }

    pub fn predicate(&mut self) -> String {
        self.predicates += 1;
        format!("%p{}", self.predicates - 1)
    }

    /// A new 64-bit register that is set by `head` from `operands`.
    pub fn set(&mut self, head: &str, operands: &str) -> String {
        let register = self.word();
        self.line(format!("{head} {register}, {operands}"));
        register
    }

    pub fn set_half(&mut self, head: &str, operands: &str) -> String {
        let register = self.half();
        self.line(format!("{head} {register}, {operands}"));
        register
    }

    pub fn set_predicate(&mut self, head: &str, operands: &str) -> String {
        let register = self.predicate();
        self.line(format!("{head} {register}, {operands}"));
        register
    }

    /// The low half of a 64-bit register.
    pub fn low(&mut self, word: &str) -> String {
        self.set_half("cvt.u32.u64", word)
    }

    /// A special register, widened.
    pub fn special(&mut self, name: &str) -> String {
        let half = self.set_half("mov.u32", name);
        self.set("cvt.u64.u32", &half)
    }

    pub fn body(&self) -> &str {
        &self.body
    }

    /// Declarations of what was used.
    pub fn declarations(&self) -> String {
        let mut text = String::new();
        for (ty, name, count) in [
            ("b64", "%t", self.words),
            ("b32", "%w", self.halves),
            ("pred", "%p", self.predicates),
        ] {
            if count > 0 {
                let _ = writeln!(text, "    .reg .{ty} {name}<{count}>;");
            }
        }
        text
    }
}
