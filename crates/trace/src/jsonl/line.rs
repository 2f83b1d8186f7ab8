//! One JSON line → fields.

use crate::{
    fields::{Fields, Word},
    json::{
        number::parse_fixed,
        parse::{Cursor, Parsed},
        value::{parse_args, parse_stack},
    },
    names::Names,
};

/// Read a line; names of fields this version does not know are handed to `unknown`.
pub fn parse<'a>(
    text: &'a str,
    names: &mut Names,
    mut unknown: impl FnMut(&str),
) -> Parsed<Fields<'a>> {
    let mut fields = Fields::default();
    let cursor = &mut Cursor::new(text);
    cursor.expect(b'{', "not a JSON object")?;
    let mut first = true;
    while cursor.another(b'}', first)? {
        first = false;
        let key = cursor.key()?;
        if cursor.peek() == b'n' && cursor.word("null") {
            continue;
        }
        match &*key.text {
            "event_id" => fields.event_id = Some(cursor.uint()?),
            "ts" => fields.ts = Some(fixed(cursor, 6)?),
            "pid" => fields.pid = Some(small(cursor)?),
            "tid" => fields.tid = Some(small(cursor)?),
            "type" => fields.kind = Some(word(cursor)?),
            "layer" => fields.layer = Some(word(cursor)?),
            "name" => fields.name = Some(word(cursor)?),
            "category" => fields.category = Some(word(cursor)?),
            "phase" => fields.phase = Some(word(cursor)?),
            "op_id" => fields.op_id = Some(cursor.uint()?),
            "depth" => fields.depth = Some(small(cursor)?),
            "parent" => fields.parent = Some(cursor.uint()?),
            "cpu" => fields.cpu = Some(small(cursor)?),
            "device" => fields.device = Some(small(cursor)?),
            "context" => fields.context = Some(cursor.handle()?),
            "stream" => fields.stream = Some(cursor.handle()?),
            "correlation" => fields.correlation = Some(cursor.uint()?),
            "duration_us" => match u64::try_from(fixed(cursor, 3)?) {
                Ok(duration) => fields.duration = Some(duration),
                Err(_) => return cursor.problem("a negative duration"),
            },
            "status" => fields.status = Some(cursor.int()?),
            "result" => fields.result = Some(word(cursor)?),
            "cmd" => fields.cmd = Some(cursor.uint()?),
            "decoded" => fields.decoded = Some(parse_args(cursor, names)?),
            "details" => fields.details = Some(parse_args(cursor, names)?),
            "stack" => fields.stack = Some(parse_stack(cursor, names)?),
            "op" => fields.op = Some(word(cursor)?),
            "size" => fields.size = Some(cursor.uint()?),
            "freed" => fields.freed = Some(cursor.uint()?),
            "ptr" => fields.ptr = Some(cursor.handle()?),
            "space" => fields.space = Some(word(cursor)?),
            "direction" => fields.direction = Some(word(cursor)?),
            "src" => fields.src = Some(cursor.handle()?),
            "dst" => fields.dst = Some(cursor.handle()?),
            "kernel" => fields.kernel = Some(word(cursor)?),
            "grid" => fields.grid = Some(triple(cursor)?),
            "block" => fields.block = Some(triple(cursor)?),
            "shared" => fields.shared = Some(cursor.uint()?),
            "count" => fields.count = Some(cursor.uint()?),
            "source" => fields.source = Some(word(cursor)?),
            // Derived from grid and block.
            "threads" => cursor.skip()?,
            other => {
                // Heads and tails have fields of their own, and are read again as a whole.
                if !fields.kind.as_ref().is_some_and(is_head_or_tail) {
                    unknown(other);
                }
                cursor.skip()?;
            }
        }
    }
    cursor.end()?;
    Ok(fields)
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
