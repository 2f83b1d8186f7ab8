//! The floating formats that approximate instructions compute in.

#[derive(Debug, Clone, Copy)]
pub struct Format {
    pub exponent: u32,
    pub mantissa: u32,
}

impl Format {
    /// The format of an instruction's last type.
    pub fn of(name: &str) -> Format {
        let (exponent, mantissa) = match name.rsplit('.').next() {
            Some("f16" | "f16x2") => (5, 10),
            Some("bf16" | "bf16x2") => (8, 7),
            Some("f32") => (8, 23),
            Some("f64") => (11, 52),
            other => panic!("no format for {other:?}"),
        };
        Format { exponent, mantissa }
    }

    fn width(self) -> u32 {
        self.exponent + self.mantissa + 1
    }

    /// The values packed in a register.
    pub fn parts(self, register: u32, bits: u64) -> impl Iterator<Item = u64> {
        let width = self.width();
        (0..register / width).map(move |i| bits >> (i * width) & (u64::MAX >> (64 - width)))
    }

    /// A value; infinity as the number after the largest, for what just overflows. None for NaN.
    pub fn value(self, bits: u64) -> Option<f64> {
        let field = bits >> self.mantissa & ((1 << self.exponent) - 1);
        let fraction = bits & ((1 << self.mantissa) - 1);
        if field == (1 << self.exponent) - 1 && fraction != 0 {
            return None;
        }
        let hidden = if field == 0 { 0 } else { 1 << self.mantissa };
        let magnitude = (hidden + fraction) as f64 * self.scale(field).exp2();
        let negative = bits >> (self.width() - 1) & 1 != 0;
        Some(if negative { -magnitude } else { magnitude })
    }

    /// The power of two that a last place is worth.
    fn scale(self, field: u64) -> f64 {
        let bias = (1i32 << (self.exponent - 1)) - 1;
        f64::from(field.max(1) as i32 - bias - self.mantissa as i32)
    }

    /// What a last place is worth in the binade of `x`.
    pub fn last_place(self, x: f64) -> f64 {
        let smallest = self.scale(1);
        let exponent = ((x.to_bits() >> 52 & 0x7ff) as i32 - 1023) as f64;
        (exponent - f64::from(self.mantissa)).max(smallest).exp2()
    }

    /// The smallest normal number.
    pub fn smallest_normal(self) -> f64 {
        (self.scale(1) + f64::from(self.mantissa)).exp2()
    }

    /// The first power of two that is too large.
    pub fn overflow(self) -> f64 {
        f64::from(1u32 << (self.exponent - 1)).exp2()
    }

    /// Steps from one value to the next between two.
    pub fn places_between(self, x: u64, y: u64) -> u64 {
        let order = |bits: u64| {
            let sign = 1 << (self.width() - 1);
            let magnitude = (bits & (sign - 1)) as i128;
            if bits & sign != 0 {
                -magnitude
            } else {
                magnitude
            }
        };
        (order(x) - order(y)).unsigned_abs() as u64
    }
}
