//! `.entry` and `.func`: header, directives, body.

use super::{Parser, Result};
use crate::ast::{Directive, Function, FunctionKind, Linkage, Statement};
use crate::token::Kind;

impl<'a> Parser<'a> {
    pub(super) fn function(&mut self, line: u32, linkage: Linkage) -> Result<Function> {
        self.scopes.enter();
        let function = self.function_in_scope(line, linkage)?;
        self.scopes.leave();
        Ok(function)
    }

    fn function_in_scope(&mut self, line: u32, linkage: Linkage) -> Result<Function> {
        let kind = match self.accept_dotted(".entry")? {
            true => FunctionKind::Entry,
            false => {
                self.advance()?;
                FunctionKind::Func
            }
        };
        let mut directives = Vec::new();
        if self.at_dotted(".attribute") {
            let line = self.line();
            self.advance()?;
            let args = self.attribute()?;
            directives.push(Directive {
                line,
                name: "attribute".into(),
                args,
            });
        }
        let returns = self.parameters()?;
        let name = self.expect_word("the function's name")?.to_string();
        let params = self.parameters()?;
        let mut body = None;
        loop {
            match self.current.kind {
                // Declarations of old compilers end without a semicolon.
                Kind::Dotted if self.at_module_item() => break,
                Kind::Dotted => {
                    let directive = self.function_directive()?;
                    directives.push(directive);
                }
                Kind::Punct(b';') => {
                    self.advance()?;
                    break;
                }
                Kind::Punct(b'{') => {
                    body = Some(self.body()?);
                    break;
                }
                _ => {
                    return Err(
                        self.unexpected("a directive, `{` or `;` after the function's header")
                    );
                }
            }
        }
        Ok(Function {
            line,
            linkage,
            kind,
            name,
            returns,
            params,
            directives,
            body,
        })
    }

    /// Is the current directive one that can only start something new at module scope?
    fn at_module_item(&self) -> bool {
        let text = self.text(self.current);
        self.at_space()
            || matches!(
                text,
                ".visible" | ".extern" | ".weak" | ".common" | ".entry" | ".func"
            )
            || matches!(text, ".file" | ".section" | ".alias")
    }

    fn body(&mut self) -> Result<Vec<Statement>> {
        self.advance()?;
        let statements = self.nested(Self::statements)?;
        self.expect(b'}', "at the end of the function")?;
        Ok(statements)
    }

    /// `.maxntid 256, 1, 1` and any other: its arguments go up to the next directive.
    fn function_directive(&mut self) -> Result<Directive> {
        self.grow()?;
        match self.text(self.current) {
            ".pragma" => return self.pragma(),
            ".loc" => return self.loc(),
            _ => {}
        }
        let line = self.line();
        let name = self.directive_name()?;
        let mut args = Vec::new();
        while matches!(self.current.kind, Kind::Int { .. } | Kind::Word | Kind::Str) {
            self.grow()?;
            let arg = self.advance()?;
            args.push(self.text(arg).to_string());
            if !self.accept(b',')? {
                break;
            }
        }
        Ok(Directive { line, name, args })
    }

    /// The name of the directive that the current token is, without its dot.
    pub(super) fn directive_name(&mut self) -> Result<String> {
        // `.0` right after a word reads as a name, and as a number anywhere else.
        if self.text(self.current)[1..].starts_with(|first: char| first.is_ascii_digit()) {
            return Err(self.unexpected("a directive"));
        }
        let name = self.advance()?;
        Ok(self.text(name)[1..].to_string())
    }
}
