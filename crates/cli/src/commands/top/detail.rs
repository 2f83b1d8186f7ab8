//! One function or kernel: how long its calls took, as bars, and what the last of them was given.

use super::{draw::Canvas, model::Detail};
use analyse::live::{Histogram, upper};
use event::{Arg, Layer, Value};
use ratatui::text::Line;
use render::{printable, units};

/// Fewer bars than this say too little, however small the screen.
const FEWEST_BARS: usize = 4;

pub fn lines(canvas: &Canvas<'_>, found: &Detail, room: usize) -> Vec<Line<'static>> {
    let row = &found.row;
    let time = |ns| units::time(ns, canvas.style);
    let what = match found.layer {
        Layer::Gpu => "runs",
        _ => "calls",
    };
    let mut lines = vec![
        canvas.line(&printable(&found.name)),
        canvas.line(&format!(
            "{} {what}  {} in all  {} without calls inside  longest {}",
            units::count(row.sums.count),
            time(row.sums.total_ns),
            time(row.sums.self_ns),
            time(row.durations.longest_ns())
        )),
    ];
    if found.layer == Layer::Gpu && row.sums.count == 0 {
        lines.push(canvas.line(&format!(
            "{} launches, no GPU times",
            units::count(row.sums.launches)
        )));
    }
    lines.push(Line::default());
    let last = last_call(canvas, found);
    let most = room.saturating_sub(lines.len() + last.len());
    for (from, to, count) in fitting(octaves(&row.durations), most.max(FEWEST_BARS)) {
        let widest = row.durations.count().max(1);
        let bar = canvas.bar(
            count as f64 / widest as f64,
            canvas.width.saturating_sub(46).clamp(6, 40),
        );
        let share = units::share(count, widest);
        lines.push(canvas.line(&format!(
            "{:>9} to {:>9} {bar} {share:>7}  {}",
            time(from),
            time(to),
            units::count(count)
        )));
    }
    lines.extend(last);
    lines
}

/// What one of the last calls was given, and what it gave back.
fn last_call(canvas: &Canvas<'_>, found: &Detail) -> Vec<Line<'static>> {
    let Some(last) = &found.row.last else {
        return Vec::new();
    };
    let result = last.result.as_deref().unwrap_or("");
    let thread = match last.tid {
        0 => String::new(),
        tid => format!(" thread {tid}"),
    };
    let mut lines = vec![
        Line::default(),
        canvas.line(&format!(
            "A recent one: {}{thread} of process {}  {result}",
            units::time(last.duration_ns, canvas.style),
            last.pid
        )),
    ];
    for arg in last.args.iter().chain(&last.outputs) {
        lines.push(canvas.line(&format!("  {}", printable(&in_words(arg)))));
    }
    lines
}

/// The same in at most so many bars: at both ends the rarest become one.
fn fitting(mut bars: Vec<(u64, u64, u64)>, most: usize) -> Vec<(u64, u64, u64)> {
    while bars.len() > most.max(2) {
        let end = bars.len() - 1;
        let at_the_front = bars[0].2 + bars[1].2;
        let at_the_end = bars[end - 1].2 + bars[end].2;
        if at_the_front < at_the_end {
            let (from, _, count) = bars.remove(0);
            bars[0].0 = from;
            bars[0].2 += count;
        } else {
            let (_, to, count) = bars.remove(end);
            bars[end - 1].1 = to;
            bars[end - 1].2 += count;
        }
    }
    bars
}

/// Durations by powers of two, from the shortest to the longest.
fn octaves(durations: &Histogram) -> Vec<(u64, u64, u64)> {
    let ns = |octave: i32| (upper(octave * 4) * 1e9) as u64;
    let mut octaves: Vec<(i32, u64)> = Vec::new();
    for (bucket, count) in durations.buckets() {
        // Buckets 1 to 4 are above 1 s, up to 2 s.
        let octave = (bucket - 1).div_euclid(4);
        match octaves.last_mut() {
            Some((last, sum)) if *last == octave => *sum += count,
            _ => octaves.push((octave, count)),
        }
    }
    octaves
        .into_iter()
        .map(|(octave, count)| (ns(octave), ns(octave + 1), count))
        .collect()
}

fn in_words(arg: &Arg) -> String {
    format!("{} = {}", arg.name, value(&arg.value, 3))
}

/// As far as this many levels.
fn value(value_of: &Value, levels: usize) -> String {
    match value_of {
        Value::Null => "null".to_owned(),
        Value::Bool(it) => it.to_string(),
        Value::Int(it) => it.to_string(),
        Value::Uint(it) => it.to_string(),
        Value::Float(it) => it.to_string(),
        Value::Pointer(it) => format!("{it:#x}"),
        Value::Str(it) => it.to_string(),
        Value::List(_) | Value::Map(_) if levels == 0 => "...".to_owned(),
        Value::List(list) => {
            let all: Vec<String> = list.iter().map(|one| value(one, levels - 1)).collect();
            format!("[{}]", all.join(", "))
        }
        Value::Map(map) => {
            let all: Vec<String> = (map.iter())
                .map(|arg| format!("{} = {}", arg.name, value(&arg.value, levels - 1)))
                .collect();
            format!("{{{}}}", all.join(", "))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::fitting;

    #[test]
    fn rare_durations_at_both_ends_share_a_bar() {
        let bars = vec![
            (1, 2, 3),
            (2, 4, 1),
            (4, 8, 500),
            (8, 16, 700),
            (16, 32, 2),
            (32, 64, 1),
        ];
        assert_eq!(fitting(bars.clone(), 6), bars);
        assert_eq!(
            fitting(bars, 4),
            [(1, 4, 4), (4, 8, 500), (8, 16, 700), (16, 64, 3)]
        );
    }
}
