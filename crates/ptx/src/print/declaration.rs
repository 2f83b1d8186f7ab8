//! Variables, their initializers, linkage, directives.

use std::fmt::{Display, Formatter, Result};

use super::join;
use crate::ast::{Directive, Initializer, Linkage, Variable};

impl Display for Linkage {
    /// Each with a blank behind it.
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        let flags = [
            (self.external, ".extern "),
            (self.visible, ".visible "),
            (self.weak, ".weak "),
            (self.common, ".common "),
        ];
        for (_, text) in flags.into_iter().filter(|(set, _)| *set) {
            f.write_str(text)?;
        }
        Ok(())
    }
}

impl Display for Variable {
    /// Without the semicolon: parameters have none.
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        write!(f, "{}.{}", self.linkage, self.space.name())?;
        if self.managed {
            f.write_str(" .attribute(.managed)")?;
        }
        if let Some(align) = self.align {
            write!(f, " .align {align}")?;
        }
        if self.vector > 1 {
            write!(f, " .v{}", self.vector)?;
        }
        write!(f, " .{}", self.ty.name())?;
        if let Some((space, align)) = self.pointer {
            f.write_str(" .ptr")?;
            if let Some(space) = space {
                write!(f, " .{}", space.name())?;
            }
            if let Some(align) = align {
                write!(f, " .align {align}")?;
            }
        }
        write!(f, " {}", self.name)?;
        if let Some(count) = self.range {
            write!(f, "<{count}>")?;
        }
        for (index, size) in self.dims.iter().enumerate() {
            match (index, size) {
                (0, 0) => f.write_str("[]")?,
                _ => write!(f, "[{size}]")?,
            }
        }
        match &self.init {
            Some(init) => write!(f, " = {init}"),
            None => Ok(()),
        }
    }
}

impl Display for Initializer {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        match self {
            Initializer::List(values) => {
                f.write_str("{")?;
                join(f, values, ", ")?;
                f.write_str("}")
            }
            Initializer::Int(value) => write!(f, "{value}"),
            Initializer::Float(value) => write!(f, "0d{:016X}", value.to_bits()),
            Initializer::Float32(bits) => write!(f, "0f{bits:08X}"),
            Initializer::Field { name, value } => write!(f, "{name} = {value}"),
            Initializer::Address {
                symbol,
                addend,
                generic,
                mask,
            } => {
                if let Some(mask) = mask {
                    write!(f, "{mask:#X}(")?;
                }
                match generic {
                    true => write!(f, "generic({symbol})")?,
                    false => f.write_str(symbol)?,
                }
                if *addend != 0 {
                    write!(f, "+{addend}")?;
                }
                f.write_str(if mask.is_some() { ")" } else { "" })
            }
        }
    }
}

impl Display for Directive {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        write!(f, ".{}", self.name)?;
        if self.name == "loc" {
            for arg in &self.args {
                let key = matches!(arg.as_str(), "function_name" | "inlined_at");
                write!(f, "{} {arg}", if key { "," } else { "" })?;
            }
            return Ok(());
        }
        if !self.args.is_empty() {
            f.write_str(" ")?;
            join(f, &self.args, ", ")?;
        }
        match self.name.as_str() {
            "pragma" => f.write_str(";"),
            _ => Ok(()),
        }
    }
}
