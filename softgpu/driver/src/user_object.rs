//! User objects: what a program wants kept as long as graphs that use it.

use std::{
    ffi::c_void,
    sync::{Arc, Mutex, PoisonError},
};

use super::{
    abi::HostFn,
    result::{Answer, INVALID_VALUE},
    state::driver,
};

/// What the program gave; destroyed when nobody refers to it any more.
pub struct UserData {
    data: usize,
    destroy: HostFn,
}

impl Drop for UserData {
    fn drop(&mut self) {
        if let Some(destroy) = self.destroy {
            unsafe { destroy(self.data as *mut c_void) };
        }
    }
}

/// The program's own references to an object.
pub struct UserObject {
    kept: Mutex<Option<Arc<UserData>>>,
    count: Mutex<u32>,
}

impl UserObject {
    /// Returns the handle.
    pub fn create(data: usize, destroy: HostFn, count: u32) -> u64 {
        let handle = driver().user_objects.fresh();
        let object = Self {
            kept: Mutex::new(Some(Arc::new(UserData { data, destroy }))),
            count: Mutex::new(count),
        };
        driver().user_objects.insert(handle, Arc::new(object));
        handle
    }

    pub fn kept(&self) -> Answer<Arc<UserData>> {
        let kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        kept.clone().ok_or(INVALID_VALUE)
    }

    pub fn retain(&self, more: u32) -> Answer {
        let mut count = self.count.lock().unwrap_or_else(PoisonError::into_inner);
        *count = count.checked_add(more).ok_or(INVALID_VALUE)?;
        Ok(())
    }

    /// Gives references up; the last one forgets the handle.
    pub fn release(&self, handle: u64, fewer: u32) -> Answer {
        let mut count = self.count.lock().unwrap_or_else(PoisonError::into_inner);
        *count = count.checked_sub(fewer).ok_or(INVALID_VALUE)?;
        if *count == 0 {
            driver().user_objects.remove(handle);
            let kept = self
                .kept
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .take();
            drop(kept);
        }
        Ok(())
    }
}

/// An object by its handle.
pub fn by_handle(handle: u64) -> Answer<Arc<UserObject>> {
    driver().user_objects.get(handle).ok_or(INVALID_VALUE)
}
