//! `--pin`: what maps hold at the end, left in a folder for others to read.

use super::{MapDump, PinError, Probes, file_name, in_file_name, put, spec as line};
use event::Value;
use serde_json::{Value as Json, json};
use std::{fs, io, path::Path};

/// Entries of a map that are written as JSON; the bytes are all there.
const MOST_ENTRIES: usize = 65536;

pub fn leave_maps(folder: &Path, probes: &Probes, dumps: &[MapDump]) -> Result<(), PinError> {
    let at = |path: &Path| {
        let folder = path.to_owned();
        move |source: io::Error| PinError { folder, source }
    };
    fs::create_dir_all(folder).map_err(at(folder))?;
    let (mut maps, mut index) = (Vec::new(), Vec::new());
    for dump in dumps {
        let Some(number) = dump.map else {
            continue;
        };
        let (spec, layout) = (dump.spec(), dump.layout());
        let file = match dump.is_of_host() {
            true => format!("{}.host.bin", in_file_name(&spec.name)),
            false => file_name(&spec.name, dump.pid, dump.context),
        };
        let path = folder.join(&file);
        put(&path, |path| fs::write(path, dump.bytes())).map_err(at(&path))?;
        // Of rings only the heads are there, and maps of the host's kernel lie in its own way.
        if dump.ring().is_none() && !dump.is_of_host() {
            let place = (dump.pid, dump.context);
            let lies = (layout.copies, layout.stride);
            index.push(line(spec, place, lies, file.clone(), false));
        }
        let entries: Vec<Json> = (dump.entries().iter())
            .filter(|entry| {
                entry
                    .values
                    .iter()
                    .any(|value| value.iter().any(|byte| *byte != 0))
            })
            .take(MOST_ENTRIES)
            .map(|entry| {
                let last = entry
                    .values
                    .iter()
                    .rposition(|value| value.iter().any(|byte| *byte != 0));
                let values: Vec<Json> = (entry.values.iter())
                    .take(last.map_or(0, |at| at + 1).min(MOST_ENTRIES))
                    .map(|value| plain(&probes.value(number, value, false)))
                    .collect();
                json!({"key": plain(&probes.value(number, &entry.key, true)), "values": values})
            })
            .collect();
        maps.push(json!({
            "name": spec.name,
            "kind": spec.kind,
            "what": dump.kind,
            "key_size": spec.key_size,
            "value_size": spec.value_size,
            "max_entries": spec.max_entries,
            "copies": layout.copies,
            "pid": dump.pid,
            "context": dump.context,
            "file": file,
            "entries": entries,
            "ring": dump.ring().map(|ring| json!({"produced": ring.head + ring.lost, "lost": ring.lost})),
        }));
    }
    gpu_maps::write_index(folder, &index).map_err(at(folder))?;
    let path = folder.join("maps.json");
    serde_json::to_string_pretty(&json!({ "maps": maps }))
        .map_err(io::Error::from)
        .and_then(|text| fs::write(&path, text))
        .map_err(at(&path))
}

fn plain(value: &Value) -> Json {
    match value {
        Value::Null => Json::Null,
        Value::Bool(flag) => json!(flag),
        // jq and JavaScript have no such numbers: as in traces, they are texts.
        Value::Int(number) if number.unsigned_abs() > 1 << 53 => json!(number.to_string()),
        Value::Uint(number) if *number > 1 << 53 => json!(number.to_string()),
        Value::Int(number) => json!(number),
        Value::Uint(number) => json!(number),
        Value::Float(number) => json!(number),
        Value::Pointer(address) => json!(format!("{address:#x}")),
        Value::Str(text) => json!(&**text),
        Value::List(list) => list.iter().map(plain).collect(),
        Value::Map(fields) => fields
            .iter()
            .map(|field| (field.name.to_string(), plain(&field.value)))
            .collect::<serde_json::Map<_, _>>()
            .into(),
    }
}
