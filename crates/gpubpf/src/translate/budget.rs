//! Loops whose end nobody knows beforehand: every jump back is paid for, and a program that has nothing left
//! ends there. The kernel it is in goes on.
//!
//! What is left is in a register; in memory of the thread, if functions are called that loop, too.

use super::TranslateOptions;
use super::function::Translator;
use crate::map::{DESCRIPTOR_BYTES, DESCRIPTORS, descriptor};

/// How often a thread may jump back in one run of a program whose loops have no bound that is known.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Budget {
    pub rounds: u64,
    /// Where runs that were stopped are counted: a map's number among the descriptors, and which of
    /// its u64 it is.
    pub stopped: Option<(usize, usize)>,
}

impl Budget {
    /// Enough for a row of a large matrix; a thread is through with it in milliseconds.
    pub const ROUNDS: u64 = 65_536;
}

impl Default for Budget {
    fn default() -> Budget {
        Budget {
            rounds: Budget::ROUNDS,
            stopped: None,
        }
    }
}

/// Where a function has what is left.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Left {
    Register,
    Memory,
}

const STOP: &str = "Lstop";

impl Translator<'_> {
    /// Pays for a jump back.
    pub fn pay(&mut self) {
        match self.left {
            None => return,
            Some(Left::Register) => self.emit.line("sub.s64 %left, %left, 1"),
            Some(Left::Memory) => {
                self.emit.line("ld.u64 %left, [%left_at]");
                self.emit.line("sub.s64 %left, %left, 1");
                self.emit.line("st.u64 [%left_at], %left");
            }
        }
        self.stop_if_spent();
    }

    /// A function that was called may have used up all there was.
    pub fn look_after_call(&mut self) {
        if self.left == Some(Left::Memory) {
            self.emit.line("ld.u64 %left, [%left_at]");
            self.stop_if_spent();
        }
    }

    fn stop_if_spent(&mut self) {
        let spent = self.emit.set_predicate("setp.lt.s64", "%left, 0");
        self.emit.line(format!("@{spent} bra {STOP}"));
    }

    /// Where a program ends that has nothing left; it is counted once, in the program itself.
    pub fn stop(&mut self) {
        if self.left.is_none() {
            return;
        }
        self.emit.label(STOP);
        if let (0, Some((map, entry))) = (self.number, self.options.budget.stopped) {
            let base = map * DESCRIPTOR_BYTES + descriptor::BASE;
            let base = self
                .emit
                .set("ld.global.u64", &format!("[{DESCRIPTORS}+{base}]"));
            self.emit.line(format!(
                "red.relaxed.gpu.global.add.u64 [{base}+{}], 1",
                entry * 8
            ));
        }
        self.emit.line("mov.b64 %result, 0");
        self.emit.line("ret");
    }
}

/// What a function begins with: declarations, and what is left at first.
pub fn beginning(
    left: Option<Left>,
    number: usize,
    options: &TranslateOptions,
) -> (String, String) {
    let rounds = options.budget.rounds.min(i64::MAX as u64);
    match (left, number) {
        (None, _) => Default::default(),
        (Some(Left::Register), _) => (
            "    .reg .b64 %left;\n".into(),
            format!("    mov.b64 %left, {rounds};\n"),
        ),
        (Some(Left::Memory), 0) => (
            "    .reg .b64 %left, %left_at;\n    .local .align 8 .b8 %left_memory[8];\n".into(),
            format!(
                "    mov.u64 %left_at, %left_memory;\n    cvta.local.u64 %left_at, %left_at;\n    \
                 mov.b64 %left, {rounds};\n    st.u64 [%left_at], %left;\n"
            ),
        ),
        (Some(Left::Memory), _) => (
            "    .reg .b64 %left, %left_at;\n".into(),
            "    mov.b64 %left_at, %a6;\n".into(),
        ),
    }
}
