//! Jumps, branches, calls of functions, the end.

use super::budget::Left;
use super::function::{self, Translator};
use crate::instruction::{Callee, Condition, Operation, Source};

impl Translator<'_> {
    pub fn flow(&mut self, at: usize, operation: Operation) {
        match operation {
            Operation::Jump { target } => self.go(at, target),
            Operation::Branch {
                condition,
                wide,
                dst,
                src,
                target,
            } => {
                // Ways the verifier found impossible are not there to go.
                let passes = self.facts.reached.get(at + 1).copied().unwrap_or(false);
                if !self.facts.reached[target] {
                    return;
                }
                if !passes {
                    return self.go(at, target);
                }
                // An address of a value that is always there.
                if wide && src == Source::Immediate(0) && self.never_null >> dst & 1 == 1 {
                    match condition {
                        Condition::Equal => return,
                        Condition::NotEqual => return self.go(at, target),
                        _ => {}
                    }
                }
                let holds = self.condition(condition, wide, dst, src);
                if target <= at && self.left.is_some() {
                    // Only who goes back pays.
                    let on = format!("{}_on", self.label(at));
                    self.emit.line(format!("@!{holds} bra {on}"));
                    self.go(at, target);
                    self.emit.label(&on);
                    return;
                }
                let label = self.label(target);
                self.emit.line(format!("@{holds} bra {label}"));
            }
            Operation::Call(Callee::Function(target)) => {
                let functions = &self.verified.program.functions;
                let callee = functions.iter().position(|f| f.start == target);
                let name = function::name(self.verified, self.options, callee.unwrap_or(0));
                self.emit.counts.calls += 1;
                let left = match self.left {
                    Some(Left::Memory) => ", %left_at",
                    _ => "",
                };
                self.emit.line(format!(
                    "call (%r0), {name}, (%r1, %r2, %r3, %r4, %r5{left})"
                ));
                self.look_after_call();
            }
            // The last instruction has the end behind it.
            _ if self.inline && at + 1 == self.verified.program.functions[self.number].end => {}
            _ if self.inline => self.emit.line(format!("bra {}", function::end())),
            _ => {
                self.emit.line("mov.b64 %result, %r0");
                self.emit.line("ret");
            }
        }
    }

    fn go(&mut self, at: usize, target: usize) {
        if target <= at {
            self.pay();
        }
        let label = self.label(target);
        self.emit.line(format!("bra {label}"));
    }

    fn condition(&mut self, condition: Condition, wide: bool, dst: u8, src: Source) -> String {
        let (left, right) = if wide {
            (format!("%r{dst}"), self.operand(src))
        } else {
            (self.emit.low(&format!("%r{dst}")), self.half_operand(src))
        };
        let bits = if wide { 64 } else { 32 };
        let (name, sign) = match condition {
            Condition::Equal => ("eq", 's'),
            Condition::NotEqual => ("ne", 's'),
            Condition::Greater => ("gt", 'u'),
            Condition::GreaterEqual => ("ge", 'u'),
            Condition::Less => ("lt", 'u'),
            Condition::LessEqual => ("le", 'u'),
            Condition::SignedGreater => ("gt", 's'),
            Condition::SignedGreaterEqual => ("ge", 's'),
            Condition::SignedLess => ("lt", 's'),
            Condition::SignedLessEqual => ("le", 's'),
            Condition::Set => {
                let common = self.fresh(bits);
                self.emit
                    .line(format!("and.b{bits} {common}, {left}, {right}"));
                return self
                    .emit
                    .set_predicate(&format!("setp.ne.s{bits}"), &format!("{common}, 0"));
            }
        };
        self.emit.set_predicate(
            &format!("setp.{name}.{sign}{bits}"),
            &format!("{left}, {right}"),
        )
    }
}
