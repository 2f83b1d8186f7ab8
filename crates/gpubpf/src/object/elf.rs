//! The ELF file: sections, symbols, relocations, and what programs they make.

use std::collections::HashMap;

use object::{
    Architecture, File, Object as _, ObjectSection as _, ObjectSymbol as _, RelocationTarget,
    SectionFlags, SectionIndex, SymbolKind, SymbolSection,
};

use super::link::{self, Code};
use super::maps::{self, MapError};
use super::section::attach;
use super::users;
use super::{HostProgram, Object, ObjectError, Sections};
use crate::btf::{Btf, Extension, Kind};
use crate::instruction::Raw;
use crate::map::{Map, MapKind};

const LARGEST_FILE: usize = 32 << 20;
const LARGEST_DATA: u64 = 16 << 20;
const MOST_FUNCTIONS: usize = 4096;

/// Everything of the file that programs are made of.
pub struct Image {
    /// Sections with instructions, by ELF index.
    pub code: HashMap<usize, Code>,
    /// Functions in the order of the file.
    pub functions: Vec<Symbol>,
    /// ELF index → map that holds the section's data.
    pub data: HashMap<usize, usize>,
    /// Byte offset in `.maps` → map.
    pub maps: HashMap<u64, usize>,
    pub maps_section: Option<usize>,
    pub extension: Extension,
}

/// A function.
#[derive(Debug, Clone)]
pub struct Symbol {
    pub name: String,
    pub section: usize,
    /// In slots.
    pub start: usize,
    pub end: usize,
}

/// What a relocation is about.
#[derive(Debug, Clone)]
pub struct Reference {
    pub symbol: String,
    /// None: not defined in this object.
    pub section: Option<usize>,
    pub value: u64,
}

pub fn read(bytes: &[u8], sections: Sections<'_>) -> Result<Object, ObjectError> {
    if bytes.len() > LARGEST_FILE {
        return Err(ObjectError::TooLarge(format!("{} bytes", bytes.len())));
    }
    let file = File::parse(bytes).map_err(|error| ObjectError::NoElf(error.to_string()))?;
    if file.architecture() != Architecture::Bpf {
        let name = format!("{:?}", file.architecture());
        return Err(ObjectError::NotBpf(name));
    }
    if !file.is_little_endian() {
        return Err(ObjectError::BigEndian);
    }
    let (btf, extension) = types(&file)?;
    let mut image = Image {
        code: code_sections(&file)?,
        functions: Vec::new(),
        data: HashMap::new(),
        maps: HashMap::new(),
        maps_section: None,
        extension,
    };
    image.functions = functions(&file, &image.code)?;
    let maps = all_maps(&file, &btf, &mut image)?;
    programs(&image, &btf, maps, sections)
}

fn types(file: &File<'_>) -> Result<(Btf, Extension), ObjectError> {
    let Some(section) = file.section_by_name(".BTF") else {
        return Ok(Default::default());
    };
    let data = section.data().map_err(ObjectError::BtfSection)?;
    let btf = Btf::parse(data)?;
    let extension = match file
        .section_by_name(".BTF.ext")
        .map(|section| section.data())
    {
        Some(Ok(data)) => Extension::parse(data, &btf)?,
        Some(Err(error)) => return Err(ObjectError::ExtensionSection(error)),
        None => Extension::default(),
    };
    Ok((btf, extension))
}

const EXECUTABLE: u64 = 4;

fn code_sections(file: &File<'_>) -> Result<HashMap<usize, Code>, ObjectError> {
    let mut sections = HashMap::new();
    for section in file.sections() {
        let executable = match section.flags() {
            SectionFlags::Elf { sh_flags } => sh_flags & EXECUTABLE != 0,
            _ => false,
        };
        if !executable || section.size() == 0 {
            continue;
        }
        let name = section.name().unwrap_or_default().to_owned();
        let bad = |reason: String| ObjectError::Program {
            program: name.clone(),
            reason,
        };
        let data = section.data().map_err(|error| bad(error.to_string()))?;
        let (slots, rest) = data.as_chunks::<8>();
        if !rest.is_empty() {
            return Err(bad(
                "its section is not a whole number of instructions".into()
            ));
        }
        let raw = slots.iter().map(|slot| Raw::read(*slot)).collect();
        let mut references = HashMap::new();
        for (offset, relocation) in section.relocations() {
            let RelocationTarget::Symbol(index) = relocation.target() else {
                continue;
            };
            let symbol = file
                .symbol_by_index(index)
                .map_err(|error| bad(error.to_string()))?;
            let section = match symbol.section() {
                SymbolSection::Section(SectionIndex(index)) => Some(index),
                _ => None,
            };
            let reference = Reference {
                symbol: symbol.name().unwrap_or_default().to_owned(),
                section,
                value: symbol.address(),
            };
            references.insert(offset, reference);
        }
        sections.insert(
            section.index().0,
            Code {
                name,
                raw,
                references,
            },
        );
    }
    Ok(sections)
}

fn functions(file: &File<'_>, code: &HashMap<usize, Code>) -> Result<Vec<Symbol>, ObjectError> {
    let mut functions: Vec<Symbol> = Vec::new();
    for symbol in file.symbols() {
        let Some(SectionIndex(section)) = symbol.section_index() else {
            continue;
        };
        let Some(text) = code.get(&section) else {
            continue;
        };
        if symbol.kind() != SymbolKind::Text {
            continue;
        }
        let name = symbol.name().unwrap_or_default().to_owned();
        let (start, size) = (symbol.address(), symbol.size());
        let end = start.saturating_add(size);
        let inside = end.div_ceil(8) <= text.raw.len() as u64;
        if size == 0 || !start.is_multiple_of(8) || !size.is_multiple_of(8) || !inside {
            return Err(ObjectError::Program {
                program: name,
                reason: "its symbol is outside its section".into(),
            });
        }
        if functions.len() == MOST_FUNCTIONS {
            let reason = format!("more than {MOST_FUNCTIONS} functions");
            return Err(ObjectError::TooLarge(reason));
        }
        functions.push(Symbol {
            name,
            section,
            start: start as usize / 8,
            end: end as usize / 8,
        });
    }
    functions.sort_by_key(|function| (function.section, function.start));
    Ok(functions)
}

fn all_maps(file: &File<'_>, btf: &Btf, image: &mut Image) -> Result<Vec<Map>, ObjectError> {
    let mut maps = Vec::new();
    for section in file.sections() {
        let name = section.name().unwrap_or_default();
        if name == "maps" || name.starts_with("maps/") {
            return Err(MapError::OldDefinition.into());
        }
        if name == ".maps" && section.size() > 0 {
            image.maps_section = Some(section.index().0);
            maps.extend(maps::defined(btf)?);
            // BTF's own offsets are not filled in before the object is linked: symbols tell.
            for symbol in file.symbols() {
                if symbol.section_index() == Some(section.index())
                    && let Ok(name) = symbol.name()
                    && let Some(map) = maps.iter().position(|map: &Map| map.name == name)
                {
                    image.maps.insert(symbol.address(), map);
                }
            }
        }
    }
    let mut total = 0u64;
    for section in file.sections() {
        let name = section.name().unwrap_or_default();
        let is = |prefix: &str| {
            name.strip_prefix(prefix)
                .is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
        };
        if !(is(".rodata") || is(".data") || is(".bss")) || section.size() == 0 {
            continue;
        }
        total = total.saturating_add(section.size());
        if total > LARGEST_DATA || maps.len() > 128 {
            return Err(ObjectError::TooLarge(format!("{total} bytes of data")));
        }
        let mut initial = match section.data() {
            Ok(data) => data.to_vec(),
            Err(why) => {
                let section = name.to_owned();
                return Err(MapError::Unreadable { section, why }.into());
            }
        };
        initial.resize(section.size() as usize, 0);
        image.data.insert(section.index().0, maps.len());
        maps.push(Map {
            name: name.to_owned(),
            kind: MapKind::Array { number: 1503 },
            key_size: 4,
            value_size: initial.len() as u32,
            max_entries: 1,
            flags: 0,
            key_type: None,
            value_type: btf
                .types()
                .find(|(_, ty)| ty.name == name && matches!(ty.kind, Kind::Section(_)))
                .map(|(id, _)| id),
            initial: Some(initial),
            read_only: is(".rodata"),
        });
    }
    Ok(maps)
}

fn programs(
    image: &Image,
    btf: &Btf,
    maps: Vec<Map>,
    sections: Sections<'_>,
) -> Result<Object, ObjectError> {
    let mut object = Object {
        programs: Vec::new(),
        host: Vec::new(),
        maps,
        btf: btf.clone(),
    };
    let mut total = 0;
    for function in &image.functions {
        let section = image.code[&function.section].name.as_str();
        if section == ".text" {
            continue;
        }
        let section = sections(&function.name, section).unwrap_or_else(|| section.to_owned());
        let Some(attach) = attach(&section, &function.name) else {
            object.host.push(HostProgram {
                section,
                name: function.name.clone(),
                maps: users::named(image, function),
            });
            continue;
        };
        let mut program = link::link(image, btf, &object.maps, function, attach)?;
        program.section = section;
        total += program.instructions.len();
        if total > link::MOST_INSTRUCTIONS {
            return Err(ObjectError::TooLarge(format!("{total} instructions")));
        }
        object.programs.push(program);
    }
    users::share(&mut object)?;
    match (object.programs.is_empty(), object.host.is_empty()) {
        (true, true) => Err(ObjectError::NoProgram),
        (true, false) => {
            let names: Vec<&str> = object
                .host
                .iter()
                .take(8)
                .map(|program| program.name.as_str())
                .collect();
            Err(ObjectError::NoGpuProgram(names.join(", ")))
        }
        _ => Ok(object),
    }
}
