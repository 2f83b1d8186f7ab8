//! Function bodies.

use std::fmt::{Display, Formatter, Result};

use super::join;
use crate::ast::{Instruction, Statement};

/// One statement a line, a tab for each level of blocks.
pub(super) fn write_statements(
    f: &mut Formatter<'_>,
    statements: &[Statement],
    level: usize,
) -> Result {
    for statement in statements {
        // Labels stand out at the margin, as nvcc has them.
        let level = if matches!(statement, Statement::Label(..)) {
            0
        } else {
            level
        };
        for _ in 0..level {
            f.write_str("\t")?;
        }
        write_statement(f, statement, level)?;
        f.write_str("\n")?;
    }
    Ok(())
}

fn write_statement(f: &mut Formatter<'_>, statement: &Statement, level: usize) -> Result {
    match statement {
        Statement::Label(_, label) => write!(f, "{label}:"),
        Statement::Variable(variable) => write!(f, "{variable};"),
        Statement::Instruction(instruction) => write!(f, "{instruction};"),
        Statement::Block(inside) => {
            f.write_str("{\n")?;
            write_statements(f, inside, level + 1)?;
            for _ in 0..level {
                f.write_str("\t")?;
            }
            f.write_str("}")
        }
        Statement::Directive(directive) => {
            write!(f, "{directive}")?;
            // The two that end themselves.
            let ends = matches!(directive.name.as_str(), "loc" | "pragma");
            f.write_str(if ends { "" } else { ";" })
        }
        Statement::Targets {
            label,
            names,
            calls,
            ..
        } => {
            let directive = if *calls {
                ".calltargets"
            } else {
                ".branchtargets"
            };
            write!(f, "{label}: {directive} ")?;
            join(f, names, ", ")?;
            f.write_str(";")
        }
        Statement::Prototype {
            label,
            returns,
            params,
            noreturn,
            ..
        } => {
            write!(f, "{label}: .callprototype (")?;
            join(f, returns, ", ")?;
            f.write_str(") _ (")?;
            join(f, params, ", ")?;
            f.write_str(if *noreturn { ") .noreturn;" } else { ");" })
        }
    }
}

impl Display for Instruction {
    /// Without the semicolon.
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        if let Some(guard) = &self.guard {
            let not = if guard.negated { "!" } else { "" };
            write!(f, "@{not}{} ", guard.register)?;
        }
        f.write_str(&self.opcode)?;
        for modifier in &self.modifiers {
            write!(f, ".{modifier}")?;
        }
        if !self.operands.is_empty() {
            f.write_str(" ")?;
            join(f, &self.operands, ", ")?;
        }
        Ok(())
    }
}
