//! A kernel's name in a few words.

use crate::{
    demangle,
    parse::{Part, Path, parse},
    plain::{bounded, plain},
    rules::{self, Shown},
};
use event::matches_glob;
use std::borrow::Cow;

/// Template arguments of a program's own kernels, in characters.
const ARGUMENTS: usize = 40;
/// Launchers inside launchers.
const DEEPEST: usize = 8;

/// The name as people say it, with what tells the kernel from others of its kind: never empty where
/// the name is not, and bounded. The same for instances that differ only in how they walk memory.
pub fn short_name(full: &str) -> String {
    let name = demangle::beginning(full);
    let name = bounded_text(&name);
    let Some(text) = function(name) else {
        return plain(name);
    };
    let path = parse(text);
    let short = of_path(&path, 0);
    if short.is_empty() {
        plain(name)
    } else {
        bounded(&short)
    }
}

/// The name without return type, template arguments and parameters:
/// `void scale<float>(float*, int)` is one of several `scale`.
pub fn base_name(name: &str) -> String {
    let name = demangle::demangled(name);
    // Only a C++ signature has a return type before its name: `[CUDA memcpy HtoD]` has not.
    let signature = name.contains('(');
    let mut base = String::new();
    let (mut angles, mut rest) = (0u32, &*name);
    while let Some(character) = rest.chars().next() {
        match character {
            // Part of the name, not parameters.
            '(' if rest.starts_with("(anonymous namespace)") => {
                if angles == 0 {
                    base.push_str("(anonymous_namespace)");
                }
                rest = &rest["(anonymous namespace)".len()..];
                continue;
            }
            '(' if angles == 0 && !base.is_empty() => break,
            '<' => angles += 1,
            '>' => angles = angles.saturating_sub(1),
            // What comes before a blank is the return type.
            ' ' if angles == 0 && signature => base.clear(),
            _ if angles == 0 => base.push(character),
            _ => {}
        }
        rest = &rest[character.len_utf8()..];
    }
    if base.is_empty() {
        name.into_owned()
    } else {
        base.replace("(anonymous_namespace)", "(anonymous namespace)")
    }
}

fn bounded_text(name: &str) -> &str {
    let mut end = name.len().min(demangle::LONGEST);
    while !name.is_char_boundary(end) {
        end -= 1;
    }
    &name[..end]
}

/// The name, if it is a C++ function's: `void f<int>(int)` is, `[CUDA memcpy HtoD]` and
/// `copy (host to device)` are not.
fn function(name: &str) -> Option<&str> {
    let masked: Cow<'_, str> = name
        .replace("(anonymous namespace)", "{anonymous_namespace}")
        .into();
    let end = masked.find(['(', '<'])?;
    let before = masked[..end].trim_end_matches("operator");
    let mut words = before.split(' ');
    let first = words.next()?;
    let more = words.count();
    let cpp = !before.is_empty() && (more == 0 || more == 1 && first == "void");
    // A type that decides whether the function exists.
    let conditional = first.starts_with("std::enable_if") || first.starts_with("typename");
    (cpp || conditional).then_some(name)
}

fn of_path(path: &Path<'_>, depth: usize) -> String {
    // A lambda run as a kernel is its function's.
    let Some(own) = path
        .parts
        .iter()
        .rposition(|part| part.lambda.is_none() && part.text != "operator()")
    else {
        return String::new();
    };
    let part = &path.parts[own];
    let scopes = &path.parts[..own];
    let within =
        |scope: &str| scope.is_empty() || scopes.iter().any(|part| in_scope(scope, part.text));
    let family = (rules::FAMILIES.iter())
        .find(|family| fits(family.kernel, part.text) && within(family.scope));
    let Some(family) = family else {
        return generic(path, own);
    };
    match family.shown {
        Shown::Operation(word) => operation(word, part),
        Shown::Typed("") => typed(&cleaned(part.text), part),
        Shown::Typed(word) => typed(word, part),
        Shown::Prefixed(library) => format!("{library} {}", typed(&cleaned(part.text), part)),
        Shown::Traits => traits(part),
        Shown::Inner => inner(path, own, depth),
        Shown::Tiled(library) => tiled(library, part),
        Shown::Library(library) => of_library(library, scopes, part),
    }
}

fn fits(glob: &str, text: &str) -> bool {
    matches_glob(glob.as_bytes(), text.as_bytes())
}

/// PyTorch's copies of libraries are called `pytorch_flash`, `at_cuda_detail::cub`, `CUB_200200_…`.
fn in_scope(scope: &str, text: &str) -> bool {
    fits(scope, text) || text.strip_prefix("pytorch_") == Some(scope)
}

/// `elementwise add<bf16>`
fn operation(word: &str, part: &Part<'_>) -> String {
    // Only lists of tensors have a functor for the list and one for the elements.
    let most = if word == "multi_tensor" { 2 } else { 1 };
    let mut found: Vec<Operation> = Vec::new();
    for arg in &part.args {
        let template = arg.last().is_some_and(|part| !part.args.is_empty());
        if found.len() < most && (found.is_empty() || template) {
            found.extend(Operation::of(arg, 0));
        }
    }
    let mut words = word.to_owned();
    for one in &found {
        let said = one.word.strip_suffix('+').unwrap_or(&one.word);
        let joined = words.is_empty() || words.ends_with('+') || said.is_empty();
        words = words.trim_end_matches('+').to_owned();
        words.push_str(if joined { "" } else { " " });
        words.push_str(&one.word);
    }
    let mut words = vec![words.trim_end_matches('+').to_owned()];
    if words[0].is_empty() {
        words[0] = cleaned(part.text);
    }
    words.extend(
        found
            .iter()
            .map(|one| one.note.to_owned())
            .filter(|note| !note.is_empty()),
    );
    let element = (found.iter())
        .find_map(|one| one.element.clone())
        .or_else(|| element(&part.args));
    match element {
        Some(element) => format!("{}<{element}>", words.join(" ")),
        None => words.join(" "),
    }
}

/// What a functor does, on what.
struct Operation {
    word: String,
    note: &'static str,
    element: Option<String>,
}

impl Operation {
    fn of(path: &Path<'_>, depth: usize) -> Option<Self> {
        let head = path.head()?;
        let part = &path.parts[head];
        if depth > DEEPEST
            || path.is_value()
            || named_element(path).is_some()
            || is_noise(part.text)
        {
            return None;
        }
        let wrapper = rules::WRAPPERS
            .iter()
            .find(|(name, _)| fits(name, part.text));
        if let Some((_, note)) = wrapper
            && let Some(mut inner) = part
                .args
                .iter()
                .find_map(|arg| Operation::of(arg, depth + 1))
        {
            if !note.is_empty() {
                inner.note = note;
            }
            // The innermost functor may be of another type than what it is wrapped for.
            inner.element = part.args.iter().find_map(named_element).or(inner.element);
            return Some(inner);
        }
        let (mut word, note) = noted(part.text);
        if part.text == "functor" {
            word = head
                .checked_sub(1)
                .map_or_else(String::new, |scope| cleaned(path.parts[scope].text));
        }
        // The innermost lambda takes the elements.
        let lambda = path.parts.iter().rev().find(|part| part.lambda.is_some());
        let taken = lambda
            .and_then(|lambda| lambda.parameters.as_deref())
            .unwrap_or_default();
        // One `int` may be an index, as what comes with bytes is an offset. Where there is more than
        // a bool, the bool is a condition.
        let is = |path: &Path<'_>, text: &str| path.last().is_some_and(|part| part.text == text);
        let index =
            matches!(taken, [only] if is(only, "int")) || taken.iter().any(|path| is(path, "char"));
        let of_template = element(&part.args);
        let mut elements: Vec<String> = taken.iter().filter_map(named_element).collect();
        if elements.iter().any(|element| element != "bool") {
            elements.retain(|element| element != "bool");
        }
        let taken = elements.into_iter().next();
        Some(Operation {
            word,
            note,
            element: if index {
                of_template.or(taken)
            } else {
                taken.or(of_template)
            },
        })
    }
}

fn is_noise(text: &str) -> bool {
    rules::NOISE.iter().any(|noise| fits(noise, text)) || text == "void" || text == "char"
}

/// `layer_norm<bf16>`
fn typed(word: &str, part: &Part<'_>) -> String {
    // What counts and indexes are whole numbers; what is computed is not, where there is any.
    let floating =
        |arg: &Path<'_>| named_element(arg).filter(|element| !element.starts_with(['i', 'u']));
    let floating = part.args.iter().find_map(floating);
    match floating.or_else(|| element(&part.args)) {
        Some(element) => format!("{word}<{element}>"),
        None => word.to_owned(),
    }
}

/// `flash_fwd<bf16,64>`
fn traits(part: &Part<'_>) -> String {
    let word = cleaned(part.text);
    let mut shown: Vec<String> = element(&part.args).into_iter().collect();
    let sizes = part.args.first().and_then(|arg| arg.last());
    let size = sizes.and_then(|part| part.args.iter().find(|arg| arg.is_value()));
    shown.extend(size.map(|size| value(size.parts[0].text)));
    if shown.is_empty() {
        word
    } else {
        format!("{word}<{}>", shown.join(","))
    }
}

fn inner(path: &Path<'_>, own: usize, depth: usize) -> String {
    let args = &path.parts[own].args;
    let inner = args.iter().find(|arg| !arg.is_value());
    match inner {
        Some(inner) if depth < DEEPEST => {
            let text = inner.last().map_or("", |part| part.text);
            // CUTLASS's generated kernels are structs named like functions of C.
            if inner.parts.len() == 1 && inner.parts[0].args.is_empty() {
                plain(text)
            } else {
                of_path(inner, depth + 1)
            }
        }
        _ => generic(path, own),
    }
}

/// `cutlass GemmUniversal<bf16,128x256x64>`
fn tiled(library: &str, part: &Part<'_>) -> String {
    let mut shown: Vec<String> = element(&part.args).into_iter().collect();
    shown.extend(tile(&part.args, 0));
    let blank = if library.is_empty() { "" } else { " " };
    let args = if shown.is_empty() {
        String::new()
    } else {
        format!("<{}>", shown.join(","))
    };
    format!("{library}{blank}{}{args}", part.text)
}

/// The first shape among arguments: `GemmShape<128, 128, 32>`, `tuple<C<128>, C<256>, C<64>>`.
fn tile(args: &[Path<'_>], depth: usize) -> Option<String> {
    if depth > DEEPEST {
        return None;
    }
    for arg in args {
        let Some(last) = arg.last() else { continue };
        let shape = last.text.ends_with("Shape") || last.text == "tuple";
        if shape && (2..=3).contains(&last.args.len()) {
            let numbers: Option<Vec<String>> = (last.args.iter())
                .map(|arg| {
                    let last = arg.last()?;
                    if arg.is_value() {
                        return Some(value(last.text));
                    }
                    let constant =
                        matches!(last.text, "C" | "constant" | "integral_constant" | "_");
                    let number = last.args.iter().rfind(|arg| arg.is_value());
                    number
                        .filter(|_| constant)
                        .map(|arg| value(arg.parts[0].text))
                })
                .collect();
            // Small ones are clusters of blocks.
            let tile = |numbers: &Vec<String>| numbers.iter().any(|number| number.len() > 1);
            if let Some(numbers) = numbers.filter(tile) {
                return Some(numbers.join("x"));
            }
        }
        if let Some(found) = arg
            .parts
            .iter()
            .find_map(|part| tile(&part.args, depth + 1))
        {
            return Some(found);
        }
    }
    None
}

/// `cub RadixSortOnesweep<u32>`
fn of_library(library: &str, scopes: &[Part<'_>], part: &Part<'_>) -> String {
    let own = cleaned(part.text.strip_prefix("Device").unwrap_or(part.text));
    let alike = matches!(own.as_str(), "static" | "kernel" | "" | "driver");
    let word = match scopes.last().filter(|_| alike) {
        Some(scope) => cleaned(scope.text),
        None => own,
    };
    let word = word
        .strip_prefix(library)
        .map_or(&*word, |rest| rest.trim_start_matches('_'));
    let functor = part.args.iter().find_map(|arg| Operation::of(arg, 0));
    let functor = functor.filter(|one| !one.word.is_empty() && one.word != word);
    let own = functor.as_ref().and_then(|one| one.element.clone());
    let element = own.or_else(|| element(&part.args));
    let functor = functor.map_or_else(String::new, |one| format!(" {}", one.word));
    let element = element.map_or_else(String::new, |element| format!("<{element}>"));
    format!("{library} {word}{functor}{element}")
}

/// A program's own kernel, or a library's that nothing is known about: its scopes, its name, its
/// arguments as far as they are short.
fn generic(path: &Path<'_>, own: usize) -> String {
    let mut text = String::new();
    for scope in &path.parts[..own] {
        let made = (rules::MADE_SCOPES.iter()).any(|made| scope.text.starts_with(made));
        if !made && !rules::SCOPES.contains(&scope.text) && scope.lambda.is_none() {
            text.push_str(scope.text);
            text.push_str("::");
        }
    }
    let part = &path.parts[own];
    if text.is_empty() && part.args.is_empty() {
        // A function of C, or a library's that is named like one.
        return plain(part.text);
    }
    text.push_str(part.text);
    if !part.args.is_empty() {
        // As deep as there is room for.
        let lists = (0..3).rev().map(|depth| arguments(&part.args, depth));
        let list = lists.min_by_key(|list| list.chars().count().saturating_sub(ARGUMENTS));
        let list = list.unwrap_or_default();
        text.push('<');
        if list.chars().count() <= ARGUMENTS {
            text.push_str(&list);
        } else {
            text.extend(list.chars().take(ARGUMENTS - 1));
            text.push('…');
        }
        text.push('>');
    }
    text
}

fn arguments(args: &[Path<'_>], depth: usize) -> String {
    let shown: Vec<String> = args.iter().map(|arg| argument(arg, depth)).collect();
    shown.join(",")
}

fn argument(arg: &Path<'_>, depth: usize) -> String {
    let Some(part) = arg.head().map(|head| &arg.parts[head]) else {
        return String::new();
    };
    if arg.is_value() {
        return value(part.text);
    }
    if let Some(element) = named_element(arg) {
        let built_in = part
            .text
            .split(' ')
            .all(|word| rules::BUILT_IN.contains(&word));
        return if built_in {
            part.text.to_owned()
        } else {
            element
        };
    }
    // Lambdas of one function differ by their numbers only.
    let lambda = arg.parts.iter().rev().find_map(|part| part.lambda);
    let lambda = lambda.map_or_else(String::new, |number| format!("::lambda{number}"));
    match depth {
        0 => format!("{}{lambda}", part.text),
        _ if part.args.is_empty() => format!("{}{lambda}", part.text),
        _ => format!(
            "{}<{}>{lambda}",
            part.text,
            arguments(&part.args, depth - 1)
        ),
    }
}

/// `3ul` is 3.
pub(crate) fn value(text: &str) -> String {
    if text.starts_with(|c: char| c.is_ascii_digit() || c == '-') {
        text.trim_end_matches(['u', 'l', 'U', 'L']).to_owned()
    } else {
        text.to_owned()
    }
}

/// The first type of elements among arguments, or inside them.
fn element(args: &[Path<'_>]) -> Option<String> {
    let own = args.iter().find_map(named_element);
    own.or_else(|| element_inside(args, 0))
}

fn element_inside(args: &[Path<'_>], depth: usize) -> Option<String> {
    if depth > DEEPEST {
        return None;
    }
    args.iter().find_map(|arg| {
        named_element(arg).or_else(|| {
            let mut parts = arg.parts.iter();
            parts.find_map(|part| {
                if matches!(part.text, "array" | "Array" | "tuple")
                    || part.text.ends_with("OffsetCalculator")
                {
                    return None;
                }
                element_inside(&part.args, depth + 1)
            })
        })
    })
}

/// `c10::BFloat16` is bf16, `c10::complex<float>` complex<f32>, `OpaqueType<4>` 4B.
fn named_element(path: &Path<'_>) -> Option<String> {
    let part = path.last()?;
    if part.parameters.is_some() || part.lambda.is_some() {
        return None;
    }
    match part.text {
        "complex" => {
            let of = part.args.first().and_then(named_element)?;
            Some(format!("complex<{of}>"))
        }
        "OpaqueType" => {
            let size = part.args.first().filter(|arg| arg.is_value())?;
            Some(format!("{}B", value(size.parts[0].text)))
        }
        text if part.args.is_empty() => {
            let found = rules::TYPES.iter().find(|(name, _)| *name == text);
            found.map(|(_, shown)| (*shown).to_owned())
        }
        _ => None,
    }
}

/// A library's name for something without what libraries put around it.
pub(crate) fn cleaned(text: &str) -> String {
    let (word, note) = noted(text);
    if note.is_empty() {
        word
    } else {
        format!("{word} {note}")
    }
}

/// The same, and what its prefix says.
fn noted(text: &str) -> (String, &'static str) {
    if let Some((_, word, note)) = rules::OPERATIONS.iter().find(|(name, ..)| *name == text) {
        return ((*word).to_owned(), note);
    }
    let mut word = text;
    let mut said = "";
    for (prefix, note) in rules::PREFIXES {
        if let Some(rest) = word.strip_prefix(prefix).filter(|rest| !rest.is_empty()) {
            (word, said) = (rest, note);
            break;
        }
    }
    while let Some(rest) = (rules::SUFFIXES.iter())
        .find_map(|suffix| word.strip_suffix(suffix).filter(|rest| !rest.is_empty()))
    {
        word = rest;
    }
    let mut word = snake(word.trim_matches('_'));
    for infix in rules::INFIXES {
        word = word.replace(infix, "");
    }
    (word, said)
}

/// `CompareEq` is compare_eq; `gatherTopK` and names with `_` stay.
fn snake(word: &str) -> String {
    if word.contains('_') || !word.starts_with(|c: char| c.is_ascii_uppercase()) {
        return word.to_owned();
    }
    let mut text = String::new();
    let mut before = ' ';
    for character in word.chars() {
        if character.is_ascii_uppercase() {
            if before.is_ascii_lowercase() || before.is_ascii_digit() {
                text.push('_');
            }
            text.push(character.to_ascii_lowercase());
        } else {
            text.push(character);
        }
        before = character;
    }
    text
}
