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

use crate::{file::Activity, threads};
use event::activity as frames;

/// Begins; `why` it is not CUPTI. Err: the file back, with the reason.
pub fn start(mut activity: Activity, why: &str) -> Result<(), (Activity, String)> {
    if !instead::is_called() {
        let words = "events around launches need the injected library (--method preload,cupti)";
        return Err((activity, words.into()));
    }
    if let Err(missing) = driver::find() {
        return Err((activity, format!("{missing} cannot be used for events")));
    }
    let about = format!("source=events instead={}", instead::count());
    activity.write(frames::BEGIN, about.as_bytes());
    activity.note(&format!(
        "{why}: GPU times are those of events around launches and copies, less exact than CUPTI's"
    ));
    read::start(activity);
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
