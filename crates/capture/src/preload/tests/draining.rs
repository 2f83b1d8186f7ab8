//! Which steps a ring's slots are, and which slots are given back.

use super::{RawCall, RingFile};
use crate::call::item::{Batch, Step, Within};
use crate::call::order::Order;
use crate::preload::arena::{Arena, leases_see_mappings};
use crate::preload::drain::Reader;
use tempfile::TempDir;

fn ring(capacity: u32) -> (TempDir, RingFile, Reader) {
    let folder = tempfile::tempdir().expect("a folder");
    let file = RingFile::create(folder.path(), 7, 8, capacity);
    let ring = file.open().expect("a ring");
    assert_eq!((ring.pid, ring.tid), (7, 8));
    (folder, file, Reader::new(ring))
}

/// `B` begin, `E` end, `W` both, `U` unwound, `L` lost, each with its call and time.
fn steps(reader: &mut Reader) -> String {
    let mut batch = Batch::default();
    reader.drain(&mut batch).expect("a sound ring");
    let shown: Vec<String> = (batch.items.iter())
        .map(|item| match &item.step {
            Step::Begin { complete, .. } => {
                let open = if complete.is_some() { "" } else { "?" };
                format!("B{}@{}{open}", item.sequence, item.time)
            }
            Step::End { result, .. } => format!("E{}@{}={result}", item.sequence, item.time),
            Step::Whole { exit, result, .. } => {
                format!("W{}@{}-{exit}={result}", item.sequence, item.time)
            }
            Step::Unwound { .. } => format!("U{}@{}", item.sequence, item.time),
            Step::Lost { count } => format!("L{count}"),
            Step::Note { note, .. } => format!("{note:?}"),
            Step::Unseen { .. } => "unseen".to_owned(),
        })
        .collect();
    shown.join(" ")
}

fn at(stack_pointer: u32) -> RawCall<'static> {
    RawCall {
        stack_pointer,
        ..RawCall::default()
    }
}

#[test]
fn calls_one_after_the_other_and_nested() {
    let (_folder, mut file, mut reader) = ring(16);
    let first = file.begin(10, at(0x900));
    file.end(first, 12, 3);
    let outer = file.begin(20, at(0x900));
    let inner = file.begin(21, at(0x800));
    file.end(inner, 22, 0);
    let second = file.begin(23, at(0x800));
    file.end(second, 24, 0);
    file.end(outer, 30, 0);
    assert_eq!(
        steps(&mut reader),
        "W0@10-12=3 B1@20 W2@21-22=0 B3@23 E3@24=0 E1@30=0"
    );
    assert_eq!(file.tail(), 4);
    assert_eq!(steps(&mut reader), "");
}

#[test]
fn an_open_call_is_seen_at_once_and_holds_its_slot() {
    let (_folder, mut file, mut reader) = ring(16);
    let outer = file.begin(20, at(0x900));
    let inner = file.begin(21, at(0x800));
    file.end(inner, 22, 0);
    assert_eq!(steps(&mut reader), "B0@20? B1@21 E1@22=0");
    assert_eq!(
        file.tail(),
        0,
        "the open call's end will be written in its slot"
    );
    let inner = file.begin(25, at(0x800));
    assert_eq!(steps(&mut reader), "B2@25?");
    file.end(inner, 26, 0);
    file.end(outer, 27, 1);
    assert_eq!(steps(&mut reader), "E2@26=0 E0@27=1");
    assert_eq!(file.tail(), 3);
}

#[test]
fn frames_that_are_gone_were_unwound() {
    let (_folder, mut file, mut reader) = ring(16);
    // Thrown through, and the next call comes from the same depth.
    file.begin(10, at(0x900));
    file.begin(11, at(0x800));
    let next = file.begin(20, at(0x900));
    file.end(next, 21, 0);
    assert_eq!(
        steps(&mut reader),
        "B0@10? B1@11? U1@20 U0@20 B2@20 E2@21=0"
    );
    // The outer call caught what the inner one threw.
    let outer = file.begin(30, at(0x900));
    file.begin(31, at(0x800));
    file.end(outer, 40, 0);
    assert_eq!(steps(&mut reader), "B3@30 B4@31? U4@40 E3@40=0");
    assert_eq!(file.tail(), 5);
}

#[test]
fn another_stack_is_no_unwinding() {
    let (_folder, mut file, mut reader) = ring(16);
    let outer = file.begin(10, at(0x2000_0000));
    // A signal handler on a stack of its own, far above.
    let handler = file.begin(11, at(0x9000_0000));
    file.end(handler, 12, 0);
    file.end(outer, 15, 0);
    assert_eq!(steps(&mut reader), "B0@10 B1@11 E1@12=0 E0@15=0");
}

#[test]
fn rings_wrap_around_also_inside_a_payload() {
    let (_folder, mut file, mut reader) = ring(8);
    let mut expected = 0;
    for round in 0..50u64 {
        let payload: Vec<u8> = (0..150).map(|byte| (byte as u64 + round) as u8).collect();
        let sequence = file.begin(
            100 * round,
            RawCall {
                payload: &payload,
                ..RawCall::default()
            },
        );
        assert_eq!(sequence, expected);
        file.end(sequence, 100 * round + 50, 0);
        expected += 4;
        let mut batch = Batch::default();
        reader.drain(&mut batch).expect("a sound ring");
        let [begin, end] = &batch.items[..] else {
            panic!("two steps: {:?}", batch.items);
        };
        let Step::Begin {
            payload: place,
            complete: Some(_),
            ..
        } = &begin.step
        else {
            panic!("a whole call: {begin:?}");
        };
        assert_eq!(place.of(&batch.bytes)[..150], payload);
        assert!(matches!(&end.step, Step::End { payload, .. } if payload.is_empty()));
    }
    assert_eq!(file.tail(), 200);
}

#[test]
fn the_payload_of_a_call_that_was_open_comes_with_its_end() {
    let (_folder, mut file, mut reader) = ring(8);
    let call = RawCall {
        payload: &[1; 60],
        ..RawCall::default()
    };
    let sequence = file.begin(10, call);
    assert_eq!(steps(&mut reader), "B0@10?");
    file.put_payload(sequence, &[2; 60]);
    file.end(sequence, 11, 0);
    let mut batch = Batch::default();
    reader.drain(&mut batch).expect("a sound ring");
    assert!(
        matches!(&batch.items[0].step, Step::End { payload, .. } if payload.of(&batch.bytes).len() == 60)
    );
    assert_eq!(batch.bytes, [2; 60]);
}

#[test]
fn a_slot_that_is_reserved_but_not_filled_is_waited_for() {
    let (_folder, mut file, mut reader) = ring(8);
    file.set_head(1);
    assert_eq!(steps(&mut reader), "");
    file.set_head(0);
    file.call(1..2, 0, [0; 4]);
    // A payload slot behind a filled call, still of an earlier lap.
    let sequence = file.begin(
        5,
        RawCall {
            payload: &[1; 60],
            ..RawCall::default()
        },
    );
    file.put(
        super::RING_HEADER_SIZE as u64 + (sequence + 1) * 64 + 28,
        &[0; 4],
    );
    assert_eq!(steps(&mut reader), "W0@1-2=0");
    file.put_payload(sequence, &[1; 60]);
    assert_eq!(steps(&mut reader), "B1@5?");
}

/// A signal handler came between a call's place in the ring and its record, and jumped away.
#[test]
fn a_gap_that_nobody_fills_does_not_hold_up_the_rest() {
    let (_folder, mut file, mut reader) = ring(64);
    file.call(1..2, 0, [0; 4]);
    // Two slots of one call: nothing of it, and payload that is there already, which is no call.
    file.set_head(2);
    file.put_payload(1, &[0xff; 60]);
    file.set_head(3);
    file.call(5..6, 0, [0; 4]);
    file.call(7..8, 0, [0; 4]);
    assert_eq!(steps(&mut reader), "B0@1 E0@2=0");
    assert_eq!(steps(&mut reader), "", "the handler may return");
    assert_eq!(file.tail(), 1);
    std::thread::sleep(std::time::Duration::from_millis(150));
    assert_eq!(steps(&mut reader), "W3@5-6=0 B4@7 E4@8=0");
    assert_eq!(file.tail(), 5);
    // Nobody is left to fill it.
    file.set_head(6);
    file.call(9..10, 0, [0; 4]);
    reader.set_over();
    assert_eq!(steps(&mut reader), "B6@9 E6@10=0");
    // Nothing comes after it: it was never made.
    file.set_head(8);
    assert_eq!(steps(&mut reader), "");
}

#[test]
fn drops_are_counted_once() {
    let (_folder, mut file, mut reader) = ring(8);
    file.call(1..2, 0, [0; 4]);
    file.set_dropped(5);
    assert_eq!(steps(&mut reader), "B0@1 E0@2=0 L5");
    assert_eq!(steps(&mut reader), "");
    file.set_dropped(7);
    assert_eq!(steps(&mut reader), "L2");
}

#[test]
fn a_ring_whose_process_is_gone_is_told_from_a_quiet_one() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = RingFile::create(folder.path(), 7, 8, 8);
    let opened = Arena::open(&file.path).expect("readable");
    let arena = opened.expect("whole");
    assert_eq!(arena.has_producer(), Some(true), "its file is open");
    drop(file);
    assert_eq!(arena.has_producer(), Some(false));
}

/// On overlayfs a lease is granted on a file that somebody has mapped: it tells nothing there.
#[test]
fn leases_are_believed_only_where_they_see_mappings() {
    let folder = tempfile::tempdir_in("/dev/shm").expect("a folder");
    assert!(leases_see_mappings(folder.path()).expect("asked"));
    assert_eq!(std::fs::read_dir(folder.path()).expect("there").count(), 0);
    // The mount is this thread's alone.
    let on_overlay = std::thread::spawn(move || {
        let at = |name: &str| folder.path().join(name);
        for name in ["lower", "upper", "work", "merged"] {
            std::fs::create_dir(at(name)).expect("made");
        }
        let text = |path: std::path::PathBuf| {
            std::ffi::CString::new(path.into_os_string().into_encoded_bytes())
        };
        let merged = text(at("merged")).expect("a name");
        let options = format!(
            "lowerdir={},upperdir={},workdir={}",
            at("lower").display(),
            at("upper").display(),
            at("work").display()
        );
        let options = std::ffi::CString::new(options).expect("plain");
        // SAFETY: strings that end in NUL; the calls concern this thread's mounts only.
        let mounted = unsafe {
            libc::unshare(libc::CLONE_NEWNS) == 0
                && libc::mount(
                    std::ptr::null(),
                    c"/".as_ptr(),
                    std::ptr::null(),
                    libc::MS_REC | libc::MS_PRIVATE,
                    std::ptr::null(),
                ) == 0
                && libc::mount(
                    c"overlay".as_ptr(),
                    merged.as_ptr(),
                    c"overlay".as_ptr(),
                    0,
                    options.as_ptr().cast(),
                ) == 0
        };
        let seen = mounted.then(|| leases_see_mappings(&at("merged")).expect("asked"));
        if mounted {
            // SAFETY: as above.
            unsafe { libc::umount2(merged.as_ptr(), libc::MNT_DETACH) };
        }
        seen
    });
    match on_overlay.join().expect("a thread") {
        Some(seen) => assert!(
            !seen,
            "if they do here, they may be believed: mend this test"
        ),
        None => eprintln!("skipped: mounting needs root"),
    }
}

/// The program goes on while its ring is read: what a call did is told before its end.
#[test]
fn calls_stay_inside_of_their_callers_while_the_program_runs() {
    const OUTER: u64 = 2_000;
    const INNER: u64 = 12;
    let (_folder, mut file, mut reader) = ring(4096);
    let producer = std::thread::spawn(move || {
        let mut time = 1;
        let mut next = || {
            time += 1;
            time
        };
        for _ in 0..OUTER {
            while file.head - file.tail() > 4000 {
                std::thread::yield_now();
            }
            let outer = file.begin(next(), at(0x900));
            for _ in 0..INNER {
                let inner = file.begin(next(), at(0x800));
                file.end(inner, next(), 0);
            }
            file.end(outer, next(), 0);
        }
    });
    let (mut open, mut ended, mut latest, mut whole) = (Vec::new(), 0, 0, 0);
    while ended < OUTER * (INNER + 1) {
        let mut batch = Batch::default();
        reader.drain(&mut batch).expect("a sound ring");
        for item in &batch.items {
            assert!(item.time > latest, "{item:?} after {latest}");
            latest = item.time;
            match item.step {
                Step::Begin { .. } => {
                    assert_eq!(open.len(), usize::from(item.sequence % (INNER + 1) != 0));
                    open.push(item.sequence);
                }
                Step::End { .. } => {
                    assert_eq!(open.pop(), Some(item.sequence));
                    ended += 1;
                }
                Step::Whole { exit, .. } => {
                    assert_eq!(open.len(), 1, "only inner calls enclose none");
                    assert!(item.sequence % (INNER + 1) != 0 && exit == item.time + 1);
                    (ended, latest, whole) = (ended + 1, exit, whole + 1);
                }
                _ => panic!("nothing else happened: {item:?}"),
            }
        }
    }
    producer.join().expect("the producer is done");
    assert!(whole > 0, "most were over when they were read");
}

#[test]
fn a_full_ring_is_given_back_in_portions() {
    let (_folder, mut file, mut reader) = ring(64 << 10);
    for call in 0..60_000u64 {
        file.call(call * 10 + 1..call * 10 + 5, 0, [0; 4]);
    }
    let mut batch = Batch::with_room(reader.steps());
    let room = batch.size();
    assert_eq!(reader.drain(&mut batch), Ok(true));
    let (first, tail) = (batch.items.len(), file.tail());
    assert_eq!(batch.size(), room, "it has not grown");
    assert!(tail > 1000 && tail < 60_000, "{tail}");
    assert_eq!(reader.drain(&mut batch), Ok(true));
    let mut rest = batch.emptied();
    while reader.drain(&mut rest).expect("a sound ring") {
        rest = rest.emptied();
    }
    assert!(first < 60_000);
    assert_eq!(file.tail(), 60_000);
    assert_eq!(steps(&mut reader), "");
}

#[test]
fn a_payload_within_the_slot_is_read_when_the_call_has_returned() {
    let (_folder, mut file, mut reader) = ring(16);
    let call = |args| RawCall {
        args,
        flags: 3 << event::ring::WITHIN_SHIFT,
        ..RawCall::default()
    };
    let payloads = |reader: &mut Reader| -> Vec<Vec<u8>> {
        let mut batch = Batch::default();
        reader.drain(&mut batch).expect("a sound ring");
        let found = batch.items.iter().map(|item| match &item.step {
            Step::Begin {
                complete: None,
                payload,
                ..
            }
            | Step::End { payload, .. } => payload.of(&batch.bytes).to_vec(),
            Step::Begin {
                args,
                complete: Some(within),
                ..
            }
            | Step::Whole { args, within, .. } => {
                let (bytes, valid) = within.payload(args);
                bytes[..valid].to_vec()
            }
            _ => panic!("nothing else happened: {item:?}"),
        });
        found.collect()
    };
    let words = [[7u64.to_le_bytes(), 8u64.to_le_bytes()].concat(), vec![]];
    // Returned before it was read: with its beginning.
    let first = file.begin(10, call([1, 2, 7, 8]));
    file.end(first, 12, 0);
    assert_eq!(payloads(&mut reader), words);
    // After: with its end, and not what was in the words before.
    let second = file.begin(20, call([1, 2, 5, 5]));
    assert_eq!(payloads(&mut reader), [Vec::<u8>::new()]);
    let third = file.begin(21, call([1, 2, 7, 8]));
    file.end(third, 22, 0);
    file.end(second, 23, 0);
    assert_eq!(payloads(&mut reader)[2].len(), 16);
    // Over before the next began: with the call.
    let fourth = file.begin(30, call([1, 2, 7, 8]));
    file.end(fourth, 31, 0);
    file.begin(32, at(0x1000));
    assert_eq!(payloads(&mut reader), [words[0].clone(), vec![]]);
}

/// What a ring's steps come to, one by one, with what the calls left in their slots.
fn one_by_one(batches: Vec<Batch>) -> Vec<String> {
    let mut order = Order::default();
    for batch in batches {
        order.push(batch, |time| time);
    }
    let mut told = std::collections::HashMap::new();
    let mut found = Vec::new();
    while let Some(taken) = order.next(u64::MAX, |_, time| time) {
        let (item, batch) = (&taken.item, &taken.batch);
        let within = |within: Within, args| {
            let (bytes, valid) = within.payload(args);
            bytes[..valid].to_vec()
        };
        let letter = match &item.step {
            Step::Whole {
                args, within: some, ..
            }
            | Step::Begin {
                args,
                complete: Some(some),
                ..
            } => {
                told.insert(item.sequence, within(*some, args));
                "B".into()
            }
            Step::Begin { .. } => "B".into(),
            Step::End {
                result, payload, ..
            } => {
                let late = payload.of(&batch.bytes).to_vec();
                let left = told.remove(&item.sequence).unwrap_or(late);
                format!("E{result} {left:?} ")
            }
            Step::Unwound { .. } => "U".into(),
            other => panic!("nothing else happened: {other:?}"),
        };
        found.push(format!("{letter}{}@{}", item.sequence, item.time));
        if let Some((end, result)) = taken.ended {
            let left = told.remove(&item.sequence).unwrap_or_default();
            found.push(format!("E{result} {left:?} {}@{end}", item.sequence));
        }
    }
    found
}

/// Calls inside of calls, exceptions that leave some of them, and calls that never end, read when
/// all is over, after each step, and now and then: the same in each case.
#[test]
fn whenever_a_ring_is_read_it_says_the_same() {
    const STEPS: u32 = 400;
    for seed in 1..40u64 {
        let read = |every: u32| {
            let mut noise = seed;
            let mut random = |below: u64| {
                noise = noise
                    .wrapping_mul(6_364_136_223_846_793_005)
                    .wrapping_add(1);
                (noise >> 33) % below
            };
            let (_folder, mut file, mut reader) = ring(1024);
            let (mut open, mut batches): (Vec<u64>, _) = (Vec::new(), Vec::new());
            for step in 1..=STEPS {
                let time = u64::from(step) * 10;
                let depth = open.len() as u32;
                match random(8) {
                    // A call from here: what was thrown through is above it on the stack no more.
                    0..=3 if depth < 5 => {
                        let call = RawCall {
                            args: [1, 2, 0, 0],
                            flags: 3 << event::ring::WITHIN_SHIFT,
                            ..at(0x9000 - 0x100 * depth)
                        };
                        open.push(file.begin(time, call));
                    }
                    4..=6 => {
                        if let Some(call) = open.pop() {
                            file.put_outputs(call, [time, call]);
                            file.end(call, time, step);
                        }
                    }
                    7 if random(4) == 0 => open.truncate(random(5) as usize),
                    _ => {}
                }
                if step.is_multiple_of(every) {
                    let mut batch = Batch::default();
                    reader.drain(&mut batch).expect("a sound ring");
                    batches.push(batch);
                }
            }
            let whole = batches.iter().flat_map(|batch| &batch.items);
            let whole = whole.filter(|item| matches!(item.step, Step::Whole { .. }));
            (whole.count(), one_by_one(batches))
        };
        let (whole, at_the_end) = read(STEPS);
        assert!(whole > 10 && at_the_end.len() > 100);
        for every in [1, 2, 25] {
            let (_, found) = read(every);
            let pairs = found.iter().zip(&at_the_end);
            for (number, (found, expected)) in pairs.enumerate() {
                assert_eq!(found, expected, "step {number}, seed {seed}, every {every}");
            }
            assert_eq!(found.len(), at_the_end.len());
        }
    }
}
