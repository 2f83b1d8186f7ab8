//! Who asked for the trace: under sudo the command is theirs, not root's.

use capture::launch::User;
use std::{env, ffi::CString};

/// Groups of a user that are kept, at most.
const MOST_GROUPS: usize = 1024;

/// The user that called sudo; None if nobody did.
pub fn invoking() -> Option<User> {
    // SAFETY: a question without side effects.
    if unsafe { libc::geteuid() } != 0 {
        return None;
    }
    let number = |name| env::var(name).ok()?.parse::<u32>().ok();
    let uid = number("SUDO_UID").filter(|uid| *uid != 0)?;
    let gid = number("SUDO_GID")?;
    let name = env::var("SUDO_USER").ok();
    Some(User {
        uid,
        gid,
        groups: name.map_or_else(|| vec![gid], |name| groups(&name, gid)),
    })
}

fn groups(name: &str, gid: u32) -> Vec<u32> {
    let Ok(name) = CString::new(name) else {
        return vec![gid];
    };
    let mut found = vec![0; MOST_GROUPS];
    let mut count = MOST_GROUPS as libc::c_int;
    // SAFETY: there is room for as many as `count` says.
    let known = unsafe { libc::getgrouplist(name.as_ptr(), gid, found.as_mut_ptr(), &mut count) };
    if known < 0 {
        return vec![gid];
    }
    found.truncate(usize::try_from(count).unwrap_or(0));
    found
}
