//! Modules and functions.

use std::fmt::{Display, Formatter, Result};

use super::join;
use super::statement::write_statements;
use crate::ast::{Directive, Function, FunctionKind, Module, Section, Variable};

/// What stands at module scope and has its place there.
enum Item<'a> {
    Variable(&'a Variable),
    Function(&'a Function),
    Directive(&'a Directive),
}

impl Item<'_> {
    fn line(&self) -> u32 {
        match self {
            Item::Variable(variable) => variable.line,
            Item::Function(function) => function.line,
            Item::Directive(directive) => directive.line,
        }
    }
}

impl Display for Module {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        write!(
            f,
            ".version {}.{}\n.target ",
            self.version.0, self.version.1
        )?;
        join(f, &self.target, ", ")?;
        write!(f, "\n.address_size {}\n\n", self.address_size)?;
        // PTX wants names declared before they are used: the lines tell the order.
        let mut items: Vec<Item> = Vec::new();
        items.extend(self.directives.iter().map(Item::Directive));
        items.extend(self.variables.iter().map(Item::Variable));
        items.extend(self.functions.iter().map(Item::Function));
        items.sort_by_key(Item::line);
        for item in items {
            match item {
                Item::Variable(variable) => writeln!(f, "{variable};")?,
                Item::Function(function) => writeln!(f, "{function}")?,
                Item::Directive(directive) => writeln!(f, "{directive}")?,
            }
        }
        for (alias, function) in &self.aliases {
            writeln!(f, ".alias {alias}, {function};")?;
        }
        for (index, name) in &self.files {
            writeln!(f, ".file {index} \"{name}\"")?;
        }
        for section in &self.sections {
            writeln!(f, "{section}")?;
        }
        Ok(())
    }
}

impl Display for Section {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        write!(f, ".section {}\n{{{}}}", self.name, self.text)
    }
}

impl Display for Function {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        write!(f, "{}", self.linkage)?;
        f.write_str(match self.kind {
            FunctionKind::Entry => ".entry ",
            FunctionKind::Func => ".func ",
        })?;
        // Attributes belong before the name, all other directives behind the parameters.
        let is_attribute = |directive: &&Directive| directive.name == "attribute";
        for attribute in self.directives.iter().filter(is_attribute) {
            f.write_str(".attribute(")?;
            join(f, &attribute.args, ", ")?;
            f.write_str(") ")?;
        }
        if !self.returns.is_empty() {
            f.write_str("(")?;
            join(f, &self.returns, ", ")?;
            f.write_str(") ")?;
        }
        write!(f, "{}(", self.name)?;
        join(f, &self.params, ", ")?;
        f.write_str(")")?;
        for directive in self
            .directives
            .iter()
            .filter(|directive| !is_attribute(directive))
        {
            write!(f, "\n{directive}")?;
        }
        match &self.body {
            None => f.write_str(";"),
            Some(body) => {
                f.write_str("\n{\n")?;
                write_statements(f, body, 1)?;
                f.write_str("}\n")
            }
        }
    }
}
