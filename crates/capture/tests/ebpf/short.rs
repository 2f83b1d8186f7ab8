//! Calls that are too short leave no record: they are counted in the kernel.

use crate::common::{compile, ready, run};
use capture::ebpf::{AttachMode, Options};
use capture::launch::Exit;
use event::Extent;
use std::time::Duration;

const ROUNDS: u64 = 3;
const BRIEF: u64 = 1000;

#[test]
fn short_calls_leave_no_record_and_long_ones_are_in_their_places() {
    let Some(_turn) = ready() else {
        return;
    };
    let library = compile(
        "short_library.c",
        "libshort.so",
        &["-shared", "-fPIC", "-Wl,-soname,libshort.so"],
    );
    let folder = library.parent().expect("a folder").display().to_string();
    let run_path = format!("-Wl,-rpath,{folder}");
    let program = compile("short.c", "short", &["-L", &folder, &run_path, "-lshort"]);
    let program = program.display().to_string();
    let shortest = Duration::from_millis(150);
    for way in [AttachMode::Session, AttachMode::Multi, AttachMode::Single] {
        let options = Options {
            libraries: vec![("libshort.so".into(), "short_*".into())],
            filter: Some(capture::preload::Filter::parse("short_*")),
            min_duration: shortest,
            way: Some(way),
            ..Options::default()
        };
        let (exit, kept, report) = run(&options, &[&program, &BRIEF.to_string(), "200"]);
        assert_eq!(exit, Exit::Code(3), "{way:?}");
        let begun: Vec<_> = kept.begun().collect();
        let count = |name: &str| begun.iter().filter(|one| &*one.name == name).count() as u64;
        // Every brief call is counted, but for those that the machine made long.
        let made_long = count("short_brief");
        assert_eq!(
            report.ended.short + made_long,
            ROUNDS * BRIEF,
            "{way:?} {:?}",
            report.notes
        );
        assert!(made_long < ROUNDS * BRIEF / 10, "{way:?} {made_long}");
        let expected = (ROUNDS, ROUNDS, 1);
        let long = (
            count("short_outer"),
            count("short_inner"),
            count("short_last"),
        );
        assert_eq!(long, expected, "{way:?}");
        // Outer calls come first although their beginnings were told of last.
        assert!(begun.is_sorted_by_key(|one| one.start), "{way:?}");
        for inner in begun.iter().filter(|one| &*one.name == "short_inner") {
            let outer = begun.iter().find(|one| Some(one.id) == inner.parent);
            assert_eq!(outer.map(|one| &*one.name), Some("short_outer"), "{way:?}");
        }
        for event in kept.closed() {
            let Extent::Closed(took) = event.extent else {
                panic!("{event:?}");
            };
            assert!(u128::from(took) >= shortest.as_nanos(), "{way:?} {event:?}");
        }
        // The last one never returned.
        let ended = kept.closed().filter(|one| &*one.name == "short_last");
        assert_eq!(ended.count(), 0, "{way:?}");
        assert_eq!((kept.lost(), report.late), (0, 0), "{way:?}");
    }
}
