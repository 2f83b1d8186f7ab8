//! Whatever the trace: nothing is more than its whole, and parts add up.

use analyse::{Analysis, Report};
use event::{
    Category, Event, Extent, Gpu, Launch, Layer, Meaning, Meta, Record, Status, Summary, Watched,
    What,
};
use proptest::prelude::*;
use render::{Style, tables};
use serde_json::Value;

/// A program of so many steps, each a few kernels with gaps, on one or two GPUs, with copies now and then.
#[derive(Debug, Clone)]
struct Program {
    steps: u64,
    launches: u64,
    launch_ns: u64,
    kernel_ns: u64,
    gap_ns: u64,
    wait: bool,
    gpus: u32,
    gpu_times: bool,
    start_ns: u64,
    watched: Option<(u64, u64)>,
    noise: Vec<(u64, u64, u8)>,
}

fn program() -> impl Strategy<Value = Program> {
    let shape = (0..40u64, 1..6u64, 1..5_000u64, 0..50_000u64, 0..200_000u64);
    let rest = (any::<bool>(), 1..3u32, any::<bool>(), 1..1_000_000u64);
    let watched = prop::option::of((0..10_000_000u64, 0..20_000_000u64));
    let noise = prop::collection::vec((0..5_000_000u64, 0..1_000_000u64, 0..6u8), 0..20);
    (shape, rest, watched, noise).prop_map(|(shape, rest, watched, noise)| Program {
        steps: shape.0,
        launches: shape.1,
        launch_ns: shape.2,
        kernel_ns: shape.3,
        gap_ns: shape.4,
        wait: rest.0,
        gpus: rest.1,
        gpu_times: rest.2,
        start_ns: rest.3,
        watched,
        noise,
    })
}

impl Program {
    fn records(&self) -> Vec<Record> {
        let mut records: Vec<Record> = Vec::new();
        let (mut now, mut next) = (self.start_ns + 1_000, 1u64);
        let mut event = |layer, category, name: &str, start, length| {
            let mut event = Event::new(next, layer, category, name, start);
            next += 1;
            (event.pid, event.tid) = (1, 1);
            event.extent = Extent::Closed(length);
            event
        };
        for step in 0..self.steps {
            for launch in 0..self.launches {
                let mut call = event(
                    Layer::Driver,
                    Category::Kernel,
                    "cuLaunchKernel",
                    now,
                    self.launch_ns,
                );
                call.correlation = Some(call.id);
                call.device = Some((step as u32 + launch as u32) % self.gpus);
                let kernel = format!("kernel{launch}");
                let what = What::Launch(Launch {
                    kernel: kernel.as_str().into(),
                    grid: [1; 3],
                    block: [32; 3],
                    shared: 0,
                });
                let meaning = Meaning::of(&call, what);
                if self.gpu_times {
                    let mut work = event(
                        Layer::Gpu,
                        Category::Kernel,
                        &kernel,
                        now + self.launch_ns,
                        self.kernel_ns,
                    );
                    (work.device, work.correlation) = (call.device, call.correlation);
                    records.push(work.into());
                }
                records.push(call.into());
                records.push(meaning.into());
                now += self.launch_ns + self.gap_ns;
            }
            if self.wait {
                let mut wait = event(
                    Layer::Driver,
                    Category::Sync,
                    "cuCtxSynchronize",
                    now,
                    self.kernel_ns,
                );
                wait.status = Some(Status {
                    code: 0,
                    name: None,
                });
                records.push(wait.into());
                now += self.kernel_ns;
            }
        }
        for &(at, length, what) in &self.noise {
            let (layer, category, name) = match what {
                0 => (Layer::Gpu, Category::Transfer, "memcpy H2D"),
                1 => (Layer::Runtime, Category::Memory, "cudaMalloc"),
                2 => (Layer::Driver, Category::Module, "cuModuleLoadData"),
                3 => (Layer::Os, Category::Other, "off-cpu"),
                4 => (Layer::Syscall, Category::Other, "ioctl"),
                _ => (Layer::Library, Category::Other, "cublasSgemm"),
            };
            let mut noise = event(layer, category, name, self.start_ns + at, length);
            noise.device = Some(0);
            noise.tid = 2 + u32::from(what);
            records.push(noise.into());
        }
        in_time(records)
    }

    fn report(&self) -> Report {
        let gpus = (0..self.gpus).map(|index| Gpu {
            index,
            ..Gpu::default()
        });
        let meta = Meta {
            start_ns: self.start_ns,
            gpus: gpus.collect(),
            ..Meta::default()
        };
        let records = self.records();
        let mut analysis = Analysis::new(&meta);
        for record in &records {
            analysis.add(record);
        }
        let end = records
            .iter()
            .map(Record::ts)
            .max()
            .unwrap_or(self.start_ns);
        let summary = Summary {
            end_ns: end + 5_000,
            watched: self.watched.map(|(from, length)| Watched {
                start_ns: self.start_ns + from,
                end_ns: self.start_ns + from + length,
            }),
            ..Summary::default()
        };
        analysis.finish(Some(&summary))
    }
}

/// Each span as readers of traces give it: its beginning, and its end.
fn in_time(records: Vec<Record>) -> Vec<Record> {
    let mut halves = Vec::new();
    for record in records {
        if let Record::Event(event) = &record {
            let mut began = event.clone();
            began.extent = Extent::Open;
            began.status = None;
            halves.push((event.start, Record::from(began)));
            halves.push((event.end().unwrap_or(event.start), record));
        } else {
            halves.push((record.ts(), record));
        }
    }
    halves.sort_by_key(|(at, _)| *at);
    halves.into_iter().map(|(_, record)| record).collect()
}

/// Every percentage in a text.
fn percentages(text: &str) -> Vec<f64> {
    let words: Vec<&str> = text.split_whitespace().collect();
    (words.windows(2))
        .filter(|pair| pair[1].starts_with('%'))
        .filter_map(|pair| pair[0].trim_start_matches(['(', '+', '-']).parse().ok())
        .collect()
}

/// Every value whose name says that it is a share, with the way to it.
fn shares(value: &Value, way: &str, found: &mut Vec<(String, f64)>) {
    match value {
        Value::Object(map) => {
            for (name, value) in map {
                let way = format!("{way}.{name}");
                match value.as_f64() {
                    Some(share) if name.contains("share") => found.push((way, share)),
                    _ => shares(value, &way, found),
                }
            }
        }
        Value::Array(list) => list.iter().for_each(|value| shares(value, way, found)),
        _ => {}
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn no_share_is_above_its_whole(program in program()) {
        let report = program.report();
        let style = Style::default();
        for text in [
            tables::summary(&report, &style),
            tables::idle(&report, &style),
            tables::findings(&report, &style),
            tables::gpu(&report, &style),
            tables::categories(&report, &style),
            tables::transfers(&report, &style),
            tables::top(&report, &style),
            tables::top_findings(&report, 9, &style),
        ] {
            for percent in percentages(&text) {
                prop_assert!((0.0..=100.0).contains(&percent), "{percent} %\n{text}");
            }
        }
        let mut found = Vec::new();
        shares(&serde_json::to_value(&report).expect("JSON"), "", &mut found);
        for (way, share) in found {
            prop_assert!((0.0..=1.0).contains(&share), "{way} = {share}");
        }
    }

    #[test]
    fn parts_add_up(program in program()) {
        let report = program.report();
        let (overview, idle) = (&report.overview, &report.idle);
        prop_assert_eq!(idle.wall_ns, overview.wall_ns);
        // Each GPU is idle, busy or not watched.
        let whole = report.summary.as_ref().expect("a tail").end_ns.max(overview.end_ns);
        let run = whole - program.start_ns.min(overview.start_ns);
        for time in idle.devices.iter().map(|row| &row.time).chain([&idle.all]) {
            prop_assert_eq!(time.busy_ns + time.idle_ns + overview.not_watched_ns, run);
            prop_assert_eq!(time.leading_ns + time.between_ns + time.trailing_ns, time.idle_ns);
            prop_assert_eq!(time.host.total_ns(), time.idle_ns);
        }
        if let Some(working) = &report.working {
            prop_assert_eq!(working.busy_ns + working.idle_ns, working.length_ns);
            prop_assert!(working.waiting_for_launches_ns <= working.idle_ns);
            prop_assert!(working.worth_having_ns <= working.idle_ns);
            prop_assert!(working.length_ns + working.pauses_ns + working.before_ns + working.after_ns <= overview.wall_ns);
        }
        for finding in &report.findings {
            prop_assert!(finding.cost_ns.unwrap_or(0) <= overview.wall_ns, "{}", finding.id);
        }
    }
}
