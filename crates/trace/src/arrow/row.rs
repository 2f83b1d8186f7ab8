//! One row of a batch → fields.

use super::{
    batch::{Batch, Cells, Values},
    columns::Column,
};
use crate::{
    Parts,
    fields::{Fields, Word},
    json::{
        parse::{Cursor, Parsed},
        value::{parse_args, parse_stack},
    },
    names::Names,
    shape::Problem,
};
use std::borrow::Cow;

/// The text of a summary's row, which is not a list of arguments.
pub type RawDetails<'a> = Option<&'a str>;

pub fn fields<'a>(
    batch: &'a Batch,
    row: usize,
    names: &mut Names,
    parts: Parts,
    fields: &mut Fields<'a>,
) -> Result<RawDetails<'a>, Problem> {
    let mut details = None;
    let (mut grid, mut block) = ([None; 3], [None; 3]);
    for (column, cells) in &batch.columns {
        if !cells.has(row) {
            continue;
        }
        match column {
            Column::Ts => fields.ts = Some(int(cells, row)?),
            Column::Pid => fields.pid = Some(small(cells, row)?),
            Column::Tid => fields.tid = Some(small(cells, row)?),
            Column::Kind => fields.kind = Some(word(cells, row)?),
            Column::Layer => fields.layer = Some(word(cells, row)?),
            Column::Name => fields.name = Some(word(cells, row)?),
            Column::Category => fields.category = Some(word(cells, row)?),
            Column::Phase => fields.phase = Some(word(cells, row)?),
            Column::OpId => fields.op_id = Some(uint(cells, row)?),
            Column::Depth => fields.depth = Some(small(cells, row)?),
            Column::Parent => fields.parent = Some(uint(cells, row)?),
            Column::Cpu => fields.cpu = Some(small(cells, row)?),
            Column::Device => fields.device = Some(small(cells, row)?),
            Column::Context => fields.context = Some(uint(cells, row)?),
            Column::Stream => fields.stream = Some(uint(cells, row)?),
            Column::Correlation => fields.correlation = Some(uint(cells, row)?),
            Column::Duration => fields.duration = Some(uint(cells, row)?),
            Column::Status => fields.status = Some(int(cells, row)?),
            Column::Result => fields.result = Some(word(cells, row)?),
            Column::Cmd => fields.cmd = Some(uint(cells, row)?),
            Column::Decoded => {
                fields.decoded = Some(json(text(cells, row)?, |json| parse_args(json, names))?);
            }
            Column::Details => details = Some(text(cells, row)?),
            Column::Stack => {
                fields.stack = Some(json(text(cells, row)?, |json| parse_stack(json, names))?);
            }
            Column::Op => fields.op = Some(word(cells, row)?),
            Column::Size => fields.size = Some(uint(cells, row)?),
            Column::Freed => fields.freed = Some(uint(cells, row)?),
            Column::Ptr => fields.ptr = Some(uint(cells, row)?),
            Column::Space => fields.space = Some(word(cells, row)?),
            Column::Direction => fields.direction = Some(word(cells, row)?),
            Column::Src => fields.src = Some(uint(cells, row)?),
            Column::Dst => fields.dst = Some(uint(cells, row)?),
            Column::Kernel => fields.kernel = Some(word(cells, row)?),
            Column::GridX => grid[0] = Some(small(cells, row)?),
            Column::GridY => grid[1] = Some(small(cells, row)?),
            Column::GridZ => grid[2] = Some(small(cells, row)?),
            Column::BlockX => block[0] = Some(small(cells, row)?),
            Column::BlockY => block[1] = Some(small(cells, row)?),
            Column::BlockZ => block[2] = Some(small(cells, row)?),
            Column::Shared => fields.shared = Some(uint(cells, row)?),
            Column::Count => fields.count = Some(uint(cells, row)?),
            Column::Source => fields.source = Some(word(cells, row)?),
            Column::Call => fields.call = Some(word(cells, row)?),
        }
    }
    fields.grid = triple(grid);
    fields.block = triple(block);
    if parts.args
        && fields
            .kind
            .as_ref()
            .is_none_or(|kind| kind.as_ref() != "summary")
        && let Some(details) = details
    {
        fields.details = Some(json(details, |json| parse_args(json, names))?);
    }
    Ok(details)
}

fn triple(sizes: [Option<u32>; 3]) -> Option<[u32; 3]> {
    match sizes {
        [Some(x), Some(y), Some(z)] => Some([x, y, z]),
        _ => None,
    }
}

/// The plan has seen to it that numbers are numbers and texts are texts.
const OTHER_TYPE: &str = "a value of the wrong type for its column";

fn raw(cells: &Cells, row: usize) -> Result<(u64, bool), Problem> {
    match &cells.values {
        Values::Ints { values, signed } => {
            let value = *values.get(row).ok_or(OTHER_TYPE)?;
            Ok((value, *signed && (value as i64) < 0))
        }
        _ => Err(OTHER_TYPE.into()),
    }
}

fn uint(cells: &Cells, row: usize) -> Result<u64, Problem> {
    match raw(cells, row)? {
        (value, false) => Ok(value),
        (_, true) => Err("a negative number where only positive ones are allowed".into()),
    }
}

fn int(cells: &Cells, row: usize) -> Result<i64, Problem> {
    match raw(cells, row)? {
        (value, true) => Ok(value as i64),
        (value, false) => Ok(i64::try_from(value).map_err(|_| "a number too large for its field")?),
    }
}

fn small(cells: &Cells, row: usize) -> Result<u32, Problem> {
    Ok(u32::try_from(uint(cells, row)?).map_err(|_| "a number too large for its field")?)
}

fn word(cells: &Cells, row: usize) -> Result<Word<'_>, Problem> {
    match &cells.values {
        Values::Names { keys, names } => {
            let key = keys.get(row).and_then(|&key| usize::try_from(key).ok());
            let name = key.and_then(|key| names.get(key));
            Ok(Word::Shared(
                name.ok_or("a key that is not in its dictionary")?,
            ))
        }
        _ => Ok(Word::Text(Cow::Borrowed(text(cells, row)?))),
    }
}

fn text(cells: &Cells, row: usize) -> Result<&str, Problem> {
    match &cells.values {
        Values::Texts { text, offsets } => {
            let range = offsets.get(row).zip(offsets.get(row + 1));
            let text = range.and_then(|(&start, &end)| text.get(start..end));
            Ok(text.ok_or("a string that begins inside a character")?)
        }
        Values::Names { .. } => match word(cells, row)? {
            Word::Shared(name) => Ok(name),
            Word::Text(_) => Err(OTHER_TYPE.into()),
        },
        Values::Ints { .. } => Err(OTHER_TYPE.into()),
    }
}

fn json<'a, T>(
    text: &'a str,
    parse: impl FnOnce(&mut Cursor<'a>) -> Parsed<T>,
) -> Result<T, Problem> {
    let mut cursor = Cursor::new(text);
    let parsed = parse(&mut cursor).and_then(|value| cursor.end().map(|()| value));
    parsed.map_err(|problem| problem.what)
}
