//! A context's maps, left in the session's folder: at its end, and as they are while it lives.

use crate::context::{Context, copy_out};
use crate::driver::{self, NOT_READY, OutsideCapture, SUCCESS, Within};
use ptx::device::Orders;
use std::fs::{self, File};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::time::{Duration, Instant};

/// How long kernels that are still running are waited for: the program does not wait at all.
const PATIENCE: Duration = Duration::from_millis(1000);
/// Copied at a time.
const PART: usize = 64 << 20;
/// One copy takes so long at most.
const COPY: Duration = Duration::from_secs(10);

/// When it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Moment {
    /// The program is done with it: its last kernels are waited for.
    End,
    /// The program goes on: nothing of its own is touched, nor waited for. A stream capture would not
    /// survive an event on the default stream, and a kernel may never end.
    Meanwhile,
}

pub fn dump(
    context: &Context,
    orders: &Orders,
    folder: &Path,
    moment: Moment,
    mut say: impl FnMut(&str, &str),
) {
    let Some(_within) = Within::enter(context.handle) else {
        return say(
            "note",
            "a context was destroyed before its maps could be read",
        );
    };
    let _outside = OutsideCapture::begin();
    let number = context.number;
    if moment == Moment::End {
        if !is_idle() {
            say(
                "note",
                "a kernel was still running at the end: its counts are incomplete",
            );
        } else if let Some(pair) =
            (context.clock.as_ref()).and_then(|clock| clock.read(context.stream))
        {
            say(
                "clock",
                &format!("{number} {} {} {}", pair.source, pair.host, pair.margin),
            );
        }
    }
    let maps = context.maps.iter().enumerate();
    let named = maps.map(|(index, placed)| (index.to_string(), placed));
    for (name, placed) in named.chain([("log".to_owned(), &context.log)]) {
        let bytes = placed.layout.device_bytes as usize;
        if bytes == 0 {
            continue;
        }
        let path = folder.join(format!("map.{}.{number}.{name}", std::process::id()));
        let spec = name.parse().ok().and_then(|at: usize| orders.maps.get(at));
        // Written aside: the tracer may be looking.
        let aside = path.with_extension("part");
        let written = match spec.filter(|_| placed.layout.part_bytes > 0) {
            // Copies for multiprocessors, which become one: they are small.
            Some(spec) => match copy_out(context, placed.device, bytes, COPY) {
                Some(out) => fs::write(&aside, spec.gathered(&placed.layout, out)),
                None => Err(io::ErrorKind::OutOfMemory.into()),
            },
            None => in_parts(&aside, bytes, |at, bytes| {
                copy_out(context, placed.device + at as u64, bytes, COPY)
            }),
        };
        if let Err(why) = written.and_then(|()| fs::rename(&aside, &path)) {
            let _ = fs::remove_file(&aside);
            let bytes = placed.layout.device_bytes;
            say(
                "note",
                &format!("a map of {bytes} bytes could not be saved: {why}"),
            );
        }
    }
}

/// Writes what `copy` gives, a part at a time: a map may be larger than the memory that is left, and the
/// program needs that itself. Parts that hold nothing take no room.
fn in_parts(
    path: &Path,
    bytes: usize,
    copy: impl Fn(usize, usize) -> Option<Vec<u8>>,
) -> io::Result<()> {
    let file = File::create(path)?;
    file.set_len(bytes as u64)?;
    for at in (0..bytes).step_by(PART) {
        let part = copy(at, PART.min(bytes - at));
        let part = part.ok_or_else(|| io::Error::other("it cannot be read from the device"))?;
        if part.iter().any(|byte| *byte != 0) {
            file.write_all_at(&part, at as u64)?;
        }
    }
    Ok(())
}

/// Whether the program's work on the device is done, or gets done in a moment.
fn is_idle() -> bool {
    let mut event = 0;
    let began = Instant::now();
    // CU_EVENT_DISABLE_TIMING
    // SAFETY: an event of ours, on the default stream, which waits for the others.
    unsafe {
        if driver::cuEventCreate(&mut event, 2) != SUCCESS
            || driver::cuEventRecord(event, 0) != SUCCESS
        {
            return true;
        }
        loop {
            match driver::cuEventQuery(event) {
                NOT_READY if began.elapsed() < PATIENCE => {
                    std::thread::sleep(Duration::from_micros(200))
                }
                NOT_READY => return false,
                _ => return true,
            }
        }
    }
}
