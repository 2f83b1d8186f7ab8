//! One row of a batch → fields.

use super::{
    batch::{Batch, Cells, Values},
    columns::Column,
};
use crate::{
    Parts,
    fields::{Fields, Word},
    json::{
        parse::{self, Cursor},
        value::{parse_args, parse_stack},
    },
    names::Names,
    shape::Problem,
};
use event::{Arg, Name, Stack};
use std::{borrow::Cow, collections::HashMap, sync::Arc};

/// The text of a summary's row, which is not a list of arguments.
pub type RawDetails<'a> = Option<&'a str>;

/// Whether a row is about this event.
pub fn is_of(batch: &Batch, row: usize, id: u64) -> bool {
    let ids = batch.column(Column::OpId).filter(|ids| ids.has(row));
    ids.is_some_and(|ids| uint(ids, row).is_ok_and(|found| found == id))
}

pub fn fields<'a>(
    batch: &'a Batch,
    row: usize,
    names: &mut Names,
    parsed: &mut Parsed,
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
            Column::LinesInside => {}
            Column::Decoded => fields.decoded = Some(parsed.args(*column, cells, row, names)?),
            Column::Outputs => fields.outputs = Some(parsed.args(*column, cells, row, names)?),
            Column::Details => details = Some(cells),
            Column::Stack => {
                let stack = parsed
                    .stacks
                    .of(cells, row, |json| parse_stack(json, names))?;
                fields.stack = Some(stack);
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
        && let Some(cells) = details
    {
        fields.details = Some(parsed.args(Column::Details, cells, row, names)?);
    }
    details.map(|cells| text(cells, row)).transpose()
}

/// How many lines are inside a span of which both ends are in the row; None for other rows.
pub fn lines_inside(batch: &Batch) -> impl Fn(usize) -> Option<u64> + '_ {
    let (phases, inside) = (
        batch.column(Column::Phase),
        batch.column(Column::LinesInside),
    );
    // Most dictionaries of phases have few words: which of them it is, is looked up once.
    let key = phases.and_then(|cells| match &cells.values {
        Values::Names { names, .. } => names.iter().position(|name| &**name == "X"),
        _ => None,
    });
    move |row| {
        let phases = phases.filter(|cells| cells.has(row))?;
        let is_whole = match &phases.values {
            Values::Names { keys, .. } => {
                key.is_some_and(|key| keys.get(row) == Some(&(key as u64)))
            }
            _ => text(phases, row).is_ok_and(|phase| phase == "X"),
        };
        let inside = || {
            let cells = inside.filter(|cells| cells.has(row))?;
            uint(cells, row).ok()
        };
        is_whole.then(|| inside().unwrap_or(0))
    }
}

/// Lists of arguments and stacks by their places in dictionaries: the same text is read once.
#[derive(Default)]
pub struct Parsed {
    args: Vec<(Column, ParsedTexts<Vec<Arg>>)>,
    stacks: ParsedTexts<Stack>,
}

impl Parsed {
    fn args(
        &mut self,
        column: Column,
        cells: &Cells,
        row: usize,
        names: &mut Names,
    ) -> Result<Vec<Arg>, Problem> {
        let place = match (self.args.iter()).position(|(known, _)| *known == column) {
            Some(place) => place,
            None => {
                self.args.push((column, ParsedTexts::default()));
                self.args.len() - 1
            }
        };
        let known = &mut self.args[place].1;
        known.of(cells, row, |json| parse_args(json, names))
    }
}

/// What the texts of a column's dictionary mean.
struct ParsedTexts<T> {
    /// The dictionary they are of.
    names: Option<Arc<Vec<Name>>>,
    values: HashMap<u64, T, ahash::RandomState>,
    /// The length of their texts.
    text: usize,
}

impl<T> Default for ParsedTexts<T> {
    fn default() -> Self {
        ParsedTexts {
            names: None,
            values: HashMap::default(),
            text: 0,
        }
    }
}

/// Texts whose meaning is remembered, by their number and their length.
const MOST_VALUES: usize = 8_192;
const MOST_TEXT: usize = 8 << 20;

impl<T: Clone> ParsedTexts<T> {
    fn of<'a>(
        &mut self,
        cells: &'a Cells,
        row: usize,
        parse: impl FnOnce(&mut Cursor<'a>) -> parse::Parsed<T>,
    ) -> Result<T, Problem> {
        let text = text(cells, row)?;
        let Values::Names { keys, names } = &cells.values else {
            return json(text, parse);
        };
        if !self
            .names
            .as_ref()
            .is_some_and(|known| Arc::ptr_eq(known, names))
        {
            self.names = Some(Arc::clone(names));
            self.values.clear();
            self.text = 0;
        }
        let key = keys[row];
        if let Some(value) = self.values.get(&key) {
            return Ok(value.clone());
        }
        let value = json(text, parse)?;
        if self.values.len() < MOST_VALUES && self.text + text.len() <= MOST_TEXT {
            self.text += text.len();
            self.values.insert(key, value.clone());
        }
        Ok(value)
    }
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

pub fn text(cells: &Cells, row: usize) -> Result<&str, Problem> {
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
    parse: impl FnOnce(&mut Cursor<'a>) -> parse::Parsed<T>,
) -> Result<T, Problem> {
    let mut cursor = Cursor::new(text);
    let parsed = parse(&mut cursor).and_then(|value| cursor.end().map(|()| value));
    parsed.map_err(|problem| problem.what)
}
