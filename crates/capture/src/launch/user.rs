//! Who runs the command: under sudo it is theirs who asked for the trace, not root's, whatever it is
//! traced by. Root is needed to watch, not to be watched.

use super::User;
use std::{
    env,
    ffi::{CStr, CString, OsString},
    fs::File,
    io,
    os::unix::{
        ffi::OsStringExt,
        fs::{MetadataExt, fchown},
    },
};

/// Groups of a user that are kept, at most.
const MOST_GROUPS: usize = 1024;

/// Who the command runs as, if not as we do, and what its environment says of them.
#[derive(Debug, Clone)]
pub struct OtherUser {
    pub user: User,
    pub environment: Vec<(OsString, OsString)>,
}

/// Why a command cannot run as another user.
#[derive(Debug, thiserror::Error)]
pub enum UserError {
    #[error("--user: only root can run commands as another user; type: sudo cutrace …")]
    NotRoot,
    #[error("--user: no user has the ID {0} here")]
    Unknown(u32),
}

/// This user (`--user`), or the one who called sudo; None if that is who we are.
pub fn of_command(wanted: Option<u32>) -> Result<Option<OtherUser>, UserError> {
    let Some(wanted) = wanted else {
        return Ok(invoking().map(other));
    };
    // SAFETY: questions without side effects.
    let (own, root) = unsafe { (libc::geteuid(), libc::geteuid() == 0) };
    if wanted == own {
        return Ok(None);
    }
    if !root {
        return Err(UserError::NotRoot);
    }
    let Some(entry) = entry(wanted) else {
        return Err(UserError::Unknown(wanted));
    };
    let user = User {
        uid: wanted,
        gid: entry.gid,
        groups: groups(&entry.name, entry.gid),
    };
    Ok(Some(other(user)))
}

/// The user that called sudo; None if nobody did.
pub fn invoking() -> Option<User> {
    // SAFETY: a question without side effects.
    if unsafe { libc::geteuid() } != 0 {
        return None;
    }
    let number = |name| env::var(name).ok()?.parse::<u32>().ok();
    let uid = number("SUDO_UID").filter(|uid| *uid != 0)?;
    let gid = number("SUDO_GID")?;
    let name = env::var("SUDO_USER")
        .ok()
        .and_then(|name| CString::new(name).ok());
    Some(User {
        uid,
        gid,
        groups: name.map_or_else(|| vec![gid], |name| groups(&name, gid)),
    })
}

/// A file or folder that we have just made is theirs who called sudo, if anybody did.
pub fn give(made: &File) -> io::Result<()> {
    let Some(user) = invoking() else {
        return Ok(());
    };
    match made.metadata()?.uid() {
        // Some file systems have one owner for everything.
        uid if uid == user.uid => Ok(()),
        0 => fchown(made, Some(user.uid), Some(user.gid)),
        // Root made it; whatever is another's was put in its place.
        _ => Err(io::ErrorKind::PermissionDenied.into()),
    }
}

/// sudo has put root's home and name into the environment: programs would look there for what is theirs.
fn other(user: User) -> OtherUser {
    let mut environment = Vec::new();
    if let Some(entry) = entry(user.uid) {
        let text = |text: CString| OsString::from_vec(text.into_bytes());
        let name = text(entry.name);
        environment = vec![
            ("HOME".into(), text(entry.home)),
            ("USER".into(), name.clone()),
            ("LOGNAME".into(), name),
        ];
    }
    OtherUser { user, environment }
}

/// What the system knows of a user.
struct Account {
    name: CString,
    gid: u32,
    home: CString,
}

fn entry(uid: u32) -> Option<Account> {
    // SAFETY: nobody else asks at the same time; what is found is copied before anybody can ask again.
    unsafe {
        let found = libc::getpwuid(uid).as_ref()?;
        Some(Account {
            name: CStr::from_ptr(found.pw_name).to_owned(),
            gid: found.pw_gid,
            home: CStr::from_ptr(found.pw_dir).to_owned(),
        })
    }
}

fn groups(name: &CStr, gid: u32) -> Vec<u32> {
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
