//! One parameter of a traced function: where its value is in a raw record, and what it is.

use super::signature::Words;
use super::value::{Part, attribute, in_bytes, in_parts, in_word, list, little_endian, text};
use cuda::capture::{Count, Item, ParameterLocation, Plan, When, places};
use cuda::{Direction, Enum, Function, Kind, Type, attributes};
use event::{Arg, Name, Value};

#[derive(Debug)]
pub struct Parameter {
    pub name: Name,
    pub kind: &'static Type,
    direction: Direction,
    place: ParameterLocation,
    captured: Option<Captured>,
    /// An array that the struct behind this points to.
    nested: Option<Nested>,
    /// Which arm of a union behind this is used, or which attribute: the number in this word.
    key: Option<(u8, &'static Enum)>,
}

/// What was copied from behind a pointer, and where in the payload it is.
#[derive(Debug)]
struct Captured {
    at: When,
    what: What,
}

#[derive(Debug)]
enum What {
    /// One value, or parts of it: where in it they begin, and the bytes.
    Parts(Vec<(usize, Bytes)>),
    Text(Bytes),
    Array {
        bytes: Bytes,
        stride: usize,
        count: Length,
    },
    /// Values of attributes, and where it says which they are.
    Attributes {
        bytes: Bytes,
        count: Length,
        keys: Bytes,
        names: &'static Enum,
    },
}

#[derive(Debug)]
struct Nested {
    field: &'static str,
    element: &'static Type,
    bytes: Bytes,
    kept: usize,
    /// Where in the payload its length is.
    count: Bytes,
}

/// A place in the payload.
#[derive(Debug, Clone, Copy)]
struct Bytes {
    start: usize,
    length: usize,
}

impl Bytes {
    fn of(self, payload: &[u8]) -> Option<&[u8]> {
        payload.get(self.start..self.start + self.length)
    }
}

/// Where an array's length is.
#[derive(Debug, Clone, Copy)]
enum Length {
    Word { index: u8, bytes: u8 },
    Payload(Bytes),
    Unknown,
}

impl Length {
    fn of(self, words: &Words, payload: &[u8]) -> Option<usize> {
        let (raw, bytes) = match self {
            Length::Word { index, bytes } => (words.get(index.into())?, bytes.into()),
            Length::Payload(bytes) => {
                let held = bytes.of(payload)?;
                (little_endian(held, held.len())?, held.len())
            }
            Length::Unknown => return None,
        };
        match bytes {
            4 => usize::try_from(raw as u32 as i32).ok(),
            _ => usize::try_from(raw).ok(),
        }
    }
}

/// A function's parameters as a plan has them.
pub fn parameters(table: &'static Function, plan: &Plan) -> Vec<Parameter> {
    let placed: Vec<(Bytes, Item)> = plan
        .placed()
        .map(|(start, item)| {
            let length = item.bytes();
            (Bytes { start, length }, item)
        })
        .collect();
    let rows = table.parameters.iter().zip(places(table)).enumerate();
    rows.map(|(index, (row, place))| {
        let word = match place {
            ParameterLocation::Words { first, .. } => Some(first),
            ParameterLocation::Vector { .. } => None,
        };
        Parameter {
            name: row.name.into(),
            kind: row.kind,
            direction: row.direction,
            place,
            captured: word.and_then(|word| captured(table, index, word, &placed)),
            nested: word.and_then(|word| nested(row.kind, word, &placed)),
            key: key(table, index),
        }
    })
    .collect()
}

/// The array of sizes that only its sum was kept of, whole: its name, and the sum's place.
pub fn sum(plan: &Plan) -> Option<usize> {
    let mut placed = plan.placed();
    placed
        .find(|(_, item)| matches!(item, Item::Sum { .. }))
        .map(|(start, _)| start)
}

fn captured(
    table: &'static Function,
    index: usize,
    word: u8,
    placed: &[(Bytes, Item)],
) -> Option<Captured> {
    let mut parts = Vec::new();
    for (bytes, item) in placed {
        let bytes = *bytes;
        let (at, what) = match *item {
            Item::Memory {
                arg, offset, at, ..
            } if arg == word => {
                parts.push((at, (usize::from(offset), bytes)));
                continue;
            }
            Item::Text { arg, at, .. } if arg == word => (at, What::Text(bytes)),
            Item::TextBehind { arg, .. } if arg == word => (When::Exit, What::Text(bytes)),
            Item::Array {
                arg,
                stride,
                count,
                at,
                ..
            } if arg == word => {
                let (stride, count) = (usize::from(stride), length(count, placed));
                let what = What::Array {
                    bytes,
                    stride,
                    count,
                };
                (at, what)
            }
            Item::Gathered { arg, count, .. } if arg == word => {
                let key = attributes::of_values(table, index)?;
                let names = table.parameters.get(key)?.kind.pointee()?.enumeration()?;
                let ParameterLocation::Words { first, .. } = places(table).nth(key)? else {
                    return None;
                };
                let keys = placed.iter().find(|(_, item)| match item {
                    Item::Array { arg, .. } => *arg == first,
                    _ => false,
                });
                let what = What::Attributes {
                    bytes,
                    count: length(count, placed),
                    keys: keys?.0,
                    names,
                };
                (When::Exit, what)
            }
            _ => continue,
        };
        return Some(Captured { at, what });
    }
    let at = parts.first()?.0;
    let parts = parts.into_iter().map(|(_, part)| part).collect();
    Some(Captured {
        at,
        what: What::Parts(parts),
    })
}

fn length(count: Count, placed: &[(Bytes, Item)]) -> Length {
    if !count.behind {
        return Length::Word {
            index: count.word,
            bytes: count.bytes,
        };
    }
    let held = placed.iter().find(|(_, item)| match item {
        Item::Memory { arg, offset: 0, .. } => *arg == count.word,
        _ => false,
    });
    held.map_or(Length::Unknown, |(bytes, _)| Length::Payload(*bytes))
}

fn nested(kind: &'static Type, word: u8, placed: &[(Bytes, Item)]) -> Option<Nested> {
    let layout = kind.pointee()?.structure()?;
    let whole = placed.iter().find(|(_, item)| match item {
        Item::Memory { arg, offset: 0, .. } => *arg == word,
        _ => false,
    })?;
    placed.iter().find_map(|(bytes, item)| {
        let Item::Nested {
            arg,
            pointer,
            count,
            count_bytes,
            kept,
            ..
        } = *item
        else {
            return None;
        };
        let at = |offset: u16| {
            let offset = u32::from(offset);
            layout.fields.iter().find(|field| field.offset == offset)
        };
        let field = at(pointer).filter(|_| arg == word)?;
        Some(Nested {
            field: field.name,
            element: field.kind.pointee()?,
            bytes: *bytes,
            kept: kept.into(),
            count: Bytes {
                start: whole.0.start + usize::from(count),
                length: count_bytes.into(),
            },
        })
    })
}

/// The word with an attribute's number, and its names: of an attribute's value, or of a union.
fn key(table: &'static Function, index: usize) -> Option<(u8, &'static Enum)> {
    let row = table.parameters.get(index)?;
    let union = || {
        let layout = row.kind.pointee()?.structure()?;
        let bare = layout.fields.iter().all(|field| field.shared);
        let names =
            |name: &str| name.ends_with("LaunchAttributeID") || name.ends_with("launchAttributeID");
        let is_key =
            |one: &cuda::Parameter| one.kind.enumeration().is_some_and(|held| names(held.name));
        bare.then(|| table.parameters.iter().position(is_key))?
    };
    let key = attributes::of_value(table, index).or_else(union)?;
    let names = table.parameters.get(key)?.kind.enumeration()?;
    match places(table).nth(key)? {
        ParameterLocation::Words { first, .. } => Some((first, names)),
        ParameterLocation::Vector { .. } => None,
    }
}

impl Parameter {
    /// Its value is known at the end only.
    pub fn comes_back(&self) -> bool {
        self.captured
            .as_ref()
            .is_some_and(|captured| captured.at == When::Exit)
            && (self.direction != Direction::In || self.key.is_some() || self.is_gathered())
    }

    fn is_gathered(&self) -> bool {
        matches!(
            self.captured,
            Some(Captured {
                what: What::Attributes { .. },
                ..
            })
        )
    }

    /// When what it points to was read; None: nothing was.
    pub fn read_at(&self) -> Option<When> {
        self.captured.as_ref().map(|captured| captured.at)
    }

    /// A text was copied from behind it.
    pub fn is_text(&self) -> bool {
        let what = self.captured.as_ref().map(|captured| &captured.what);
        matches!(what, Some(What::Text(_)))
    }

    /// Words of arguments up to the last one that it is in.
    pub fn words_end(&self) -> usize {
        match self.place {
            ParameterLocation::Words { first, count } => usize::from(first) + usize::from(count),
            ParameterLocation::Vector { .. } => 0,
        }
    }

    pub fn word(&self, words: &Words) -> Option<u64> {
        match self.place {
            ParameterLocation::Words { first, count: 1 } => words.get(first.into()),
            _ => None,
        }
    }

    /// The value itself.
    pub fn passed(&self, words: &Words) -> Option<Value> {
        let (first, count) = match self.place {
            ParameterLocation::Words { first, count } => (first, count),
            ParameterLocation::Vector { register } => {
                return Some(in_word(self.kind, words.vector(register.into())?));
            }
        };
        if self.kind.kind != Kind::Struct {
            return Some(in_word(self.kind, words.get(first.into())?));
        }
        let mut bytes = Vec::with_capacity(8 * usize::from(count));
        for word in first..first.checked_add(count)? {
            bytes.extend_from_slice(&words.get(word.into())?.to_le_bytes());
        }
        bytes.truncate(self.kind.size as usize);
        Some(in_bytes(self.kind, &bytes))
    }

    /// The value behind the pointer.
    pub fn read(&self, words: &Words, payload: &[u8]) -> Option<Value> {
        if self.word(words)? == 0 {
            return Some(Value::Null);
        }
        match &self.captured.as_ref()?.what {
            What::Text(bytes) => Some(text(bytes.of(payload)?)),
            What::Array {
                bytes,
                stride,
                count,
            } => {
                let held = bytes.of(payload)?;
                let count = count.of(words, payload)?;
                let shown = count.saturating_mul(*stride).min(held.len());
                let target = self.kind.pointee()?;
                match target.text {
                    "char" => Some(text(&held[..shown])),
                    _ => Some(list(target, &held[..shown], *stride)),
                }
            }
            What::Attributes {
                bytes,
                count,
                keys,
                names,
            } => {
                let count = count.of(words, payload)?;
                let keys = keys.of(payload)?.chunks_exact(4);
                let values = bytes.of(payload)?.chunks_exact(8);
                let each = keys.zip(values).take(count).map(|(key, value)| {
                    let key = little_endian(key, 4).unwrap_or(0) as u32;
                    attribute(names, key, value)
                });
                Some(Value::List(each.collect()))
            }
            What::Parts(parts) => {
                let parts: Vec<Part<'_>> = parts
                    .iter()
                    .filter_map(|(offset, bytes)| Some((*offset, bytes.of(payload)?)))
                    .collect();
                let first = parts.first()?;
                let key = match self.key {
                    Some((word, names)) => Some((words.get(word.into())? as u32, names)),
                    None => None,
                };
                let target = self.kind.pointee()?;
                match key {
                    Some((key, names)) if target.kind == Kind::Void => {
                        Some(attribute(names, key, first.1))
                    }
                    _ => {
                        let mut value = in_parts(target, &parts, key.map(|key| key.0));
                        self.put_nested(&mut value, payload);
                        Some(value)
                    }
                }
            }
        }
    }

    /// The array instead of its address.
    fn put_nested(&self, value: &mut Value, payload: &[u8]) {
        let (Some(nested), Value::Map(fields)) = (&self.nested, value) else {
            return;
        };
        let elements = || {
            let count = Length::Payload(nested.count).of(&Words::default(), payload)?;
            let held = nested.bytes.of(payload)?;
            let shown = count.saturating_mul(nested.kept).min(held.len());
            Some(list(nested.element, &held[..shown], nested.kept))
        };
        let field = |field: &&mut Arg| *field.name == *nested.field;
        if let Some(field) = fields.iter_mut().find(field)
            && field.value != Value::Pointer(0)
            && let Some(elements) = elements()
        {
            field.value = elements;
        }
    }

    /// The string's address, if what was kept of it is too short.
    pub fn cut_text(&self, words: &Words, payload: &[u8]) -> Option<u64> {
        let captured = self.captured.as_ref()?;
        let What::Text(bytes) = &captured.what else {
            return None;
        };
        if captured.at != When::Enter || bytes.of(payload)?.contains(&0) {
            return None;
        }
        self.word(words).filter(|address| *address != 0)
    }
}
