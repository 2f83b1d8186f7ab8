//! The files in docs/deploy: every metric that they name is exported, and every option is one.

use crate::{common, eventually, metrics::serve};
use std::{collections::BTreeSet, fs};

fn deployed(name: &str) -> String {
    let path = common::repository().join("docs/deploy").join(name);
    fs::read_to_string(&path).unwrap_or_else(|why| panic!("{}: {why}", path.display()))
}

/// Words that begin with `cutrace_`.
fn metrics_in(text: &str) -> BTreeSet<String> {
    let words = text.split(|it: char| !(it.is_ascii_alphanumeric() || it == '_'));
    words
        .filter(|word| word.starts_with("cutrace_"))
        .map(str::to_owned)
        .collect()
}

#[test]
fn the_dashboard_and_the_rules_name_metrics_that_exist() {
    let dashboard = deployed("grafana-dashboard.json");
    let json: serde_json::Value = serde_json::from_str(&dashboard).expect("JSON");
    assert!(
        json["panels"]
            .as_array()
            .is_some_and(|panels| panels.len() >= 8)
    );
    for panel in json["panels"].as_array().expect("panels") {
        let targets = panel["targets"].as_array();
        let is_row = panel["type"] == "row";
        assert!(
            is_row || targets.is_some_and(|it| !it.is_empty()),
            "{}",
            panel["title"]
        );
    }
    let Some(served) = serve(&[], &["100000", "5", "quiet"]) else {
        return;
    };
    let exported = eventually("every kind of metric", || {
        let text = served.metrics()?;
        (text.contains("cutrace_step_duration_seconds_count{")
            && text.contains("cutrace_errors_total{"))
        .then_some(text)
    });
    let mut known = metrics_in(&exported);
    // Described even if the program does nothing of the kind.
    for line in exported
        .lines()
        .filter_map(|line| line.strip_prefix("# TYPE "))
    {
        if let Some((name, kind)) = line.split_once(' ') {
            let suffixes: &[&str] = match kind {
                "counter" => &["_total"],
                "histogram" => &["_bucket", "_sum", "_count"],
                "info" => &["_info"],
                _ => &[""],
            };
            known.extend(suffixes.iter().map(|suffix| format!("{name}{suffix}")));
        }
    }
    for file in ["grafana-dashboard.json", "prometheus-rules.yml"] {
        for name in metrics_in(&deployed(file)) {
            assert!(known.contains(&name), "{file}: {name} is not exported");
        }
    }
    // And the page that lists them lists all.
    let page = fs::read_to_string(common::repository().join("docs/SERVE.md")).expect("the page");
    for line in exported
        .lines()
        .filter_map(|line| line.strip_prefix("# TYPE "))
    {
        let name = line.split(' ').next().unwrap_or_default();
        assert!(page.contains(name), "docs/SERVE.md does not list {name}");
    }
}

#[test]
fn units_and_manifests_use_options_that_exist() {
    let help = common::cutrace()
        .args(["serve", "--help"])
        .output()
        .expect("cutrace runs");
    let help = String::from_utf8_lossy(&help.stdout).into_owned();
    for file in [
        "cutrace-serve.service",
        "cutrace-daemonset.yaml",
        "README.md",
    ] {
        let text = deployed(file);
        let lines = text.lines().filter(|line| {
            line.contains("cutrace serve") || line.trim_start().starts_with("- \"--")
        });
        for word in lines
            .flat_map(|line| line.split(|it: char| it.is_whitespace() || "\"',=`".contains(it)))
        {
            if word.starts_with("--") && word.len() > 2 {
                assert!(
                    help.contains(word),
                    "{file}: {word} is no option of cutrace serve"
                );
            }
        }
    }
}
