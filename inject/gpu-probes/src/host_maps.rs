//! Arrays of the host's kernel that programs of the GPU use too: their files come from the tracer, and
//! their pages are mapped here.
//!
//! Asking is also how the tracer learns of this process: it puts the uprobes of the same object into its
//! libraries before it answers. So this is done as the process begins, and again when a context does:
//! there may be more libraries then.

use crate::error::MemoryError;
use std::collections::HashMap;
use std::io::{Read, Write};
use std::mem::MaybeUninit;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::time::Duration;

/// Both in the session's folder, and known to the tracer (`capture::gpu_probe::host`).
const SOCKET: &str = "host.sock";
const PLACES: &str = "host-maps";
/// How long an answer may take: probes are put in meanwhile.
const PATIENCE: Duration = Duration::from_secs(20);
const MOST_FILES: usize = 192;

/// Where each is mapped, by its place in the orders. For good: the device may write at any time.
static MAPPED: Mutex<Option<HashMap<usize, usize>>> = Mutex::new(None);

#[used]
#[unsafe(link_section = ".init_array")]
static BEGIN: extern "C" fn() = begin;

extern "C" fn begin() {
    let _ = std::panic::catch_unwind(|| {
        if let Some(folder) = std::env::var_os("CUTRACE_GPU_PROBES").map(PathBuf::from)
            && folder.join(SOCKET).exists()
        {
            let _ = ask(&folder);
        }
    });
}

/// The pages of a map, where the kernel has it. `bytes` is its length.
pub fn mapped(folder: &Path, index: usize, bytes: usize) -> Result<Option<usize>, MemoryError> {
    let Some(position) = places(folder).iter().position(|place| *place == index) else {
        return Ok(None);
    };
    let mut all = MAPPED.lock().unwrap_or_else(|broken| broken.into_inner());
    let all = all.get_or_insert_default();
    if let Some(at) = all.get(&index) {
        return Ok(Some(*at));
    }
    let files = ask(folder).map_err(MemoryError::NoAnswer)?;
    let file = files.get(position).ok_or(MemoryError::NotSent)?;
    // SAFETY: a mapping at an address of the kernel's choice.
    let at = unsafe {
        libc::mmap(
            std::ptr::null_mut(),
            bytes.next_multiple_of(4096),
            libc::PROT_READ | libc::PROT_WRITE,
            libc::MAP_SHARED,
            file.as_raw_fd(),
            0,
        )
    };
    if at == libc::MAP_FAILED {
        return Err(MemoryError::CannotMapHosts(std::io::Error::last_os_error()));
    }
    all.insert(index, at as usize);
    Ok(Some(at as usize))
}

/// Something was loaded: there may be libraries that probes are waiting for.
pub fn tell(folder: &Path) {
    if folder.join(SOCKET).exists() {
        let _ = ask(folder);
    }
}

/// Which maps there are files of, in their order.
fn places(folder: &Path) -> Vec<usize> {
    let text = std::fs::read_to_string(folder.join(PLACES)).unwrap_or_default();
    text.lines().filter_map(|line| line.parse().ok()).collect()
}

fn ask(folder: &Path) -> std::io::Result<Vec<OwnedFd>> {
    let mut stream = UnixStream::connect(folder.join(SOCKET))?;
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.write_all(&[1])?;
    let files = receive(&stream)?;
    // Until the tracer closes its end.
    let _ = stream.read(&mut [0]);
    Ok(files)
}

fn receive(stream: &UnixStream) -> std::io::Result<Vec<OwnedFd>> {
    let mut byte = [0u8];
    let mut part = libc::iovec {
        iov_base: byte.as_mut_ptr().cast(),
        iov_len: 1,
    };
    // Words, so that the header inside is aligned.
    let mut control = [MaybeUninit::<u64>::uninit(); 128];
    let mut files = Vec::new();
    // SAFETY: the message and all that it points to outlive the call; what is read of it is as long as
    // the kernel says, and files that arrive are nobody else's.
    unsafe {
        let mut message: libc::msghdr = std::mem::zeroed();
        message.msg_iov = &mut part;
        message.msg_iovlen = 1;
        message.msg_control = control.as_mut_ptr().cast();
        message.msg_controllen = size_of_val(&control);
        if libc::recvmsg(stream.as_raw_fd(), &mut message, libc::MSG_CMSG_CLOEXEC) != 1 {
            return Err(std::io::Error::last_os_error());
        }
        let mut header = libc::CMSG_FIRSTHDR(&message);
        while !header.is_null() {
            if (*header).cmsg_level == libc::SOL_SOCKET && (*header).cmsg_type == libc::SCM_RIGHTS {
                let bytes = (*header).cmsg_len - libc::CMSG_LEN(0) as usize;
                let from = libc::CMSG_DATA(header).cast::<i32>();
                for at in 0..(bytes / size_of::<i32>()).min(MOST_FILES) {
                    files.push(OwnedFd::from_raw_fd(from.add(at).read_unaligned()));
                }
            }
            header = libc::CMSG_NXTHDR(&message, header);
        }
    }
    Ok(files)
}
