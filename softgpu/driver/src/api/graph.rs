//! Graphs: creation, structure, cloning.

use std::{ffi::c_char, sync::Arc};

use crate::{
    abi::EdgeData,
    entry::{api, put, put_optional, take_array, take_text},
    graph::{self, Condition, Graph},
    result::{Answer, CuError, INVALID_VALUE},
    state::driver,
    thread,
    work::Work,
};

/// Writes a list the way the graph queries do: only its length when there is no array; zeros
/// behind it when the array is longer.
unsafe fn put_list(place: *mut u64, count: *mut usize, list: &[u64]) -> Answer {
    if count.is_null() {
        return Err(INVALID_VALUE);
    }
    if place.is_null() {
        return unsafe { put(count, list.len()) };
    }
    let room = unsafe { count.read_unaligned() };
    for i in 0..room {
        let value = list.get(i).copied().unwrap_or(0);
        unsafe { put(place.add(i), value)? };
    }
    unsafe { put(count, room.min(list.len())) }
}

/// Edges have no data of their own here: zeros beside every node.
unsafe fn put_edge_data(place: *mut EdgeData, count: *mut usize) {
    if !place.is_null() {
        for i in 0..unsafe { count.read_unaligned() } {
            unsafe { put_optional(place.add(i), EdgeData::default()) };
        }
    }
}

unsafe fn edges(graph: u64, from: *mut u64, to: *mut u64, count: *mut usize) -> Answer {
    let edges = graph::by_handle(graph)?.nodes().edges();
    if count.is_null() || from.is_null() != to.is_null() {
        return Err(INVALID_VALUE);
    }
    let room = unsafe { count.read_unaligned() };
    let sources: Vec<u64> = edges.iter().map(|edge| edge.0).collect();
    let targets: Vec<u64> = edges.iter().map(|edge| edge.1).collect();
    unsafe {
        put_list(from, count, &sources)?;
        if !from.is_null() {
            put(count, room)?;
            put_list(to, count, &targets)?;
        }
    }
    Ok(())
}

unsafe fn add_edges(graph: u64, from: *const u64, to: *const u64, count: usize) -> Answer {
    let graph = graph::by_handle(graph)?;
    let (from, to) = unsafe { (take_array(from, count)?, take_array(to, count)?) };
    let mut nodes = graph.nodes();
    for (from, to) in from.iter().zip(&to) {
        nodes.get(*from)?;
        if from == to || nodes.get(*to)?.after.contains(from) {
            return Err(INVALID_VALUE);
        }
    }
    for (from, to) in from.iter().zip(&to) {
        nodes.get_mut(*to)?.after.push(*from);
    }
    Ok(())
}

unsafe fn remove_edges(graph: u64, from: *const u64, to: *const u64, count: usize) -> Answer {
    let graph = graph::by_handle(graph)?;
    let (from, to) = unsafe { (take_array(from, count)?, take_array(to, count)?) };
    let mut nodes = graph.nodes();
    for (from, to) in from.iter().zip(&to) {
        if !nodes.get(*to)?.after.contains(from) {
            return Err(INVALID_VALUE);
        }
    }
    for (from, to) in from.iter().zip(&to) {
        nodes.get_mut(*to)?.after.retain(|before| before != from);
    }
    Ok(())
}

api! {
    fn cuGraphCreate(graph: *mut u64, flags: u32) {
        if flags != 0 || graph.is_null() {
            return Err(INVALID_VALUE);
        }
        thread::usable()?;
        put(graph, Graph::create().handle)
    }

    fn cuGraphDestroy(graph: u64) {
        graph::by_handle(graph)?.destroy();
        Ok(())
    }

    fn cuGraphConditionalHandleCreate(
        handle: *mut u64,
        graph: u64,
        _context: u64,
        default: u32,
        flags: u32,
    ) {
        const ASSIGN_DEFAULT: u32 = 1;
        if handle.is_null() || flags & !ASSIGN_DEFAULT != 0 {
            return Err(INVALID_VALUE);
        }
        graph::by_handle(graph)?;
        let value = if flags == ASSIGN_DEFAULT { default } else { 0 };
        let conditions = &driver().conditions;
        let fresh = conditions.fresh();
        conditions.insert(fresh, Arc::new(Condition { value }));
        put(handle, fresh)
    }

    fn cuGraphClone(clone: *mut u64, graph: u64) {
        if clone.is_null() {
            return Err(INVALID_VALUE);
        }
        put(clone, graph::by_handle(graph)?.duplicate().handle)
    }

    fn cuGraphNodeFindInClone(node: *mut u64, original: u64, clone: u64) {
        let clone = graph::by_handle(clone)?;
        put(node, clone.clone_of(original).ok_or(INVALID_VALUE)?)
    }

    fn cuGraphGetNodes(graph: u64, nodes: *mut u64, count: *mut usize) {
        let order = graph::by_handle(graph)?.nodes().order.clone();
        put_list(nodes, count, &order)
    }

    fn cuGraphGetRootNodes(graph: u64, nodes: *mut u64, count: *mut usize) {
        let roots = graph::by_handle(graph)?.nodes().roots();
        put_list(nodes, count, &roots)
    }

    fn cuGraphGetEdges(graph: u64, from: *mut u64, to: *mut u64, count: *mut usize) {
        edges(graph, from, to, count)
    }

    fn cuGraphGetEdges_v2(
        graph: u64,
        from: *mut u64,
        to: *mut u64,
        data: *mut EdgeData,
        count: *mut usize,
    ) {
        edges(graph, from, to, count)?;
        put_edge_data(data, count);
        Ok(())
    }

    fn cuGraphNodeGetDependencies(node: u64, nodes: *mut u64, count: *mut usize) {
        let after = graph::of_node(node)?.nodes().get(node)?.after.clone();
        put_list(nodes, count, &after)
    }

    fn cuGraphNodeGetDependencies_v2(
        node: u64,
        nodes: *mut u64,
        data: *mut EdgeData,
        count: *mut usize,
    ) {
        let after = graph::of_node(node)?.nodes().get(node)?.after.clone();
        put_list(nodes, count, &after)?;
        put_edge_data(data, count);
        Ok(())
    }

    fn cuGraphNodeGetDependentNodes(node: u64, nodes: *mut u64, count: *mut usize) {
        let behind = graph::of_node(node)?.nodes().dependents(node);
        put_list(nodes, count, &behind)
    }

    fn cuGraphNodeGetDependentNodes_v2(
        node: u64,
        nodes: *mut u64,
        data: *mut EdgeData,
        count: *mut usize,
    ) {
        let behind = graph::of_node(node)?.nodes().dependents(node);
        put_list(nodes, count, &behind)?;
        put_edge_data(data, count);
        Ok(())
    }

    fn cuGraphAddDependencies(graph: u64, from: *const u64, to: *const u64, count: usize) {
        add_edges(graph, from, to, count)
    }

    fn cuGraphAddDependencies_v2(
        graph: u64,
        from: *const u64,
        to: *const u64,
        _data: *const EdgeData,
        count: usize,
    ) {
        add_edges(graph, from, to, count)
    }

    fn cuGraphRemoveDependencies(graph: u64, from: *const u64, to: *const u64, count: usize) {
        remove_edges(graph, from, to, count)
    }

    fn cuGraphRemoveDependencies_v2(
        graph: u64,
        from: *const u64,
        to: *const u64,
        _data: *const EdgeData,
        count: usize,
    ) {
        remove_edges(graph, from, to, count)
    }

    fn cuGraphNodeGetType(node: u64, kind: *mut u32) {
        let value = graph::of_node(node)?.nodes().get(node)?.kind();
        put(kind, value as u32)
    }

    fn cuGraphDestroyNode(node: u64) {
        graph::of_node(node)?.remove(node)
    }

    fn cuGraphChildGraphNodeGetGraph(node: u64, child: *mut u64) {
        let owner = graph::of_node(node)?;
        let nodes = owner.nodes();
        match &nodes.get(node)?.work {
            Work::Child(graph) => put(child, graph.handle),
            _ => Err(INVALID_VALUE),
        }
    }

    fn cuGraphDebugDotPrint(graph: u64, path: *const c_char, _flags: u32) {
        use std::os::unix::ffi::OsStrExt;
        let path = take_text(path)?;
        let nodes = graph::by_handle(graph)?.nodes().clone();
        let mut dot = String::from("digraph dot {\n");
        for node in &nodes.order {
            let kind = nodes.get(*node)?.kind();
            dot.push_str(&format!("  \"{node:#x}\" [label=\"{kind:?}\"];\n"));
        }
        for (from, to) in nodes.edges() {
            dot.push_str(&format!("  \"{from:#x}\" -> \"{to:#x}\";\n"));
        }
        dot.push_str("}\n");
        let path = std::path::Path::new(std::ffi::OsStr::from_bytes(path.to_bytes()));
        // CUDA_ERROR_OPERATING_SYSTEM.
        std::fs::write(path, dot).map_err(|_| CuError(304))
    }
}
