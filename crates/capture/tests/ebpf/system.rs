//! System calls on the driver's files, with what goes in and comes out.

use super::common::{compile, ready, run};
use capture::ebpf::Options;
use capture::launch::Exit;
use event::{Kind, Value};

#[test]
fn requests_are_seen_with_their_structs_and_what_these_point_to() {
    let Some(_turn) = ready() else {
        return;
    };
    let folder = tempfile::tempdir().expect("a folder");
    let file = std::fs::File::create(folder.path().join("nvidiactl")).expect("made");
    file.set_len(4096).expect("sized");
    let program = compile("requests.c", "requests", &[]);
    let options = Options {
        system_calls: true,
        ..Options::default()
    };
    let (program, folder) = (
        program.display().to_string(),
        folder.path().display().to_string(),
    );
    let (exit, kept, report) = run(&options, &[&program, &folder, "100"]);
    assert_eq!(exit, Exit::Code(0));
    let closed: Vec<_> = kept.closed().collect();
    let names: Vec<&str> = closed.iter().map(|event| &*event.name).collect();
    assert_eq!(names.first(), Some(&"openat"), "{names:?}");
    assert_eq!(names[names.len() - 2..], ["mmap", "close"]);
    let requests: Vec<_> = closed
        .iter()
        .filter(|one| one.kind == Kind::Ioctl)
        .collect();
    assert_eq!((requests.len(), closed.len()), (100, 103));
    assert_eq!((report.system_calls, report.ended.lost_system), (103, 0));
    for (number, event) in requests.iter().enumerate() {
        let ioctl = event.ioctl.as_ref().expect("decoded");
        assert_eq!(ioctl.cmd, 0xc020_462a);
        let text = format!("{:?}", ioctl.decoded);
        // The client's handle is in the struct, the rest behind its pointer.
        let client = format!("{}", 0xc1d0_0000u64 + number as u64);
        assert!(text.contains(&client), "{number}: {text}");
        assert!(text.contains("NV2080_CTRL"), "{number}: {text}");
        assert_eq!(event.arg("stand_in"), Some(&Value::Bool(true)));
    }
    let times: Vec<u64> = closed.iter().map(|event| event.start).collect();
    assert!(times.is_sorted());
}
