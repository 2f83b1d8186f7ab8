//! The attachment as bytes, and back from bytes that may be anything.

use super::{
    Detail, Reaching, Span,
    picture::{Cell, Cells, EMPTY, Picture, Row},
};
use crate::html::{
    colour::COLOURS,
    lanes::{MAX_DEPTH, Owner},
};
use event::Layer;
use trace::index::{Bytes, Damaged, varint, zigzag};

/// A change of what follows needs another number.
const VERSION: u64 = 1;
/// Lanes of a trace at most, and the one for the rest.
const MOST_LANES: usize = 20_001;

impl Detail {
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut out = Vec::new();
        varint(&mut out, VERSION);
        varint(&mut out, self.origin);
        varint(&mut out, self.end);
        varint(&mut out, self.owners.len() as u64);
        self.owners
            .iter()
            .for_each(|owner| put_owner(&mut out, owner));
        varint(&mut out, self.texts.list().len() as u64);
        for text in self.texts.list() {
            put_text(&mut out, text);
        }
        let mut short: Vec<_> = self.short.iter().collect();
        short.sort_unstable();
        varint(&mut out, short.len() as u64);
        for (&name, text) in short {
            varint(&mut out, name.into());
            put_text(&mut out, text);
        }
        varint(&mut out, self.segments.len() as u64);
        for segment in &self.segments {
            put_picture(&mut out, segment);
        }
        varint(&mut out, self.reaching.len() as u64);
        let mut writer = SpanWriter::default();
        for reaching in &self.reaching {
            varint(&mut out, reaching.span.lane.into());
            varint(&mut out, reaching.span.depth.into());
            writer.put(&mut out, &reaching.span);
            varint(&mut out, reaching.last.into());
            varint(&mut out, (reaching.last - reaching.first).into());
            out.push(u8::from(reaching.occupies));
        }
        let mut longest: Vec<_> = self.longest.iter().collect();
        longest.sort_unstable_by_key(|(name, _)| **name);
        varint(&mut out, longest.len() as u64);
        for (&name, spans) in longest {
            varint(&mut out, name.into());
            varint(&mut out, spans.len() as u64);
            let mut writer = SpanWriter::default();
            for span in spans {
                varint(&mut out, span.lane.into());
                varint(&mut out, span.depth.into());
                writer.put(&mut out, span);
            }
        }
        out
    }

    /// `segments` is how many the index has.
    pub fn from_bytes(bytes: &[u8], segments: usize) -> Result<Detail, Damaged> {
        let mut bytes = Bytes::new(bytes);
        if bytes.varint()? != VERSION {
            return Err(Damaged);
        }
        let mut detail = Detail {
            origin: bytes.varint()?,
            end: bytes.varint()?,
            ..Detail::default()
        };
        let count = bytes.count()?;
        if count > MOST_LANES {
            return Err(Damaged);
        }
        for _ in 0..count {
            detail.owners.push(take_owner(&mut bytes)?);
        }
        for _ in 0..bytes.count()? {
            if !detail.texts.restore(bytes.text()?) {
                return Err(Damaged);
            }
        }
        let limits = Limits {
            lanes: count as u32,
            names: detail.texts.len() as u32,
        };
        for _ in 0..bytes.count()? {
            let name = limits.name(&mut bytes)?;
            detail.short.insert(name, bytes.text()?.into());
        }
        // A trace without records has one segment here and none in the index.
        let count = bytes.count()?;
        if count != segments.max(1) {
            return Err(Damaged);
        }
        for _ in 0..count {
            detail.segments.push(take_picture(&mut bytes, &limits)?);
        }
        let mut reader = SpanReader::default();
        for _ in 0..bytes.count()? {
            let span = limits.placed(&mut bytes, &mut reader)?;
            let last = bytes.u32()?;
            let first = last.checked_sub(bytes.u32()?).ok_or(Damaged)?;
            let flags = bytes.byte()?;
            if last as usize >= count || flags > 1 {
                return Err(Damaged);
            }
            detail.reaching.push(Reaching {
                span,
                first,
                last,
                occupies: flags == 1,
            });
        }
        for _ in 0..bytes.count()? {
            let name = limits.name(&mut bytes)?;
            let mut reader = SpanReader::default();
            let count = bytes.count()?;
            let spans = (0..count).map(|_| limits.placed(&mut bytes, &mut reader));
            detail
                .longest
                .insert(name, spans.collect::<Result<_, _>>()?);
        }
        if !bytes.is_empty() {
            return Err(Damaged);
        }
        detail.raise();
        Ok(detail)
    }
}

fn put_text(out: &mut Vec<u8>, text: &str) {
    varint(out, text.len() as u64);
    out.extend(text.as_bytes());
}

fn put_owner(out: &mut Vec<u8>, owner: &Owner) {
    let option = |out: &mut Vec<u8>, value: Option<u64>| match value {
        None => out.push(0),
        Some(value) => {
            out.push(1);
            varint(out, value);
        }
    };
    match *owner {
        Owner::Thread { pid, tid } => {
            out.push(0);
            varint(out, pid.into());
            varint(out, tid.into());
        }
        Owner::Stream {
            device,
            context,
            stream,
        } => {
            out.push(1);
            varint(out, device.into());
            option(out, context);
            option(out, stream);
        }
        Owner::Probes { device, sm } => {
            out.push(2);
            varint(out, device.into());
            option(out, sm.map(u64::from));
        }
        Owner::Managed { device } => {
            out.push(3);
            varint(out, device.into());
        }
        Owner::Rest => out.push(4),
    }
}

fn take_owner(bytes: &mut Bytes<'_>) -> Result<Owner, Damaged> {
    let option = |bytes: &mut Bytes<'_>| match bytes.byte()? {
        0 => Ok(None),
        1 => bytes.varint().map(Some),
        _ => Err(Damaged),
    };
    Ok(match bytes.byte()? {
        0 => Owner::Thread {
            pid: bytes.u32()?,
            tid: bytes.u32()?,
        },
        1 => Owner::Stream {
            device: bytes.u32()?,
            context: option(bytes)?,
            stream: option(bytes)?,
        },
        2 => {
            let device = bytes.u32()?;
            let sm = option(bytes)?.map(u32::try_from).transpose();
            Owner::Probes {
                device,
                sm: sm.map_err(|_| Damaged)?,
            }
        }
        3 => Owner::Managed {
            device: bytes.u32()?,
        },
        4 => Owner::Rest,
        _ => return Err(Damaged),
    })
}

/// Spans one after the other, each by its differences from the one before.
#[derive(Default)]
struct SpanWriter {
    start: u64,
    id: u64,
}

impl SpanWriter {
    fn put(&mut self, out: &mut Vec<u8>, span: &Span) {
        zigzag(out, span.start.wrapping_sub(self.start) as i64);
        varint(out, span.duration);
        varint(out, span.inside);
        zigzag(out, span.id.wrapping_sub(self.id) as i64);
        // Often the call's own id.
        out.push(u8::from(span.correlation != 0));
        if span.correlation != 0 {
            zigzag(out, span.correlation.wrapping_sub(span.id) as i64);
        }
        varint(out, span.name.into());
        let label = if span.label == span.name {
            0
        } else {
            u64::from(span.label) + 1
        };
        varint(out, label);
        out.push(span.category | u8::from(span.open) << 7);
        out.push(span.layer);
        match span.status {
            None => out.push(0),
            Some(0) => out.push(1),
            Some(code) => {
                out.push(2);
                zigzag(out, code);
            }
        }
        (self.start, self.id) = (span.start, span.id);
    }
}

#[derive(Default)]
struct SpanReader {
    start: u64,
    id: u64,
}

/// What numbers may be.
struct Limits {
    lanes: u32,
    names: u32,
}

impl Limits {
    fn name(&self, bytes: &mut Bytes<'_>) -> Result<u32, Damaged> {
        let name = bytes.u32()?;
        if name < self.names {
            Ok(name)
        } else {
            Err(Damaged)
        }
    }

    fn row(&self, bytes: &mut Bytes<'_>) -> Result<(u32, u32), Damaged> {
        let (lane, depth) = (bytes.u32()?, bytes.u32()?);
        if lane < self.lanes && depth < MAX_DEPTH as u32 {
            Ok((lane, depth))
        } else {
            Err(Damaged)
        }
    }

    fn placed(&self, bytes: &mut Bytes<'_>, reader: &mut SpanReader) -> Result<Span, Damaged> {
        let row = self.row(bytes)?;
        self.span(bytes, reader, row)
    }

    fn span(
        &self,
        bytes: &mut Bytes<'_>,
        reader: &mut SpanReader,
        (lane, depth): (u32, u32),
    ) -> Result<Span, Damaged> {
        let start = reader.start.wrapping_add(bytes.zigzag()? as u64);
        let duration = bytes.varint()?;
        let inside = bytes.varint()?;
        let id = reader.id.wrapping_add(bytes.zigzag()? as u64);
        let correlation = match bytes.byte()? {
            0 => 0,
            1 => id.wrapping_add(bytes.zigzag()? as u64),
            _ => return Err(Damaged),
        };
        let name = self.name(bytes)?;
        let label = match bytes.varint()? {
            0 => name,
            label => u32::try_from(label - 1).map_err(|_| Damaged)?,
        };
        let category = bytes.byte()?;
        let layer = bytes.byte()?;
        let status = match bytes.byte()? {
            0 => None,
            1 => Some(0),
            2 => Some(bytes.zigzag()?),
            _ => return Err(Damaged),
        };
        let is_sound = label < self.names
            && usize::from(category & 0x7f) < COLOURS
            && usize::from(layer) < Layer::ALL.len()
            && start.checked_add(duration).is_some()
            && inside <= duration;
        (reader.start, reader.id) = (start, id);
        let span = Span {
            lane,
            depth,
            start,
            duration,
            inside,
            id,
            correlation,
            name,
            label,
            category: category & 0x7f,
            layer,
            open: category & 0x80 != 0,
            status,
        };
        if is_sound { Ok(span) } else { Err(Damaged) }
    }
}

fn put_picture(out: &mut Vec<u8>, picture: &Picture) {
    varint(out, picture.from);
    varint(out, picture.to - picture.from);
    out.push(picture.shift as u8);
    varint(out, picture.names.len() as u64);
    for &(name, label, count) in &picture.names {
        varint(out, name.into());
        varint(out, label.into());
        varint(out, count.into());
    }
    varint(out, picture.rows.len() as u64);
    for row in &picture.rows {
        varint(out, row.lane.into());
        varint(out, row.depth.into());
        varint(out, row.count.into());
        varint(out, row.spans.len() as u64);
        let mut writer = SpanWriter {
            start: picture.from,
            ..SpanWriter::default()
        };
        row.spans.iter().for_each(|span| writer.put(out, span));
        let Some(cells) = &row.cells else {
            varint(out, 0);
            continue;
        };
        varint(out, cells.list.len() as u64);
        varint(out, cells.first);
        for cell in &cells.list {
            // Most cells are of one label: then its count is said once.
            let all = cell.count == cell.of_label;
            if cell.category == EMPTY {
                out.push(EMPTY);
                continue;
            }
            out.push(cell.category << 1 | u8::from(all));
            out.push(cell.fill);
            varint(out, cell.label.into());
            varint(out, cell.count.into());
            if !all {
                varint(out, cell.of_label.into());
            }
        }
    }
}

fn take_picture(bytes: &mut Bytes<'_>, limits: &Limits) -> Result<Picture, Damaged> {
    let from = bytes.varint()?;
    let to = from.checked_add(bytes.varint()?).ok_or(Damaged)?;
    let shift = u32::from(bytes.byte()?);
    if shift > 63 {
        return Err(Damaged);
    }
    let mut picture = Picture {
        from,
        to,
        shift,
        ..Picture::default()
    };
    for _ in 0..bytes.count()? {
        let (name, label) = (limits.name(bytes)?, limits.name(bytes)?);
        picture.names.push((name, label, bytes.u32()?));
    }
    let mut before = None;
    for _ in 0..bytes.count()? {
        let (lane, depth) = limits.row(bytes)?;
        if before.is_some_and(|before| before >= (lane, depth)) {
            return Err(Damaged);
        }
        before = Some((lane, depth));
        let count = bytes.u32()?;
        let mut reader = SpanReader {
            start: from,
            ..SpanReader::default()
        };
        let kept = bytes.count()?;
        let spans = (0..kept).map(|_| limits.span(bytes, &mut reader, (lane, depth)));
        let spans: Vec<Span> = spans.collect::<Result<_, _>>()?;
        let cells = match bytes.count()? {
            0 => None,
            cells => Some(take_cells(bytes, limits, cells, shift)?),
        };
        picture.rows.push(Row {
            lane,
            depth,
            count,
            spans,
            cells,
        });
    }
    Ok(picture)
}

fn take_cells(
    bytes: &mut Bytes<'_>,
    limits: &Limits,
    count: usize,
    shift: u32,
) -> Result<Cells, Damaged> {
    let first = bytes.varint()?;
    // None may begin behind the end of all time.
    let last = first.checked_add(count as u64).ok_or(Damaged)?;
    if last > (u64::MAX >> shift).saturating_add(1) {
        return Err(Damaged);
    }
    let mut list = Vec::with_capacity(count);
    for _ in 0..count {
        let category = bytes.byte()?;
        if category == EMPTY {
            list.push(Cell {
                category,
                ..Cell::default()
            });
            continue;
        }
        if usize::from(category >> 1) >= COLOURS {
            return Err(Damaged);
        }
        let (fill, label, count) = (bytes.byte()?, limits.name(bytes)?, bytes.u32()?);
        let of_label = if category & 1 == 1 {
            count
        } else {
            bytes.u32()?
        };
        if of_label > count {
            return Err(Damaged);
        }
        list.push(Cell {
            category: category >> 1,
            fill,
            label,
            count,
            of_label,
        });
    }
    Ok(Cells { first, list })
}
