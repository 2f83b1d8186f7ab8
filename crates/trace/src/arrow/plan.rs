//! What a stream's schema says, checked: which of its columns are ours, and how each one is laid out
//! in the batches.

use super::{
    META_KEY, VERSION,
    columns::{Column, Type as Holds},
};
use crate::{Error, Result};
use arrow_ipc::{Endianness, Field, Int, Schema, Type};
use event::Meta;

/// How a column's values lie in a batch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Layout {
    Int(IntLayout),
    /// Text with 32- or 64-bit offsets.
    Text {
        large: bool,
    },
    /// Integers that say which text of a dictionary.
    Keys {
        keys: IntLayout,
        dictionary: i64,
    },
    /// A column that is not ours: so many buffers to step over.
    Skip {
        buffers: usize,
    },
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct IntLayout {
    pub bytes: usize,
    pub signed: bool,
}

#[derive(Debug)]
pub struct Plan {
    pub columns: Vec<(Option<Column>, Layout)>,
    /// Dictionaries and whether their texts have 64-bit offsets.
    pub dictionaries: Vec<(i64, bool)>,
    pub meta: Meta,
    pub no_meta: bool,
    /// Of the rows.
    pub version: u32,
}

/// More columns than this are no trace.
const MOST_COLUMNS: usize = 1_000;

impl Plan {
    pub fn new(schema: Schema<'_>) -> Result<Self> {
        if schema.endianness() != Endianness::Little {
            return Err(Error::NotATrace(
                "an Arrow stream with big-endian numbers".into(),
            ));
        }
        let meta = read_meta(schema)?;
        let mut plan = Plan {
            columns: Vec::new(),
            dictionaries: Vec::new(),
            no_meta: meta.is_none(),
            version: meta.as_ref().map_or(0, |(_, version)| *version),
            meta: meta.map(|(meta, _)| meta).unwrap_or_default(),
        };
        let fields = schema
            .fields()
            .map(|fields| fields.iter())
            .into_iter()
            .flatten();
        for field in fields {
            if plan.columns.len() >= MOST_COLUMNS {
                return Err(Error::NotATrace(
                    "an Arrow stream with too many columns".into(),
                ));
            }
            plan.add(field)?;
        }
        if !plan
            .columns
            .iter()
            .any(|(column, _)| *column == Some(Column::Kind))
        {
            return Err(Error::NotATrace(
                "an Arrow stream without a column \"type\"".into(),
            ));
        }
        Ok(plan)
    }

    fn add(&mut self, field: Field<'_>) -> Result<()> {
        let name = field.name().unwrap_or_default();
        let column = Column::ALL
            .iter()
            .copied()
            .find(|column| column.name() == name);
        let Some(layout) = layout(field) else {
            let name: String = name.chars().take(40).collect();
            let what =
                format!("an Arrow stream whose column {name:?} has a type that traces do not use");
            return Err(Error::NotATrace(what.into()));
        };
        if let Layout::Keys { dictionary, .. } = layout {
            let large = field.type_type() == Type::LargeUtf8;
            if !self
                .dictionaries
                .iter()
                .any(|&(known, _)| known == dictionary)
            {
                self.dictionaries.push((dictionary, large));
            }
        }
        if let Some(column) = column {
            let twice = self.columns.iter().any(|&(known, _)| known == Some(column));
            let fits = match column.holds() {
                Holds::U32 | Holds::U64 | Holds::I64 => matches!(layout, Layout::Int(_)),
                Holds::Word(_) | Holds::Name | Holds::Json => {
                    matches!(layout, Layout::Text { .. } | Layout::Keys { .. })
                }
            };
            if twice || !fits {
                let what = format!("an Arrow stream whose column \"{name}\" is of the wrong type");
                return Err(Error::NotATrace(what.into()));
            }
        }
        self.columns.push((column, layout));
        Ok(())
    }
}

fn layout(field: Field<'_>) -> Option<Layout> {
    if let Some(dictionary) = field.dictionary() {
        // Keys are 32-bit integers where nothing else is said.
        let keys = match dictionary.indexType() {
            Some(int) => int_layout(int)?,
            None => IntLayout {
                bytes: 4,
                signed: true,
            },
        };
        return match field.type_type() {
            Type::Utf8 | Type::LargeUtf8 => Some(Layout::Keys {
                keys,
                dictionary: dictionary.id(),
            }),
            _ => None,
        };
    }
    Some(match field.type_type() {
        Type::Int => Layout::Int(int_layout(field.type_as_int()?)?),
        Type::Utf8 => Layout::Text { large: false },
        Type::LargeUtf8 => Layout::Text { large: true },
        Type::Binary | Type::LargeBinary => Layout::Skip { buffers: 3 },
        Type::Bool
        | Type::FloatingPoint
        | Type::Decimal
        | Type::Date
        | Type::Time
        | Type::Timestamp
        | Type::Interval
        | Type::Duration
        | Type::FixedSizeBinary => Layout::Skip { buffers: 2 },
        Type::Null => Layout::Skip { buffers: 0 },
        _ => return None,
    })
}

fn int_layout(int: Int<'_>) -> Option<IntLayout> {
    let bytes = match int.bitWidth() {
        8 => 1,
        16 => 2,
        32 => 4,
        64 => 8,
        _ => return None,
    };
    Some(IntLayout {
        bytes,
        signed: int.is_signed(),
    })
}

/// The head, and the version of the rows.
fn read_meta(schema: Schema<'_>) -> Result<Option<(Meta, u32)>> {
    let metadata = schema
        .custom_metadata()
        .map(|metadata| metadata.iter())
        .into_iter()
        .flatten();
    let mut found = metadata.filter(|pair| pair.key() == Some(META_KEY));
    let Some(text) = found.next().and_then(|pair| pair.value()) else {
        return Ok(None);
    };
    let value: serde_json::Value = serde_json::from_str(text)
        .map_err(|error| Error::NotATrace(format!("its head is not JSON: {error}").into()))?;
    match value.get("version").and_then(serde_json::Value::as_u64) {
        Some(found) if found > VERSION.into() => Err(Error::Version {
            found,
            supported: VERSION,
        }),
        found => {
            let mut meta: Meta = serde_json::from_value(value).map_err(|error| {
                Error::NotATrace(format!("its head cannot be read: {error}").into())
            })?;
            // The rows' version is the file's own, and no part of what the trace says.
            let version = meta.version;
            if found == Some(VERSION.into()) {
                meta.version = event::VERSION;
            }
            Ok(Some((meta, version)))
        }
    }
}
