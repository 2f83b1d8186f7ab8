//! What stands behind `=` in a variable's declaration.

use super::expression::Value;
use super::{Parser, Result};
use crate::ast::Initializer;
use crate::token::Kind;

impl<'a> Parser<'a> {
    pub(super) fn initializer(&mut self) -> Result<Initializer> {
        self.grow()?;
        if self.at(b'{') {
            return self.nested(Self::initializer_list);
        }
        if self.current.kind == Kind::Word && self.following.is(b'=') {
            return self.field();
        }
        Ok(match self.expression()? {
            Value::Int { value, .. } => Initializer::Int(value),
            Value::Float32(bits) => Initializer::Float32(bits),
            Value::Float64(bits) => Initializer::Float(f64::from_bits(bits)),
            Value::Address {
                symbol,
                addend,
                generic,
                mask,
            } => Initializer::Address {
                symbol,
                addend,
                generic,
                mask,
            },
        })
    }

    fn initializer_list(&mut self) -> Result<Initializer> {
        self.advance()?;
        let mut values = Vec::new();
        while !self.at(b'}') {
            values.push(self.initializer()?);
            if !self.accept(b',')? {
                break;
            }
        }
        self.expect(b'}', "after the initializer's values")?;
        Ok(Initializer::List(values))
    }

    /// `addr_mode_0 = wrap`; the value is a word or a number.
    fn field(&mut self) -> Result<Initializer> {
        let name = self.expect_word("a field's name")?.to_string();
        self.advance()?;
        if !matches!(self.current.kind, Kind::Word | Kind::Int { .. }) {
            return Err(self.unexpected("a field's value"));
        }
        let value = self.advance()?;
        Ok(Initializer::Field {
            name,
            value: self.text(value).to_string(),
        })
    }
}
