//! What a map holds, as a person reads it: histograms, tables of threads, tables of structs, counters by
//! key. Which of them follows from the map's type, the object's types and the map's name.

use super::bars::bar;
use crate::{
    Style, Table,
    fields::{grouped_fields, words},
    units::{count as grouped, counted},
};
use event::{Value, probed::ProbedMap};
use std::fmt::Write as _;

/// Rows of a map that are shown.
const MOST_ROWS: usize = 32;
/// Rows of a table of structs: samples.
const MOST_STRUCTS: usize = 10;
/// Names of maps that are histograms.
const HISTOGRAMS: [&str; 4] = ["hist", "latency", "latencies", "distribution"];

/// A map with its title.
pub fn show(map: &ProbedMap, text: &mut String) {
    let place = match map.context {
        0 => String::new(),
        context => format!(", context {context}"),
    };
    let _ = writeln!(text, "\nmap {} ({}{place})", map.name, map.kind);
    match map.values_of {
        _ if map.entries.is_empty() => text.push_str("  empty\n"),
        Some(whose) => per_copy(map, whose, text),
        None => per_key(map, text),
    }
}

/// One value for each thread, multiprocessor, warp or processor: who has which, and their sum.
fn per_copy(map: &ProbedMap, whose: &str, text: &mut String) {
    let mut rows = MOST_ROWS;
    for (key, used) in &map.entries {
        let key = words(key);
        let count = several(used.len() as u64, whose);
        let numbers: Option<Vec<(usize, i128)>> = (used.iter())
            .map(|(copy, value)| Some((*copy, number(value)?)))
            .collect();
        match numbers {
            Some(numbers) => {
                let mut values = numbers.iter().map(|(_, number)| *number);
                let of_all = match (values.clone().min(), values.clone().max()) {
                    // The sum of moments is none.
                    (Some(first), Some(last)) if map.has_times => {
                        format!("from {first} to {last}")
                    }
                    _ => format!("{} in total", plain(values.by_ref().sum())),
                };
                let _ = writeln!(text, "  {key}: {count}, {of_all}");
                if !map.has_times {
                    rows -= runs(&numbers, whose, rows, text);
                }
            }
            None => {
                let _ = writeln!(text, "  {key}: {count}");
                let rows = used.iter().map(|(copy, value)| (copy.to_string(), value));
                structs(whose, rows.collect(), text);
            }
        }
    }
}

/// One value a key.
fn per_key(map: &ProbedMap, text: &mut String) {
    let used: Vec<(&Value, &Value)> = (map.entries.iter())
        .filter_map(|(key, values)| Some((key, &values.first()?.1)))
        .collect();
    let counts: Option<Vec<u64>> = used
        .iter()
        .map(|(_, value)| u64::try_from(number(value)?).ok())
        .collect();
    match counts {
        Some(_) if is_histogram(map) => histogram(map, &used, text),
        Some(counts) => {
            let rows: Vec<(String, String)> = (used.iter().zip(&counts))
                .map(|((key, _), count)| (words(key), grouped(*count)))
                .collect();
            let width = |of: fn(&(String, String)) -> &String| {
                rows.iter()
                    .take(MOST_ROWS)
                    .map(|row| of(row).chars().count())
                    .max()
            };
            let (keys, values) = (width(|row| &row.0), width(|row| &row.1));
            for (key, count) in rows.iter().take(MOST_ROWS) {
                let (keys, values) = (keys.unwrap_or(0), values.unwrap_or(0));
                let _ = writeln!(text, "  {key:>keys$}: {count:>values$}");
            }
            more(rows.len(), MOST_ROWS, text);
            if rows.len() > 1 {
                let sum: u128 = counts.iter().map(|count| u128::from(*count)).sum();
                let keys = counted(rows.len() as u64, "key", "keys");
                let _ = writeln!(text, "  {} in {keys}", plain(sum as i128));
            }
        }
        None if used.iter().all(|(_, value)| matches!(value, Value::Map(_))) => {
            let _ = writeln!(text, "  {}", counted(used.len() as u64, "key", "keys"));
            let rows = used.iter().map(|(key, value)| (words(key), *value));
            structs("key", rows.collect(), text);
        }
        None => {
            for (key, value) in used.iter().take(MOST_ROWS) {
                let _ = writeln!(text, "  {}: {}", words(key), words(value));
            }
            more(used.len(), MOST_ROWS, text);
        }
    }
}

fn is_histogram(map: &ProbedMap) -> bool {
    let name = map.name.to_ascii_lowercase();
    map.is_in_powers_of_two || HISTOGRAMS.iter().any(|word| name.contains(word))
}

fn histogram(map: &ProbedMap, used: &[(&Value, &Value)], text: &mut String) {
    let last = map.max_entries.saturating_sub(1);
    let label = |key: &Value| match (map.is_in_powers_of_two, number(key)) {
        (true, Some(bin)) => power(bin as u32, last),
        _ => words(key),
    };
    let mut rows: Vec<(String, u64)> = Vec::new();
    let mut before: Option<i128> = None;
    for (key, value) in used {
        let count = number(value).and_then(|count| u64::try_from(count).ok());
        let bin = number(key);
        // Bins of an array that are between others are part of the picture, also if nothing is in them.
        if let (false, Some(before), Some(bin)) = (map.is_hash, before, bin) {
            let between = (before + 1..bin).map(|bin| (label(&Value::Uint(bin as u64)), 0));
            rows.extend(between);
        }
        before = bin;
        rows.push((label(key), count.unwrap_or(0)));
    }
    let sum: u128 = rows.iter().map(|(_, count)| u128::from(*count)).sum();
    let (all, most) = (rows.len(), rows.iter().map(|row| row.1).max().unwrap_or(0));
    rows.truncate(MOST_ROWS);
    let labels = rows.iter().map(|row| row.0.chars().count());
    let (width, digits) = (
        labels.max().unwrap_or(0),
        rows.iter()
            .map(|row| grouped(row.1).len())
            .max()
            .unwrap_or(0),
    );
    for (label, count) in &rows {
        let (bar, count) = (bar(*count, most), grouped(*count));
        let line = format!("  {label:>width$}  {count:>digits$}  {bar}");
        let _ = writeln!(text, "{}", line.trim_end());
    }
    more(all, MOST_ROWS, text);
    let _ = writeln!(text, "  {} in total", plain(sum as i128));
}

/// Neighbours with one number are one row; how many rows were written.
fn runs(numbers: &[(usize, i128)], whose: &str, most: usize, text: &mut String) -> usize {
    let mut rows: Vec<(usize, usize, i128)> = Vec::new();
    for (copy, number) in numbers {
        match rows.last_mut() {
            Some((_, last, same)) if *same == *number && *last + 1 == *copy => *last = *copy,
            _ => rows.push((*copy, *copy, *number)),
        }
    }
    for (first, last, number) in rows.iter().take(most) {
        let (from, to) = (grouped(*first as u64), grouped(*last as u64));
        let range = match first == last {
            true => format!("{whose} {from}"),
            false => format!("{whose}s {from} to {to}, each"),
        };
        let _ = writeln!(text, "    {range}: {}", plain(*number));
    }
    if let Some((next, ..)) = rows.get(most).filter(|_| most > 0) {
        let rest = numbers.iter().filter(|(copy, _)| copy >= next).count();
        let rest = counted(
            rest as u64,
            &format!("more {whose}"),
            &format!("more {whose}s"),
        );
        let _ = writeln!(text, "    … and {rest}");
    }
    rows.len().min(most)
}

/// Values with fields, a column each.
fn structs(whose: &str, rows: Vec<(String, &Value)>, text: &mut String) {
    let fields = |value: &Value| match value {
        Value::Map(fields) => grouped_fields(fields),
        other => vec![("value".to_owned(), words(other))],
    };
    let first = rows
        .first()
        .map(|(_, value)| fields(value))
        .unwrap_or_default();
    let mut table = Table::new().right(whose);
    for (name, _) in &first {
        table = table.right(name);
    }
    for (key, value) in rows.iter().take(MOST_STRUCTS) {
        let cells = fields(value).into_iter().map(|(_, value)| value);
        table.row(std::iter::once(key.clone()).chain(cells));
    }
    let style = Style {
        cut: false,
        ..Style::default()
    };
    for line in table.render(&style).lines() {
        let _ = writeln!(text, "    {line}");
    }
    if rows.len() > MOST_STRUCTS {
        let _ = writeln!(
            text,
            "    … and {} more",
            grouped((rows.len() - MOST_STRUCTS) as u64)
        );
    }
}

/// Which numbers are in a bin of `gpu_histogram`.
fn power(bin: u32, last: u32) -> String {
    let from = match bin {
        0 => return "0".into(),
        bin => 1u128 << (bin - 1).min(64),
    };
    match bin {
        1 if last > 1 => "1".into(),
        bin if bin >= last => format!("{} …", plain(from as i128)),
        _ => format!("{} … {}", plain(from as i128), plain(from as i128 * 2 - 1)),
    }
}

fn number(value: &Value) -> Option<i128> {
    match value {
        Value::Int(number) => Some((*number).into()),
        Value::Uint(number) => Some((*number).into()),
        Value::Bool(flag) => Some((*flag).into()),
        _ => None,
    }
}

fn plain(number: i128) -> String {
    let digits = u64::try_from(number.unsigned_abs())
        .map_or_else(|_| number.unsigned_abs().to_string(), grouped);
    match number < 0 {
        true => format!("-{digits}"),
        false => digits,
    }
}

fn several(count: u64, what: &str) -> String {
    counted(count, what, &format!("{what}s"))
}

fn more(all: usize, shown: usize, text: &mut String) {
    if all > shown {
        let _ = writeln!(text, "  … and {} more", grouped((all - shown) as u64));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn neighbours_with_one_number_are_one_row() {
        let mut text = String::new();
        let few = [(0, 2), (1, 2), (2, 2), (3, 5), (9, 5)];
        runs(&few, "thread", MOST_ROWS, &mut text);
        let expected = "    threads 0 to 2, each: 2\n    thread 3: 5\n    thread 9: 5\n";
        assert_eq!(text, expected);
        text.clear();
        let many: Vec<(usize, i128)> = (0..40).map(|at| (at, at as i128)).collect();
        runs(&many, "thread", MOST_ROWS, &mut text);
        assert_eq!(text.lines().count(), MOST_ROWS + 1);
        assert!(text.ends_with("    … and 8 more threads\n"), "{text}");
    }

    #[test]
    fn bins_of_powers_of_two_say_their_numbers() {
        let named: Vec<String> = [0, 1, 2, 11, 63]
            .into_iter()
            .map(|bin| power(bin, 63))
            .collect();
        let last = "4,611,686,018,427,387,904 …";
        assert_eq!(named, ["0", "1", "2 … 3", "1,024 … 2,047", last]);
    }
}
