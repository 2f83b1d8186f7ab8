//! The shapes kernels were launched in: grid, block, registers, shared memory; how often, and for how long.

use ahash::RandomState;
use event::{Event, Launch, Value};
use serde::Serialize;
use std::collections::HashMap;

/// Shapes told apart; more are counted only.
const MAX_SHAPES: usize = 20_000;
/// Shapes the page shows, those with most time first.
const MAX_SHOWN: usize = 2_000;

/// A kernel's name with what it was launched with.
#[derive(PartialEq, Eq, Hash, Clone, Serialize)]
struct Shape {
    name: u32,
    device: u32,
    grid: [u64; 3],
    block: [u64; 3],
    /// None where the trace has no GPU times from CUPTI.
    registers: Option<u64>,
    shared: u64,
}

#[derive(Default, Clone, Serialize)]
struct Uses {
    launches: u64,
    executions: u64,
    total_ns: u64,
    max_ns: u64,
    /// The longest execution, or the last launch.
    op_id: u64,
}

#[derive(Default)]
pub struct Shapes {
    known: HashMap<Shape, Uses, RandomState>,
    pub left_out: u64,
}

/// A line of the page's table.
#[derive(Serialize)]
pub struct ShapeRow {
    #[serde(flatten)]
    shape: Shape,
    #[serde(flatten)]
    uses: Uses,
}

impl Shapes {
    fn uses(&mut self, shape: Shape) -> Option<&mut Uses> {
        if self.known.len() >= MAX_SHAPES && !self.known.contains_key(&shape) {
            self.left_out += 1;
            return None;
        }
        Some(self.known.entry(shape).or_default())
    }

    /// A call launched a kernel.
    pub fn launched(&mut self, name: u32, device: Option<u32>, launch: &Launch, op: u64) {
        let shape = Shape {
            name,
            device: device.unwrap_or(0),
            grid: launch.grid.map(u64::from),
            block: launch.block.map(u64::from),
            registers: None,
            shared: launch.shared,
        };
        if let Some(uses) = self.uses(shape) {
            uses.launches += 1;
            uses.op_id = op;
        }
    }

    /// A kernel ran.
    pub fn ran(&mut self, name: u32, event: &Event, duration: u64) {
        let (Some(grid), Some(block)) = (three(event.arg("grid")), three(event.arg("block")))
        else {
            return;
        };
        let number = |name| event.arg(name).and_then(Value::as_u64);
        let shape = Shape {
            name,
            device: event.device.unwrap_or(0),
            grid,
            block,
            registers: number("registers"),
            shared: number("static_shared").unwrap_or(0) + number("dynamic_shared").unwrap_or(0),
        };
        if let Some(uses) = self.uses(shape) {
            uses.executions += 1;
            uses.total_ns = uses.total_ns.saturating_add(duration);
            if duration >= uses.max_ns {
                (uses.max_ns, uses.op_id) = (duration, event.id);
            }
        }
    }

    /// What kernels ran in, or where their times are not known, what they were launched in.
    pub fn finish(&self) -> Vec<ShapeRow> {
        let ran = self.known.values().any(|uses| uses.executions > 0);
        let mut rows: Vec<_> = (self.known.iter())
            .filter(|(_, uses)| !ran || uses.executions > 0)
            .map(|(shape, uses)| ShapeRow {
                shape: shape.clone(),
                uses: uses.clone(),
            })
            .collect();
        rows.sort_by_key(|row| {
            let uses = &row.uses;
            (
                std::cmp::Reverse((uses.total_ns, uses.executions, uses.launches)),
                uses.op_id,
            )
        });
        rows.truncate(MAX_SHOWN);
        rows
    }
}

fn three(value: Option<&Value>) -> Option<[u64; 3]> {
    match value? {
        Value::List(list) => match &list[..] {
            [x, y, z] => Some([x.as_u64()?, y.as_u64()?, z.as_u64()?]),
            _ => None,
        },
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use event::{Arg, Category, Layer};

    #[test]
    fn one_kernel_in_two_shapes_is_two_lines() {
        let mut shapes = Shapes::default();
        let mut event = Event::new(1, Layer::Gpu, Category::Kernel, "k", 0);
        let list = |x: u64| Value::from(vec![x, 1, 1]);
        for (id, grid, duration) in [(1, 4, 10), (2, 4, 30), (3, 8, 5)] {
            event.id = id;
            event.args = vec![
                Arg::new("grid", list(grid)),
                Arg::new("block", list(128)),
                Arg::new("registers", 32u64),
            ];
            shapes.ran(7, &event, duration);
        }
        let rows = shapes.finish();
        let told: Vec<_> = (rows.iter())
            .map(|row| {
                (
                    row.shape.grid[0],
                    row.uses.executions,
                    row.uses.total_ns,
                    row.uses.op_id,
                )
            })
            .collect();
        assert_eq!(told, [(4, 2, 40, 2), (8, 1, 5, 3)]);
    }
}
