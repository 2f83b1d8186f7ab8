//! Kernels of a PyTorch run, recorded on an H200, in tables of several widths: never two alike.

mod traces;

use event::{Category, Launch, Record, What};
use render::{Output, Style, Timeline, columns, tables, timeline::Options};
use std::collections::HashSet;
use traces::{Builder, meta};

/// Names of real kernels; those of PyTorch, cuBLAS and cuDNN.
fn names() -> Vec<&'static str> {
    include_str!("../../names/tests/recorded.txt")
        .lines()
        .filter(|name| {
            ["at::native", "nvjet", "cudnn_", "cutlass"]
                .iter()
                .any(|part| name.contains(part))
        })
        .collect()
}

/// Each kernel launched and run as often as its place in the list says, all in a row.
fn training() -> Vec<Record> {
    let mut trace = Builder::new();
    let mut at = 10_000;
    for (place, name) in names().into_iter().enumerate() {
        for _ in 0..=place % 3 {
            let call = trace.call((7, 7), "cuLaunchKernel", Category::Kernel, at, Some(2_000));
            trace.mean(
                &call,
                What::Launch(Launch {
                    kernel: name.into(),
                    grid: [64, 1, 1],
                    block: [256, 1, 1],
                    shared: 0,
                }),
            );
            let length = 1_000 + 131 * (place as u64 * 7 % 50);
            trace.gpu(name, Category::Kernel, 7, at + 3_000, length);
            at += 12_000;
        }
    }
    trace.records()
}

fn report(records: &[Record]) -> analyse::Report {
    let mut analysis = analyse::Analysis::new(&meta());
    records.iter().for_each(|record| analysis.add(record));
    analysis.finish(None)
}

fn style(width: usize) -> Style {
    Style {
        width,
        ..Style::default()
    }
}

/// The lines of the table below a heading, without the headings of its columns.
fn table<'a>(text: &'a str, heading: &str) -> Vec<&'a str> {
    let lines = text.lines().skip_while(|line| !line.starts_with(heading));
    (lines.skip(2))
        .take_while(|line| line.starts_with("  ") && !line.contains("more"))
        .collect()
}

#[test]
fn kernels_by_time_at_three_widths() {
    let report = report(&training());
    for width in [80, 120, 200] {
        let text = tables::top(&report, &style(width));
        let rows = table(&text, "GPU work by time");
        assert!(rows.len() > 15, "{text}");
        assert!(rows.iter().all(|row| columns(row) <= width), "{text}");
        // Names have single blanks, columns stand two apart.
        let name = |row: &&str| row.trim_start().split("  ").next().unwrap_or("").to_owned();
        let shown: HashSet<String> = rows.iter().map(name).collect();
        assert_eq!(shown.len(), rows.len(), "at {width}: {text}");
        insta::assert_snapshot!(format!("kernels_{width}"), rows.join("\n"));
    }
}

#[test]
fn a_pipe_gets_every_letter_and_whole_names_are_whole() {
    let report = report(&training());
    let pipe = Style {
        cut: false,
        ..style(80)
    };
    let text = tables::top(&report, &pipe);
    assert!(
        text.contains("nvjet_sm90_tst_64x48_64x15_2x4_h_bz_NNT  "),
        "{text}"
    );
    assert!(!text.contains('…'), "{text}");
    let whole = Style {
        full_names: true,
        ..style(80)
    };
    let text = tables::top(&report, &whole);
    let full = names()
        .into_iter()
        .find(|name| name.contains("FillFunctor<float>"));
    assert!(text.contains(full.expect("it was recorded")), "{text}");
}

/// Lanes are named after threads and streams: a kernel's name never widens them.
#[test]
fn the_timeline_at_three_widths() {
    let records = training();
    for width in [80, 120, 200] {
        let mut out = Vec::new();
        let options = Options {
            style: style(width),
            ..Options::default()
        };
        let mut timeline = Timeline::new(&mut out, &meta(), options);
        for record in &records {
            timeline.record(record).expect("memory can be written");
        }
        timeline.finish(None).expect("memory can be written");
        drop(timeline);
        let text = String::from_utf8(out).expect("UTF-8");
        assert!(text.lines().all(|line| columns(line) <= width), "{text}");
        insta::assert_snapshot!(format!("timeline_{width}"), text);
    }
}

/// JSON keeps the fields it had: names without arguments, and whole ones as variants.
#[test]
fn json_has_whole_names() {
    let report = report(&training());
    let json = serde_json::to_value(&report.functions).expect("JSON");
    let rows = json["kernels"].as_array().expect("rows");
    let short: HashSet<&str> = rows
        .iter()
        .filter_map(|row| row["short_name"].as_str())
        .collect();
    assert_eq!(short.len(), rows.len());
    for name in names() {
        let found = rows.iter().any(|row| {
            let variants = row["variants"].as_array().expect("variants");
            variants.iter().any(|variant| variant == name)
        });
        assert!(found, "{name}");
    }
    let base = "at::native::vectorized_elementwise_kernel";
    assert!(rows.iter().filter(|row| row["name"] == base).count() > 5);
    assert!(
        json["longest_gpu"][0]["name"]
            .as_str()
            .is_some_and(|name| name.len() > 25)
    );
}

/// A mangled name of 255 characters that stands for half a gigabyte: it took 16 s and 555 MB.
#[test]
fn a_hostile_name_costs_nothing() {
    let mut name = String::from("_Z1fSt4pairIiiES_IS0_S0_E");
    for digit in "123456789ABCDEFGHIJKLMN".chars() {
        name.push_str(&format!("S_IS{digit}_S{digit}_E"));
    }
    let mut trace = Builder::new();
    trace.gpu(&name, Category::Kernel, 7, 1_000, 2_000);
    let start = std::time::Instant::now();
    let report = report(&trace.records());
    let text = tables::top(&report, &style(80)) + &tables::gpu(&report, &style(80));
    assert!(text.contains("  f "), "{text}");
    assert!(start.elapsed() < std::time::Duration::from_secs(5));
    let whole = Style {
        full_names: true,
        ..style(80)
    };
    assert!(tables::top(&report, &whole).contains(&name));
}
