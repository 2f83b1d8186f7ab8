//! Short names that differ within one list, at a given width.

use crate::{
    demangle,
    parse::{Part, Path, parse},
    short::{short_name, value},
};
use std::{
    borrow::Cow,
    collections::{HashMap, HashSet},
};

/// Names of one text that are looked at for what distinguishes them; more get numbers.
const MOST_ALIKE: usize = 256;
/// Arguments that may be added to tell names apart.
const MOST_DETAILS: usize = 3;
/// A detail, in characters.
const DETAIL: usize = 24;
/// Arguments of a name that are looked at.
const MOST_ARGUMENTS: usize = 64;

/// What names are shown as in one list: short, within `width` characters, and different where the
/// names are different. `ellipsis` stands for what is left out.
///
/// Where two short names are the same, arguments that differ are added in brackets; where two would
/// be cut to the same text, both are cut in the middle, so that what differs stays. A number behind
/// a `#` is the last resort.
pub fn distinct(names: &[&str], width: usize, ellipsis: &str) -> Vec<String> {
    // A name that is there twice, mangled or not, is one name.
    let mut places: HashMap<Cow<'_, str>, usize> = HashMap::new();
    let mut own: Vec<&str> = Vec::new();
    let order: Vec<usize> = (names.iter())
        .map(|name| {
            *places.entry(demangle::demangled(name)).or_insert_with(|| {
                own.push(name);
                own.len() - 1
            })
        })
        .collect();
    let mut texts: Vec<String> = own.iter().map(|name| short_name(name)).collect();
    add_details(&own, &mut texts);
    if ellipsis != "…" {
        for text in &mut texts {
            *text = text.replace('…', ellipsis);
        }
    }
    let shown = fitted(&texts, width, ellipsis);
    order
        .into_iter()
        .map(|place| shown[place].clone())
        .collect()
}

/// Groups of places with one text, of more than one.
fn alike(texts: &[String]) -> Vec<Vec<usize>> {
    let mut groups: HashMap<&str, Vec<usize>> = HashMap::new();
    for (place, text) in texts.iter().enumerate() {
        groups.entry(text).or_default().push(place);
    }
    let mut groups: Vec<Vec<usize>> = groups
        .into_values()
        .filter(|group| group.len() > 1)
        .collect();
    groups.sort();
    groups
}

/// Adds to names of one text the arguments in which they differ.
fn add_details(names: &[&str], texts: &mut [String]) {
    for group in alike(texts) {
        if group.len() > MOST_ALIKE {
            continue;
        }
        let arguments: Vec<Vec<String>> =
            group.iter().map(|&place| details(names[place])).collect();
        let details = telling(&arguments);
        for (place, detail) in group.iter().zip(details) {
            if !detail.is_empty() {
                texts[*place] = format!("{} [{detail}]", texts[*place]);
            }
        }
    }
}

/// For each name the values of the fewest arguments that tell most of them apart.
fn telling(arguments: &[Vec<String>]) -> Vec<String> {
    let longest = arguments.iter().map(Vec::len).max().unwrap_or(0);
    let empty = String::new();
    let at = |name: usize, place: usize| arguments[name].get(place).unwrap_or(&empty);
    let mut chosen: Vec<usize> = Vec::new();
    let mut kinds = 1;
    while kinds < arguments.len() && chosen.len() < MOST_DETAILS {
        let count = |place: usize| {
            let key = |name: usize| -> Vec<&String> {
                chosen
                    .iter()
                    .chain([&place])
                    .map(|&place| at(name, place))
                    .collect()
            };
            (0..arguments.len()).map(key).collect::<HashSet<_>>().len()
        };
        let best = (0..longest)
            .map(|place| (count(place), std::cmp::Reverse(place)))
            .max();
        match best {
            Some((count, std::cmp::Reverse(place))) if count > kinds => {
                kinds = count;
                chosen.push(place);
            }
            _ => break,
        }
    }
    chosen.sort_unstable();
    (0..arguments.len())
        .map(|name| {
            let shown: Vec<&str> = (chosen.iter())
                .map(|&place| at(name, place).as_str())
                .filter(|text| !text.is_empty())
                .collect();
            shown.join(",")
        })
        .collect()
}

/// A name's own word, all its arguments, outermost first, and its parameters.
fn details(name: &str) -> Vec<String> {
    let text = demangle::beginning(name);
    let mut end = text.len().min(demangle::LONGEST);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    let path = parse(&text[..end]);
    let mut list = Vec::new();
    let Some(own) = path.parts.iter().rposition(|part| part.lambda.is_none()) else {
        return list;
    };
    let word = path.parts[own].text;
    let word = word.strip_suffix("_kernel").unwrap_or(word);
    list.push(
        word.strip_suffix("_elementwise")
            .unwrap_or(word)
            .chars()
            .take(DETAIL)
            .collect(),
    );
    collect(&path.parts[own].args, &mut list);
    collect(
        path.parts[own].parameters.as_deref().unwrap_or_default(),
        &mut list,
    );
    list
}

fn collect(args: &[Path<'_>], list: &mut Vec<String>) {
    for arg in args {
        for part in &arg.parts {
            if list.len() >= MOST_ARGUMENTS {
                return;
            }
            list.push(detail(part));
            collect(&part.args, list);
        }
    }
}

fn detail(part: &Part<'_>) -> String {
    if let Some(number) = part.lambda {
        return format!("#{}", number.chars().take(DETAIL).collect::<String>());
    }
    value(part.text).chars().take(DETAIL).collect()
}

fn columns(text: &str) -> usize {
    text.chars().count()
}

/// The texts, none wider than there is room, different where they were.
fn fitted(texts: &[String], width: usize, ellipsis: &str) -> Vec<String> {
    let mut shown: Vec<String> = texts
        .iter()
        .map(|text| cut(text, width, ellipsis))
        .collect();
    // Ends first, more and more of them; then from where the names begin to differ.
    let mut tail = 4;
    while tail < width.saturating_sub(columns(ellipsis)) {
        let groups = alike(&shown);
        if groups.is_empty() {
            return shown;
        }
        for place in groups.into_iter().flatten() {
            shown[place] = cut_middle(&texts[place], width, tail, ellipsis);
        }
        tail = tail.saturating_add((width / 6).max(1));
    }
    for group in alike(&shown) {
        let same = common_beginning(group.iter().map(|&place| texts[place].as_str()));
        for &place in &group {
            shown[place] = cut_from(&texts[place], same, width, ellipsis);
        }
    }
    number(&mut shown, width, ellipsis);
    shown
}

/// The last resort. Also names that are the same as another only by chance of being cut.
fn number(shown: &mut [String], width: usize, ellipsis: &str) {
    let mut taken: HashSet<String> = shown.iter().cloned().collect();
    for group in alike(shown) {
        let mut number = 2;
        for &place in &group[1..] {
            shown[place] = loop {
                let mark = format!("{ellipsis}#{number}");
                let mark = if columns(&shown[place]) + columns(&mark) <= width {
                    format!("#{number}")
                } else {
                    mark
                };
                let room = width.saturating_sub(columns(&mark));
                let base = shown[place].trim_end_matches(ellipsis);
                let text: String = base.chars().take(room).chain(mark.chars()).collect();
                number += 1;
                if taken.insert(text.clone()) {
                    break text;
                }
            };
        }
    }
}

/// Arguments go first, then the end.
fn cut(text: &str, width: usize, ellipsis: &str) -> String {
    if columns(text) <= width {
        return text.to_owned();
    }
    // Outer scopes say least, then arguments, then inner scopes.
    let name = &text[..text.find('<').unwrap_or(text.len())];
    let scopes = name.match_indices("::").map(|(place, _)| place + 2);
    let starts: Vec<usize> = [0].into_iter().chain(scopes).collect();
    let folded = text.ends_with('>') && name.len() < text.len();
    let whole = starts.iter().map(|&start| text[start..].to_owned());
    let named = starts
        .iter()
        .map(|&start| format!("{}<{ellipsis}>", &name[start..]));
    let mut shorter = whole.chain(named.filter(|_| folded));
    if let Some(found) = shorter.find(|text| columns(text) <= width) {
        return found;
    }
    let text = &text[*starts.last().unwrap_or(&0)..];
    let kept = width.saturating_sub(columns(ellipsis));
    text.chars()
        .take(kept)
        .chain(ellipsis.chars())
        .take(width)
        .collect()
}

/// The beginning, and `tail` characters of the end.
fn cut_middle(text: &str, width: usize, tail: usize, ellipsis: &str) -> String {
    let length = columns(text);
    if length <= width {
        return text.to_owned();
    }
    let head = width.saturating_sub(tail + columns(ellipsis));
    let end = text.chars().skip(length - tail.min(length));
    text.chars()
        .take(head)
        .chain(ellipsis.chars())
        .chain(end)
        .collect()
}

/// A few characters of the beginning, then from shortly before where it differs from others.
fn cut_from(text: &str, same: usize, width: usize, ellipsis: &str) -> String {
    let length = columns(text);
    if length <= width {
        return text.to_owned();
    }
    let head = (width / 4).min(same);
    let from = same.saturating_sub(2).max(head);
    let rest: String = text.chars().skip(from).collect();
    let room = width.saturating_sub(head + columns(ellipsis));
    let rest = if columns(&rest) <= room {
        rest
    } else {
        let kept = room.saturating_sub(columns(ellipsis));
        rest.chars().take(kept).chain(ellipsis.chars()).collect()
    };
    let text: String = text
        .chars()
        .take(head)
        .chain(ellipsis.chars())
        .chain(rest.chars())
        .collect();
    text.chars().take(width).collect()
}

/// Characters that all begin with.
fn common_beginning<'a>(mut texts: impl Iterator<Item = &'a str>) -> usize {
    let Some(first) = texts.next() else { return 0 };
    let mut same = columns(first);
    for text in texts {
        let now = first
            .chars()
            .zip(text.chars())
            .take_while(|(a, b)| a == b)
            .count();
        same = same.min(now);
    }
    same
}
