//! Arithmetic. Where PTX leaves open what BPF defines (division by zero, shifts by too much), the
//! answer is selected; constants need no such care.

use super::function::Translator;
use crate::instruction::{Alu, Operation, Order, Source, Wide};
use crate::map::{DESCRIPTOR_BYTES, DESCRIPTORS};

impl Translator<'_> {
    /// A source as a 64-bit operand.
    pub fn operand(&self, source: Source) -> String {
        match source {
            Source::Register(register) => format!("%r{register}"),
            Source::Immediate(value) => value.to_string(),
        }
    }

    pub fn half_operand(&mut self, source: Source) -> String {
        match source {
            Source::Register(register) => self.emit.low(&format!("%r{register}")),
            Source::Immediate(value) => value.to_string(),
        }
    }

    pub fn arithmetic(&mut self, operation: Operation) {
        match operation {
            Operation::Alu {
                operator,
                wide,
                dst,
                src,
            } => self.alu(operator, wide, dst, src),
            Operation::MoveSigned {
                wide,
                bits,
                dst,
                src,
            } => self.move_signed(wide, bits, dst, src),
            Operation::Negate { wide: true, dst } => {
                self.emit.line(format!("neg.s64 %r{dst}, %r{dst}"));
            }
            Operation::Negate { wide: false, dst } => {
                let half = self.emit.low(&format!("%r{dst}"));
                let half = self.emit.set_half("neg.s32", &half);
                self.emit.line(format!("cvt.u64.u32 %r{dst}, {half}"));
            }
            Operation::Swap { order, bits, dst } => self.swap(order, bits, dst),
            Operation::Constant { dst, value } => self.constant(dst, value),
            _ => {}
        }
    }

    fn constant(&mut self, dst: u8, value: Wide) {
        match value {
            Wide::Number(value) => self.emit.line(format!("mov.b64 %r{dst}, {value:#x}")),
            Wide::Map(map) => {
                let address = self.descriptor(map);
                self.emit.line(format!("mov.b64 %r{dst}, {address}"));
            }
            Wide::MapValue { map, offset } => {
                let base = self.map_base(map);
                self.emit.line(format!("add.s64 %r{dst}, {base}, {offset}"));
            }
        }
    }

    /// The offset of a map's descriptor.
    pub fn descriptor_offset(&mut self, map: usize) -> usize {
        self.used.maps.insert(map);
        (self.options.first_map + map) * DESCRIPTOR_BYTES
    }

    /// A register with the generic address of a map's descriptor.
    pub fn descriptor(&mut self, map: usize) -> String {
        let offset = self.descriptor_offset(map);
        let address = self.emit.set("mov.u64", DESCRIPTORS);
        let address = self.emit.set("cvta.global.u64", &address);
        self.emit.set("add.s64", &format!("{address}, {offset}"))
    }

    /// A register with the address of a map's first value.
    pub fn map_base(&mut self, map: usize) -> String {
        self.descriptor_word(map, crate::map::descriptor::BASE)
    }

    pub fn descriptor_word(&mut self, map: usize, field: usize) -> String {
        let offset = self.descriptor_offset(map) + field;
        self.emit.counts.global_loads += 1;
        self.emit
            .set("ld.global.u64", &format!("[{DESCRIPTORS}+{offset}]"))
    }

    fn alu(&mut self, operator: Alu, wide: bool, dst: u8, src: Source) {
        if operator == Alu::Move {
            return self.assign(wide, dst, src);
        }
        if operator == Alu::Xor && !wide {
            return self.narrow_xor(dst, src);
        }
        let (left, right) = if wide {
            (format!("%r{dst}"), self.operand(src))
        } else {
            (self.emit.low(&format!("%r{dst}")), self.half_operand(src))
        };
        let bits = if wide { 64 } else { 32 };
        let result = self.binary(operator, bits, &left, &right, src);
        if wide {
            self.emit.line(format!("mov.b64 %r{dst}, {result}"));
        } else {
            self.emit.line(format!("cvt.u64.u32 %r{dst}, {result}"));
        }
    }

    /// In 64 bits, cut off: ptxas 13.0 (-O2 and up) takes a 32-bit exclusive or with -1 of what it
    /// knows to be 0, as a loop's counter is behind the loop, for 0.
    fn narrow_xor(&mut self, dst: u8, src: Source) {
        let right = self.operand(src);
        let wide = self.emit.set("xor.b64", &format!("%r{dst}, {right}"));
        let half = self.emit.low(&wide);
        self.emit.line(format!("cvt.u64.u32 %r{dst}, {half}"));
    }

    fn assign(&mut self, wide: bool, dst: u8, src: Source) {
        match (wide, src) {
            (true, _) => {
                let right = self.operand(src);
                self.emit.line(format!("mov.b64 %r{dst}, {right}"));
            }
            (false, Source::Immediate(value)) => {
                let value = value as u32;
                self.emit.line(format!("mov.b64 %r{dst}, {value}"));
            }
            (false, Source::Register(_)) => {
                let half = self.half_operand(src);
                self.emit.line(format!("cvt.u64.u32 %r{dst}, {half}"));
            }
        }
    }

    /// A new register of either width.
    pub fn fresh(&mut self, bits: u8) -> String {
        if bits == 64 {
            self.emit.word()
        } else {
            self.emit.half()
        }
    }

    fn compute(&mut self, bits: u8, head: &str, operands: &str) -> String {
        let register = self.fresh(bits);
        self.emit.line(format!("{head} {register}, {operands}"));
        register
    }

    fn binary(&mut self, operator: Alu, bits: u8, left: &str, right: &str, src: Source) -> String {
        let plain = |head: &str| format!("{head}{bits}");
        let both = format!("{left}, {right}");
        match operator {
            Alu::Add => self.compute(bits, &plain("add.s"), &both),
            Alu::Sub => self.compute(bits, &plain("sub.s"), &both),
            Alu::Mul => self.compute(bits, &plain("mul.lo.s"), &both),
            Alu::Or => self.compute(bits, &plain("or.b"), &both),
            Alu::And => self.compute(bits, &plain("and.b"), &both),
            Alu::Xor => self.compute(bits, &plain("xor.b"), &both),
            Alu::ShiftLeft => self.shift(&plain("shl.b"), bits, left, src),
            Alu::ShiftRight => self.shift(&plain("shr.u"), bits, left, src),
            Alu::ShiftRightSigned => self.shift(&plain("shr.s"), bits, left, src),
            Alu::Div | Alu::Mod | Alu::SignedDiv | Alu::SignedMod => {
                self.divide(operator, bits, left, right, src)
            }
            Alu::Move => right.to_owned(),
        }
    }

    /// PTX clamps the count, BPF takes it modulo the width.
    fn shift(&mut self, head: &str, bits: u8, left: &str, src: Source) -> String {
        let count = match src {
            Source::Immediate(value) => value.to_string(),
            Source::Register(_) => {
                let count = self.half_operand(src);
                let most = bits - 1;
                self.emit.set_half("and.b32", &format!("{count}, {most}"))
            }
        };
        self.compute(bits, head, &format!("{left}, {count}"))
    }

    /// BPF: x / 0 = 0, x % 0 = x, and the least number divided by -1 is itself.
    fn divide(&mut self, operator: Alu, bits: u8, left: &str, right: &str, src: Source) -> String {
        let signed = matches!(operator, Alu::SignedDiv | Alu::SignedMod);
        let sign = if signed { 's' } else { 'u' };
        let is_division = matches!(operator, Alu::Div | Alu::SignedDiv);
        let head = if is_division { "div" } else { "rem" };
        match src {
            Source::Immediate(-1) if signed => {
                return if is_division {
                    self.compute(bits, &format!("neg.s{bits}"), left)
                } else {
                    self.compute(bits, &format!("mov.b{bits}"), "0")
                };
            }
            Source::Immediate(_) => {
                return self.compute(
                    bits,
                    &format!("{head}.{sign}{bits}"),
                    &format!("{left}, {right}"),
                );
            }
            Source::Register(_) => {}
        }
        let zero = self
            .emit
            .set_predicate(&format!("setp.eq.s{bits}"), &format!("{right}, 0"));
        // Divide by 1 instead of what has no answer.
        let mut divisor = self.compute(
            bits,
            &format!("selp.b{bits}"),
            &format!("1, {right}, {zero}"),
        );
        let mut minus_one = None;
        if signed {
            let minus = self
                .emit
                .set_predicate(&format!("setp.eq.s{bits}"), &format!("{right}, -1"));
            divisor = self.compute(
                bits,
                &format!("selp.b{bits}"),
                &format!("1, {divisor}, {minus}"),
            );
            minus_one = Some(minus);
        }
        let mut result = self.compute(
            bits,
            &format!("{head}.{sign}{bits}"),
            &format!("{left}, {divisor}"),
        );
        if let Some(minus_one) = minus_one
            && is_division
        {
            let negated = self.compute(bits, &format!("neg.s{bits}"), left);
            result = self.compute(
                bits,
                &format!("selp.b{bits}"),
                &format!("{negated}, {result}, {minus_one}"),
            );
        }
        let at_zero = if is_division { "0" } else { left };
        self.compute(
            bits,
            &format!("selp.b{bits}"),
            &format!("{at_zero}, {result}, {zero}"),
        )
    }

    fn move_signed(&mut self, wide: bool, bits: u8, dst: u8, src: u8) {
        if wide {
            self.emit.line(format!("cvt.s64.s{bits} %r{dst}, %r{src}"));
            return;
        }
        let half = self.emit.low(&format!("%r{src}"));
        let half = self.emit.set_half(&format!("cvt.s32.s{bits}"), &half);
        self.emit.line(format!("cvt.u64.u32 %r{dst}, {half}"));
    }

    fn swap(&mut self, order: Order, bits: u8, dst: u8) {
        let register = format!("%r{dst}");
        match (order, bits) {
            (Order::ToLittle, 64) => {}
            (Order::ToLittle, bits) => {
                let mask = (1u64 << bits) - 1;
                self.emit
                    .line(format!("and.b64 {register}, {register}, {mask:#x}"));
            }
            (_, 64) => {
                let (low, high) = (self.emit.half(), self.emit.half());
                self.emit
                    .line(format!("mov.b64 {{{low}, {high}}}, {register}"));
                let low = self.emit.set_half("prmt.b32", &format!("{low}, 0, 0x0123"));
                let high = self
                    .emit
                    .set_half("prmt.b32", &format!("{high}, 0, 0x0123"));
                self.emit
                    .line(format!("mov.b64 {register}, {{{high}, {low}}}"));
            }
            (_, bits) => {
                // Byte 4 is the first of the second operand, which is 0.
                let selector = if bits == 32 { "0x0123" } else { "0x4401" };
                let half = self.emit.low(&register);
                let half = self
                    .emit
                    .set_half("prmt.b32", &format!("{half}, 0, {selector}"));
                self.emit.line(format!("cvt.u64.u32 {register}, {half}"));
            }
        }
    }
}
