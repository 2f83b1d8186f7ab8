//! Function bodies: labels, declarations, blocks, instructions.

use super::{Parser, Result};
use crate::ast::{Directive, Guard, Instruction, Linkage, Statement};
use crate::token::Kind;

impl<'a> Parser<'a> {
    /// Statements up to the closing brace, which stays.
    pub(super) fn statements(&mut self) -> Result<Vec<Statement>> {
        let mut statements = Vec::new();
        loop {
            match self.current.kind {
                Kind::Punct(b'}') => return Ok(statements),
                Kind::Punct(b';') => {
                    self.advance()?;
                }
                Kind::End => return Err(self.unexpected("`}` at the end of the block")),
                _ => {
                    self.grow()?;
                    self.statement(&mut statements)?;
                }
            }
        }
    }

    fn statement(&mut self, into: &mut Vec<Statement>) -> Result<()> {
        let line = self.line();
        match self.current.kind {
            Kind::Punct(b'{') => {
                self.advance()?;
                self.scopes.enter();
                let inside = self.nested(Self::statements)?;
                self.scopes.leave();
                self.expect(b'}', "at the end of the block")?;
                into.push(Statement::Block(inside));
            }
            Kind::Word if self.following.is(b':') => {
                let label = self.expect_word("a label")?.to_string();
                self.advance()?;
                into.push(self.after_label(line, label)?);
            }
            Kind::Word | Kind::Punct(b'@') => {
                into.push(Statement::Instruction(self.instruction()?));
            }
            Kind::Dotted => self.body_directive(line, into)?,
            _ => return Err(self.unexpected("an instruction, a label or a declaration")),
        }
        Ok(())
    }

    fn after_label(&mut self, line: u32, label: String) -> Result<Statement> {
        if self.current.kind != Kind::Dotted {
            return Ok(Statement::Label(line, label));
        }
        match self.text(self.current) {
            ".branchtargets" => self.targets_of(line, label, false),
            ".calltargets" => self.targets_of(line, label, true),
            ".callprototype" => self.prototype(line, label),
            _ => Ok(Statement::Label(line, label)),
        }
    }

    fn targets_of(&mut self, line: u32, label: String, calls: bool) -> Result<Statement> {
        self.advance()?;
        let mut names = Vec::new();
        loop {
            self.grow()?;
            names.push(self.expect_word("a label or function")?.to_string());
            if !self.accept(b',')? {
                break;
            }
        }
        self.expect(b';', "after the targets")?;
        Ok(Statement::Targets {
            line,
            label,
            names,
            calls,
        })
    }

    /// `.callprototype (.param .b32 _) _ (.param .b64 _) .noreturn;`
    fn prototype(&mut self, line: u32, label: String) -> Result<Statement> {
        self.advance()?;
        self.scopes.enter();
        let returns = self.parameters()?;
        self.expect_word("`_` instead of the function's name")?;
        let params = self.parameters()?;
        self.scopes.leave();
        let mut noreturn = false;
        while self.current.kind == Kind::Dotted {
            noreturn |= self.at_dotted(".noreturn");
            self.advance()?;
            // `.abi_preserve 8` and its like say nothing about the call's meaning.
            while matches!(self.current.kind, Kind::Int { .. }) {
                self.advance()?;
            }
        }
        self.expect(b';', "after the prototype")?;
        Ok(Statement::Prototype {
            line,
            label,
            returns,
            params,
            noreturn,
        })
    }

    fn body_directive(&mut self, line: u32, into: &mut Vec<Statement>) -> Result<()> {
        match self.text(self.current) {
            ".loc" => into.push(Statement::Directive(self.loc()?)),
            ".pragma" => into.push(Statement::Directive(self.pragma()?)),
            _ => {
                let linkage = self.linkage()?;
                if !self.at_space() {
                    return self.other_directive(line, linkage, into);
                }
                let mut variables = Vec::new();
                self.variables(line, linkage, &mut variables)?;
                into.extend(variables.into_iter().map(Statement::Variable));
            }
        }
        Ok(())
    }

    /// A directive we do not know: everything up to the semicolon, token by token.
    fn other_directive(
        &mut self,
        line: u32,
        linkage: Linkage,
        into: &mut Vec<Statement>,
    ) -> Result<()> {
        if linkage != Linkage::default() || self.current.kind != Kind::Dotted {
            return Err(self.unexpected("a variable"));
        }
        let name = self.directive_name()?;
        let mut args = Vec::new();
        while !self.at(b';') {
            if matches!(self.current.kind, Kind::End | Kind::Punct(b'{' | b'}')) {
                return Err(self.unexpected(&format!("`;` after .{name}")));
            }
            self.grow()?;
            let token = self.advance()?;
            if !token.is(b',') {
                args.push(self.text(token).to_string());
            }
        }
        self.advance()?;
        into.push(Statement::Directive(Directive { line, name, args }));
        Ok(())
    }

    fn instruction(&mut self) -> Result<Instruction> {
        let line = self.line();
        let guard = match self.accept(b'@')? {
            true => {
                let negated = self.accept(b'!')?;
                let register = self
                    .expect_word("a predicate register after `@`")?
                    .to_string();
                Some(Guard { negated, register })
            }
            false => None,
        };
        let opcode = self.expect_word("an instruction")?.to_string();
        let mut modifiers = Vec::new();
        while self.current.kind == Kind::Dotted {
            self.grow()?;
            let modifier = self.advance()?;
            modifiers.push(self.text(modifier)[1..].to_string());
        }
        let operands = self.operands(&opcode)?;
        Ok(Instruction {
            line,
            guard,
            opcode,
            modifiers,
            operands,
        })
    }
}
