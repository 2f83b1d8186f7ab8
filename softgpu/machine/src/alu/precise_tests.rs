//! Software floating point against the CPU's own, and against itself between roundings.

use super::form::Rounding;
use super::precise::*;

/// splitmix64, and bits that are often near the interesting places.
struct Source(u64);

impl Source {
    fn bits(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ z >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ z >> 31
    }

    fn double(&mut self) -> u64 {
        let bits = self.bits();
        match bits & 7 {
            // Close exponents, so that sums cancel and carry.
            0..=3 => self.bits() & !(0x7ff << 52) | (1020 + self.bits() % 6) << 52,
            // Subnormal or nearly so.
            4 => self.bits() & !(0x7ff << 52) | (self.bits() % 3) << 52,
            5 => bits & 1 << 63 | (bits >> 3 & 0x7ff) << 52,
            _ => self.bits(),
        }
    }

    fn single(&mut self) -> u64 {
        let bits = self.bits() as u32;
        u64::from(match self.bits() & 7 {
            0..=3 => bits & !(0xff << 23) | (124 + self.bits() as u32 % 6) << 23,
            4 => bits & !(0xff << 23) | (self.bits() as u32 % 3) << 23,
            _ => bits,
        })
    }
}

fn same64(ours: u64, native: f64) {
    let ours = f64::from_bits(ours);
    assert!(
        ours.to_bits() == native.to_bits() || ours.is_nan() && native.is_nan(),
        "{ours:e} {native:e}"
    );
}

fn same32(ours: u64, native: f32) {
    let ours = f32::from_bits(ours as u32);
    assert!(
        ours.to_bits() == native.to_bits() || ours.is_nan() && native.is_nan(),
        "{ours:e} {native:e}"
    );
}

const NEAREST: Rounding = Rounding::NearestEven;

#[test]
fn nearest_is_what_the_cpu_computes() {
    let mut source = Source(1);
    for _ in 0..200_000 {
        let (a, b, c) = (source.double(), source.double(), source.double());
        let [x, y, z] = [a, b, c].map(|v| F64.decode(v));
        let [p, q, r] = [a, b, c].map(f64::from_bits);
        same64(F64.encode(add(x, y, NEAREST), NEAREST), p + q);
        same64(F64.encode(multiply(x, y), NEAREST), p * q);
        same64(F64.encode(divide(x, y), NEAREST), p / q);
        same64(F64.encode(square_root(x), NEAREST), p.sqrt());
        same64(
            F64.encode(add(multiply(x, y), z, NEAREST), NEAREST),
            p.mul_add(q, r),
        );
        same32(F32.encode(x, NEAREST), p as f32);
        let (a, b, c) = (source.single(), source.single(), source.single());
        let [x, y, z] = [a, b, c].map(|v| F32.decode(v));
        let [p, q, r] = [a, b, c].map(|v| f32::from_bits(v as u32));
        same32(F32.encode(add(x, y, NEAREST), NEAREST), p + q);
        same32(F32.encode(multiply(x, y), NEAREST), p * q);
        same32(F32.encode(divide(x, y), NEAREST), p / q);
        same32(F32.encode(square_root(x), NEAREST), p.sqrt());
        same32(
            F32.encode(add(multiply(x, y), z, NEAREST), NEAREST),
            p.mul_add(q, r),
        );
    }
}

#[test]
fn directed_roundings_enclose_the_nearest() {
    let mut source = Source(2);
    for _ in 0..100_000 {
        let [x, y] = [source.single(), source.single()].map(|v| F32.decode(v));
        let product = multiply(x, y);
        let round = |rounding| f32::from_bits(F32.encode(product, rounding) as u32);
        let (down, up, zero, nearest) = (
            round(Rounding::Down),
            round(Rounding::Up),
            round(Rounding::Zero),
            round(NEAREST),
        );
        if nearest.is_nan() {
            continue;
        }
        assert!(down <= nearest && nearest <= up);
        assert!(down == up || down.next_up() == up);
        assert_eq!(zero, if nearest.is_sign_negative() { up } else { down });
    }
}

#[test]
fn every_small_float_survives_the_way_through_a_wider_one() {
    for format in [F16, BF16, E5M2, E4M3] {
        let width = format.exponent + format.mantissa + 1;
        for bits in 0..1u64 << width {
            let value = format.decode(bits);
            if value == Value::Nan {
                assert!(format.is_nan(bits));
                continue;
            }
            let wide = F64.encode(value, Rounding::Zero);
            for rounding in [
                NEAREST,
                Rounding::Zero,
                Rounding::Down,
                Rounding::Up,
                Rounding::NearestAway,
            ] {
                assert_eq!(
                    format.encode(F64.decode(wide), rounding),
                    bits,
                    "{format:?}"
                );
            }
        }
    }
}

#[test]
fn whole_numbers_round_as_the_cpu_does() {
    let mut source = Source(3);
    for _ in 0..100_000 {
        let bits = source.double();
        let x = f64::from_bits(bits);
        let value = F64.decode(bits);
        let round = |rounding| F64.encode(to_integral(value, rounding), rounding);
        same64(round(NEAREST), x.round_ties_even());
        same64(round(Rounding::Zero), x.trunc());
        same64(round(Rounding::Down), x.floor());
        same64(round(Rounding::Up), x.ceil());
    }
}
