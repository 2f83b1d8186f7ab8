//! Unwind information: how the frame of a place in the code is taken down, from `.eh_frame` by way
//! of `.eh_frame_hdr`. No memory is taken; bounded in time by the length of one function's entry.

use super::image::{Image, Reader};

/// What is followed from frame to frame: rbx, rbp, r12 to r15, and last the return address.
pub const TRACKED: usize = 7;
pub const RETURN: usize = 6;

/// The place of a register, by DWARF's number, among those that are followed.
pub fn tracked(register: u64) -> Option<usize> {
    match register {
        3 => Some(0),
        6 => Some(1),
        12..=15 => Some(register as usize - 10),
        16 => Some(RETURN),
        _ => None,
    }
}

pub const RSP: u64 = 7;

/// Where a register's value of the caller is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum RegisterRule {
    Same,
    Undefined,
    /// In memory, so far from the frame's address.
    At(i32),
    /// So far from the frame's address, itself.
    Is(i32),
    Register(u8),
    /// In memory, where the expression says.
    AtExpression(Expression),
    IsExpression(Expression),
}

/// Bytes of an expression, from the image's first on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Expression {
    pub at: u32,
    pub bytes: u16,
}

/// The canonical frame address: the caller's stack pointer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Cfa {
    Register { register: u8, offset: i32 },
    Expression(Expression),
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Rule {
    pub cfa: Cfa,
    pub places: [RegisterRule; TRACKED],
    /// The caller was interrupted, it did not call.
    pub signal: bool,
}

/// An object's unwind information.
#[derive(Clone, Copy)]
pub struct Unwind {
    pub image: Image,
    /// Address of `.eh_frame_hdr`.
    pub header: u64,
}

/// A table of pairs of 32 bits, relative to the header: what every linker writes.
const TABLE: u8 = 0x3b;
const REMEMBERED: usize = 6;

impl Unwind {
    /// How to leave the frame at an address of the object (before its bias is added).
    pub fn rule(&self, address: u64) -> Option<Rule> {
        let entry = Entry::read(&self.image, self.find(address)?)?;
        if address.wrapping_sub(entry.begin) >= entry.range {
            return None;
        }
        let common = &entry.common;
        let start = Rule {
            cfa: Cfa::Register {
                register: RSP as u8,
                offset: 8,
            },
            places: [RegisterRule::Same; TRACKED],
            signal: common.signal,
        };
        let mut run = Run {
            image: &self.image,
            common,
            rule: start,
            initial: start,
            remembered: [start; REMEMBERED],
            depth: 0,
            place: entry.begin,
            target: address,
        };
        run.execute(self.image.read(common.instructions), common.end)?;
        run.initial = run.rule;
        run.execute(self.image.read(entry.instructions), entry.end)?;
        Some(run.rule)
    }

    /// The address of the entry (FDE) with the highest beginning at or below the address.
    fn find(&self, address: u64) -> Option<u64> {
        let mut reader = self.image.read(self.header);
        if reader.u8()? != 1 {
            return None;
        }
        let (frames, count, table) = (reader.u8()?, reader.u8()?, reader.u8()?);
        if table != TABLE {
            return None;
        }
        reader.number(frames)?;
        let count = reader.number(count)?;
        let row = |index: u64| {
            let mut reader = self.image.read(reader.address.checked_add(index * 8)?);
            let begin = self.header.wrapping_add(reader.u32()? as i32 as u64);
            Some((begin, self.header.wrapping_add(reader.u32()? as i32 as u64)))
        };
        let (mut low, mut high) = (0, count.min(u32::MAX.into()));
        while high - low > 1 {
            let middle = low + (high - low) / 2;
            if row(middle)?.0 <= address {
                low = middle;
            } else {
                high = middle;
            }
        }
        let (begin, entry) = row(low)?;
        (begin <= address && count > 0).then_some(entry)
    }
}

/// What many entries share (a CIE).
struct Common {
    code_factor: u64,
    data_factor: i64,
    encoding: u8,
    augmented: bool,
    signal: bool,
    instructions: u64,
    end: u64,
}

/// One function's (an FDE).
struct Entry {
    common: Common,
    begin: u64,
    range: u64,
    instructions: u64,
    end: u64,
}

impl Entry {
    fn read(image: &Image, address: u64) -> Option<Entry> {
        let mut reader = image.read(address);
        let end = end(&mut reader)?;
        let own = reader.address;
        let back: u64 = reader.u32()?.into();
        if back == 0 {
            return None;
        }
        let common = Common::read(image, own.checked_sub(back)?)?;
        let begin = reader.encoded(common.encoding, 0)?;
        let range = reader.number(common.encoding)?;
        if common.augmented {
            let bytes = reader.unsigned()?;
            reader.skip(bytes)?;
        }
        Some(Entry {
            common,
            begin,
            range,
            instructions: reader.address,
            end,
        })
    }
}

impl Common {
    fn read(image: &Image, address: u64) -> Option<Common> {
        let mut reader = image.read(address);
        let end = end(&mut reader)?;
        if reader.u32()? != 0 {
            return None;
        }
        let version = reader.u8()?;
        if version != 1 && version != 3 {
            return None;
        }
        let mut letters = reader;
        while reader.u8()? != 0 {}
        let code_factor = reader.unsigned()?;
        let data_factor = reader.signed()?;
        let returns = if version == 1 {
            reader.u8()?.into()
        } else {
            reader.unsigned()?
        };
        if returns != 16 {
            return None;
        }
        let mut common = Common {
            code_factor,
            data_factor,
            encoding: 0,
            augmented: false,
            signal: false,
            instructions: 0,
            end,
        };
        loop {
            match letters.u8()? {
                0 => break,
                b'z' => {
                    common.augmented = true;
                    let bytes = reader.unsigned()?;
                    common.instructions = reader.address.checked_add(bytes)?;
                }
                b'R' => common.encoding = reader.u8()?,
                b'P' => {
                    let encoding = reader.u8()?;
                    reader.number(encoding)?;
                }
                b'L' => {
                    reader.u8()?;
                }
                b'S' => common.signal = true,
                _ if common.augmented => {}
                _ => return None,
            }
        }
        if !common.augmented {
            common.instructions = reader.address;
        }
        Some(common)
    }
}

/// Reads a length; the address where what has it ends.
fn end(reader: &mut Reader<'_>) -> Option<u64> {
    let length = reader.u32()?;
    if length == 0 || length == u32::MAX {
        return None;
    }
    reader.address.checked_add(length.into())
}

/// Carries instructions out, up to the row of an address.
struct Run<'a> {
    image: &'a Image,
    common: &'a Common,
    rule: Rule,
    initial: Rule,
    remembered: [Rule; REMEMBERED],
    depth: usize,
    place: u64,
    target: u64,
}

impl Run<'_> {
    fn execute(&mut self, mut reader: Reader<'_>, end: u64) -> Option<()> {
        while reader.address < end {
            let byte = reader.u8()?;
            let low = u64::from(byte & 0x3f);
            let delta: u64 = match byte >> 6 {
                1 => low,
                2 => {
                    let offset = reader.unsigned()?;
                    self.set(low, self.at(offset as i64)?);
                    continue;
                }
                3 => {
                    self.restore(low);
                    continue;
                }
                _ => match byte {
                    0x02 => reader.u8()?.into(),
                    0x03 => reader.u16()?.into(),
                    0x04 => reader.u32()?.into(),
                    _ => {
                        self.one(byte, &mut reader)?;
                        continue;
                    }
                },
            };
            let next = self
                .place
                .wrapping_add(delta.wrapping_mul(self.common.code_factor));
            if next > self.target {
                return Some(());
            }
            self.place = next;
        }
        Some(())
    }

    fn one(&mut self, byte: u8, reader: &mut Reader<'_>) -> Option<()> {
        match byte {
            0x00 => {}
            0x01 => self.place = reader.encoded(self.common.encoding, 0)?,
            0x05 => {
                let (register, offset) = (reader.unsigned()?, reader.unsigned()?);
                self.set(register, self.at(offset as i64)?);
            }
            0x06 => {
                let register = reader.unsigned()?;
                self.restore(register);
            }
            0x07 => self.set(reader.unsigned()?, RegisterRule::Undefined),
            0x08 => self.set(reader.unsigned()?, RegisterRule::Same),
            0x09 => {
                let (register, other) = (reader.unsigned()?, reader.unsigned()?);
                self.set(register, RegisterRule::Register(u8::try_from(other).ok()?));
            }
            0x0a => {
                *self.remembered.get_mut(self.depth)? = self.rule;
                self.depth += 1;
            }
            0x0b => {
                self.depth = self.depth.checked_sub(1)?;
                let signal = self.rule.signal;
                self.rule = *self.remembered.get(self.depth)?;
                self.rule.signal = signal;
            }
            0x0c => {
                let (register, offset) = (reader.unsigned()?, reader.unsigned()? as i64);
                self.set_cfa(register, offset)?;
            }
            0x0d => {
                let register = reader.unsigned()?;
                let Cfa::Register { offset, .. } = self.rule.cfa else {
                    return None;
                };
                self.set_cfa(register, offset.into())?;
            }
            0x0e => {
                let offset = reader.unsigned()? as i64;
                self.move_cfa(offset)?;
            }
            0x0f => self.rule.cfa = Cfa::Expression(self.expression(reader)?),
            0x10 => {
                let register = reader.unsigned()?;
                let expression = self.expression(reader)?;
                self.set(register, RegisterRule::AtExpression(expression));
            }
            0x11 => {
                let (register, offset) = (reader.unsigned()?, reader.signed()?);
                self.set(register, self.at(offset)?);
            }
            0x12 => {
                let (register, offset) = (reader.unsigned()?, reader.signed()?);
                self.set_cfa(register, offset.checked_mul(self.common.data_factor)?)?;
            }
            0x13 => {
                let offset = reader.signed()?.checked_mul(self.common.data_factor)?;
                self.move_cfa(offset)?;
            }
            0x14 | 0x15 => {
                let register = reader.unsigned()?;
                let offset = if byte == 0x14 {
                    reader.unsigned()? as i64
                } else {
                    reader.signed()?
                };
                let offset = offset.checked_mul(self.common.data_factor)?;
                self.set(register, RegisterRule::Is(i32::try_from(offset).ok()?));
            }
            0x16 => {
                let register = reader.unsigned()?;
                let expression = self.expression(reader)?;
                self.set(register, RegisterRule::IsExpression(expression));
            }
            // DW_CFA_GNU_args_size
            0x2e => {
                reader.unsigned()?;
            }
            _ => return None,
        }
        Some(())
    }

    fn at(&self, offset: i64) -> Option<RegisterRule> {
        let offset = offset.checked_mul(self.common.data_factor)?;
        Some(RegisterRule::At(i32::try_from(offset).ok()?))
    }

    fn set(&mut self, register: u64, place: RegisterRule) {
        if let Some(slot) = tracked(register).and_then(|at| self.rule.places.get_mut(at)) {
            *slot = place;
        }
    }

    fn restore(&mut self, register: u64) {
        if let Some(at) = tracked(register)
            && let (Some(slot), Some(initial)) =
                (self.rule.places.get_mut(at), self.initial.places.get(at))
        {
            *slot = *initial;
        }
    }

    fn set_cfa(&mut self, register: u64, offset: i64) -> Option<()> {
        self.rule.cfa = Cfa::Register {
            register: u8::try_from(register).ok()?,
            offset: i32::try_from(offset).ok()?,
        };
        Some(())
    }

    fn move_cfa(&mut self, offset: i64) -> Option<()> {
        let Cfa::Register { register, .. } = self.rule.cfa else {
            return None;
        };
        self.set_cfa(register.into(), offset)
    }

    fn expression(&self, reader: &mut Reader<'_>) -> Option<Expression> {
        let bytes = reader.unsigned()?;
        let at = reader.address.checked_sub(self.image.address)?;
        reader.skip(bytes)?;
        Some(Expression {
            at: u32::try_from(at).ok()?,
            bytes: u16::try_from(bytes).ok()?,
        })
    }
}

#[cfg(test)]
mod tests {
    extern crate std;
    use super::*;
    use std::vec::Vec;

    /// The unwind information of the test itself, and the bounds of its code.
    fn own() -> (Vec<u8>, u64, u64, core::ops::Range<u64>) {
        let file = std::fs::read("/proc/self/exe").expect("its own file");
        let number = |at: usize, bytes: usize| {
            let mut all = [0; 8];
            all[..bytes].copy_from_slice(&file[at..at + bytes]);
            u64::from_le_bytes(all)
        };
        let (first, count) = (number(32, 8) as usize, number(56, 2) as usize);
        let segments: Vec<_> = (0..count)
            .map(|index| {
                let at = first + index * 56;
                // type, flags, offset, address, bytes
                let eight = |place| number(at + place, 8);
                (
                    number(at, 4),
                    number(at + 4, 4),
                    eight(8),
                    eight(16),
                    eight(32),
                )
            })
            .collect();
        let header = segments.iter().find(|segment| segment.0 == 0x6474_e550);
        let header = header.expect("unwind information").3;
        let holds = |segment: &&(u64, u64, u64, u64, u64)| {
            segment.0 == 1 && (segment.3..segment.3 + segment.4).contains(&header)
        };
        let image = segments.iter().find(holds).expect("its segment");
        let code = segments
            .iter()
            .find(|segment| segment.0 == 1 && segment.1 & 1 == 1)
            .expect("code");
        let bytes = file[image.2 as usize..(image.2 + image.4) as usize].to_vec();
        (bytes, image.3, header, code.3..code.3 + code.4)
    }

    #[test]
    fn most_code_has_a_rule_that_makes_sense() {
        let (bytes, address, header, code) = own();
        // SAFETY: outlives it.
        let image = unsafe { Image::new(bytes.as_ptr(), address, bytes.len() as u64) };
        let unwind = Unwind { image, header };
        let (mut found, mut usual) = (0, 0);
        let addresses = code.step_by(101);
        let all = addresses.clone().count();
        for rule in addresses.filter_map(|address| unwind.rule(address)) {
            found += 1;
            usual += usize::from(rule.places[RETURN] == RegisterRule::At(-8));
        }
        assert!(
            found * 10 > all * 9 && usual * 100 > found * 99,
            "{usual} {found} {all}"
        );
        assert_eq!(unwind.rule(0), None);
        assert_eq!(unwind.rule(u64::MAX), None);
    }

    #[test]
    fn damage_has_no_rule_or_another_one() {
        let (sound, address, header, code) = own();
        let mut random = 12345u64;
        let mut next = |below: u64| {
            random = random
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1);
            (random >> 33) % below
        };
        let mut bytes = sound.clone();
        for _ in 0..400 {
            for _ in 0..sound.len() / 200 {
                let at = next(bytes.len() as u64) as usize;
                bytes[at] = next(256) as u8;
            }
            // SAFETY: outlives it.
            let image = unsafe { Image::new(bytes.as_ptr(), address, bytes.len() as u64) };
            // The header itself is left alone now and then, else nothing behind it is reached.
            let start = (header - address) as usize;
            if next(4) > 0 {
                bytes[start..start + 12].copy_from_slice(&sound[start..start + 12]);
            }
            let unwind = Unwind { image, header };
            for _ in 0..50 {
                let _ = unwind.rule(code.start + next(code.end - code.start));
            }
        }
    }
}
