//! Strings by number: each is written once, in the packet that first needs it.

use super::schema::{COMPUTE, CUDA, GpuSpecification, GraphicsContext, Interned, InternedData};
use crate::tracks::Track;
use ahash::HashMap;
use event::Name;

#[derive(Debug, Default)]
pub struct Interning {
    names: HashMap<Name, u64>,
    categories: HashMap<&'static str, u64>,
    annotations: HashMap<Name, u64>,
    contexts: HashMap<(u32, u64), u64>,
    queues: HashMap<Track, u64>,
    stages: HashMap<(Name, &'static str), u64>,
    /// What the next packet must bring.
    fresh: InternedData,
}

impl Interning {
    pub fn name(&mut self, name: &Name) -> u64 {
        number(&mut self.names, name, &mut self.fresh.event_names)
    }

    pub fn annotation(&mut self, name: &Name) -> u64 {
        let fresh = &mut self.fresh.debug_annotation_names;
        number(&mut self.annotations, name, fresh)
    }

    pub fn category(&mut self, category: &'static str) -> u64 {
        let next = self.categories.len() as u64 + 1;
        *self.categories.entry(category).or_insert_with(|| {
            self.fresh.event_categories.push(Interned {
                iid: Some(next),
                name: Some(category.to_owned()),
            });
            next
        })
    }

    pub fn context(&mut self, pid: u32, context: u64) -> u64 {
        let next = self.contexts.len() as u64 + 1;
        *self.contexts.entry((pid, context)).or_insert_with(|| {
            self.fresh.graphics_contexts.push(GraphicsContext {
                iid: Some(next),
                pid: Some(pid as i32),
                api: Some(CUDA),
            });
            next
        })
    }

    /// The lane of a stream. Queues and stages share their numbers.
    pub fn queue(&mut self, track: Track, name: impl FnOnce() -> String) -> u64 {
        let next = (self.queues.len() + self.stages.len()) as u64 + 1;
        *self.queues.entry(track).or_insert_with(|| {
            specify(&mut self.fresh, next, name(), None);
            next
        })
    }

    /// What work on a stream is called. Perfetto up to v52 shows nothing else of it: later ones know the work's own name.
    pub fn stage(&mut self, name: &Name, category: &'static str) -> u64 {
        let next = (self.queues.len() + self.stages.len()) as u64 + 1;
        let stage = self.stages.entry((name.clone(), category));
        *stage.or_insert_with(|| {
            specify(&mut self.fresh, next, name.to_string(), Some(category));
            next
        })
    }

    pub fn take_fresh(&mut self) -> Option<InternedData> {
        let fresh = std::mem::take(&mut self.fresh);
        (fresh != InternedData::default()).then_some(fresh)
    }
}

fn number(known: &mut HashMap<Name, u64>, name: &Name, fresh: &mut Vec<Interned>) -> u64 {
    if let Some(&iid) = known.get(name) {
        return iid;
    }
    let iid = known.len() as u64 + 1;
    known.insert(name.clone(), iid);
    fresh.push(Interned {
        iid: Some(iid),
        name: Some(name.to_string()),
    });
    iid
}

fn specify(fresh: &mut InternedData, iid: u64, name: String, description: Option<&str>) {
    fresh.gpu_specifications.push(GpuSpecification {
        iid: Some(iid),
        name: Some(name),
        description: description.map(str::to_owned),
        category: Some(COMPUTE),
    });
}
