//! The socket where the library in a traced program asks for the files of shared maps.

use std::fs;
use std::io::{self, Read};
use std::os::fd::AsRawFd;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Both in the session's folder, and known to the crate `probe`.
const SOCKET: &str = "host.sock";
pub const PLACES: &str = "host-maps";

/// Files in one answer, at most: as many as an object has maps.
const MOST_FILES: usize = 192;

pub struct Door {
    listener: UnixListener,
    pub path: PathBuf,
}

/// One that asks.
pub struct Guest {
    stream: UnixStream,
    pub process: u32,
}

impl Door {
    pub fn open(folder: &Path) -> io::Result<Door> {
        let path = folder.join(SOCKET);
        let _ = fs::remove_file(&path);
        let listener = UnixListener::bind(&path)?;
        Ok(Door { listener, path })
    }

    /// The next that asks; `None`: nobody can any more.
    pub fn next(&self) -> Option<Guest> {
        loop {
            let (mut stream, _) = match self.listener.accept() {
                Ok(accepted) => accepted,
                Err(why) if why.kind() == io::ErrorKind::Interrupted => continue,
                Err(_) => return None,
            };
            let _ = stream.set_read_timeout(Some(Duration::from_secs(1)));
            let _ = stream.set_write_timeout(Some(Duration::from_secs(1)));
            // One byte is the question; the end of the session asks nothing.
            let _ = stream.read(&mut [0]);
            let process = peer(&stream).unwrap_or(0);
            return Some(Guest { stream, process });
        }
    }
}

impl Guest {
    /// One byte, with the files beside it.
    pub fn answer(&self, files: &[i32]) {
        let files = &files[..files.len().min(MOST_FILES)];
        let bytes = size_of_val(files);
        let mut byte = [files.len() as u8];
        let mut part = libc::iovec {
            iov_base: byte.as_mut_ptr().cast(),
            iov_len: 1,
        };
        // Words, so that the header inside is aligned.
        let mut control = [0u64; 128];
        // SAFETY: the message and all that it points to outlive the call, and there is room for the
        // files that it says it has.
        unsafe {
            let mut message: libc::msghdr = std::mem::zeroed();
            message.msg_iov = &mut part;
            message.msg_iovlen = 1;
            if !files.is_empty() {
                message.msg_control = control.as_mut_ptr().cast();
                message.msg_controllen = libc::CMSG_SPACE(bytes as u32) as usize;
                let header = libc::CMSG_FIRSTHDR(&message);
                (*header).cmsg_level = libc::SOL_SOCKET;
                (*header).cmsg_type = libc::SCM_RIGHTS;
                (*header).cmsg_len = libc::CMSG_LEN(bytes as u32) as usize;
                let to = libc::CMSG_DATA(header);
                std::ptr::copy_nonoverlapping(files.as_ptr().cast(), to, bytes);
            }
            libc::sendmsg(self.stream.as_raw_fd(), &message, libc::MSG_NOSIGNAL);
        }
    }
}

/// Who is at the other end, as this process counts processes.
fn peer(stream: &UnixStream) -> Option<u32> {
    // SAFETY: the credentials are written where there is room for them.
    unsafe {
        let mut found: libc::ucred = std::mem::zeroed();
        let mut bytes = size_of::<libc::ucred>() as libc::socklen_t;
        let result = libc::getsockopt(
            stream.as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_PEERCRED,
            (&raw mut found).cast(),
            &mut bytes,
        );
        (result == 0).then_some(found.pid as u32)
    }
}
