//! The program's own ranges (NVTX), and what the GPU did for each.

use super::section::Section;
use crate::{Table, units::count};
use analyse::Report;

/// Ranges shown.
const ROWS: usize = 20;

/// Nothing where the program has none.
pub fn ranges(section: &mut Section, report: &Report) {
    let ranges = &report.ranges;
    if ranges.ranges.is_empty() {
        return;
    }
    section.heading("Ranges (NVTX)");
    let with_gpu = ranges.ranges.iter().any(|range| range.gpu_operations > 0);
    let mut table = Table::new()
        .left("Range")
        .left("Domain")
        .right("Count")
        .right("Total")
        .right("Average")
        .right("Longest");
    if with_gpu {
        table = table.right("GPU work").right("GPU time");
    }
    for range in ranges.ranges.iter().take(ROWS) {
        let average = range.total_ns.checked_div(range.count);
        let mut cells = vec![
            range.name.to_string(),
            range.domain.as_deref().unwrap_or("").to_owned(),
            count(range.count + range.open),
            section.time(range.total_ns),
            average.map_or_else(|| "never ended".to_owned(), |time| section.time(time)),
            section.time(range.max_ns),
        ];
        if with_gpu {
            cells.push(count(range.gpu_operations));
            cells.push(section.time(range.gpu_ns));
        }
        table.row(cells);
    }
    section.table(&table);
    section.more(ROWS, ranges.ranges.len() as u64);
    if with_gpu {
        section.line("GPU time: time of the work that the range started, counting overlaps once.");
    }
}
