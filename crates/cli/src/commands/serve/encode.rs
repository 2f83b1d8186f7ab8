//! Numbers as metrics: their names, what they mean, and how they are written.

use super::collect::{Labelling, Lines, Numbers};
use super::protobuf::{BothHistograms, COUNTER, Family, GAUGE, HISTOGRAM, Line, Value};
use analyse::live::{Histogram, SCHEMA, Sums, upper};
use event::Direction;
use prometheus_client::{
    encoding::{
        DescriptorEncoder, EncodeCounterValue, EncodeGaugeValue, EncodeMetric, MetricEncoder,
        NativeHistogram, NativeHistogramBuckets, NoLabelSet,
    },
    metrics::MetricType,
    registry::Unit,
};
use std::fmt;

/// Classic histograms have a bucket for each factor of four: from 2^-20 s (about 1 µs) to 2^6 s.
const CLASSIC: std::ops::RangeInclusive<i32> = -10..=3;

/// A line without labels.
fn one<V>(value: V) -> [(Labelling, V); 1] {
    [(Labelling::new(), value)]
}

/// Where metrics are written, all of one name at once.
trait Sheet {
    fn infos(&mut self) -> fmt::Result;

    fn counters<V: EncodeCounterValue + Number>(
        &mut self,
        name: &str,
        help: &str,
        unit: Option<Unit>,
        lines: impl IntoIterator<Item = (Labelling, V)>,
    ) -> fmt::Result;

    fn gauges<V: EncodeGaugeValue + Number>(
        &mut self,
        name: &str,
        help: &str,
        unit: Option<Unit>,
        lines: impl IntoIterator<Item = (Labelling, V)>,
    ) -> fmt::Result;

    fn histograms(&mut self, name: &str, help: &str, lines: &Lines<Histogram>) -> fmt::Result;
}

/// Protobuf has one kind of number.
trait Number {
    fn number(&self) -> f64;
}

macro_rules! numbers {
    ($($kind:ty)*) => {$(
        impl Number for $kind {
            fn number(&self) -> f64 {
                *self as f64
            }
        }
    )*};
}

numbers!(u64 i64 f64);

/// OpenMetrics's text.
struct Text<'a, 'e> {
    encoder: &'a mut DescriptorEncoder<'e>,
}

pub fn as_text(numbers: &Numbers, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
    write(
        numbers,
        &mut Text {
            encoder: &mut encoder,
        },
    )
}

pub fn as_protobuf(numbers: &Numbers) -> Vec<Family> {
    let mut families = Families(Vec::new());
    // Nothing that it does can fail.
    let _ = write(numbers, &mut families);
    families.0
}

fn write(numbers: &Numbers, write: &mut impl Sheet) -> fmt::Result {
    write.infos()?;
    write.counters(
        "cutrace_events",
        "Events recorded, calls and GPU work",
        None,
        one(numbers.events),
    )?;
    write.counters(
        "cutrace_dropped_events",
        "Events that could not be recorded",
        None,
        one(numbers.dropped),
    )?;
    write.counters(
        "cutrace_tracer_cpu",
        "Processor time of cutrace itself",
        Some(Unit::Seconds),
        one(numbers.tracer_seconds),
    )?;
    write.gauges(
        "cutrace_processes",
        "Processes with CUDA calls",
        None,
        one(numbers.processes as i64),
    )?;
    write.gauges(
        "cutrace_gpu_record_delay",
        "How long after the end of GPU work its record arrives",
        Some(Unit::Seconds),
        one(numbers.gpu_delay_seconds),
    )?;
    write.counters(
        "cutrace_gpu_busy",
        "Time in which the GPU had work; its rate is utilisation, from 0 to 1",
        Some(Unit::Seconds),
        numbers
            .gpus
            .iter()
            .map(|(labels, value)| (labels.clone(), *value)),
    )?;
    of_processes(write, numbers)?;
    of_names(write, numbers)?;
    if let Some((sent, dropped)) = numbers.spans {
        write.counters(
            "cutrace_otlp_spans",
            "Spans sent to the collector",
            None,
            one(sent),
        )?;
        write.counters(
            "cutrace_otlp_dropped_spans",
            "Spans that could not be sent",
            None,
            one(dropped),
        )?;
    }
    Ok(())
}

fn of_processes(write: &mut impl Sheet, numbers: &Numbers) -> fmt::Result {
    macro_rules! each {
        ($of:expr) => {
            numbers
                .of_processes
                .iter()
                .map(|(labels, one)| (labels.clone(), $of(one)))
        };
    }
    use super::collect::OfProcess as P;
    write.counters(
        "cutrace_calls",
        "CUDA calls, without calls inside calls",
        None,
        each!(|it: &P| it.calls),
    )?;
    write.counters(
        "cutrace_kernel_launches",
        "Kernel launches",
        None,
        each!(|it: &P| it.launches),
    )?;
    write.counters(
        "cutrace_process_gpu_busy",
        "Time in which the process had work on a GPU",
        Some(Unit::Seconds),
        each!(|it: &P| it.gpu_seconds),
    )?;
    let gauge = |bytes: u64| i64::try_from(bytes).unwrap_or(i64::MAX);
    write.gauges(
        "cutrace_memory_held",
        "Device memory allocated and not freed",
        Some(Unit::Bytes),
        each!(|it: &P| gauge(it.held)),
    )?;
    write.gauges(
        "cutrace_memory_peak",
        "The most device memory held at once",
        Some(Unit::Bytes),
        each!(|it: &P| gauge(it.peak)),
    )?;
    write.gauges(
        "cutrace_pinned_host_memory",
        "Page-locked host memory allocated and not freed",
        Some(Unit::Bytes),
        each!(|it: &P| gauge(it.host)),
    )?;
    write.counters(
        "cutrace_memory_allocations",
        "Allocations",
        None,
        each!(|it: &P| it.allocations),
    )?;
    write.counters(
        "cutrace_memory_frees",
        "Frees",
        None,
        each!(|it: &P| it.frees),
    )?;
    let by_direction = || {
        numbers.of_processes.iter().flat_map(|(labels, one)| {
            Direction::ALL
                .iter()
                .zip(one.copies)
                .filter(|(_, copies)| copies.0 > 0)
                .map(|(direction, copies)| {
                    let mut labels = labels.clone();
                    labels.push(("direction", direction.as_str().to_owned()));
                    (labels, copies)
                })
        })
    };
    write.counters(
        "cutrace_copies",
        "Copies",
        None,
        by_direction().map(|(labels, (count, _))| (labels, count)),
    )?;
    write.counters(
        "cutrace_copied",
        "Bytes copied",
        Some(Unit::Bytes),
        by_direction().map(|(labels, (_, bytes))| (labels, bytes)),
    )?;
    let errors = numbers.of_processes.iter().flat_map(|(labels, one)| {
        one.errors.iter().map(|(function, result, count)| {
            let mut labels = labels.clone();
            labels.push(("function", function.clone()));
            labels.push(("result", result.clone()));
            (labels, *count)
        })
    });
    write.counters("cutrace_errors", "Calls that failed", None, errors)
}

fn of_names(write: &mut impl Sheet, numbers: &Numbers) -> fmt::Result {
    let seconds = |ns: u64| ns as f64 / 1e9;
    fn of<'a, V>(
        list: &'a Lines<Sums>,
        value: impl Fn(&Sums) -> V + 'a,
    ) -> impl Iterator<Item = (Labelling, V)> + 'a {
        list.iter()
            .map(move |(labels, sums)| (labels.clone(), value(sums)))
    }
    write.counters(
        "cutrace_function_calls",
        "Calls of a function",
        None,
        of(&numbers.functions, |it| it.count),
    )?;
    write.counters(
        "cutrace_function",
        "Time in a function, without the calls inside it",
        Some(Unit::Seconds),
        of(&numbers.functions, |it| seconds(it.self_ns)),
    )?;
    write.counters(
        "cutrace_kernel_runs",
        "Runs of a kernel or copy on the GPU",
        None,
        of(&numbers.kernels, |it| it.count),
    )?;
    write.counters(
        "cutrace_kernel_launched",
        "Launches of a kernel",
        None,
        of(&numbers.kernels, |it| it.launches),
    )?;
    write.counters(
        "cutrace_kernel",
        "GPU time of a kernel or copy",
        Some(Unit::Seconds),
        of(&numbers.kernels, |it| seconds(it.total_ns)),
    )?;
    write.histograms(
        "cutrace_call_duration",
        "Durations of calls, by category and layer",
        &numbers.call_durations,
    )?;
    write.histograms(
        "cutrace_kernel_duration",
        "Durations of kernels and copies on the GPU",
        &Lines::from(one(numbers.kernel_durations.clone())),
    )?;
    write.histograms(
        "cutrace_step_duration",
        "Durations of steps: iterations of the loop that launches kernels",
        &numbers.steps,
    )?;
    write.histograms(
        "cutrace_range_duration",
        "Durations of NVTX ranges",
        &numbers.ranges,
    )
}

impl Sheet for Text<'_, '_> {
    fn infos(&mut self) -> fmt::Result {
        let mut metric = self.encoder.encode_descriptor(
            "cutrace_build",
            "The version of cutrace",
            None,
            MetricType::Info,
        )?;
        metric.encode_info(&[("version", version::VERSION)])
    }

    fn counters<V: EncodeCounterValue + Number>(
        &mut self,
        name: &str,
        help: &str,
        unit: Option<Unit>,
        lines: impl IntoIterator<Item = (Labelling, V)>,
    ) -> fmt::Result {
        let mut metric =
            self.encoder
                .encode_descriptor(name, help, unit.as_ref(), MetricType::Counter)?;
        for (labels, value) in lines {
            each(&mut metric, &labels, |mut line| {
                line.encode_counter::<NoLabelSet, _, u64>(&value, None)
            })?;
        }
        Ok(())
    }

    fn gauges<V: EncodeGaugeValue + Number>(
        &mut self,
        name: &str,
        help: &str,
        unit: Option<Unit>,
        lines: impl IntoIterator<Item = (Labelling, V)>,
    ) -> fmt::Result {
        let mut metric =
            self.encoder
                .encode_descriptor(name, help, unit.as_ref(), MetricType::Gauge)?;
        for (labels, value) in lines {
            each(&mut metric, &labels, |mut line| line.encode_gauge(&value))?;
        }
        Ok(())
    }

    fn histograms(&mut self, name: &str, help: &str, lines: &Lines<Histogram>) -> fmt::Result {
        let mut metric = self.encoder.encode_descriptor(
            name,
            help,
            Some(&Unit::Seconds),
            MetricType::Histogram,
        )?;
        for (labels, durations) in lines {
            each(&mut metric, labels, |line| Written(durations).encode(line))?;
        }
        Ok(())
    }
}

/// Prometheus's protobuf.
struct Families(Vec<Family>);

impl Families {
    fn add(&mut self, name: String, help: &str, kind: i32, metrics: Vec<Line>) -> fmt::Result {
        self.0.push(Family {
            name: Some(name),
            help: Some(help.to_owned()),
            kind: Some(kind),
            metrics,
        });
        Ok(())
    }
}

fn with_unit(name: &str, unit: Option<&Unit>) -> String {
    match unit {
        Some(unit) => format!("{name}_{}", unit.as_str()),
        None => name.to_owned(),
    }
}

impl Sheet for Families {
    fn infos(&mut self) -> fmt::Result {
        let mut line = Line::new(&vec![("version", version::VERSION.to_string())]);
        line.gauge = Some(Value { value: Some(1.0) });
        let name = "cutrace_build_info".to_owned();
        self.add(name, "The version of cutrace", GAUGE, vec![line])
    }

    fn counters<V: EncodeCounterValue + Number>(
        &mut self,
        name: &str,
        help: &str,
        unit: Option<Unit>,
        lines: impl IntoIterator<Item = (Labelling, V)>,
    ) -> fmt::Result {
        let line = |(labels, value): (Labelling, V)| Line {
            counter: Some(Value {
                value: Some(value.number()),
            }),
            ..Line::new(&labels)
        };
        let name = with_unit(name, unit.as_ref()) + "_total";
        self.add(name, help, COUNTER, lines.into_iter().map(line).collect())
    }

    fn gauges<V: EncodeGaugeValue + Number>(
        &mut self,
        name: &str,
        help: &str,
        unit: Option<Unit>,
        lines: impl IntoIterator<Item = (Labelling, V)>,
    ) -> fmt::Result {
        let line = |(labels, value): (Labelling, V)| Line {
            gauge: Some(Value {
                value: Some(value.number()),
            }),
            ..Line::new(&labels)
        };
        let name = with_unit(name, unit.as_ref());
        self.add(name, help, GAUGE, lines.into_iter().map(line).collect())
    }

    fn histograms(&mut self, name: &str, help: &str, lines: &Lines<Histogram>) -> fmt::Result {
        let line = |(labels, durations): (&Labelling, &Histogram)| Line {
            histogram: Some(BothHistograms::new(
                (durations.count(), durations.sum_ns() as f64 / 1e9),
                &classic(durations),
                SCHEMA,
                native(durations),
            )),
            ..Line::new(labels)
        };
        let name = with_unit(name, Some(&Unit::Seconds));
        self.add(name, help, HISTOGRAM, lines.iter().map(line).collect())
    }
}

/// A line with labels, or without any.
fn each(
    metric: &mut MetricEncoder<'_>,
    labels: &Labelling,
    write: impl FnOnce(MetricEncoder<'_>) -> fmt::Result,
) -> fmt::Result {
    write(metric.encode_family(labels)?)
}

struct Written<'a>(&'a Histogram);

impl EncodeMetric for Written<'_> {
    fn encode(&self, mut encoder: MetricEncoder<'_>) -> fmt::Result {
        let durations = self.0;
        let classic = classic(durations);
        let (spans, deltas) = native(durations);
        encoder.encode_histogram_with_native::<NoLabelSet>(
            durations.sum_ns() as f64 / 1e9,
            durations.count(),
            &classic,
            None,
            NativeHistogram {
                schema: SCHEMA,
                zero_threshold: 0.0,
                zero_count: 0,
                negative: NativeHistogramBuckets {
                    spans: &[],
                    deltas: &[],
                },
                positive: NativeHistogramBuckets {
                    spans: &spans,
                    deltas: &deltas,
                },
                created: None,
            },
        )
    }

    fn metric_type(&self) -> MetricType {
        MetricType::Histogram
    }
}

/// Each bucket's upper end in seconds, and what is in it alone.
fn classic(durations: &Histogram) -> Vec<(f64, u64)> {
    let mut buckets: Vec<(f64, u64)> = CLASSIC.map(|place| (upper(place * 8), 0)).collect();
    buckets.push((f64::INFINITY, 0));
    for (bucket, count) in durations.buckets() {
        let place = buckets.partition_point(|(end, _)| *end < upper(bucket) * 0.999_999);
        buckets[place.min(CLASSIC.count())].1 += count;
    }
    buckets
}

/// Stretches of buckets that are not empty, each after how many that are; and each bucket's difference to the one
/// before.
fn native(durations: &Histogram) -> (Vec<(i32, u32)>, Vec<i64>) {
    let (mut spans, mut deltas): (Vec<(i32, u32)>, Vec<i64>) = Default::default();
    let (mut next, mut before) = (0, 0);
    for (bucket, count) in durations.buckets() {
        match spans.last_mut() {
            Some((_, length)) if bucket == next => *length += 1,
            _ => spans.push((bucket - next, 1)),
        }
        next = bucket + 1;
        deltas.push(count as i64 - before);
        before = count as i64;
    }
    (spans, deltas)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn histograms_are_written_both_ways() {
        let mut durations = Histogram::default();
        for ns in [1_000, 1_000, 5_000_000, 1_000_000_000, 100_000_000_000] {
            durations.add(ns);
        }
        let classic = classic(&durations);
        assert_eq!(classic.iter().map(|(_, count)| count).sum::<u64>(), 5);
        assert_eq!(
            classic.last().expect("the last").1,
            1,
            "100 s are more than 64 s"
        );
        let at = |end: f64| {
            classic
                .iter()
                .find(|(it, _)| *it == end)
                .expect("a bucket")
                .1
        };
        assert_eq!(at(1.0), 1);
        let (spans, deltas) = native(&durations);
        assert_eq!(spans.iter().map(|(_, length)| length).sum::<u32>(), 4);
        let mut count = 0;
        let all: i64 = deltas
            .iter()
            .map(|delta| {
                count += delta;
                count
            })
            .sum();
        assert_eq!(all, 5);
    }
}
