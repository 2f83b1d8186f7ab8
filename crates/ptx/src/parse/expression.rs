//! Constant expressions: PTX's integer arithmetic in 64 bits, signed unless a part is unsigned.
//!
//! Addresses take part in initializers only, and only as `symbol ± constant`.

use super::{Parser, Result};
use crate::token::Kind;

/// The width of a warp, a constant that PTX gives a name.
const WARP_SZ: i64 = 32;

#[derive(Debug, Clone, PartialEq)]
pub(super) enum Value {
    Int {
        value: i64,
        unsigned: bool,
    },
    Float32(u32),
    Float64(u64),
    Address {
        symbol: String,
        addend: i64,
        generic: bool,
        mask: Option<u64>,
    },
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum Binary {
    Or,
    And,
    BitOr,
    BitXor,
    BitAnd,
    Eq,
    Ne,
    Lt,
    Le,
    Gt,
    Ge,
    Shl,
    Shr,
    Add,
    Sub,
    Mul,
    Div,
    Rem,
}

/// Binding strengths as in C.
const ADDITIVE: u8 = 9;
const MULTIPLICATIVE: u8 = 10;

impl Binary {
    fn of(kind: Kind) -> Option<(Binary, u8)> {
        Some(match kind {
            Kind::Operator([b'|', _]) => (Binary::Or, 1),
            Kind::Operator([b'&', _]) => (Binary::And, 2),
            Kind::Punct(b'|') => (Binary::BitOr, 3),
            Kind::Punct(b'^') => (Binary::BitXor, 4),
            Kind::Punct(b'&') => (Binary::BitAnd, 5),
            Kind::Operator([b'=', _]) => (Binary::Eq, 6),
            Kind::Operator([b'!', _]) => (Binary::Ne, 6),
            Kind::Punct(b'<') => (Binary::Lt, 7),
            Kind::Punct(b'>') => (Binary::Gt, 7),
            Kind::Operator([b'<', b'=']) => (Binary::Le, 7),
            Kind::Operator([b'>', b'=']) => (Binary::Ge, 7),
            Kind::Operator([b'<', _]) => (Binary::Shl, 8),
            Kind::Operator([b'>', _]) => (Binary::Shr, 8),
            Kind::Punct(b'+') => (Binary::Add, ADDITIVE),
            Kind::Punct(b'-') => (Binary::Sub, ADDITIVE),
            Kind::Punct(b'*') => (Binary::Mul, MULTIPLICATIVE),
            Kind::Punct(b'/') => (Binary::Div, MULTIPLICATIVE),
            Kind::Punct(b'%') => (Binary::Rem, MULTIPLICATIVE),
            _ => return None,
        })
    }
}

impl<'a> Parser<'a> {
    /// An integer constant expression.
    pub(super) fn constant(&mut self, what: &str) -> Result<i64> {
        let start = self.current;
        match self.expression()? {
            Value::Int { value, .. } => Ok(value),
            _ => Err(crate::ParseError::new(
                start.line,
                format!(
                    "expected {what}, an integer constant, found `{}`",
                    self.text(start)
                ),
            )),
        }
    }

    /// `+8`, `-4`, `+-8`, `+2*4`: what may follow an address, summed up.
    pub(super) fn displacement(&mut self) -> Result<i64> {
        let mut sum = 0i64;
        while self.at(b'+') || self.at(b'-') {
            let sign = self.advance()?;
            let Value::Int { value, .. } = self.binary(MULTIPLICATIVE)? else {
                return Err(self.error("expected an integer offset"));
            };
            sum = match sign.is(b'+') {
                true => sum.wrapping_add(value),
                false => sum.wrapping_sub(value),
            };
        }
        Ok(sum)
    }

    pub(super) fn expression(&mut self) -> Result<Value> {
        self.nested(|p| {
            let value = p.binary(0)?;
            if !p.accept(b'?')? {
                return Ok(value);
            }
            let chosen = p.truth(&value)?;
            let yes = p.expression()?;
            p.expect(b':', "between the two choices")?;
            let no = p.expression()?;
            Ok(if chosen { yes } else { no })
        })
    }

    fn binary(&mut self, weakest: u8) -> Result<Value> {
        let mut left = self.unary()?;
        while let Some((operator, strength)) = Binary::of(self.current.kind) {
            if strength < weakest {
                break;
            }
            self.advance()?;
            let right = self.binary(strength + 1)?;
            left = self.apply(operator, left, right)?;
        }
        Ok(left)
    }

    fn unary(&mut self) -> Result<Value> {
        let Kind::Punct(operator @ (b'+' | b'-' | b'~' | b'!')) = self.current.kind else {
            return self.primary();
        };
        self.advance()?;
        let operand = self.nested(Self::unary)?;
        Ok(match (operator, operand) {
            (b'+', value) => value,
            (b'-', Value::Float32(bits)) => Value::Float32(bits ^ (1 << 31)),
            (b'-', Value::Float64(bits)) => Value::Float64(bits ^ (1 << 63)),
            (b'-', Value::Int { value, unsigned }) => Value::Int {
                value: value.wrapping_neg(),
                unsigned,
            },
            (b'~', Value::Int { value, unsigned }) => Value::Int {
                value: !value,
                unsigned,
            },
            (b'!', Value::Int { value, .. }) => signed(i64::from(value == 0)),
            _ => return Err(self.error("expected an integer after the operator")),
        })
    }

    fn primary(&mut self) -> Result<Value> {
        match self.current.kind {
            Kind::Int { value, unsigned } => {
                self.advance()?;
                match self.at(b'(') {
                    true => self.masked(value),
                    false => Ok(Value::Int {
                        value: value as i64,
                        unsigned,
                    }),
                }
            }
            Kind::Float32(bits) => {
                self.advance()?;
                Ok(Value::Float32(bits))
            }
            Kind::Float64(bits) => {
                self.advance()?;
                Ok(Value::Float64(bits))
            }
            Kind::Punct(b'(') => {
                self.advance()?;
                self.parenthesized()
            }
            Kind::Word => self.symbol(),
            _ => Err(self.unexpected("a constant")),
        }
    }

    /// A cast or a grouped expression, from behind the `(`.
    fn parenthesized(&mut self) -> Result<Value> {
        if self.current.kind == Kind::Dotted {
            let unsigned = match self.text(self.current) {
                ".s64" => false,
                ".u64" => true,
                _ => return Err(self.unexpected("a cast to .s64 or .u64")),
            };
            self.advance()?;
            self.expect(b')', "after the cast")?;
            return match self.nested(Self::unary)? {
                Value::Int { value, .. } => Ok(Value::Int { value, unsigned }),
                _ => Err(self.error("only integers can be cast")),
            };
        }
        let value = self.expression()?;
        self.expect(b')', "after the expression")?;
        Ok(value)
    }

    fn symbol(&mut self) -> Result<Value> {
        let name = self.expect_word("a symbol")?;
        if name == "WARP_SZ" {
            return Ok(signed(WARP_SZ));
        }
        if name == "generic" && self.at(b'(') {
            self.advance()?;
            let inside = self.expression()?;
            self.expect(b')', "after generic(")?;
            return match inside {
                Value::Address {
                    symbol,
                    addend,
                    mask: None,
                    ..
                } => Ok(Value::Address {
                    symbol,
                    addend,
                    generic: true,
                    mask: None,
                }),
                _ => Err(self.error("generic() takes the name of a variable")),
            };
        }
        Ok(Value::Address {
            symbol: name.to_string(),
            addend: 0,
            generic: false,
            mask: None,
        })
    }

    /// `0xFF00(symbol+4)`: one byte of an address.
    fn masked(&mut self, mask: u64) -> Result<Value> {
        self.advance()?;
        let inside = self.expression()?;
        self.expect(b')', "after the masked address")?;
        match inside {
            Value::Address {
                symbol,
                addend,
                generic,
                mask: None,
            } => Ok(Value::Address {
                symbol,
                addend,
                generic,
                mask: Some(mask),
            }),
            // `0xFF(7)` takes the byte of a plain number.
            Value::Int { value, .. } if mask != 0 => {
                let byte = (value as u64 & mask) >> mask.trailing_zeros();
                Ok(Value::Int {
                    value: byte as i64,
                    unsigned: true,
                })
            }
            _ => Err(self.error("a mask applies to an address")),
        }
    }

    fn truth(&self, value: &Value) -> Result<bool> {
        match value {
            Value::Int { value, .. } => Ok(*value != 0),
            _ => Err(self.error("expected an integer condition")),
        }
    }

    fn apply(&self, operator: Binary, left: Value, right: Value) -> Result<Value> {
        let wrong = || self.error("expected integers on both sides of the operator");
        match (left, right) {
            (
                Value::Int {
                    value: a,
                    unsigned: ua,
                },
                Value::Int {
                    value: b,
                    unsigned: ub,
                },
            ) => self.integers(operator, (a, ua), (b, ub)),
            (
                Value::Address {
                    symbol,
                    addend,
                    generic,
                    mask: None,
                },
                Value::Int { value, .. },
            ) => {
                let addend = match operator {
                    Binary::Add => addend.wrapping_add(value),
                    Binary::Sub => addend.wrapping_sub(value),
                    _ => return Err(wrong()),
                };
                Ok(Value::Address {
                    symbol,
                    addend,
                    generic,
                    mask: None,
                })
            }
            (
                Value::Int { value, .. },
                Value::Address {
                    symbol,
                    addend,
                    generic,
                    mask: None,
                },
            ) if operator == Binary::Add => {
                let addend = addend.wrapping_add(value);
                Ok(Value::Address {
                    symbol,
                    addend,
                    generic,
                    mask: None,
                })
            }
            _ => Err(wrong()),
        }
    }

    fn integers(&self, operator: Binary, left: (i64, bool), right: (i64, bool)) -> Result<Value> {
        let ((a, ua), (b, ub)) = (left, right);
        let unsigned = ua || ub;
        let (x, y) = (a as u64, b as u64);
        let order = if unsigned { x.cmp(&y) } else { a.cmp(&b) };
        let count = u32::try_from(b).unwrap_or(u32::MAX);
        let number = |value: i64| Ok(Value::Int { value, unsigned });
        // A shift has the type of its left side alone.
        let shifted = |value: i64| {
            Ok(Value::Int {
                value,
                unsigned: ua,
            })
        };
        let flag = |holds: bool| Ok(signed(i64::from(holds)));
        match operator {
            Binary::Or => flag(a != 0 || b != 0),
            Binary::And => flag(a != 0 && b != 0),
            Binary::BitOr => number(a | b),
            Binary::BitXor => number(a ^ b),
            Binary::BitAnd => number(a & b),
            Binary::Eq => flag(order.is_eq()),
            Binary::Ne => flag(order.is_ne()),
            Binary::Lt => flag(order.is_lt()),
            Binary::Le => flag(order.is_le()),
            Binary::Gt => flag(order.is_gt()),
            Binary::Ge => flag(order.is_ge()),
            Binary::Shl => shifted(a.checked_shl(count).unwrap_or(0)),
            Binary::Shr if ua => shifted(x.checked_shr(count).unwrap_or(0) as i64),
            Binary::Shr => shifted(a >> count.min(63)),
            Binary::Add => number(a.wrapping_add(b)),
            Binary::Sub => number(a.wrapping_sub(b)),
            Binary::Mul => number(a.wrapping_mul(b)),
            Binary::Div | Binary::Rem if b == 0 => Err(self.error("division by zero")),
            Binary::Div if unsigned => number((x / y) as i64),
            Binary::Rem if unsigned => number((x % y) as i64),
            Binary::Div => number(a.wrapping_div(b)),
            Binary::Rem => number(a.wrapping_rem(b)),
        }
    }
}

fn signed(value: i64) -> Value {
    Value::Int {
        value,
        unsigned: false,
    }
}
