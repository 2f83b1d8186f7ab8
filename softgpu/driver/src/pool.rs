//! Threads that run the work of streams.
//!
//! A stream with work needs a thread of its own, for it may wait on another stream; threads are
//! started when all others are busy, and kept. They are never joined: a process may end with work
//! pending.

use std::{
    collections::VecDeque,
    sync::{Condvar, Mutex, PoisonError},
};

type Job = Box<dyn FnOnce() + Send>;

struct Pool {
    jobs: VecDeque<Job>,
    idle: usize,
}

static POOL: Mutex<Pool> = Mutex::new(Pool {
    jobs: VecDeque::new(),
    idle: 0,
});
static WORK: Condvar = Condvar::new();

/// Runs `job` on a thread of the pool, soon.
pub fn run(job: impl FnOnce() + Send + 'static) {
    let mut pool = POOL.lock().unwrap_or_else(PoisonError::into_inner);
    pool.jobs.push_back(Box::new(job));
    if pool.jobs.len() <= pool.idle {
        WORK.notify_one();
        return;
    }
    drop(pool);
    if !start_thread() {
        // No more threads to be had: the caller does the work itself.
        let job = POOL
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .jobs
            .pop_front();
        if let Some(job) = job {
            job();
        }
    }
}

/// Starts a thread with all signals blocked: the program's handlers expect its own threads.
fn start_thread() -> bool {
    let mut all = std::mem::MaybeUninit::<libc::sigset_t>::uninit();
    let mut before = std::mem::MaybeUninit::<libc::sigset_t>::uninit();
    unsafe {
        libc::sigfillset(all.as_mut_ptr());
        libc::pthread_sigmask(libc::SIG_SETMASK, all.as_ptr(), before.as_mut_ptr());
    }
    let started = std::thread::Builder::new()
        .name("softgpu-stream".to_owned())
        .stack_size(4 << 20)
        .spawn(serve)
        .is_ok();
    unsafe {
        libc::pthread_sigmask(libc::SIG_SETMASK, before.as_ptr(), std::ptr::null_mut());
    }
    started
}

fn serve() {
    let mut pool = POOL.lock().unwrap_or_else(PoisonError::into_inner);
    loop {
        if let Some(job) = pool.jobs.pop_front() {
            drop(pool);
            job();
            pool = POOL.lock().unwrap_or_else(PoisonError::into_inner);
        } else {
            pool.idle += 1;
            pool = WORK.wait(pool).unwrap_or_else(PoisonError::into_inner);
            pool.idle -= 1;
        }
    }
}
