//! [`ast::Module`](crate::ast::Module) back to PTX text, through `Display`.
//!
//! Parsing the text gives the same tree again, line numbers aside. Comments and the order of
//! directives that carry no line (`.file`, `.alias`) are not kept.

mod declaration;
mod module;
mod operand;
mod statement;

use std::fmt::{Display, Formatter, Result};

/// Writes `parts` with `separator` in between.
fn join<T: Display>(
    f: &mut Formatter<'_>,
    parts: impl IntoIterator<Item = T>,
    separator: &str,
) -> Result {
    for (index, part) in parts.into_iter().enumerate() {
        if index > 0 {
            f.write_str(separator)?;
        }
        write!(f, "{part}")?;
    }
    Ok(())
}
