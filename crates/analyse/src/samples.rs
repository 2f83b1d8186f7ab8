//! Numbers that were sampled over the run, a GPU's load for instance: each as a curve, with its range.

use crate::gauge::{Curve, Gauge};
use event::{Event, Kind, Name};
use serde::{Deserialize, Serialize};

/// One number of one GPU.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SampleRow {
    pub device: Option<u32>,
    /// As in the trace: its end says the unit.
    pub name: Name,
    pub count: u64,
    pub least: u64,
    pub most: u64,
    pub mean: u64,
    pub last: u64,
    pub curve: Curve,
}

/// A dozen numbers for each of a few GPUs; a damaged trace may have more.
const MOST: usize = 256;

pub(crate) struct SampleSweep {
    origin: u64,
    series: Vec<Series>,
}

struct Series {
    device: Option<u32>,
    name: Name,
    count: u64,
    least: u64,
    last: u64,
    sum: u128,
    gauge: Gauge,
}

impl SampleSweep {
    /// `start_ns` is when the trace began.
    pub fn new(start_ns: u64) -> Self {
        SampleSweep {
            origin: start_ns,
            series: Vec::new(),
        }
    }

    pub fn add(&mut self, event: &Event) {
        if event.kind != Kind::Counter {
            return;
        }
        let at = event.start.saturating_sub(self.origin);
        for arg in &event.args {
            let Some(value) = arg.value.as_u64() else {
                continue;
            };
            let known = (self.series.iter())
                .position(|series| series.device == event.device && series.name == arg.name);
            let place = match known {
                Some(place) => place,
                None if self.series.len() >= MOST => continue,
                None => {
                    self.series.push(Series {
                        device: event.device,
                        name: arg.name.clone(),
                        count: 0,
                        least: u64::MAX,
                        last: 0,
                        sum: 0,
                        gauge: Gauge::default(),
                    });
                    self.series.len() - 1
                }
            };
            let series = &mut self.series[place];
            series.count += 1;
            series.least = series.least.min(value);
            series.last = value;
            series.sum = series.sum.saturating_add(value.into());
            series.gauge.set(at, value);
        }
    }

    /// GPU by GPU, in the order in which the numbers came.
    pub fn finish(mut self) -> Vec<SampleRow> {
        self.series.sort_by_key(|series| series.device);
        let rows = self.series.into_iter().map(|series| SampleRow {
            device: series.device,
            name: series.name,
            count: series.count,
            least: series.least,
            most: series.gauge.high().0,
            mean: u64::try_from(series.sum / u128::from(series.count.max(1))).unwrap_or(u64::MAX),
            last: series.last,
            curve: series.gauge.curve(self.origin),
        });
        rows.collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use event::{Arg, Category, Layer};

    #[test]
    fn each_number_of_each_gpu_has_its_curve() {
        let mut sweep = SampleSweep::new(10_000);
        for (device, at, percent, power) in [
            (1, 10_100, 5, 70_000),
            (0, 11_000, 10, 80_000),
            (0, 13_100, 40, 200_000),
            (0, 15_200, 25, 100_000),
        ] {
            let mut event = Event::new(1, Layer::Gpu, Category::Other, "nvml", at);
            (event.kind, event.device) = (Kind::Counter, Some(device));
            event.args = vec![
                Arg::new("gpu_percent", percent),
                Arg::new("power_mw", power),
            ];
            event.args.push(Arg::new("note", "no number"));
            sweep.add(&event);
        }
        let rows = sweep.finish();
        let told: Vec<_> = (rows.iter())
            .map(|row| {
                (
                    row.device,
                    &*row.name,
                    row.count,
                    [row.least, row.mean, row.most, row.last],
                )
            })
            .collect();
        assert_eq!(
            told,
            [
                (Some(0), "gpu_percent", 3, [10, 25, 40, 25]),
                (Some(0), "power_mw", 3, [80_000, 126_666, 200_000, 100_000]),
                (Some(1), "gpu_percent", 1, [5, 5, 5, 5]),
                (Some(1), "power_mw", 1, [70_000; 4]),
            ]
        );
        let curve = &rows[0].curve;
        assert_eq!((curve.from_ns, curve.bin_ns), (10_000, 1_024));
        assert_eq!(curve.peaks, [10, 10, 10, 40, 40, 40]);
    }
}
