//! Which call put a piece of a CUDA graph's work into it: the graph is launched elsewhere, again and again, and its kernels
//! belong where they were captured or added.

use ahash::RandomState;
use event::{Event, Value};
use std::collections::HashMap;

/// Calls remembered.
const MOST: usize = 1 << 20;

/// What is known (`N`) of the calls that may be the origin of such work.
#[derive(Debug)]
pub struct Captured<N> {
    /// Captures that have begun and not ended.
    under_way: u32,
    calls: HashMap<u64, N, RandomState>,
}

impl<N> Default for Captured<N> {
    fn default() -> Self {
        Captured {
            under_way: 0,
            calls: HashMap::default(),
        }
    }
}

impl<N: Copy> Captured<N> {
    /// A call begins.
    pub fn call(&mut self, event: &Event, known: N) {
        if event.name.contains("StreamEndCapture") {
            self.under_way = self.under_way.saturating_sub(1);
        }
        let adds = || event.name.contains("GraphAdd");
        if (self.under_way > 0 || adds()) && self.calls.len() < MOST {
            self.calls.insert(event.id, known);
        }
        if event.name.contains("StreamBeginCapture") {
            self.under_way = self.under_way.saturating_add(1);
        }
    }

    /// Of the call that GPU work has as its origin.
    pub fn of(&self, work: &Event) -> Option<N> {
        let Some(Value::Map(origin)) = work.arg("origin") else {
            return None;
        };
        let call = origin.iter().find(|arg| &*arg.name == "op_id")?;
        self.calls.get(&call.value.as_u64()?).copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use event::{Arg, Category, Layer};

    fn call(id: u64, name: &str) -> Event {
        Event::new(id, Layer::Driver, Category::Graph, name, id)
    }

    fn work(origin: u64) -> Event {
        let mut work = Event::new(99, Layer::Gpu, Category::Kernel, "k", 99);
        let origin = Value::Map(vec![Arg::new("op_id", origin)]);
        work.args = vec![Arg::new("origin", origin)];
        work
    }

    #[test]
    fn what_is_captured_or_added_is_known_and_nothing_else() {
        let mut captured = Captured::default();
        let names = [
            "cuLaunchKernel",
            "cuStreamBeginCapture_v2",
            "cuLaunchKernel",
            "cuStreamEndCapture",
            "cuLaunchKernel",
            "cuGraphAddKernelNode_v2",
            "cuGraphLaunch",
        ];
        for (id, name) in (1..).zip(names) {
            captured.call(&call(id, name), id * 10);
        }
        let known: Vec<Option<u64>> = (1..=7).map(|id| captured.of(&work(id))).collect();
        assert_eq!(known, [None, None, Some(30), None, None, Some(60), None]);
        assert_eq!(captured.of(&call(1, "k")), None);
    }
}
