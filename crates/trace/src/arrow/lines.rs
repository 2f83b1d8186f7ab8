//! In which order a batch's rows become lines: a whole span's row is two of them.

/// A line of a batch: its row, and whether it is the end of the row's span.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Line(u32);

const END: u32 = 1 << 31;
const NONE: u32 = u32::MAX;

impl Line {
    pub fn row(self) -> usize {
        (self.0 & !END) as usize
    }

    pub fn is_end(self) -> bool {
        self.0 & END != 0
    }
}

/// Rows are in the order of their first lines; a whole span says how many lines are between its two. What it says wrong
/// puts its end at the batch's end.
pub fn order(rows: usize, whole: impl Fn(usize) -> Option<u64>, lines: &mut Vec<Line>) {
    lines.clear();
    let ends = (0..rows).filter(|&row| whole(row).is_some()).count();
    if ends == 0 {
        lines.extend((0..rows as u32).map(Line));
        return;
    }
    lines.resize(rows + ends, Line(NONE));
    let mut misplaced = Vec::new();
    let mut next = 0;
    for row in 0..rows {
        while lines.get(next).is_some_and(|line| line.0 != NONE) {
            next += 1;
        }
        let Some(line) = lines.get_mut(next) else {
            break;
        };
        *line = Line(row as u32);
        let Some(inside) = whole(row) else { continue };
        let end = usize::try_from(inside).ok();
        let end = end.and_then(|inside| next.checked_add(inside)?.checked_add(1));
        match end.and_then(|end| lines.get_mut(end)) {
            Some(line) if line.0 == NONE => *line = Line(row as u32 | END),
            _ => misplaced.push(row as u32 | END),
        }
    }
    let mut misplaced = misplaced.into_iter();
    for line in lines.iter_mut().skip(next) {
        if line.0 == NONE
            && let Some(end) = misplaced.next()
        {
            *line = Line(end);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ordered(rows: &[Option<u64>]) -> Vec<(usize, bool)> {
        let mut lines = Vec::new();
        order(rows.len(), |row| rows[row], &mut lines);
        let lines = lines.iter();
        lines.map(|line| (line.row(), line.is_end())).collect()
    }

    #[test]
    fn spans_are_where_they_began_and_ended() {
        // B0 B1 E1 I2 E0 X3X3
        let lines = ordered(&[Some(3), Some(0), None, Some(0)]);
        let expected = [
            (0, false),
            (1, false),
            (1, true),
            (2, false),
            (0, true),
            (3, false),
            (3, true),
        ];
        assert_eq!(lines, expected);
    }

    #[test]
    fn wrong_places_lose_nothing() {
        for wrong in [u64::MAX, 1 << 31, 100, 3] {
            let mut lines = ordered(&[Some(wrong), Some(0), Some(1)]);
            assert_eq!(lines.len(), 6);
            lines.sort_unstable();
            lines.dedup();
            assert_eq!(lines.len(), 6, "{wrong}");
        }
    }
}
