//! Turns functions of PyTorch's libraries to code of ours, which goes on to them.

use super::super::code::{self, Writer};
use super::super::watch;
use crate::objects::{Object, file::Mapped};
use crate::text;
use core::sync::atomic::{AtomicUsize, Ordering};

/// A function's name, what it leads to from now on, and where the way on to it is kept.
pub type Turned<'a> = (&'a [u8], usize, &'a AtomicUsize);

/// False if one of them is not there or its code cannot be changed.
pub fn turn(object: &Object, functions: &[Turned<'_>]) -> bool {
    let Some(file) = Mapped::object(object) else {
        return false;
    };
    let parts = code::parts(object, &file);
    if !text::can_make_code() {
        return false;
    }
    let Some(writer) = Writer::open(&parts) else {
        return false;
    };
    let all = functions.iter().all(|(name, entry, real)| {
        let function = object.function(name);
        let turned = function.and_then(|function| {
            let (near, patch, on) = watch::prepare(object, &file, &parts, function, *entry)?;
            near.seal().then(|| {
                real.store(on, Ordering::Release);
                writer.write(&patch);
            })
        });
        turned.is_some()
    });
    writer.close();
    all
}
