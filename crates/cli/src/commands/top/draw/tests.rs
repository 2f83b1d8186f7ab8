use super::*;
use crate::commands::top::model::RowKey;
use analyse::live::{Histogram, Iteration, StepSeries};
use std::time::Duration;

fn picture() -> Picture {
    let mut durations = Histogram::default();
    let recent: Vec<Iteration> = (0..60u64)
        .map(|number| {
            let length = 12_000_000 + (number % 7) * 300_000;
            durations.add(length);
            Iteration {
                start_ns: number * 20_000_000,
                end_ns: number * 20_000_000 + length,
                number,
            }
        })
        .collect();
    let row = |name: &str, share, rate, mean, failed| ListRow {
        name: name.into(),
        share: Some(share),
        per_second: Some(rate),
        count: (rate * 5.0) as u64,
        mean_ns: Some(mean),
        failed,
        note: String::new(),
        what: RowKey::Nothing,
    };
    Picture {
        title: "python3 train.py --epochs 100 (4711)".into(),
        elapsed: Duration::from_secs(83),
        gpus: vec![("GPU 0".into(), 0.63)],
        has_gpu_times: true,
        steps: Some(StepSeries {
            pid: 4711,
            tid: 4711,
            mark: "k".into(),
            count: 6_400,
            durations,
            recent,
        }),
        calls_per_second: 12_345.6,
        launches_per_second: 1_234.0,
        held_bytes: 3 << 30,
        peak_bytes: 4 << 30,
        growth: 12.0 * 1_048_576.0,
        held_history: (0..40).map(|value| value * 1_000_000).collect(),
        copies: [1.2e9, 0.0, 3.4e9],
        errors: 3,
        last_error: Some("cuMemAlloc_v2: CUDA_ERROR_OUT_OF_MEMORY".into()),
        lost: 0,
        own_cost: 0.042,
        rows: vec![
            row("cudaLaunchKernel", 0.5, 1_234.0, 4_100, 0),
            row("cudaStreamSynchronize", 0.25, 81.0, 9_000_000, 0),
            row("cuMemAlloc_v2", 0.1, 0.6, 120_000, 3),
        ],
        ..Picture::default()
    }
}

fn text(width: usize, height: usize, unicode: bool, keys: &Keys) -> String {
    let style = Style {
        unicode,
        ..Style::default()
    };
    let canvas = Canvas {
        style: &style,
        width,
        height,
        output: &[],
        message: None,
    };
    let lines = canvas.frame(&picture(), keys);
    assert!(lines.len() <= height, "{} lines", lines.len());
    let lines: Vec<String> = lines.iter().map(plain).collect();
    for line in &lines {
        assert!(line.chars().count() <= width, "{width}: {line}");
    }
    lines.join("\n")
}

#[test]
fn a_frame_of_an_ordinary_terminal() {
    insta::assert_snapshot!(text(80, 24, true, &Keys::default()));
}

#[test]
fn a_narrow_frame_without_unicode() {
    let narrow = text(40, 16, false, &Keys::default());
    assert!(narrow.is_ascii(), "{narrow}");
    insta::assert_snapshot!(narrow);
}

#[test]
fn every_size_is_drawn() {
    for help in [false, true] {
        for width in [1, 2, 7, 20, 33, 60, 250] {
            for height in [1, 2, 5, 9, 24, 100] {
                let mut keys = Keys {
                    shows_help: help,
                    place: 2,
                    ..Keys::default()
                };
                for tab in Tab::ALL {
                    keys.choice.tab = tab;
                    text(width, height, true, &keys);
                }
            }
        }
    }
}

#[test]
fn the_chosen_row_is_always_shown() {
    let keys = Keys {
        place: 2,
        ..Keys::default()
    };
    assert!(text(80, 11, true, &keys).contains("cuMemAlloc_v2  3 failed"));
}

#[test]
fn curves_have_the_height_of_their_values() {
    assert_eq!(sparkline(&[0, 50, 100], true), "▁▅█");
    assert_eq!(sparkline(&[0, 100], false), "_#");
    assert_eq!(sparkline(&[7, 7], false).len(), 2);
    assert_eq!(sparkline(&[], true), "");
}
