//! Watching a run without writing a trace, for the verbs that show it as it happens: top and serve.

mod cost;
mod recent;
mod whose;

pub use cost::{OwnCost, processor_time};
pub use recent::{Recent, Saved};
pub use whose::Whose;

use super::recording::{self, Watched};
use crate::arguments::RecordOptions;
use analyse::live::{Live, Notable};
use anyhow::Result;
use capture::{
    clock::monotonic,
    trace_file::{MakeShow, Show},
};
use event::{Meta, Record};
use std::{
    io,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, AtomicU32, Ordering},
    },
    time::Duration,
};

/// A run as it happens: one thread adds records, others look.
pub struct Watch {
    state: Mutex<State>,
    /// The command's process, once it is there; 0 before.
    pub process: Arc<AtomicU32>,
    ended: AtomicBool,
    pub began_ns: u64,
}

pub struct State {
    pub live: Live,
    pub recent: Recent,
    pub meta: Meta,
    /// Sees records beside the totals.
    listener: Option<Box<dyn Listener>>,
}

/// Sees records after the totals have taken them in.
pub trait Listener: Send {
    fn hear(&mut self, record: &Record, notable: Notable, live: &Live);
}

impl Watch {
    /// `keep`: how much of the past can be saved.
    pub fn new(keep: Duration, listener: Option<Box<dyn Listener>>) -> Arc<Self> {
        Arc::new(Watch {
            state: Mutex::new(State {
                live: Live::default(),
                recent: Recent::new(keep),
                meta: Meta::default(),
                listener,
            }),
            process: Arc::default(),
            ended: AtomicBool::new(false),
            began_ns: monotonic(),
        })
    }

    /// Held for moments only: the source of the records waits meanwhile.
    pub fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn has_ended(&self) -> bool {
        self.ended.load(Ordering::Acquire)
    }

    /// The command's process id.
    pub fn pid(&self) -> Option<u32> {
        match self.process.load(Ordering::Relaxed) {
            0 => None,
            pid => Some(pid),
        }
    }

    /// Watches the run to its end.
    pub fn run(self: &Arc<Self>, options: &mut RecordOptions) -> Result<Watched> {
        // Who is watched is known before the first record.
        self.state().meta = Meta {
            command: options.run.words(),
            pid: options.run.pid(),
            ..Meta::default()
        };
        let watch = Arc::clone(self);
        let show: MakeShow = Box::new(move |_, meta| {
            watch.state().meta = meta.clone();
            Box::new(Feed(watch))
        });
        let process = Arc::clone(&self.process);
        let watched = recording::watch(options, show, process);
        self.ended.store(true, Ordering::Release);
        watched
    }
}

/// Where records go instead of a file.
struct Feed(Arc<Watch>);

impl Show for Feed {
    fn record(&mut self, record: &Record) -> io::Result<()> {
        let now = monotonic();
        let mut state = self.0.state();
        let state = &mut *state;
        let notable = state.live.see(record, now);
        if let Some(listener) = &mut state.listener {
            listener.hear(record, notable, &state.live);
        }
        state.recent.add(record);
        Ok(())
    }

    fn finish(&mut self) -> io::Result<()> {
        Ok(())
    }
}
