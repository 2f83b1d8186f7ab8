//! The tables of memory, copies, contexts, findings and differences, whole, at 80 columns.

#[path = "../../analyse/tests/stage/mod.rs"]
mod stage;

use analyse::diff::{Conditions, diff};
use analyse::{Analysis, Report};
use event::{Arg, Category, Direction, MemorySpace, Meta, Record, Summary};
use render::{Style, columns, tables};
use stage::{MS, Stage, US};

/// A program with something for every table: `wait` is what an iteration waits.
fn staged(wait: u64) -> Stage {
    let mut stage = Stage::new();
    stage.call("cuInit", 3 * MS);
    stage.context = None;
    stage.call("cuCtxCreate_v2", 2 * MS);
    if let Some(Record::Event(event)) = stage.records.last_mut() {
        event.args.push(Arg::new("pctx", 0xa0u64));
    }
    stage.context = Some(0xa0);
    stage.alloc_in("cuMemHostAlloc", MemorySpace::Host, 0x9000, 1 << 20);
    stage.stack = vec![0x40_1000, 0x40_2000];
    stage.alloc(0x10_0000_0000, 64 << 20);
    stage.stack.clear();
    stage.copy(
        "cuMemcpyHtoD_v2",
        Direction::HostToDevice,
        64 << 20,
        20 * MS,
        [0x7000_0000, 0x10_0000_0000],
    );
    for turn in 0..24 {
        stage.context = Some(0xa0 + turn % 2);
        stage.call("cuCtxSetCurrent", 10 * US);
        stage.alloc(0x20_0000_0000 + turn * 0x20_0000, 1 << 16);
        stage.copy(
            "cuMemcpyHtoDAsync_v2",
            Direction::HostToDevice,
            4096,
            5 * US,
            [0x9000, 0x10_0000_0000],
        );
        let start = stage.now;
        stage.launch("step", 4 * US);
        stage.gpu("[CUDA memcpy HtoD]", Category::Transfer, start, 3 * US);
        stage.gpu("step", Category::Kernel, start + 5 * US, wait);
        stage.call("cuStreamSynchronize", wait);
        stage.copy(
            "cuMemcpyDtoH_v2",
            Direction::DeviceToHost,
            64,
            12 * US,
            [0x10_0000_0000, 0x7fff_0000],
        );
        stage.wait(if turn == 12 { 25 * MS } else { 100 * US });
    }
    stage.free(0x10_0000_0000);
    stage.returned("cuMemFree_v2", 5 * US, 1);
    if let Some(Record::Event(event)) = stage.records.last_mut() {
        event.args.push(Arg::new("dptr", 0x10_0000_0000u64));
    }
    stage.call("cuCtxSynchronize", US);
    stage
}

fn report(stage: &Stage) -> Report {
    let meta = Meta {
        command: vec!["./app".into()],
        ..Meta::default()
    };
    let mut analysis = Analysis::new(&meta);
    stage.records.iter().for_each(|record| analysis.add(record));
    let summary = Summary {
        end_ns: stage.now,
        exit: Some(0),
        ..Summary::default()
    };
    analysis.finish(Some(&summary))
}

#[test]
fn memory() {
    insta::assert_snapshot!(tables::memory(&report(&staged(MS)), &Style::default()));
}

#[test]
fn transfers() {
    insta::assert_snapshot!(tables::transfers(&report(&staged(MS)), &Style::default()));
}

#[test]
fn contexts() {
    insta::assert_snapshot!(tables::contexts(&report(&staged(MS)), &Style::default()));
}

#[test]
fn findings() {
    insta::assert_snapshot!(tables::findings(&report(&staged(MS)), &Style::default()));
}

#[test]
fn differences() {
    let (a, b) = (report(&staged(MS)), report(&staged(2 * MS)));
    insta::assert_snapshot!(tables::diff(&diff(&a, &b), &Style::default()));
    let conditions: Conditions = "total>+5%, memory.peak>+1%, step.p50>1500us"
        .parse()
        .unwrap();
    let outcomes = conditions.check(&a, &b).unwrap();
    insta::assert_snapshot!("outcomes", tables::outcomes(&outcomes, &Style::default()));
}

#[test]
fn runs_that_were_watched_in_different_ways_are_told_apart() {
    let by = |name: &str| {
        let mut report = report(&Stage::new());
        report.meta.backends = vec![event::Backend {
            name: name.into(),
            ..event::Backend::default()
        }];
        report
    };
    let text = |a, b| tables::diff(&diff(&by(a), &by(b)), &Style::default());
    assert!(!text("preload", "preload").contains("recorded by"));
    let other = text("preload", "syscall");
    assert!(
        other.contains("A was recorded with preload, B with syscall"),
        "{other}"
    );
}

#[test]
fn every_table_of_an_empty_trace_says_so() {
    let empty = report(&Stage::new());
    let style = Style::default();
    let texts = [
        tables::memory(&empty, &style),
        tables::transfers(&empty, &style),
        tables::contexts(&empty, &style),
        tables::findings(&empty, &style),
        tables::diff(&diff(&empty, &empty), &style),
    ];
    insta::assert_snapshot!(texts.join("---\n"));
}

#[test]
fn they_fit_any_width_in_any_alphabet() {
    let (a, b) = (report(&staged(MS)), report(&staged(2 * MS)));
    let compared = diff(&a, &b);
    for (width, unicode, color) in [(100, true, true), (120, false, false), (200, true, false)] {
        let style = Style {
            color,
            width,
            unicode,
            ..Style::default()
        };
        for text in [
            tables::memory(&a, &style),
            tables::transfers(&a, &style),
            tables::contexts(&a, &style),
            tables::findings(&a, &style),
            tables::top_findings(&a, 3, &style),
            tables::diff(&compared, &style),
        ] {
            for line in text.lines() {
                assert!(columns(line) <= width, "{width}: {line}");
                assert!(unicode || line.is_ascii(), "not ASCII: {line}");
            }
        }
    }
}

#[test]
fn names_of_programs_cannot_move_the_cursor() {
    let mut stage = staged(MS);
    for record in &mut stage.records {
        if let Record::Meaning(meaning) = record {
            meaning.name = "cuMemAlloc\x1b[2J\n_v2".into();
        }
    }
    let report = report(&stage);
    let style = Style::default();
    for text in [
        tables::memory(&report, &style),
        tables::transfers(&report, &style),
        tables::findings(&report, &style),
        tables::top_findings(&report, 9, &style),
    ] {
        assert!(!text.contains('\x1b'), "{text:?}");
    }
}
