//! One JSON line → fields.

use super::key::{Key, Order};
use crate::{
    Parts,
    fields::{Fields, Word},
    json::{
        number::parse_fixed,
        parse::{Cursor, Parsed},
        value::{parse_args, parse_stack},
    },
    names::Names,
};

/// Read a line, but for the parts not wanted; names of fields this version does not know are handed to `unknown`.
pub fn parse<'a>(
    text: &'a str,
    names: &mut Names,
    parts: Parts,
    order: &mut Order,
    fields: &mut Fields<'a>,
    mut unknown: impl FnMut(&str),
) -> Parsed<()> {
    let cursor = &mut Cursor::new(text);
    cursor.expect(b'{', "not a JSON object")?;
    let mut last = None;
    let mut first = true;
    loop {
        let expected = last.and_then(|last| order.after(last));
        let key = match expected {
            Some((key, text)) if cursor.take_exactly(text) => Some(key),
            _ => {
                if !cursor.another(b'}', first)? {
                    break;
                }
                let name = cursor.key()?;
                let key = Key::of(&name.text);
                match key {
                    Some(key) => order.learn(last, key),
                    // Heads and tails have fields of their own, and are read again as a whole.
                    None if fields.kind.as_ref().is_some_and(is_head_or_tail) => {}
                    // What is null is not there.
                    None if cursor.peek() == b'n' => {}
                    None => unknown(&name.text),
                }
                key
            }
        };
        first = false;
        last = key.or(last);
        if cursor.peek() == b'n' && cursor.word("null") {
            continue;
        }
        match key {
            Some(Key::EventId) => fields.event_id = Some(cursor.uint()?),
            Some(Key::Ts) => fields.ts = Some(fixed(cursor, 6)?),
            Some(Key::Pid) => fields.pid = Some(small(cursor)?),
            Some(Key::Tid) => fields.tid = Some(small(cursor)?),
            Some(Key::Type) => fields.kind = Some(word(cursor)?),
            Some(Key::Layer) => fields.layer = Some(word(cursor)?),
            Some(Key::Name) => fields.name = Some(word(cursor)?),
            Some(Key::Category) => fields.category = Some(word(cursor)?),
            Some(Key::Phase) => fields.phase = Some(word(cursor)?),
            Some(Key::OpId) => fields.op_id = Some(cursor.uint()?),
            Some(Key::Depth) => fields.depth = Some(small(cursor)?),
            Some(Key::Parent) => fields.parent = Some(cursor.uint()?),
            Some(Key::Cpu) => fields.cpu = Some(small(cursor)?),
            Some(Key::Device) => fields.device = Some(small(cursor)?),
            Some(Key::Context) => fields.context = Some(cursor.handle()?),
            Some(Key::Stream) => fields.stream = Some(cursor.handle()?),
            Some(Key::Correlation) => fields.correlation = Some(cursor.uint()?),
            Some(Key::DurationUs) => match u64::try_from(fixed(cursor, 3)?) {
                Ok(duration) => fields.duration = Some(duration),
                Err(_) => return cursor.problem("a negative duration"),
            },
            Some(Key::Status) => fields.status = Some(cursor.int()?),
            Some(Key::Result) => fields.result = Some(word(cursor)?),
            Some(Key::Cmd) => fields.cmd = Some(cursor.uint()?),
            Some(Key::Decoded) if !parts.decoded => cursor.skip_quickly()?,
            Some(Key::Details) if !parts.args => cursor.skip_quickly()?,
            Some(Key::Stack) if !parts.stack => cursor.skip_quickly()?,
            Some(Key::Decoded) => fields.decoded = Some(parse_args(cursor, names)?),
            Some(Key::Details) => fields.details = Some(parse_args(cursor, names)?),
            Some(Key::Stack) => fields.stack = Some(parse_stack(cursor, names)?),
            Some(Key::Op) => fields.op = Some(word(cursor)?),
            Some(Key::Size) => fields.size = Some(cursor.uint()?),
            Some(Key::Freed) => fields.freed = Some(cursor.uint()?),
            Some(Key::Ptr) => fields.ptr = Some(cursor.handle()?),
            Some(Key::Space) => fields.space = Some(word(cursor)?),
            Some(Key::Direction) => fields.direction = Some(word(cursor)?),
            Some(Key::Src) => fields.src = Some(cursor.handle()?),
            Some(Key::Dst) => fields.dst = Some(cursor.handle()?),
            Some(Key::Kernel) => fields.kernel = Some(word(cursor)?),
            Some(Key::Grid) => fields.grid = Some(triple(cursor)?),
            Some(Key::Block) => fields.block = Some(triple(cursor)?),
            Some(Key::Shared) => fields.shared = Some(cursor.uint()?),
            Some(Key::Count) => fields.count = Some(cursor.uint()?),
            Some(Key::Source) => fields.source = Some(word(cursor)?),
            Some(Key::Call) => fields.call = Some(word(cursor)?),
            // Derived from grid and block.
            Some(Key::Threads) => cursor.skip()?,
            None => cursor.skip()?,
        }
    }
    cursor.end()
}

fn is_head_or_tail(kind: &Word<'_>) -> bool {
    matches!(kind.as_ref(), "meta" | "summary")
}

fn word<'a>(cursor: &mut Cursor<'a>) -> Parsed<Word<'a>> {
    Ok(Word::Text(cursor.string()?.text))
}

fn small(cursor: &mut Cursor<'_>) -> Parsed<u32> {
    match u32::try_from(cursor.uint()?) {
        Ok(number) => Ok(number),
        Err(_) => cursor.problem("a number too large for its field"),
    }
}

fn fixed(cursor: &mut Cursor<'_>, decimals: usize) -> Parsed<i64> {
    match parse_fixed(cursor.number()?, decimals) {
        Some(number) => Ok(number),
        None => cursor.problem("not a time"),
    }
}

fn triple(cursor: &mut Cursor<'_>) -> Parsed<[u32; 3]> {
    cursor.expect(b'[', "expected three numbers")?;
    let mut sizes = [0; 3];
    for (place, size) in sizes.iter_mut().enumerate() {
        if !cursor.another(b']', place == 0)? {
            return cursor.problem("expected three numbers");
        }
        *size = small(cursor)?;
    }
    cursor.expect(b']', "expected three numbers")?;
    Ok(sizes)
}
