//! Bytes of ioctls become events.

use super::*;
use event::Extent;
use nvidia_ioctl::DeviceFile;

fn opened(file: DeviceFile, stand_in: bool) -> Opened {
    Opened {
        file,
        path: "/dev/nvidiactl".into(),
        stand_in,
    }
}

fn payload(argument: &[u8]) -> Payload {
    Payload {
        argument: argument.to_vec(),
        memory: Vec::new(),
    }
}

fn decoded(event: &Event, name: &str) -> Option<Value> {
    let ioctl = event.ioctl.as_ref()?;
    let arg = ioctl.decoded.iter().find(|arg| &*arg.name == name)?;
    Some(arg.value.clone())
}

/// RM_ALLOC of a class: root, parent, new, class.
fn alloc(words: [u32; 4], status: u32) -> Vec<u8> {
    let mut bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
    bytes.resize(48, 0);
    bytes[40..44].copy_from_slice(&status.to_le_bytes());
    bytes
}

#[test]
fn a_call_and_its_answer() {
    let mut decoder = Decoder::new("580.159.04".parse().ok());
    let request = Request {
        opened: opened(DeviceFile::Control, false),
        fd: 5,
        cmd: 0xc030_462b,
        argument: 0x1000,
    };
    assert_eq!(size(&request, decoder.version()), 48);
    let before = payload(&alloc([1, 2, 3, 0xa06c], 0));
    let mut event = decoder.begun(7, 100, &request, &before);
    assert_eq!(
        (event.id, event.kind, &*event.name),
        (7, Kind::Ioctl, "ioctl")
    );
    event.extent = Extent::Closed(5);
    let facts = decoder.returned(&mut event, &request, (&before, &before), 0);
    assert_eq!(facts[0].name(), "tsg_created");
    assert_eq!(
        event.status,
        Some(Status {
            code: 0,
            name: None
        })
    );
    assert_eq!(decoded(&event, "status"), Some("NV_OK".into()));
    let Some(Value::List(told)) = decoded(&event, "facts") else {
        panic!("no facts")
    };
    let Value::Map(first) = &told[0] else {
        panic!("no map")
    };
    assert_eq!(first[0], Arg::new("fact", "tsg_created"));
    // The driver refuses in the struct, and nothing came to be.
    let refused = payload(&alloc([1, 2, 4, 0xa06c], 0x1f));
    assert!(
        decoder
            .returned(&mut event, &request, (&before, &refused), 0)
            .is_empty()
    );
    assert!(decoded(&event, "facts").is_none());
    decoder.returned(&mut event, &request, (&before, &before), -22);
    let failed = event.status.expect("it says");
    assert_eq!((failed.code, failed.name.as_deref()), (22, Some("EINVAL")));
}

#[test]
fn libcuda_says_which_driver_it_speaks_to() {
    let mut bytes = vec![0; 72];
    bytes[8..18].copy_from_slice(b"570.211.01");
    let request = |stand_in| Request {
        opened: opened(DeviceFile::Control, stand_in),
        fd: 3,
        cmd: 0xc048_46d2,
        argument: 1,
    };
    let mut decoder = Decoder::new(None);
    decoder.begun(1, 1, &request(false), &payload(&bytes));
    assert_eq!(decoder.version().to_string(), "570.211.01");
    let mut decoder = Decoder::new("580.159.04".parse().ok());
    decoder.begun(1, 1, &request(false), &payload(&bytes));
    assert_eq!(
        decoder.version().to_string(),
        "580.159.04",
        "the loaded one is certain"
    );
    decoder.begun(1, 1, &request(true), &payload(&bytes));
    assert_eq!(
        decoder.version().to_string(),
        "570.211.01",
        "but plays no part here"
    );
}

#[test]
fn a_stand_in_answers_in_the_struct() {
    assert_eq!(status(-25, true), None);
    let refused = status(-25, false).expect("an error");
    assert_eq!(
        (refused.code, refused.name.as_deref()),
        (25, Some("ENOTTY"))
    );
    assert_eq!(status(-14, true).map(|status| status.code), Some(14));
    // mmap returns addresses: only the last page of them are errors.
    assert_eq!(
        status(0x7f00_0000_0000, false).map(|status| status.code),
        Some(0)
    );
    assert_eq!(status(-5000, false).map(|status| status.code), Some(0));
}

#[test]
fn files_are_found_by_descriptor() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("nvidia-uvm");
    let file = std::fs::File::create(&path).expect("created");
    let other = std::fs::File::create(folder.path().join("nvidia.txt")).expect("created");
    let mut files = DriverFiles::new();
    use std::os::fd::AsRawFd;
    let (own, fd) = (std::process::id(), file.as_raw_fd());
    let found = files.of(own, fd, 0).expect("a stand-in");
    assert_eq!((found.file, found.stand_in), (DeviceFile::Uvm, true));
    assert_eq!(&*found.path, path.to_str().expect("text"));
    assert_eq!(files.of(own, other.as_raw_fd(), 0), None);
    assert_eq!(files.of(own, -1, 0), None);
    // A number that was another file's a moment ago.
    // SAFETY: both descriptors are this test's own.
    unsafe { libc::dup2(fd, other.as_raw_fd()) };
    assert!(files.of(own, other.as_raw_fd(), 1).is_some());
    files.forget(own, other.as_raw_fd());
    drop(other);
    drop(file);
    assert!(files.of(own, fd, 5).is_some(), "believed for a moment");
    assert_eq!(files.of(own, fd, 20_000_000), None);
}
