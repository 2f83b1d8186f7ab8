//! Instruction operands.

use super::expression::Value;
use super::{Parser, Result};
use crate::ast::Operand;
use crate::token::Kind;

impl<'a> Parser<'a> {
    /// Operands up to and including the semicolon.
    pub(super) fn operands(&mut self, opcode: &str) -> Result<Vec<Operand>> {
        let mut operands = Vec::new();
        if self.accept(b';')? {
            return Ok(operands);
        }
        // A parenthesis groups arguments in a call, and an expression anywhere else.
        let call = opcode == "call";
        loop {
            operands.push(match call && self.at(b'(') {
                true => self.nested(Self::list)?,
                false => self.operand()?,
            });
            if !self.accept(b',')? {
                break;
            }
        }
        self.expect(b';', "after the instruction")?;
        Ok(operands)
    }

    fn operand(&mut self) -> Result<Operand> {
        self.nested(|p| {
            let first = p.single()?;
            let pairs = matches!(first, Operand::Name(_) | Operand::Sink | Operand::Vector(_));
            if !pairs || !p.accept(b'|')? {
                return Ok(first);
            }
            let second = p.operand()?;
            Ok(Operand::Pair(Box::new(first), Box::new(second)))
        })
    }

    fn single(&mut self) -> Result<Operand> {
        self.grow()?;
        match self.current.kind {
            Kind::Word => self.named(),
            Kind::Punct(b'{') => self.vector(),
            Kind::Punct(b'[') => self.bracket(),
            Kind::Punct(b'!') if self.following.kind == Kind::Word => {
                self.advance()?;
                Ok(Operand::Not(self.name()?))
            }
            Kind::Punct(b'-') if self.following.kind == Kind::Word => {
                self.advance()?;
                Ok(Operand::Neg(Box::new(Operand::Name(self.name()?))))
            }
            _ => self.immediate(),
        }
    }

    fn immediate(&mut self) -> Result<Operand> {
        let starts = match self.current.kind {
            Kind::Int { .. } | Kind::Float32(_) | Kind::Float64(_) => true,
            Kind::Punct(b) => matches!(b, b'-' | b'+' | b'~' | b'!' | b'('),
            _ => false,
        };
        if !starts {
            return Err(self.unexpected("an operand"));
        }
        match self.expression()? {
            Value::Int { value, .. } => Ok(Operand::Int(value)),
            Value::Float32(bits) => Ok(Operand::Float32(bits)),
            Value::Float64(bits) => Ok(Operand::Float64(bits)),
            Value::Address { .. } => Err(self.error("an address inside an expression")),
        }
    }

    /// A word with its members: `%tid.x`, `%r1.b0`.
    fn name(&mut self) -> Result<String> {
        let mut name = self.expect_word("a name")?.to_string();
        while self.current.kind == Kind::Dotted {
            let member = self.advance()?;
            name.push_str(self.text(member));
        }
        Ok(name)
    }

    fn named(&mut self) -> Result<Operand> {
        match self.text(self.current) {
            "_" => {
                self.advance()?;
                return Ok(Operand::Sink);
            }
            "WARP_SZ" => {
                return match self.expression()? {
                    Value::Int { value, .. } => Ok(Operand::Int(value)),
                    _ => Err(self.error("expected an integer")),
                };
            }
            _ => {}
        }
        let base = self.name()?;
        match self.current.kind {
            Kind::Punct(b'+' | b'-') => {
                let offset = self.displacement()?;
                Ok(Operand::Offset { base, offset })
            }
            Kind::Punct(b'[') => {
                let offset = self.element(&base)?;
                Ok(Operand::Offset { base, offset })
            }
            _ => Ok(Operand::Name(base)),
        }
    }

    /// `[2]` behind an array's name: the element's byte offset.
    fn element(&mut self, array: &str) -> Result<i64> {
        self.advance()?;
        let index = self.constant("an index")?;
        self.expect(b']', "after the index")?;
        let size = self.scopes.element_size(array);
        let size =
            size.ok_or_else(|| self.error(format!("`{array}` is not an array declared before")))?;
        i64::try_from(size)
            .ok()
            .and_then(|size| size.checked_mul(index))
            .ok_or_else(|| self.error(format!("index {index} is too large")))
    }

    fn vector(&mut self) -> Result<Operand> {
        self.advance()?;
        let mut parts = Vec::new();
        while !self.at(b'}') {
            parts.push(self.operand()?);
            if !self.accept(b',')? {
                break;
            }
        }
        self.expect(b'}', "after the vector")?;
        Ok(Operand::Vector(parts))
    }

    fn list(&mut self) -> Result<Operand> {
        self.grow()?;
        self.advance()?;
        let mut parts = Vec::new();
        while !self.at(b')') {
            parts.push(self.operand()?);
            if !self.accept(b',')? {
                break;
            }
        }
        self.expect(b')', "after the arguments")?;
        Ok(Operand::List(parts))
    }

    fn bracket(&mut self) -> Result<Operand> {
        self.advance()?;
        let mut parts = Vec::new();
        loop {
            parts.push(self.operand()?);
            if !self.accept(b',')? {
                break;
            }
        }
        self.expect(b']', "after the address")?;
        if parts.len() > 1 {
            return Ok(Operand::Bracket(parts));
        }
        Ok(match parts.pop() {
            Some(Operand::Offset { base, offset }) => Operand::Address {
                base: Box::new(Operand::Name(base)),
                offset,
            },
            Some(base @ (Operand::Name(_) | Operand::Int(_))) => Operand::Address {
                base: Box::new(base),
                offset: 0,
            },
            other => Operand::Bracket(other.into_iter().collect()),
        })
    }
}
