//! Who calls what: functions under their callers, with counts and times.

use super::section::Section;
use crate::{Style, Table, units::count};
use analyse::{Report, correlation::CallNode};
use event::Layer;

/// Rows shown on a screen.
const ROWS: usize = 60;

pub fn calls(report: &Report, style: &Style) -> String {
    let mut section = Section::new(style);
    section.heading("Who calls what");
    let found = &report.correlation;
    if found.tree.is_empty() {
        section.line("no calls were traced");
        return section.finish();
    }
    let mut table = Table::new()
        .left("Call")
        .left("Layer")
        .right("Calls")
        .right("Total")
        .right("Self");
    let mut all = found.tree_left_out;
    let mut room = section.rows(ROWS);
    for root in &found.tree {
        branch(root, 0, &mut |node, depth| {
            all += 1;
            if room == 0 {
                return;
            }
            room -= 1;
            let name = match node.layer {
                Layer::Gpu => style.kernel(&node.name),
                _ => node.name.to_string(),
            };
            table.row([
                format!("{}{name}", "  ".repeat(depth)),
                node.layer.to_string(),
                count(node.calls),
                section.time(node.total_ns),
                section.time(node.self_ns),
            ]);
        });
    }
    let shown = table.len();
    section.table(&table);
    section.more(shown, all);
    section.line(
        "Self is a call's time without the calls below it. GPU work is listed below the call that started it and runs \
         in parallel with the host.",
    );
    section.finish()
}

fn branch(node: &CallNode, depth: usize, tell: &mut impl FnMut(&CallNode, usize)) {
    tell(node, depth);
    for child in &node.children {
        branch(child, depth + 1, tell);
    }
}
