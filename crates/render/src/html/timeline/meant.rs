//! What calls meant: what they launched, moved or allocated, on their spans and in the sums.

use super::{
    super::{flame::Weight, lanes::Ended, rows::Detail},
    Timeline,
};
use event::{Category, Direction, Event, Meaning, MemoryOp, What};

impl Timeline {
    /// The stack of a call about memory: its own, or that of the outermost call around it.
    pub(super) fn stack_of(&mut self, index: u32, event: &Event) -> Option<u32> {
        if event.category != Category::Memory {
            return None;
        }
        let around = self.lanes.list[index as usize].open.iter().flatten();
        let outer = (around.map(|open| &*open.more.event))
            .chain([event])
            .find(|event| !event.stack.is_empty())?;
        self.details.stacks.index(&outer.stack)
    }

    /// What the span that ended last on the thread meant.
    pub(super) fn meaning(&mut self, meaning: &Meaning) {
        let index = self.lanes.of_thread(meaning.pid, meaning.tid);
        let Some(ended) = self.lanes.list[index as usize].ended else {
            return;
        };
        if ended.id != meaning.op {
            return;
        }
        self.weigh(meaning, ended);
        if !ended.kept {
            return;
        }
        let detail = match &meaning.what {
            What::Launch(launch) => Detail::Kernel(self.names.kernel(&launch.kernel)),
            What::Transfer(transfer) => {
                let direction = Direction::ALL
                    .iter()
                    .position(|&direction| direction == transfer.direction);
                Detail::Moved(direction.unwrap_or(0) as u8, transfer.size)
            }
            What::Memory(memory) => match (memory.op, memory.size) {
                (MemoryOp::Alloc, Some(size)) => Detail::Allocated(size),
                (MemoryOp::Free, Some(size)) => Detail::Freed(size),
                (_, None) => Detail::None,
            },
        };
        let row = &mut self.rows.rows[ended.row as usize];
        // The row may have been pruned by another lane's spans since.
        if let Some(span) = row.kept.last_mut().filter(|span| span.id == ended.id) {
            span.detail = detail;
            self.details.mean(&mut span.details, &meaning.what);
        }
    }

    /// What a call launched, moved or allocated, where it is counted whether the call is kept or not.
    fn weigh(&mut self, meaning: &Meaning, ended: Ended) {
        match &meaning.what {
            What::Launch(launch) => {
                let name = self.names.kernel(&launch.kernel);
                self.shapes
                    .launched(name, meaning.device, launch, meaning.op);
            }
            What::Transfer(transfer) => {
                self.flame.weigh(ended.node, Weight::Moved, transfer.size);
            }
            What::Memory(memory) => {
                let at = meaning.ts.saturating_sub(self.origin());
                let of = (at, ended.name, ended.stack);
                self.allocations.add(meaning, memory, of);
                if memory.op == MemoryOp::Alloc {
                    let size = memory.size.unwrap_or(0);
                    self.flame.weigh(ended.node, Weight::Allocated, size);
                }
            }
        }
    }
}
