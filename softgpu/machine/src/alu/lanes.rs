//! Loops over the 32 lanes: turns a function of one lane's operands into an [`Eval`].
//!
//! The typed builders (`unary`, `binary`, `ternary`) inline the function into a plain loop, twice:
//! once for the baseline CPU and once for AVX2 with FMA, chosen when the instruction is resolved.

use super::{Alu, Eval, Kind, Lanes, WARP};

/// A lane's value of one type, to and from zero-extended bits.
pub trait Lane: Copy {
    fn of(bits: u64) -> Self;
    fn bits(self) -> u64;
}

macro_rules! integer_lane {
    ($($ty:ty as $unsigned:ty),*) => {$(
        impl Lane for $ty {
            #[inline(always)]
            fn of(bits: u64) -> Self {
                bits as $ty
            }
            #[inline(always)]
            fn bits(self) -> u64 {
                self as $unsigned as u64
            }
        }
    )*};
}
integer_lane!(
    u8 as u8, i8 as u8, u16 as u16, i16 as u16, u32 as u32, i32 as u32, u64 as u64, i64 as u64
);

impl Lane for f32 {
    #[inline(always)]
    fn of(bits: u64) -> Self {
        f32::from_bits(bits as u32)
    }
    #[inline(always)]
    fn bits(self) -> u64 {
        self.to_bits() as u64
    }
}

impl Lane for f64 {
    #[inline(always)]
    fn of(bits: u64) -> Self {
        f64::from_bits(bits)
    }
    #[inline(always)]
    fn bits(self) -> u64 {
        self.to_bits()
    }
}

impl Lane for bool {
    #[inline(always)]
    fn of(bits: u64) -> Self {
        bits & 1 != 0
    }
    #[inline(always)]
    fn bits(self) -> u64 {
        self as u64
    }
}

/// Whether the wide loops can be used on this CPU.
fn wide() -> bool {
    #[cfg(target_arch = "x86_64")]
    {
        std::is_x86_feature_detected!("avx2") && std::is_x86_feature_detected!("fma")
    }
    #[cfg(not(target_arch = "x86_64"))]
    {
        false
    }
}

macro_rules! builder {
    ($name:ident, $plain:ident, $wide:ident, $($slot:tt $ty:ident),+) => {
        #[inline(always)]
        fn $plain<$($ty: Lane,)+ R: Lane>(
            f: &impl Fn($($ty),+) -> R,
            out: &mut [Lanes; 2],
            src: [&Lanes; 4],
        ) {
            let out = &mut out[0];
            for i in 0..WARP {
                out[i] = f($($ty::of(src[$slot][i])),+).bits();
            }
        }

        #[cfg(target_arch = "x86_64")]
        #[target_feature(enable = "avx2,fma")]
        fn $wide<$($ty: Lane,)+ R: Lane>(
            f: &impl Fn($($ty),+) -> R,
            out: &mut [Lanes; 2],
            src: [&Lanes; 4],
        ) {
            $plain(f, out, src);
        }

        /// An instruction that computes each lane by `f`.
        pub fn $name<$($ty: Lane + 'static,)+ R: Lane + 'static>(
            f: impl Fn($($ty),+) -> R + Send + Sync + 'static,
        ) -> Eval {
            #[cfg(target_arch = "x86_64")]
            if wide() {
                return Box::leak(Box::new(move |out: &mut [Lanes; 2], src: [&Lanes; 4]| {
                    // SAFETY: `wide` found the CPU to have these features.
                    unsafe { $wide(&f, out, src) }
                }));
            }
            Box::leak(Box::new(move |out: &mut [Lanes; 2], src: [&Lanes; 4]| {
                $plain(&f, out, src);
            }))
        }
    };
}
builder!(unary, unary_plain, unary_wide, 0 A);
builder!(binary, binary_plain, binary_wide, 0 A, 1 B);
builder!(ternary, ternary_plain, ternary_wide, 0 A, 1 B, 2 C);
builder!(quaternary, quaternary_plain, quaternary_wide, 0 A, 1 B, 2 C, 3 D);

#[inline(always)]
fn comparison_plain<A: Lane>(f: &impl Fn(A, A) -> bool, out: &mut [Lanes; 2], src: [&Lanes; 4]) {
    let [first, second] = out;
    for i in 0..WARP {
        let holds = f(A::of(src[0][i]), A::of(src[1][i])) as u64;
        first[i] = holds;
        second[i] = holds ^ 1;
    }
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,fma")]
fn comparison_wide<A: Lane>(f: &impl Fn(A, A) -> bool, out: &mut [Lanes; 2], src: [&Lanes; 4]) {
    comparison_plain(f, out, src);
}

/// A comparison: whether it holds, and whether it does not.
pub fn comparison<A: Lane + 'static>(f: impl Fn(A, A) -> bool + Send + Sync + 'static) -> Eval {
    #[cfg(target_arch = "x86_64")]
    if wide() {
        return Box::leak(Box::new(move |out: &mut [Lanes; 2], src: [&Lanes; 4]| {
            // SAFETY: `wide` found the CPU to have these features.
            unsafe { comparison_wide(&f, out, src) }
        }));
    }
    Box::leak(Box::new(move |out: &mut [Lanes; 2], src: [&Lanes; 4]| {
        comparison_plain(&f, out, src);
    }))
}

/// An instruction with two results, or one too rare to want loops of its own.
pub fn general(f: impl Fn([u64; 4]) -> (u64, u64) + Send + Sync + 'static) -> Eval {
    Box::leak(Box::new(move |out: &mut [Lanes; 2], src: [&Lanes; 4]| {
        for i in 0..WARP {
            let (first, second) = f([src[0][i], src[1][i], src[2][i], src[3][i]]);
            out[0][i] = first;
            out[1][i] = second;
        }
    }))
}

/// A rare instruction with one result.
pub fn single(f: impl Fn([u64; 4]) -> u64 + Send + Sync + 'static) -> Eval {
    general(move |s| (f(s), 0))
}

/// Keeps a list of operand kinds; called once an instruction form.
pub fn kinds(list: &[Kind]) -> &'static [Kind] {
    Box::leak(list.to_vec().into_boxed_slice())
}

/// An instruction without carry and with one destination.
pub fn plain(dst: Kind, src: &[Kind], eval: Eval) -> Alu {
    Alu {
        dst,
        dst2: None,
        src: kinds(src),
        carry_in: false,
        carry_out: false,
        eval,
    }
}
