//! Probes of a BPF object: read, verified, translated, and its types for what comes back.

use super::{Probes, What, plain, shape::Shape};
use capture::gpu_probe::{HostMap, HostPart, HostProgram};
use event::{Arg, Value};
use gpubpf::{
    Attach, Counters, MapKind, Object, ObjectError, Refused, TranslateOptions, btf, translate,
    verify,
};
use ptx::device::{Map, Orders, map_kind, runtime};
use ptx::rewrite::{Isa, Pattern, PatternError, Place, Plan, Probe};

/// What only the object's types tell.
pub struct Types {
    object: Object,
    texts: Vec<String>,
}

/// A program that is a kernel of its own.
pub struct Direct {
    pub name: String,
    /// The function that it is.
    pub function: String,
}

#[derive(Debug, thiserror::Error)]
pub enum BadObject {
    #[error(transparent)]
    Object(#[from] ObjectError),
    #[error("{0}")]
    Refused(Box<Refused>),
    #[error("program {program}: {why}")]
    Kernel { program: String, why: PatternError },
    #[error("{0}")]
    Map(String),
}

/// Everything of an object that runs on a GPU.
pub struct Loaded {
    pub probes: Probes,
    pub direct: Vec<Direct>,
}

/// `accesses` are the kernels whose memory accesses are probed: the section cannot say.
pub fn load(bytes: &[u8], accesses: &Pattern) -> Result<Loaded, BadObject> {
    let object = Object::parse(bytes)?;
    let (mut functions, mut inlined) = (String::new(), String::new());
    let (mut probes, mut direct, mut texts) = (Vec::new(), Vec::new(), Vec::new());
    let programs = (object.programs.iter())
        .map(|program| verify(&object, program).map_err(BadObject::Refused))
        .collect::<Result<Vec<_>, _>>()?;
    let counters = Counters::of(&object, &programs);
    for verified in &programs {
        let program = verified.program;
        let options = TranslateOptions {
            prefix: format!("cutrace_{}_", probes.len() + direct.len()),
            first_text: texts.len() as u32,
            counters: Some(counters.clone()),
            ..TranslateOptions::default()
        };
        let translated = translate(verified, &options);
        functions.push_str(&translated.functions);
        functions.push('\n');
        texts.extend(translated.texts);
        inlined.extend(translated.inline.iter().map(|inline| inline.text.as_str()));
        let pattern = |text: &str| {
            Pattern::parse(text).map_err(|why| BadObject::Kernel {
                program: program.name.clone(),
                why,
            })
        };
        let (place, kernels) = match &program.attach {
            Attach::Entry(kernels) => (Place::Entry, pattern(kernels)?),
            Attach::Return(kernels) => (Place::Return, pattern(kernels)?),
            Attach::Memory => (Place::Memory, accesses.clone()),
            Attach::Direct => {
                direct.push(Direct {
                    name: program.name.clone(),
                    function: translated.entry_name,
                });
                continue;
            }
        };
        probes.push(Probe {
            place,
            kernels,
            function: translated.entry_name,
            context_bytes: verified.context_bytes,
            inline: translated.inline,
        });
    }
    drop(programs);
    let maps = object.maps.iter().enumerate();
    let maps: Vec<Map> = (maps.map(|(number, found)| {
        let summed = counters.width(number).unwrap_or(0);
        map(&object, number, found, summed)
    }))
    .collect();
    let host = host_part(&object, bytes);
    let orders = Orders {
        plan: Plan {
            probes,
            prelude: format!(
                "{}{functions}",
                runtime(&(functions.clone() + &inlined), maps.len())
            ),
            isa: Isa::PROBES,
        },
        maps,
        ..Orders::default()
    };
    for one in &orders.maps {
        if one.kind == map_kind::RING && one.value_size == 0 {
            return Err(BadObject::Map(format!(
                "ring {} has no room for a record: give it a value, as large as its largest record",
                one.name
            )));
        }
        if one.layout(&orders, 256).is_none() {
            return Err(BadObject::Map(format!(
                "map {}: {} entries need more memory than a GPU has: make max_entries smaller",
                one.name, one.max_entries
            )));
        }
    }
    Ok(Loaded {
        probes: Probes {
            orders,
            what: What::Object(Types { object, texts }),
            host: (!host.programs.is_empty()).then_some(host),
            pin: None,
        },
        direct,
    })
}

fn map(object: &Object, number: usize, map: &gpubpf::Map, summed: u8) -> Map {
    let elsewhere = matches!(map.kind, MapKind::HostOnly(_))
        || object.is_on_host(number) && !object.is_on_gpu(number);
    Map {
        name: map.name.clone(),
        kind: match elsewhere {
            true => map_kind::ELSEWHERE,
            false => map.kind.number(),
        },
        key_size: map.key_size,
        value_size: map.value_size,
        max_entries: map.max_entries,
        initial: map.initial.clone(),
        summed,
    }
}

fn host_part(object: &Object, bytes: &[u8]) -> HostPart {
    let programs = object.host.iter().map(|program| HostProgram {
        name: program.name.clone(),
        section: program.section.clone(),
    });
    let maps = object.maps.iter().enumerate();
    let maps = maps.filter(|(number, map)| {
        object.is_on_host(*number) && !map.read_only
            || matches!(map.kind, MapKind::HostOnly(_)) && !object.host.is_empty()
    });
    HostPart {
        object: bytes.to_vec(),
        programs: programs.collect(),
        maps: maps
            .map(|(index, map)| HostMap {
                name: map.name.clone(),
                index,
                shared: map.kind == MapKind::KernelShared,
            })
            .collect(),
    }
}

impl Types {
    /// How records of that ring and so many bytes are read; `None`: nobody knows.
    pub fn shape(&self, map: usize, bytes: usize) -> Option<Shape> {
        let value_type = self.object.maps.get(map)?.value_type;
        let found = btf::event_type(&self.object.btf, value_type, bytes as u32)?;
        Some(Shape::new(&self.object.btf, &found.name, found.ty))
    }

    pub fn fields(&self, shape: &Shape, data: &[u8]) -> Option<Vec<Arg>> {
        if let Some(fields) = shape.read(data) {
            return Some(fields);
        }
        match value(btf::decode(&self.object.btf, shape.ty, data)) {
            Value::Map(fields) => Some(fields),
            _ => None,
        }
    }

    pub fn line(&self, text: u64, values: &[u64]) -> String {
        let of = |number: u64| self.texts.get(usize::try_from(number).ok()?).cloned();
        match of(text) {
            Some(format) => gpubpf::format::render(&format, values, of),
            None => format!("text {text} of a program that is not known"),
        }
    }

    pub fn value(&self, map: usize, bytes: &[u8], is_key: bool) -> Value {
        let ty = self
            .object
            .maps
            .get(map)
            .and_then(|map| if is_key { map.key_type } else { map.value_type });
        match ty {
            Some(ty) => value(btf::decode(&self.object.btf, ty, bytes)),
            None => plain(bytes),
        }
    }
}

fn value(decoded: btf::Value) -> Value {
    match decoded {
        btf::Value::Unsigned(number) => number.into(),
        btf::Value::Signed(number) => number.into(),
        btf::Value::Bool(flag) => flag.into(),
        btf::Value::Float(number) => number.into(),
        btf::Value::Text(text) => text.into(),
        btf::Value::Enum(_, Some(name)) => name.into(),
        btf::Value::Enum(number, None) => number.into(),
        btf::Value::Pointer(address) => Value::Pointer(address),
        btf::Value::Array(parts) => Value::List(parts.into_iter().map(value).collect()),
        btf::Value::Bytes(bytes) => plain(&bytes),
        btf::Value::Struct(fields) => Value::Map(fields.into_iter().flat_map(field).collect()),
    }
}

/// Fields of a struct without a name are fields of what it is in.
fn field(field: btf::Field) -> Vec<Arg> {
    match value(field.value) {
        Value::Map(inner) if field.name.is_empty() => inner,
        value => vec![Arg::new(field.name, value)],
    }
}
