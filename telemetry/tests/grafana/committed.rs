//! The files as they are committed.

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::Value;

pub(crate) fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../grafana")
}

pub(crate) fn text(path: &str) -> String {
    fs::read_to_string(folder().join(path)).unwrap_or_else(|error| panic!("grafana/{path}: {error}"))
}

/// Name and content of every dashboard, in the order of the names.
pub(crate) fn dashboards() -> Vec<(String, Value)> {
    let entries = fs::read_dir(folder().join("dashboards")).expect("a folder");
    let names = entries.map(|entry| entry.expect("an entry").file_name());
    let mut names: Vec<_> = names.map(|name| name.to_string_lossy().into_owned()).collect();
    names.sort();
    let dashboard = |name: String| {
        let text = text(&format!("dashboards/{name}"));
        let value = serde_json::from_str(&text).unwrap_or_else(|error| panic!("{name}: {error}"));
        (name, value)
    };
    names.into_iter().map(dashboard).collect()
}

/// The list at `path` of a value.
pub(crate) fn list<'a>(value: &'a Value, path: &str) -> &'a [Value] {
    let list = value.pointer(path).and_then(Value::as_array);
    list.unwrap_or_else(|| panic!("{path} is a list"))
}

/// The text at `path` of a value.
pub(crate) fn string<'a>(value: &'a Value, path: &str) -> &'a str {
    let text = value.pointer(path).and_then(Value::as_str);
    text.unwrap_or_else(|| panic!("{path} is a text in {value:#}"))
}

/// Panels that are no headings.
pub(crate) fn panels(dashboard: &Value) -> impl Iterator<Item = &Value> {
    list(dashboard, "/panels")
        .iter()
        .filter(|panel| string(panel, "/type") != "row")
}

/// One query of a panel.
#[derive(Debug)]
pub(crate) struct Query {
    /// Dashboard and panel, for messages.
    pub(crate) place: String,
    pub(crate) expression: String,
    pub(crate) legend: String,
    /// Returns true if the panel says that it has nothing to show although all is well.
    pub(crate) may_be_empty: bool,
}

/// Every query of every panel.
pub(crate) fn queries() -> Vec<Query> {
    let mut queries = Vec::new();
    for (name, dashboard) in dashboards() {
        for panel in panels(&dashboard) {
            let place = format!("{name}, {}", string(panel, "/title"));
            let may_be_empty = string(panel, "/description").contains(" Empty while ");
            queries.extend(list(panel, "/targets").iter().map(|target| Query {
                place: place.clone(),
                expression: string(target, "/expr").to_owned(),
                legend: string(target, "/legendFormat").to_owned(),
                may_be_empty,
            }));
        }
    }
    queries
}

/// A rule of Prometheus.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Rule {
    pub(crate) name: String,
    pub(crate) alerts: bool,
    pub(crate) expression: String,
}

/// The rules of a file. It knows the one way in which these files are written: `- alert: NAME` or `- record: NAME`,
/// and an expression that stands in lines of its own below `expr: |`.
pub(crate) fn rules(path: &str) -> Vec<Rule> {
    let text = text(path);
    let mut rules: Vec<Rule> = Vec::new();
    // How far an expression is indented, while inside of one.
    let mut inside: Option<usize> = None;
    for line in text.lines() {
        let trimmed = line.trim();
        let indent = line.len() - line.trim_start().len();
        if inside.is_some_and(|least| indent <= least) {
            inside = None;
        }
        if let Some(rule) = rules.last_mut().filter(|_| inside.is_some()) {
            rule.expression.push_str(trimmed);
            rule.expression.push('\n');
        } else if trimmed == "expr: |" {
            inside = Some(indent);
        } else if let Some((key, name)) = trimmed.strip_prefix("- ").and_then(|rest| rest.split_once(": "))
            && ["alert", "record"].contains(&key)
        {
            rules.push(Rule {
                name: name.to_owned(),
                alerts: key == "alert",
                expression: String::new(),
            });
        }
    }
    assert!(!rules.is_empty(), "{path} has no rules");
    for rule in &rules {
        assert!(
            !rule.expression.is_empty(),
            "{}: no expression below `expr: |`",
            rule.name
        );
    }
    rules
}
