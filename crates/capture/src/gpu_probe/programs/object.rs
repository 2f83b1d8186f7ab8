//! Probes of a BPF object: read, verified, translated, and its types for what comes back.

use super::{
    AttachTo, Budgeted, Probes, Setting, What, attach::Places, plain, settings::Entries,
    shape::Shape,
};
use crate::gpu_probe::{HostMap, HostPart, HostProgram};
use event::{Arg, Value};
use gpubpf::helper::GPU_HISTOGRAM;
use gpubpf::instruction::{Callee, Operation, Wide};
use gpubpf::{
    Attach, Budget, Counters, MapKind, Object, ObjectError, Refused, TranslateOptions, btf,
    translate, verify_or_budget,
};
use ptx::device::{Map, Orders, map_kind, runtime};
use ptx::rewrite::{Isa, Pattern, PatternError, Plan, Probe, ProbePoint};

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
    #[error("{0}")]
    Option(String),
}

/// What can be said about an object besides.
#[derive(Debug, Clone, Default)]
pub struct ObjectOptions {
    pub attach: Vec<AttachTo>,
    pub set: Vec<Setting>,
    /// Rounds of loops without a bound that is known, in one thread.
    pub budget: u64,
}

/// Everything of an object that runs on a GPU.
pub struct Loaded {
    pub probes: Probes,
    pub direct: Vec<Direct>,
}

/// An object as it would be loaded, and what there is to say about where its programs go.
pub fn parse(bytes: &[u8]) -> Result<(Object, Vec<String>), ObjectError> {
    let places = Places::new(&[], bytes);
    let object = Object::parse_with(bytes, &|program, section| places.section(program, section))?;
    Ok((object, places.notes()))
}

/// `kernels` replace those that the sections name; that of memory accesses names none.
pub fn load(
    bytes: &[u8],
    kernels: Option<&Pattern>,
    options: &ObjectOptions,
) -> Result<Loaded, BadObject> {
    let places = Places::new(&options.attach, bytes);
    let object = Object::parse_with(bytes, &|program, section| places.section(program, section))?;
    if let Some(missing) = places.missing() {
        return Err(BadObject::Option(missing));
    }
    let (mut functions, mut inlined) = (String::new(), String::new());
    let (mut probes, mut direct, mut texts) = (Vec::new(), Vec::new(), Vec::new());
    let programs = (object.programs.iter())
        .map(|program| verify_or_budget(&object, program).map_err(BadObject::Refused))
        .collect::<Result<Vec<_>, _>>()?;
    let budgeted = programs.iter().filter(|verified| verified.is_budgeted);
    let budgeted = Budgeted {
        rounds: options.budget,
        programs: budgeted.map(|one| one.program.name.clone()).collect(),
        map: object.maps.len(),
    };
    let counters = Counters::of(&object, &programs);
    for verified in &programs {
        let program = verified.program;
        let name = &program.name;
        let entry = budgeted.programs.iter().position(|one| one == name);
        let options = TranslateOptions {
            budget: Budget {
                rounds: budgeted.rounds,
                stopped: entry.map(|entry| (budgeted.map, entry)),
            },
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
        let pattern = |text: &str| match kernels {
            Some(kernels) => Ok(kernels.clone()),
            None => Pattern::parse(text).map_err(|why| BadObject::Kernel {
                program: program.name.clone(),
                why,
            }),
        };
        let (place, kernels) = match &program.attach {
            Attach::Entry(kernels) => (ProbePoint::Entry, pattern(kernels)?),
            Attach::Return(kernels) => (ProbePoint::Return, pattern(kernels)?),
            Attach::Memory => (
                ProbePoint::Memory,
                kernels.cloned().unwrap_or_else(Pattern::any),
            ),
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
            one_of: 1,
            inline: translated.inline,
        });
    }
    drop(programs);
    let maps = object.maps.iter().enumerate();
    let mut maps: Vec<Map> = (maps.map(|(number, found)| {
        let summed = counters.width(number).unwrap_or(0);
        map(&object, number, found, summed)
    }))
    .collect();
    let mut host = host_part(&object, bytes, &places);
    set(&object, &options.set, &mut maps, &mut host)?;
    let notes = places.notes();
    let budgeted = (!budgeted.programs.is_empty()).then_some(budgeted);
    if let Some(budgeted) = &budgeted {
        maps.push(budgeted.spec());
    }
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
                "ring {} has no value type: give it one as large as its largest record",
                one.name
            )));
        }
        if one.layout(&orders, 256).is_none() {
            return Err(BadObject::Map(format!(
                "map {}: {} entries need more memory than a GPU has: reduce max_entries",
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
            budgeted,
            notes,
            show: None,
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

/// Gives maps what they are to start with.
fn set(
    object: &Object,
    settings: &[Setting],
    maps: &mut [Map],
    host: &mut HostPart,
) -> Result<(), BadObject> {
    for setting in settings {
        let name = &setting.map;
        let found = object.maps.iter().position(|map| map.name == *name);
        let Some(number) = found else {
            let names: Vec<&str> = object.maps.iter().map(|map| map.name.as_str()).collect();
            let names = names.join(", ");
            return Err(BadObject::Option(format!(
                "--set {name}: the object has no such map; it has {names}"
            )));
        };
        let entries = (setting.entries(&object.maps[number]))
            .map_err(|why| BadObject::Option(why.to_string()))?;
        // The kernel's own maps are filled by the kernel.
        if let Some(map) = host.maps.iter_mut().find(|map| map.index == number) {
            map.initial.extend(entries);
        } else if matches!(
            object.maps[number].kind,
            MapKind::Array { .. } | MapKind::KernelShared
        ) {
            fill(&object.maps[number], &mut maps[number], entries);
        } else {
            return Err(BadObject::Option(format!(
                "--set {name}: only arrays shared by all threads can be set before a kernel runs; this map has type {} \
                 ({})",
                object.maps[number].kind.number(),
                object.maps[number].kind.name()
            )));
        }
    }
    Ok(())
}

fn fill(spec: &gpubpf::Map, map: &mut Map, entries: Entries) {
    let stride = spec.stride() as usize;
    let bytes = map.initial.get_or_insert_default();
    for (key, value) in entries {
        let key = key.first_chunk().map_or(0, |key| u32::from_le_bytes(*key));
        let start = key as usize * stride;
        if bytes.len() < start + stride {
            bytes.resize(start + stride, 0);
        }
        bytes[start..start + value.len()].copy_from_slice(&value);
    }
}

fn host_part(object: &Object, bytes: &[u8], places: &Places<'_>) -> HostPart {
    let programs = object.host.iter().map(|program| HostProgram {
        name: program.name.clone(),
        section: program.section.clone(),
        is_moved: places.is_moved(&program.name),
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
                is_array: matches!(map.kind, MapKind::Array { .. } | MapKind::KernelShared),
                shared: map.kind == MapKind::KernelShared,
                initial: Vec::new(),
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

    /// Whether a program gives this map to `gpu_histogram`: its keys are powers of two then.
    pub fn is_in_powers_of_two(&self, map: usize) -> bool {
        (self.object.programs.iter()).any(|program| {
            // Compilers load the first argument right before the call.
            let mut first = None;
            program.instructions.iter().any(|one| match one.operation {
                Operation::Constant { dst: 1, value } => {
                    first = Some(value);
                    false
                }
                Operation::Call(Callee::Helper(GPU_HISTOGRAM)) => first == Some(Wide::Map(map)),
                _ => false,
            })
        })
    }

    pub fn line(&self, text: u64, values: &[u64]) -> String {
        let of = |number: u64| self.texts.get(usize::try_from(number).ok()?).cloned();
        match of(text) {
            // A line ends by itself.
            Some(format) => {
                let line = gpubpf::format::render(&format, values, of);
                line.strip_suffix('\n').unwrap_or(&line).to_owned()
            }
            None => format!("unknown text {text}"),
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
