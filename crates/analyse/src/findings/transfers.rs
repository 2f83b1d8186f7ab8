//! Copies that hold a program up: too much, too small, or from memory that must be copied twice.

use super::{Confidence, Draft, Finding, FindingInput, Id, Severity, limits, words};
use crate::idle::Basis;
use crate::pinned::HostKind;
use crate::transfers::{CopyPlace, TimedBy};
use crate::working::Working;
use event::{Category, Direction};

pub fn look(seen: &FindingInput<'_>, found: &mut Vec<Finding>) {
    found.extend(transfer_bound(seen));
    found.extend(pageable(seen));
    found.extend(small(seen));
}

/// Copies take much of the working time.
fn transfer_bound(seen: &FindingInput<'_>) -> Option<Finding> {
    let transfers = &seen.report.transfers;
    let working = seen.working()?;
    let (from, to, length) = (working.from_ns, working.to_ns, working.length_ns);
    let (copies, time) = transfers.rate.within(from, to);
    let time = match seen.report.idle.basis {
        Basis::GpuTimes => working.copies_ns,
        // Copies may overlap: what they take together is no more than the stretch.
        Basis::Launches => time.min(transfers.busy_ns),
    }
    .min(length);
    let share = working.share(time);
    if share < limits::TRANSFER_BOUND || !seen.matters(time, limits::MEDIUM_SHARE) {
        return None;
    }
    // Copies between the steps: a test, a result that is read now and then.
    let in_steps = working.step.is_some() && each_step(working, copies);
    let in_loop = |place: &&CopyPlace| place.to_ns > from && place.from_ns < to;
    let places = || transfers.places.iter();
    // Copies that were queued ahead have calls that lie before.
    let largest = (places().filter(in_loop).max_by_key(|place| place.copy_ns))
        .or_else(|| places().max_by_key(|place| place.bytes))?;
    let again = (transfers.repeated.iter())
        .filter(|pair| pair.direction == Direction::HostToDevice)
        .max_by_key(|pair| pair.call_ns)
        .filter(|pair| pair.call_ns.saturating_mul(2) >= largest.copy_ns);
    let where_to = match &working.step {
        Some(_) if in_steps => format!(
            "{} of copying in a step of {}",
            words::time((time as f64 / working.steps()) as u64),
            words::time((length as f64 / working.steps()) as u64),
        ),
        Some(_) => format!(
            "{} of copying in {} of steps, in {}",
            words::time(time),
            words::time(length),
            words::counted(copies, "copy", "copies"),
        ),
        None => format!(
            "{} of copying in the {} between the GPU's first and last work",
            words::time(time),
            words::time(length),
        ),
    };
    let mut detail = format!(
        "{where_to}. Most of it: {} by {}, over the whole run {} in {}.",
        words::counted(largest.count, "copy", "copies"),
        largest.place.function,
        words::bytes(largest.bytes),
        words::time(largest.copy_ns),
    );
    let mut ops = vec![largest.op_id];
    let advice = match again {
        Some(pair) => {
            detail.push_str(&format!(
                " {} went from one host address to one device address {} times.",
                words::bytes(pair.size_bytes),
                pair.count
            ));
            ops.extend([pair.first_op_id, pair.last_op_id]);
            "If the data does not change, copy it once and keep it on the device. If it must be copied every time, use \
             async copies from pinned memory in a separate stream, so that they overlap the kernels."
        }
        None => {
            "Use async copies from pinned memory in a separate stream, so that they overlap the kernels, and keep data \
             that the next kernel needs on the device."
        }
    };
    Some(
        Draft::new(Id::TransferBound, seen)
            .in_steps()
            .each_step(in_steps)
            .costs(time)
            .costs_bytes(largest.bytes)
            .shown_by(ops)
            .number("copy_ns", time)
            .number("working_ns", length)
            .number("copies", copies)
            .number("largest_place_bytes", largest.bytes)
            .number("largest_place_copies", largest.count)
            // Where nothing repeats, a few copies may be all there is to do.
            .at_most(match working.step {
                Some(_) => Severity::High,
                None if working.length_ns >= limits::LONG_WORK_NS => Severity::Medium,
                None => Severity::Low,
            })
            .between(largest.from_ns.max(from), largest.to_ns.min(to))
            .say(
                seen,
                format!(
                    "Copies take {} of {}",
                    words::percent(share),
                    match working.step {
                        Some(_) if in_steps => "each step",
                        Some(_) => "the loop's time, between its steps",
                        None => "the time the GPU is in use",
                    }
                ),
                detail,
                advice,
            ),
    )
}

/// Whether copies are a part of the steps: by calls, or by what ran on the GPU if the calls came before.
fn each_step(working: &Working, calls: u64) -> bool {
    let ran = (working.kernels.iter())
        .filter(|row| row.category == Category::Transfer)
        .fold(0, |sum, row| sum + row.calls);
    calls.max(ran) as f64 >= limits::COPIES_PER_STEP * working.steps()
}

/// Copies from or to pageable memory: the driver copies them once more, through a buffer of its own.
fn pageable(seen: &FindingInput<'_>) -> Option<Finding> {
    let transfers = &seen.report.transfers;
    let mut sums = (0u64, 0u64, 0u64);
    for way in &transfers.directions {
        for host in way
            .host
            .iter()
            .filter(|host| host.memory == HostKind::Pageable)
        {
            sums.0 += host.count;
            sums.1 = sums.1.saturating_add(host.bytes);
            // The wait for kernels is not the copies'.
            sums.2 = sums
                .2
                .saturating_add(host.call_ns.saturating_sub(way.waited_ns));
        }
    }
    let (count, bytes, time) = sums;
    // What is loaded once before the work begins is slow once.
    let working = seen.working()?;
    let (in_loop, in_work) = transfers.rate.within(working.from_ns, working.to_ns);
    let time = time.min(in_work).min(working.length_ns);
    let in_steps = each_step(working, in_loop);
    if bytes < limits::PAGEABLE_BYTES || !seen.matters(time, limits::MEDIUM_SHARE) {
        return None;
    }
    let largest = (transfers.places.iter())
        .filter(|place| {
            matches!(
                place.direction,
                Direction::HostToDevice | Direction::DeviceToHost
            )
        })
        .max_by_key(|place| place.bytes)?;
    let pinned = (transfers.directions.iter().flat_map(|way| &way.host))
        .filter(|host| host.memory == HostKind::Pinned)
        .map(|host| host.bytes)
        .fold(0u64, u64::saturating_add);
    let speed: Vec<_> = (transfers.directions.iter())
        .filter(|way| way.timed_by != TimedBy::Nothing && way.bytes > limits::PAGEABLE_BYTES)
        .filter_map(|way| {
            let rate = way.bytes_per_second?;
            Some(format!(
                "{} at {:.1} GB/s",
                way.direction,
                rate as f64 / 1e9
            ))
        })
        .collect();
    let mut detail = format!(
        "{} moved {} from or to memory that is not pinned, taking {} of the working time; {} used pinned memory. \
         Largest: {} by {}.",
        words::counted(count, "copy", "copies"),
        words::bytes(bytes),
        words::time(time),
        words::bytes(pinned),
        words::bytes(largest.bytes),
        largest.place.function,
    );
    if !speed.is_empty() {
        detail.push_str(&format!(" Copies ran {}.", speed.join(", ")));
    }
    Some(
        Draft::new(Id::PageableCopies, seen)
            .in_steps()
            .each_step(in_steps)
            // Half of it: what pinning saves is the driver's own copy.
            .costs(time / 2)
            .sure(Confidence::Likely)
            .costs_bytes(bytes)
            .shown_by([largest.op_id])
            .number("copies", count)
            .number("pageable_bytes", bytes)
            .number("pageable_ns", time)
            .number("pinned_bytes", pinned)
            .between(largest.from_ns, largest.to_ns)
            .say(
                seen,
                format!("{} copied from or to pageable memory", words::bytes(bytes)),
                detail,
                "Allocate the host side with cuMemHostAlloc or cudaMallocHost, or register it once with \
                 cuMemHostRegister. The driver then need not copy through its own buffer, and async copies can overlap \
                 kernels.",
            ),
    )
}

/// Many copies that are too small to be worth their latency.
fn small(seen: &FindingInput<'_>) -> Option<Finding> {
    let (mut count, mut bytes, mut time) = (0u64, 0u64, 0u64);
    let mut waited = 0u64;
    for way in &seen.report.transfers.directions {
        for bin in way
            .sizes
            .iter()
            .filter(|bin| bin.from_bytes < limits::SMALL_COPY)
        {
            count += bin.count;
            bytes = bytes.saturating_add(bin.bytes);
            time = time.saturating_add(bin.call_ns);
        }
        waited = waited.saturating_add(way.waited_ns);
    }
    // Of those outside the working time nothing is lost that matters.
    let working = seen.working()?;
    let (_, in_work) = (seen.report.transfers.rate).within(working.from_ns, working.to_ns);
    let time = time
        .saturating_sub(waited)
        .min(in_work)
        .min(working.length_ns);
    if count < limits::MANY_SMALL_COPIES || !seen.matters(time, limits::MEDIUM_SHARE) {
        return None;
    }
    let place = (seen.report.transfers.places.iter())
        .filter(|place| place.bytes / place.count.max(1) < limits::SMALL_COPY)
        .max_by_key(|place| place.count);
    let most = place.map_or(String::new(), |place| {
        format!(" Most by {}: {}.", place.place.function, place.count)
    });
    Some(
        Draft::new(Id::SmallCopies, seen)
            .in_steps()
            .costs(time)
            .costs_bytes(bytes)
            .shown_by(place.map(|place| place.op_id))
            .number("copies", count)
            .number("bytes", bytes)
            .number("call_ns", time)
            .say(
                seen,
                format!(
                    "{count} copies of less than {}",
                    words::bytes(limits::SMALL_COPY)
                ),
                format!(
                    "{} in total, in {}: they pay for latency, not bandwidth.{most}",
                    words::bytes(bytes),
                    words::time(time)
                ),
                "Collect the data in one buffer and copy it once, pass small values as kernel arguments, or let \
                 kernels read pinned host memory directly.",
            ),
    )
}
