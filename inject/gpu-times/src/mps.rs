//! Whether this process is a client of NVIDIA's Multi-Process Service. While the driver asks the service's
//! daemon for a server, one of its open files is a pipe of the service's folder, or a socket whose other end is;
//! from then on it has a socket to the server, which has only the name that the kernel gives to sockets without
//! one (driver 580).

use crate::wanted::variable;
use cuda::mps;
use std::{
    fs, mem,
    os::{fd::RawFd, unix::ffi::OsStrExt},
    path::Path,
    sync::atomic::{AtomicBool, Ordering},
};

/// More open files than this are not looked at: a program may have a million.
const MOST_FILES: usize = 4096;

static SAID: AtomicBool = AtomicBool::new(false);

/// What there is to say of it, once. The driver connects in cuInit, after this library has begun.
pub fn news() -> Option<&'static str> {
    if SAID.load(Ordering::Relaxed) || !is_client() {
        return None;
    }
    (!SAID.swap(true, Ordering::Relaxed)).then_some(mps::CLIENT)
}

fn is_client() -> bool {
    let folder = variable(mps::FOLDER_VARIABLE).filter(|folder| !folder.is_empty());
    let folder = folder.unwrap_or_else(|| mps::USUAL_FOLDER.into());
    // Nearly everywhere there is none, and no file has to be looked at.
    if fs::metadata(&folder).is_err() {
        return false;
    }
    let has_daemon = fs::metadata(Path::new(&folder).join("control")).is_ok();
    let folder = folder.as_bytes();
    let files = fs::read_dir("/proc/self/fd")
        .into_iter()
        .flatten()
        .flatten();
    files.take(MOST_FILES).any(|file| {
        let Ok(target) = fs::read_link(file.path()) else {
            return false;
        };
        let target = target.as_os_str().as_bytes();
        if !target.starts_with(b"socket:") {
            return mps::is_in(folder, target);
        }
        let number = file.file_name();
        let number = number.to_str().and_then(|number| number.parse().ok());
        let peer = number.and_then(peer);
        peer.is_some_and(|peer| mps::is_in(folder, &peer) || has_daemon && is_given(&peer))
    })
}

/// A name that the kernel gave: five digits, in no folder.
fn is_given(name: &[u8]) -> bool {
    matches!(name, [0, digits @ ..] if digits.len() == 5 && digits.iter().all(u8::is_ascii_hexdigit))
}

/// The name of the other end of a local socket; one in no folder begins with a zero.
fn peer(socket: RawFd) -> Option<Vec<u8>> {
    // SAFETY: all zeros are a valid address; the call writes no more than it is told there is room for.
    let mut address: libc::sockaddr_un = unsafe { mem::zeroed() };
    let mut length = size_of::<libc::sockaddr_un>() as libc::socklen_t;
    let answer = unsafe { libc::getpeername(socket, (&raw mut address).cast(), &mut length) };
    if answer != 0 || i32::from(address.sun_family) != libc::AF_UNIX {
        return None;
    }
    let bytes = (length as usize).saturating_sub(mem::offset_of!(libc::sockaddr_un, sun_path));
    let name = address.sun_path.iter().map(|letter| *letter as u8);
    let mut name: Vec<u8> = name.take(bytes).collect();
    if let Some(end) = name.iter().skip(1).position(|letter| *letter == 0) {
        name.truncate(end + 1);
    }
    Some(name)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::{
        fs::File,
        os::{
            fd::AsRawFd,
            linux::net::SocketAddrExt,
            unix::net::{SocketAddr, UnixListener, UnixStream},
        },
    };

    #[test]
    fn the_other_end_of_a_socket_has_a_name() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("control");
        let _listening = UnixListener::bind(&path).expect("bound");
        let socket = UnixStream::connect(&path).expect("connected");
        assert_eq!(
            peer(socket.as_raw_fd()),
            Some(path.as_os_str().as_bytes().to_vec())
        );
        let (one, _other) = UnixStream::pair().expect("a pair");
        assert_eq!(peer(one.as_raw_fd()), Some(Vec::new()));
        let digits = format!("{:05x}", std::process::id() & 0xfffff);
        let name = SocketAddr::from_abstract_name(&digits).expect("a name");
        let _listening = UnixListener::bind_addr(&name).expect("bound");
        let socket = UnixStream::connect_addr(&name).expect("connected");
        let given = peer(socket.as_raw_fd()).expect("a socket");
        assert_eq!(given, [b"\0", digits.as_bytes()].concat());
        assert!(is_given(&given));
        for other in [&b"0f3a1"[..], b"\x000f3a", b"\x00sd-bus", b""] {
            assert!(!is_given(other), "{other:?}");
        }
        let file = File::open("/proc/self/status").expect("there");
        assert_eq!(peer(file.as_raw_fd()), None);
    }
}
