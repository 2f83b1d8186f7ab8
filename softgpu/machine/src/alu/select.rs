//! selp, slct, testp, copysign: choosing and classifying values.
//!
//! selp takes a where the predicate c holds, else b. slct takes a where c >= 0 (a NaN c is not).
//! testp asks for a float's class. copysign gives b the sign of a.

use super::form::{Form, Table, Type, Unsupported};
use super::lanes::{binary, plain, ternary, unary};
use super::{Alu, Eval, Kind};

pub fn resolve(form: &mut Form) -> Result<Alu, Unsupported> {
    match form.opcode {
        "selp" => {
            let kind = value_type(form)?.kind();
            let eval = ternary(|a: u64, b: u64, c: bool| if c { a } else { b });
            Ok(plain(kind, &[kind, kind, Kind::Pred], eval))
        }
        "slct" => {
            let flush = form.take("ftz");
            let (ty, by) = form.two_types()?;
            if !is_value(ty) {
                return Err(form.unsupported("no such type"));
            }
            let eval: Eval = match by {
                Type::Int {
                    bits: 32,
                    signed: true,
                    ..
                } if !flush => ternary(|a: u64, b: u64, c: i32| if c >= 0 { a } else { b }),
                // A flushed negative subnormal is -0, which is not below zero.
                Type::F32 if flush => ternary(|a: u64, b: u64, c: f32| {
                    if super::floating::flush32(c) >= 0.0 {
                        a
                    } else {
                        b
                    }
                }),
                Type::F32 => ternary(|a: u64, b: u64, c: f32| if c >= 0.0 { a } else { b }),
                _ => return Err(form.unsupported("selects by s32 or f32")),
            };
            Ok(plain(ty.kind(), &[ty.kind(), ty.kind(), by.kind()], eval))
        }
        "testp" => test_property(form),
        _ => {
            let ty = form.one_type()?;
            let eval: Eval = match ty {
                Type::F32 => binary(|a: u32, b: u32| a & 1 << 31 | b & !(1 << 31)),
                Type::F64 => binary(|a: u64, b: u64| a & 1 << 63 | b & !(1 << 63)),
                _ => return Err(form.unsupported("needs f32 or f64")),
            };
            Ok(plain(ty.kind(), &[ty.kind(); 2], eval))
        }
    }
}

fn is_value(ty: Type) -> bool {
    matches!(
        ty,
        Type::Int {
            bits: 16 | 32 | 64,
            ..
        } | Type::F32
            | Type::F64
    )
}

fn value_type(form: &mut Form) -> Result<Type, Unsupported> {
    let ty = form.one_type()?;
    if is_value(ty) {
        Ok(ty)
    } else {
        Err(form.unsupported("no such type"))
    }
}

#[derive(Debug, Clone, Copy)]
enum Class {
    Finite,
    Infinite,
    Number,
    NotANumber,
    Normal,
    Subnormal,
}

fn test_property(form: &mut Form) -> Result<Alu, Unsupported> {
    const CLASSES: Table<Class> = &[
        ("finite", Class::Finite),
        ("infinite", Class::Infinite),
        ("number", Class::Number),
        ("notanumber", Class::NotANumber),
        ("normal", Class::Normal),
        ("subnormal", Class::Subnormal),
    ];
    let class = form
        .take_one(CLASSES)
        .ok_or_else(|| form.unsupported("needs a class of floats"))?;
    let ty = form.one_type()?;
    macro_rules! of {
        ($T:ty) => {
            match class {
                Class::Finite => unary(|a: $T| a.is_finite()),
                Class::Infinite => unary(|a: $T| a.is_infinite()),
                Class::Number => unary(|a: $T| !a.is_nan()),
                Class::NotANumber => unary(|a: $T| a.is_nan()),
                // Zero counts as normal.
                Class::Normal => unary(|a: $T| a.is_normal() || a == 0.0),
                Class::Subnormal => unary(|a: $T| a.is_subnormal()),
            }
        };
    }
    let eval: Eval = match ty {
        Type::F32 => of!(f32),
        Type::F64 => of!(f64),
        _ => return Err(form.unsupported("needs f32 or f64")),
    };
    Ok(plain(Kind::Pred, &[ty.kind()], eval))
}
