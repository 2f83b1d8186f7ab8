//! Functions, kernels and the longest operations, from lines without their texts: the same sweeps as in
//! [`Analysis`], without the others.

use crate::{
    Analysis, Brief, Report, SymbolId,
    analysis::{DEEPEST_SIGN, is_api},
    gpu,
};
use event::{Category, Event, Extent, Kind, Layer, Meta, Name, Status, Summary};

/// A sweep for `report top`. Give it all lines of a trace, in the trace's order.
pub struct TopSweep {
    all: Analysis,
}

impl TopSweep {
    pub fn new(meta: &Meta) -> Self {
        TopSweep {
            all: Analysis::new(meta),
        }
    }

    pub fn symbol(
        &mut self,
        name: &Name,
        layer: Layer,
        category: Category,
        kind: Kind,
    ) -> SymbolId {
        self.all.symbols.of_name(name, layer, category, kind)
    }

    /// A line of a range: on nobody's account.
    pub fn range(&mut self, start: u64, extent: Extent) {
        self.all.see(start, end(start, extent));
    }

    /// A line of an event that is no range. `words` are the function's name and
    /// its status's.
    #[inline]
    pub fn event(
        &mut self,
        event: &Brief,
        extent: Extent,
        symbol: SymbolId,
        words: impl FnOnce() -> (Name, Option<Name>),
    ) {
        let all = &mut self.all;
        all.see(event.start, end(event.start, extent));
        match event.layer {
            Layer::Gpu => {
                if let Extent::Closed(duration) = extent
                    && gpu::is_work_of(event.kind, event.category, extent)
                {
                    all.functions.gpu(event, symbol, duration);
                    all.gpu.add_sum(duration);
                }
            }
            Layer::Device => {}
            _ => match extent {
                Extent::Instant => all.functions.instant(event, symbol),
                Extent::Open => {
                    all.nesting.begin(event, symbol);
                    all.give_up();
                }
                Extent::Closed(duration) => {
                    let ended = all.nesting.end(event, symbol, duration);
                    all.give_up();
                    all.functions.end(event, &ended);
                    if !is_api(event.layer) {
                        return;
                    }
                    let around = all.nesting.open(ended.thread);
                    let around = &around[around.len().saturating_sub(DEEPEST_SIGN)..];
                    if around.iter().any(|open| is_api(open.layer)) {
                        return;
                    }
                    match event.status {
                        Some(code) if code != 0 => {
                            let (name, result) = words();
                            let mut failed = Event::new(
                                event.id,
                                event.layer,
                                event.category,
                                name,
                                event.start,
                            );
                            failed.pid = event.pid;
                            failed.status = Some(Status { code, name: result });
                            all.signs.call(&failed, &ended);
                        }
                        _ => all.signs.count(ended.thread),
                    }
                }
            },
        }
    }

    /// A kernel was launched.
    #[inline]
    pub fn launch(&mut self, ts: u64, kernel: SymbolId) {
        self.all.see(ts, ts);
        self.all.functions.launch(kernel);
    }

    /// Something else was recorded.
    #[inline]
    pub fn other(&mut self, ts: u64) {
        self.all.see(ts, ts);
    }

    /// A report of which `functions`, `failures`, the sum of the GPU's work and the time watched are filled in.
    pub fn finish(self, summary: Option<&Summary>) -> Report {
        self.all.finish(summary)
    }
}

fn end(start: u64, extent: Extent) -> u64 {
    match extent {
        Extent::Closed(duration) => start.saturating_add(duration),
        Extent::Open | Extent::Instant => start,
    }
}
