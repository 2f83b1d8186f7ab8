//! From a place in the instructions to a line of the source, by a code object's table.

use super::layout::Lines;

/// No table is read farther: what a damaged one costs is bounded.
const MOST_ENTRIES: usize = 1 << 16;

/// The line of the instruction at an offset in bytes; None where it has none.
pub fn line_at(
    kind: Lines,
    first: u32,
    offset: u32,
    mut bytes: impl FnMut() -> Option<u8>,
) -> Option<u32> {
    let (first, offset) = (i64::from(first), i64::from(offset));
    let line = match kind {
        Lines::Increments => increments(first, offset, &mut bytes),
        Lines::Ranges => ranges(first, offset, &mut bytes)?,
        Lines::Locations => locations(first, offset, &mut bytes)?,
    };
    u32::try_from(line).ok().filter(|line| *line > 0)
}

fn increments(mut line: i64, offset: i64, bytes: &mut impl FnMut() -> Option<u8>) -> i64 {
    let mut at = 0;
    for _ in 0..MOST_ENTRIES {
        let (Some(more), Some(lines)) = (bytes(), bytes()) else {
            break;
        };
        at += i64::from(more);
        if at > offset {
            break;
        }
        line += i64::from(lines as i8);
    }
    line
}

fn ranges(mut line: i64, offset: i64, bytes: &mut impl FnMut() -> Option<u8>) -> Option<i64> {
    let mut end = 0;
    for _ in 0..MOST_ENTRIES {
        let (length, lines) = (bytes()?, bytes()? as i8);
        end += i64::from(length);
        let has_line = lines != -128;
        if has_line {
            line += i64::from(lines);
        }
        if offset < end {
            return has_line.then_some(line);
        }
    }
    None
}

fn locations(mut line: i64, offset: i64, bytes: &mut impl FnMut() -> Option<u8>) -> Option<i64> {
    let mut end = 0;
    for _ in 0..MOST_ENTRIES {
        let head = bytes()?;
        if head & 0x80 == 0 {
            return None;
        }
        end += i64::from(head & 7) * 2 + 2;
        let kind = head >> 3 & 15;
        let lines = match kind {
            0..=9 => {
                bytes()?;
                0
            }
            10..=12 => {
                bytes()?;
                bytes()?;
                i64::from(kind) - 10
            }
            13 => signed(bytes)?,
            14 => {
                let lines = signed(bytes)?;
                for _ in 0..3 {
                    unsigned(bytes)?;
                }
                lines
            }
            _ => 0,
        };
        line += lines;
        if offset < end {
            return (kind != 15).then_some(line);
        }
    }
    None
}

fn unsigned(bytes: &mut impl FnMut() -> Option<u8>) -> Option<u64> {
    let (mut number, mut shift) = (0u64, 0);
    loop {
        let byte = bytes()?;
        number |= u64::from(byte & 0x3f).checked_shl(shift)?;
        if byte & 0x40 == 0 {
            return Some(number);
        }
        shift += 6;
        if shift > 30 {
            return None;
        }
    }
}

fn signed(bytes: &mut impl FnMut() -> Option<u8>) -> Option<i64> {
    let number = unsigned(bytes)?;
    let size = (number >> 1) as i64;
    Some(if number & 1 == 1 { -size } else { size })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(kind: Lines, table: &[u8], first: u32, offset: u32) -> Option<u32> {
        let mut bytes = table.iter().copied();
        line_at(kind, first, offset, || bytes.next())
    }

    #[test]
    fn increments_of_3_9() {
        // Lines 1, 2, 7 and 6 from the offsets 0, 6, 12 and 300.
        let table = [0, 0, 6, 1, 6, 5, 255, 0, 33, 255];
        let at = |offset| line(Lines::Increments, &table, 1, offset);
        assert_eq!((at(0), at(4), at(6)), (Some(1), Some(1), Some(2)));
        assert_eq!((at(12), at(299), at(300)), (Some(7), Some(7), Some(6)));
    }

    #[test]
    fn ranges_of_3_10() {
        // 0..4 line 11, 4..6 none, 6..20 line 10.
        let table = [4, 1, 2, 128, 14, 255];
        let at = |offset| line(Lines::Ranges, &table, 10, offset);
        assert_eq!((at(0), at(4), at(6)), (Some(11), None, Some(10)));
        assert_eq!(at(20), None);
    }

    #[test]
    #[allow(clippy::unusual_byte_groupings)] // as the fields are
    fn locations_of_3_11() {
        let table = [
            0b1_1011_001,
            0,
            0,            // 2 units, one line on
            0b1_1111_000, // 1 unit without a place
            0b1_1101_011,
            0b0000_0111, // 4 units, 3 lines back
            0b1_1110_000,
            0b0100_0000,
            0b0000_0010,
            0,
            1,
            2, // 1 unit, 64 lines on
            0b1_0000_111,
            0x11, // 8 units, the same line
        ];
        let at = |offset| line(Lines::Locations, &table, 5, offset);
        assert_eq!((at(0), at(2), at(4)), (Some(6), Some(6), None));
        assert_eq!((at(6), at(12), at(14)), (Some(3), Some(3), Some(67)));
        assert_eq!((at(16), at(30), at(32)), (Some(67), Some(67), None));
    }

    #[test]
    fn damaged_tables_have_no_lines() {
        for kind in [Lines::Increments, Lines::Ranges, Lines::Locations] {
            // No end in sight.
            let endless = |byte| line_at(kind, 1, u32::MAX, || Some(byte));
            for byte in [0, 0x7f, 0x80, 0xff] {
                let _ = endless(byte);
            }
            assert_eq!(line(kind, &[], 0, 0), None);
        }
        assert_eq!(line(Lines::Locations, &[0x70; 40], 1, 0), None);
    }
}
