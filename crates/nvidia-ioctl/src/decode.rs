//! A call in words: its name, its arguments, what came back.

use event::{Arg, Category, Value};

use super::call::{
    ATTACH_GPUS, CARD_INFO, IoctlCall, Parameters, RM_ALLOC, RM_ALLOC_MEMORY, RM_ALLOC_OBJECT,
    RM_CONTROL, RM_FREE, RM_VID_HEAP_CONTROL, Request,
};
use super::category;
use super::class::{class_name, control_group};
use super::fields::{Label, values};
use super::file::Ioc;
use super::handles::Handles;
use super::layout::{Field, Kind, number};
use super::status::NvStatus;

/// What a call says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Decoded {
    /// Of the request itself: without the wrapping of IOCTL_XFER_CMD.
    pub cmd: u32,
    pub ioc: Ioc,
    /// Whether the request came wrapped in IOCTL_XFER_CMD.
    pub wrapped: bool,
    /// `NV_ESC_RM_CONTROL`, `UVM_FREE`.
    pub name: Option<&'static str>,
    pub subject: Option<Subject>,
    /// The handle it acts upon, labelled where it is known.
    pub object: Option<Value>,
    /// What went in; zeros are left out.
    pub args: Vec<Arg>,
    /// What the driver changed.
    pub results: Vec<Arg>,
    /// The driver's answer; none while it has not answered, or where the struct has none.
    pub status: Option<NvStatus>,
    pub category: Category,
    /// Where sizes and versions do not fit together.
    pub doubt: Option<String>,
}

/// What a control asks or an allocation makes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Subject {
    Control {
        id: u32,
        /// The headers' name, or the driver's function that serves it.
        name: Option<&'static str>,
        /// `NV2080_CTRL_CLK_LEGACY_NON_PRIVILEGED`.
        group: Option<&'static str>,
    },
    Class {
        id: u32,
        name: Option<&'static str>,
    },
}

impl Subject {
    pub fn name(self) -> Option<&'static str> {
        match self {
            Subject::Control { name, .. } | Subject::Class { name, .. } => name,
        }
    }

    /// The name, without what every control begins with; where there is none in hexadecimal, with
    /// the group of a control: `0x20809009(CLK_LEGACY_NON_PRIVILEGED)`.
    pub fn short(self) -> String {
        match self {
            Subject::Control { name, .. } | Subject::Class { name, .. } if name.is_some() => {
                short_control(name.unwrap_or_default()).to_owned()
            }
            Subject::Control {
                id,
                group: Some(group),
                ..
            } => format!("{id:#x}({})", short_control(group)),
            Subject::Control { id, .. } => format!("{id:#x}"),
            Subject::Class { id, .. } => format!("{id:#06x}"),
        }
    }
}

/// `GPFIFO_SCHEDULE` for `NVA06C_CTRL_CMD_GPFIFO_SCHEDULE`; a function's name likewise.
pub fn short_control(name: &str) -> &str {
    let after = |separator| name.split_once(separator).map(|(_, rest)| rest);
    after("_CTRL_CMD_")
        .or_else(|| after("_CTRL_"))
        .or_else(|| after("CtrlCmd"))
        .unwrap_or(name)
}

/// Decodes a call by itself: handles are numbers. With [`Handles::decode`] they have names.
pub fn decode(call: &IoctlCall<'_>) -> Decoded {
    Handles::default().decode(call)
}

impl Handles {
    /// Decodes a call, naming the handles that are known.
    pub fn decode(&self, call: &IoctlCall<'_>) -> Decoded {
        self.describe(&Request::new(call))
    }

    pub(super) fn describe(&self, request: &Request<'_>) -> Decoded {
        let version = request.version;
        let control = request.control().map(|(id, row)| Subject::Control {
            id,
            name: row.map(|row| row.name),
            group: control_group(id, version),
        });
        let class = request.class().map(|id| Subject::Class {
            id,
            name: class_name(id, version),
        });
        let client = client(request);
        let label = |handle| match client {
            Some(client) if self.get(client, handle).is_some() => self.label(client, handle),
            // A client is below no other.
            _ => self.label(handle, handle),
        };
        let before = shown(request, request.before, &label);
        let after = (request.after).map(|bytes| shown(request, bytes, &label));
        let mut decoded = Decoded {
            cmd: request.cmd,
            ioc: Ioc::split(request.cmd),
            wrapped: request.wrapped,
            name: request.named.map(|row| row.name),
            subject: control.or(class),
            object: object(request).map(label),
            results: after.map_or_else(Vec::new, |after| changed(&before, after)),
            args: before,
            status: status(request),
            category: Category::Other,
            doubt: request.doubt.clone(),
        };
        if let Some(parameters) = &request.parameters {
            parameter_values(parameters, &label, &mut decoded);
        }
        if let Some(Subject::Control {
            id,
            name: None,
            group,
        }) = decoded.subject
        {
            decoded.args.extend(split_control(id, group, request));
        }
        let known = client.zip(object(request));
        let kind = known.and_then(|(client, handle)| self.get(client, handle));
        decoded.category = category::of(request, &decoded, kind.map(|object| object.kind));
        decoded
    }
}

/// The client whose handles a request speaks of.
pub(super) fn client(request: &Request<'_>) -> Option<u32> {
    request.first_word(&["hClient", "hRoot", "params.hClient", "params.hRoot"])
}

/// The handle that a request acts upon.
pub(super) fn object(request: &Request<'_>) -> Option<u32> {
    let field = match request.number() {
        RM_CONTROL => "hObject",
        RM_FREE => "hObjectOld",
        RM_ALLOC | RM_ALLOC_OBJECT => "hObjectNew",
        RM_ALLOC_MEMORY => "params.hObjectNew",
        _ => return None,
    };
    request.file.is_frontend().then(|| request.word(field))?
}

/// The struct's fields, without those that the subject says better and without the status.
fn shown(request: &Request<'_>, bytes: &[u8], label: &Label<'_>) -> Vec<Arg> {
    if request.is(ATTACH_GPUS) {
        let words = bytes.chunks_exact(4).filter_map(|word| number(word, 0, 4));
        let list: Vec<Value> = words.take(32).map(Value::Uint).collect();
        return vec![Arg::new("gpu_ids", Value::List(list))];
    }
    let Some(structure) = request.structure else {
        return Vec::new();
    };
    if request.is(CARD_INFO) {
        let cards = bytes.chunks_exact(structure.size.max(1)).take(32);
        let cards = cards.map(|card| values(&structure.fields, card, label));
        let list = cards
            .filter(|card| !card.is_empty())
            .map(Value::Map)
            .collect::<Vec<_>>();
        let found = (!list.is_empty()).then(|| Arg::new("cards", Value::List(list)));
        return found.into_iter().collect();
    }
    let mut fields = Vec::new();
    for field in &structure.fields {
        match &field.kind {
            // The struct that the driver wraps with a descriptor.
            Kind::Struct(inner) if field.name == "params" && field.offset == 0 => {
                fields.extend(
                    inner
                        .iter()
                        .filter(|field| is_shown(request, field))
                        .cloned(),
                );
            }
            Kind::Union(arms) if request.is(RM_VID_HEAP_CONTROL) => {
                fields.extend(heap_arm(request, field.offset, arms));
            }
            _ if is_shown(request, field) => fields.push(field.clone()),
            _ => {}
        }
    }
    values(&fields, bytes, label)
}

/// Fields that are said elsewhere: the answer, the subject, pointers to what is shown itself.
fn is_shown(request: &Request<'_>, field: &Field) -> bool {
    let elsewhere: &[&str] = if request.is(RM_CONTROL) {
        &["cmd", "params"]
    } else if request.class().is_some() {
        &["hClass", "pAllocParms"]
    } else {
        &[]
    };
    field.kind != Kind::Status && !elsewhere.contains(&field.name)
}

/// The part of a heap request that its function uses.
fn heap_arm(request: &Request<'_>, offset: usize, arms: &[Field]) -> Option<Field> {
    let name = match request.word("function")? {
        2 => "AllocSize",
        3 => "Free",
        5 => "Info",
        6 => "AllocTiledPitchHeight",
        14 => "AllocSizeRange",
        18 => "AllocHintAlignment",
        27 => "AllocOsDesc",
        _ => return None,
    };
    let arm = arms.iter().find(|arm| arm.name == name)?;
    Some(Field {
        offset: offset + arm.offset,
        ..arm.clone()
    })
}

fn parameter_values(parameters: &Parameters<'_>, label: &Label<'_>, decoded: &mut Decoded) {
    let Some(structure) = parameters.structure else {
        return;
    };
    let before = values(&structure.fields, parameters.before, label);
    let after = parameters
        .after
        .map(|after| values(&structure.fields, after, label));
    let results = after.map_or_else(Vec::new, |after| changed(&before, after));
    for (to, list) in [(&mut decoded.args, before), (&mut decoded.results, results)] {
        if !list.is_empty() {
            to.push(Arg::new("params", Value::Map(list)));
        }
    }
}

/// What is there now and was not, or was another value; zero where it went.
fn changed(before: &[Arg], after: Vec<Arg>) -> Vec<Arg> {
    let gone: Vec<Arg> = (before.iter())
        .filter(|old| !after.iter().any(|new| new.name == old.name))
        .map(|old| Arg::new(old.name.clone(), 0u64))
        .collect();
    let mut changed = after;
    changed.retain(|new| !before.contains(new));
    changed.extend(gone);
    changed
}

/// The first status in the struct, or in the struct it wraps.
pub(super) fn status(request: &Request<'_>) -> Option<NvStatus> {
    let (structure, after) = (request.structure?, request.after?);
    let find = |fields: &[Field]| {
        let field = fields.iter().find(|field| field.kind == Kind::Status)?;
        number(after, field.offset, field.size)
    };
    let inner = || match &structure.fields.first()?.kind {
        Kind::Struct(inner) => find(inner),
        _ => None,
    };
    let code = find(&structure.fields).or_else(inner)?;
    Some(NvStatus(u32::try_from(code).ok()?))
}

/// The parts of a control without a name: class, category, index; bit 15 is of closed ones.
fn split_control(id: u32, group: Option<&'static str>, request: &Request<'_>) -> Vec<Arg> {
    let class = id >> 16;
    let named = class_name(class, request.version);
    let mut parts = vec![
        Arg::new(
            "class",
            named.map_or(Value::Pointer(class.into()), Value::from),
        ),
        Arg::new(
            "category",
            group.map_or(Value::Uint((id >> 8 & 0x3f).into()), Value::from),
        ),
        Arg::new("index", u64::from(id & 0xff)),
    ];
    if id & 0x8000 != 0 {
        parts.push(Arg::new("closed", true));
    }
    parts
}
