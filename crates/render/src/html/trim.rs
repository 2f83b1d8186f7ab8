//! What of the report goes into the page: everything the page shows, and no list without end.

use serde_json::Value;

/// Entries of a list: tables show the most important first.
const MAX_ENTRIES: usize = 2_000;
/// Characters of a text: kernel names of templates reach tens of kilobytes.
const MAX_TEXT: usize = 2_000;
/// Lists inside lists: as deep as anything in the report goes.
const MAX_DEPTH: usize = 24;

/// Cuts long lists and texts, and leaves out what the page has from elsewhere.
pub fn trimmed(mut report: Value) -> Value {
    if let Value::Object(parts) = &mut report {
        for twice in ["meta", "summary"] {
            parts.remove(twice);
        }
        // The flame graph is the page's own, with stacks.
        if let Some(Value::Object(correlation)) = parts.get_mut("correlation") {
            correlation.remove("tree");
        }
    }
    name_gaps(&mut report);
    cut(&mut report, 0);
    report
}

/// Work beside a gap may be a kernel, whose name is shown short: before it is cut.
fn name_gaps(report: &mut Value) {
    let gaps = report
        .pointer_mut("/idle/gaps")
        .and_then(Value::as_array_mut);
    for gap in gaps.into_iter().flatten().take(MAX_ENTRIES) {
        for side in ["before", "after"] {
            let Some(work) = gap.get_mut(side).and_then(Value::as_object_mut) else {
                continue;
            };
            if let Some(short) = work
                .get("name")
                .and_then(Value::as_str)
                .map(analyse::short_name)
            {
                work.insert("short_name".into(), short.into());
            }
        }
    }
}

fn cut(value: &mut Value, depth: usize) {
    if depth > MAX_DEPTH {
        *value = Value::Null;
        return;
    }
    match value {
        Value::Array(list) => {
            list.truncate(MAX_ENTRIES);
            list.iter_mut().for_each(|entry| cut(entry, depth + 1));
        }
        Value::Object(map) => map.values_mut().for_each(|entry| cut(entry, depth + 1)),
        Value::String(text) => {
            if let Some((end, _)) = text.char_indices().nth(MAX_TEXT) {
                text.truncate(end);
                text.push('…');
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn kernels_beside_gaps_have_short_names() {
        let long = format!("void scale<{}>(int)", "a, ".repeat(2_000));
        let report = trimmed(json!({
            "idle": { "gaps": [{ "before": null, "after": { "name": long } }, { "after": { "name": 7 } }] },
        }));
        let after = &report["idle"]["gaps"][0]["after"];
        assert!(
            after["short_name"]
                .as_str()
                .is_some_and(|name| name.starts_with("scale<a,a,"))
        );
        assert!(
            after["name"]
                .as_str()
                .is_some_and(|name| name.ends_with('…'))
        );
    }

    #[test]
    fn lists_and_texts_have_an_end() {
        let report = trimmed(json!({
            "meta": 1,
            "functions": { "list": vec![1; 5_000], "name": "é".repeat(9_000) },
            "correlation": { "tree": [1], "layers": [2] },
        }));
        let functions = &report["functions"];
        assert_eq!(
            functions["list"].as_array().map(Vec::len),
            Some(MAX_ENTRIES)
        );
        let name = functions["name"].as_str().expect("a text");
        assert_eq!(name.chars().count(), MAX_TEXT + 1);
        assert_eq!(report["meta"], Value::Null);
        assert_eq!(report["correlation"], json!({ "layers": [2] }));
    }
}
