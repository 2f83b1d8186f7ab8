//! Every form that resolves keeps the contract of [`Eval`]: no panic for any bits, and results
//! that fit their register. Forms are found by trying words, not by a list that could fall behind.

use super::{Kind, Lanes, WARP, resolve};

const OPCODES: &str = "add sub mul mad fma div rcp sqrt rsqrt abs neg min max addc subc madc rem \
    mul24 mad24 sad sin cos ex2 lg2 tanh popc clz bfind fns brev bfe bfi szext bmsk and or xor not \
    cnot lop3 shf shl shr prmt mov dp4a dp2a setp set selp slct testp copysign cvt vadd vsub \
    vabsdiff vmin vmax vshl vshr vmad vset vadd2 vsub4 vavrg2 vabsdiff4 vmin2 vmax4 vset2";

const FLAGS: &str = "cc lo hi wide sat ftz rn rz rm rp rna rni rzi rmi rpi approx full relu NaN \
    satfinite shiftamt clamp wrap l r f4e b4e rc8 ecl ecr rc16 eq ne lt le gt ge ls hs equ neu num \
    nan and or xor finite normal pack add shr7 min max";

const TYPES: &str = "pred b16 b32 b64 u8 s8 u16 s16 u32 s32 u64 s64 f16 bf16 f16x2 bf16x2 tf32 \
    f32 f64 f32x2 u16x2 s16x2 e4m3x2 e5m2x2 u4 s2";

fn bits(kind: Kind) -> u32 {
    match kind {
        Kind::Pred => 1,
        Kind::Int { bits, .. } => u32::from(bits),
        Kind::F16 | Kind::BF16 => 16,
        Kind::F16x2 | Kind::BF16x2 | Kind::F32 => 32,
        Kind::F64 | Kind::F32x2 => 64,
    }
}

fn cut(kind: Kind, value: u64) -> u64 {
    value & (u64::MAX >> (64 - bits(kind)))
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
    let split = |words: &str| {
        words
            .split_whitespace()
            .map(str::to_string)
            .collect::<Vec<_>>()
    };
    let (flags, types) = (split(FLAGS), split(TYPES));
    let mut flag_sets: Vec<Vec<String>> = vec![Vec::new()];
    flag_sets.extend(flags.iter().map(|f| vec![f.clone()]));
    for (i, a) in flags.iter().enumerate() {
        flag_sets.extend(flags[i..].iter().map(|b| vec![a.clone(), b.clone()]));
    }
    let one_type: Vec<Vec<String>> = types.iter().map(|t| vec![t.clone()]).collect();
    let mut two_types = Vec::new();
    for a in &types {
        two_types.extend(types.iter().map(|b| vec![a.clone(), b.clone()]));
    }
    let mut words32 = Vec::new();
    for i in 0..8 {
        let word = |bit: u32| if i >> bit & 1 == 0 { "u32" } else { "s32" }.to_string();
        words32.push(vec![word(0), word(1), word(2)]);
        words32.push(vec![word(0), word(1)]);
    }
    let mut state = 7;
    let mut resolved = 0;
    for opcode in OPCODES.split_whitespace() {
        let before = resolved;
        let type_sets = match opcode {
            "cvt" | "set" | "slct" => &two_types,
            "dp4a" | "dp2a" => &words32,
            _ if opcode.starts_with('v') => &words32,
            _ => &one_type,
        };
        for types in type_sets {
            for flags in &flag_sets {
                let words: Vec<String> = flags.iter().chain(types).cloned().collect();
                let Ok(alu) = resolve(opcode, &words) else {
                    continue;
                };
                resolved += 1;
                let carry = alu.carry_in.then_some(&Kind::Pred);
                let operands = alu.src.iter().chain(carry).map(Some);
                let mut operands = operands.chain(std::iter::repeat(None));
                let src: [Lanes; 4] =
                    std::array::from_fn(|_| lanes(operands.next().flatten(), &mut state));
                let mut out = [[0; WARP]; 2];
                (alu.eval)(&mut out, [&src[0], &src[1], &src[2], &src[3]]);
                let second = alu.dst2.or(alu.carry_out.then_some(Kind::Pred));
                for (kind, values) in [Some(alu.dst), second].into_iter().zip(out) {
                    let Some(kind) = kind else { continue };
                    for value in values {
                        assert_eq!(
                            cut(kind, value),
                            value,
                            "{opcode} {words:?} gives {value:x}"
                        );
                    }
                }
            }
        }
        assert!(resolved > before, "nothing of {opcode} resolves");
    }
    assert!(resolved > 2000, "only {resolved} forms");
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
