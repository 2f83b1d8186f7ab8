//! GPU times without CUPTI: events around what the program gives the GPU.
//!
//! The injected library calls the functions of [`instead`] in place of the driver's. Each puts an
//! event before the work and one behind it into the work's own stream ([`hot`]); a thread reads those
//! that have been reached ([`read`]) and tells their times from events whose host times are known
//! ([`reference`]). No call here waits for the program's work, streams that are being captured are
//! left alone, and an error is only ever ours.

mod driver;
mod hot;
mod instead;
mod read;
mod reference;

use crate::{file::TimesFile, threads};
use event::gpu_times as frames;

/// Begins; `why` it is not CUPTI. Err: the file back, with the reason.
pub fn start(mut times: TimesFile, why: &str) -> Result<(), (TimesFile, String)> {
    if !instead::is_called() {
        let words = "events around launches need the injected library (--method preload,cupti)";
        return Err((times, words.into()));
    }
    if let Err(missing) = driver::find() {
        return Err((times, format!("{missing} cannot be used for events")));
    }
    let about = format!("source=events instead={}", instead::count());
    times.write(frames::BEGIN, about.as_bytes());
    times.note(&format!(
        "{why}: GPU times come from CUDA events around launches and copies, which are less exact than CUPTI's"
    ));
    read::start(times);
    // SAFETY: a function that lives as long as the process.
    unsafe { libc::pthread_atfork(None, None, Some(hot::forked)) };
    hot::set_active(true);
    if threads::start("cutrace-events", read::run).is_err() {
        read::finish();
    }
    Ok(())
}

/// Reads what there is, and ends.
pub fn finish() {
    read::finish();
}
