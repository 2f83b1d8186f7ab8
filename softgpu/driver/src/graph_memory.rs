//! Memory of graphs: an allocation node's address is fixed when the node is made.

use std::sync::Arc;

use super::{
    allocation::MemoryKind,
    context::Context,
    result::{Answer, OUT_OF_MEMORY},
    state::driver,
};

/// Memory that lives as long as a node of a graph or of an executable refers to it.
pub struct GraphMemory {
    pub start: u64,
    pub size: u64,
    id: u64,
}

impl GraphMemory {
    pub fn allocate(context: &Context, size: u64) -> Answer<Arc<Self>> {
        let allocations = &driver().allocations;
        let start = allocations.allocate(context, size, MemoryKind::Graph, 0)?;
        let id = allocations.find(start).ok_or(OUT_OF_MEMORY)?.id;
        Ok(Arc::new(Self { start, size, id }))
    }
}

impl Drop for GraphMemory {
    fn drop(&mut self) {
        driver()
            .allocations
            .release_graph_memory(self.start, self.id);
    }
}
