//! How far the page has come: requests are answered with what there is, while a thread of its own makes the rest.

use super::indexed::Indexed;
use serde_json::json;
use std::{
    sync::{
        Arc, Condvar, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU32, Ordering},
    },
    time::{Duration, Instant},
};

#[derive(Default)]
pub struct Board {
    state: Mutex<State>,
    changed: Condvar,
    /// How much of the trace the present reading has read, of a thousand.
    share: AtomicU32,
}

/// What there is.
#[derive(Clone, Default)]
pub struct State {
    pub stage: Stage,
    /// Those that can be asked about.
    pub traces: Arc<Vec<Indexed>>,
    pub page: Arc<Vec<u8>>,
    /// For a page that was opened before there was a report.
    pub report: Option<Arc<Vec<u8>>>,
}

#[derive(Clone, Default, PartialEq, Eq)]
pub enum Stage {
    /// The page says how far the reading is, and nothing else.
    #[default]
    Indexing,
    /// The timeline can be looked at.
    Reporting,
    Ready,
    Failed(String),
}

impl Board {
    /// A page that waits for everything.
    pub fn new(page: Vec<u8>) -> Self {
        let board = Board::default();
        board.lock().page = Arc::new(page);
        board
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn now(&self) -> State {
        self.lock().clone()
    }

    /// A page with the timeline.
    pub fn early(&self, page: Vec<u8>, traces: Arc<Vec<Indexed>>) {
        self.set(State {
            stage: Stage::Reporting,
            traces,
            page: Arc::new(page),
            report: None,
        });
    }

    /// The whole page, and its report for pages that lack it.
    pub fn ready(&self, page: Vec<u8>, traces: Arc<Vec<Indexed>>, report: Option<String>) {
        self.set(State {
            stage: Stage::Ready,
            traces,
            page: Arc::new(page),
            report: report.map(|report| Arc::new(report.into_bytes())),
        });
    }

    pub fn failed(&self, why: String) {
        self.lock().stage = Stage::Failed(why);
        self.changed.notify_all();
    }

    fn set(&self, state: State) {
        self.share.store(0, Ordering::Relaxed);
        *self.lock() = state;
        self.changed.notify_all();
    }

    /// So much of the trace has been read, from 0 to 1.
    pub fn read(&self, share: Option<f64>) {
        let share = (share.unwrap_or(0.0) * 1e3).clamp(0.0, 999.0);
        self.share.store(share as u32, Ordering::Relaxed);
    }

    /// Waits until nothing more comes, but no longer than this. Whether it came to that.
    pub fn settled(&self, most: Duration) -> bool {
        let end = Instant::now() + most;
        let mut state = self.lock();
        loop {
            if matches!(state.stage, Stage::Ready | Stage::Failed(_)) {
                return true;
            }
            let left = end.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return false;
            }
            let waited = self.changed.wait_timeout(state, left);
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    /// `api/status`
    pub fn status(&self) -> String {
        let state = self.now();
        let share = f64::from(self.share.load(Ordering::Relaxed)) / 1e3;
        let (stage, share, why) = match &state.stage {
            Stage::Indexing => ("index", share, None),
            Stage::Reporting => ("report", share, None),
            Stage::Ready => ("ready", 1.0, None),
            Stage::Failed(why) => ("failed", share, Some(why)),
        };
        json!({ "stage": stage, "share": share, "error": why }).to_string()
    }
}
