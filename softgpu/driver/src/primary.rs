//! The primary context: one a device, shared by all who retain it.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError, atomic::Ordering};

use super::{
    context::Context,
    result::{Answer, INVALID_VALUE},
    state::driver,
};

#[derive(Default)]
pub struct Primary(Mutex<State>);

#[derive(Default)]
struct State {
    /// Stays the same when the context is made anew, as threads may hold it.
    handle: u64,
    retained: u32,
    flags: u32,
    context: Option<Arc<Context>>,
}

impl Primary {
    fn state_locked(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn is(&self, handle: u64) -> bool {
        handle != 0 && self.state_locked().handle == handle
    }

    pub fn retain(&self) -> u64 {
        let mut state = self.state_locked();
        if state.handle == 0 {
            state.handle = driver().contexts.fresh();
        }
        if state.context.is_none() {
            state.context = Some(Context::create(state.handle, state.flags, 3020));
        }
        state.retained += 1;
        state.handle
    }

    /// None if it was not retained.
    pub fn release(&self) -> Option<()> {
        let mut state = self.state_locked();
        state.retained = state.retained.checked_sub(1)?;
        if state.retained == 0 {
            let context = state.context.take();
            drop(state);
            if let Some(context) = context {
                context.destroy();
            }
        }
        Some(())
    }

    /// Destroys the context regardless of its holders; the next who retains it makes it anew for all.
    pub fn reset(&self) {
        if let Some(context) = self.state_locked().context.take() {
            context.destroy();
        }
    }

    /// (flags, active).
    pub fn state(&self) -> (u32, bool) {
        let state = self.state_locked();
        let flags = match &state.context {
            Some(context) => context.flags.load(Ordering::Relaxed),
            None => state.flags,
        };
        (flags, state.context.is_some())
    }

    pub fn set_flags(&self, flags: u32) -> Answer {
        if flags & !0x7f != 0 || !matches!(flags & 7, 0 | 1 | 2 | 4) {
            return Err(INVALID_VALUE);
        }
        let mut state = self.state_locked();
        state.flags = flags;
        if let Some(context) = &state.context {
            context.flags.store(flags, Ordering::Relaxed);
        }
        Ok(())
    }
}
