//! Every form that resolves keeps the contract of [`Eval`]: no panic for any bits, and results
//! that fit their register.

use super::{Kind, Lanes, WARP, every_form, resolve};

fn cut(kind: Kind, value: u64) -> u64 {
    value & (u64::MAX >> (64 - kind.bits()))
}

/// Edge patterns and random ones, cut to the source's width.
fn lanes(kind: Option<&Kind>, state: &mut u64) -> Lanes {
    let Some(kind) = kind else {
        return [0; WARP];
    };
    std::array::from_fn(|i| {
        *state = state
            .wrapping_mul(6364136223846793005)
            .wrapping_add(1442695040888963407);
        let edges = [
            0,
            1,
            u64::MAX,
            1 << 63,
            0x8000_0000_8000_8000,
            0x7ff0_0000_7f80_7c00,
            0x7fff_ffff_7fff_7fff,
            0xfff0_0001_ff80_fc01,
        ];
        let value = match edges.get(i) {
            Some(edge) => *edge,
            None => *state ^ *state >> 29,
        };
        cut(*kind, value)
    })
}

#[test]
fn results_fit_their_registers() {
    let mut state = 7;
    for (name, alu) in every_form::all() {
        let carry = alu.carry_in.then_some(&Kind::Pred);
        let operands = alu.src.iter().chain(carry).map(Some);
        let mut operands = operands.chain(std::iter::repeat(None));
        let src: [Lanes; 4] = std::array::from_fn(|_| lanes(operands.next().flatten(), &mut state));
        let mut out = [[0; WARP]; 2];
        (alu.eval)(&mut out, [&src[0], &src[1], &src[2], &src[3]]);
        let second = alu.dst2.or(alu.carry_out.then_some(Kind::Pred));
        for (kind, values) in [Some(alu.dst), second].into_iter().zip(out) {
            let Some(kind) = kind else { continue };
            for value in values {
                assert_eq!(cut(kind, value), value, "{name:?} gives {value:x}");
            }
        }
    }
}

#[test]
fn what_is_not_understood_is_refused() {
    for name in [
        "add.f99",
        "add",
        "add.rn.s32",
        "add.sat.u32",
        "add.f32.f32",
        "mul.u32",
        "fma.f32",
        "setp.lt",
        "setp.lo.s32",
        "cvt.f16.f32",
        "cvt.rn.s32.f32",
        "shl.u32",
        "frobnicate.u32",
        "min.NaN.f64",
        "div.approx.f64",
        "sin.f32",
        "add.f32.unheard",
        "vadd.u32.u32",
        "vadd.u32.u32.u32.a:b0",
        "vmad.u32.u32.u32.min",
        "vmad.u32.u32.u32.shr7.shr15",
        "vadd2.u32.u32.u32.min",
        "vshl.u32.u32.u32",
        "vshl.u32.u32.u32.sat.clamp.min",
        "vshr.s32.s32.u32.sat.wrap.max",
    ] {
        let mut words = name.split('.').map(str::to_string);
        let opcode = words.next().unwrap_or_default();
        let refused = resolve(&opcode, &words.collect::<Vec<_>>()).expect_err(name);
        assert!(refused.message.starts_with(&opcode), "{refused}");
    }
}
