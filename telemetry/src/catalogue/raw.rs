//! The catalogue as it is written: every value with its place, nothing checked yet but the shape.

use std::collections::BTreeMap;

use super::check::CatalogueError;
use crate::problems::{Located, Node, Problems, Value, parse};

#[derive(Debug)]
pub(super) struct RawCatalogue {
    pub(super) version: Located<u32>,
    pub(super) supplied: Vec<Located<String>>,
    pub(super) bucket_sets: BTreeMap<String, Located<RawBuckets>>,
    pub(super) groups: Vec<RawGroup>,
    pub(super) deprecated: Vec<RawDeprecated>,
    pub(super) absent: Vec<RawAbsent>,
}

/// Bounds, or the rule that gives them.
#[derive(Debug)]
pub(super) enum RawBuckets {
    Bounds(Vec<f64>),
    Rule(String),
}

#[derive(Debug)]
pub(super) struct RawGroup {
    pub(super) name: Located<String>,
    pub(super) about: String,
    pub(super) enabled: bool,
    pub(super) sinks: Vec<Located<String>>,
    pub(super) series: usize,
    pub(super) metrics: Vec<RawFamily>,
}

#[derive(Debug)]
pub(super) struct RawFamily {
    pub(super) name: Located<String>,
    pub(super) kind: Located<String>,
    pub(super) unit: Located<String>,
    pub(super) help: Located<String>,
    pub(super) labels: Vec<Located<String>>,
    pub(super) values: BTreeMap<String, Located<Vec<String>>>,
    pub(super) buckets: Option<Located<String>>,
    pub(super) series: Option<usize>,
    pub(super) sinks: Option<Vec<Located<String>>>,
    /// What it still waits for.
    pub(super) pending: Option<Located<String>>,
    /// Keeps a foreign name that breaks the naming rules.
    pub(super) bare_name: bool,
}

#[derive(Debug)]
pub(super) struct RawDeprecated {
    pub(super) name: Located<String>,
    pub(super) family: Located<String>,
    pub(super) since: Located<String>,
    pub(super) hidden: Located<String>,
}

#[derive(Debug)]
pub(super) struct RawAbsent {
    pub(super) reason: String,
    pub(super) names: Vec<Located<String>>,
    pub(super) prefixes: Vec<Located<String>>,
}

pub(super) fn read(text: &str) -> Result<RawCatalogue, CatalogueError> {
    let root = parse(text).map_err(|problem| CatalogueError(vec![problem]))?;
    let mut problems = Problems::default();
    let raw = catalogue(&root, &mut problems);
    match raw {
        Some(raw) if problems.0.is_empty() => Ok(raw),
        _ => Err(CatalogueError(problems.0)),
    }
}

fn catalogue(root: &Node, problems: &mut Problems) -> Option<RawCatalogue> {
    let keys = [
        "version",
        "supplied",
        "bucket_sets",
        "groups",
        "deprecated",
        "absent",
    ];
    let entries = problems.map(root, "catalogue", &keys);
    let mut needed = |key| problems.needed(root, entries, "catalogue", key);
    let [version, supplied, sets, groups, absent] = [
        needed("version")?,
        needed("supplied")?,
        needed("bucket_sets")?,
        needed("groups")?,
        needed("absent")?,
    ];
    let mut bucket_sets = BTreeMap::new();
    if let Value::Map(sets) = &sets.value {
        for (name, set) in sets {
            bucket_sets.insert(name.value.clone(), buckets(set, problems));
        }
    }
    let groups = problems.list(groups, "groups");
    let groups = groups.iter().filter_map(|node| group(node, problems)).collect();
    let absent = problems.list(absent, "absent");
    let deprecated = entries.get("deprecated");
    let deprecated = deprecated
        .map(|node| problems.list(node, "deprecated"))
        .unwrap_or_default();
    Some(RawCatalogue {
        version: problems.parsed(version, "version", "a number")?,
        supplied: problems.texts(supplied, "supplied"),
        bucket_sets,
        groups,
        deprecated: deprecated
            .iter()
            .filter_map(|node| self::deprecated(node, problems))
            .collect(),
        absent: absent
            .iter()
            .filter_map(|node| self::absent(node, problems))
            .collect(),
    })
}

fn buckets(node: &Node, problems: &mut Problems) -> Located<RawBuckets> {
    let Value::List(bounds) = &node.value else {
        let rule = problems.text(node, "buckets").map(|rule| rule.value);
        return node.with(RawBuckets::Rule(rule.unwrap_or_default()));
    };
    let bounds = bounds
        .iter()
        .filter_map(|bound| problems.parsed(bound, "bound", "a number"));
    let bounds: Vec<_> = bounds.map(|bound: Located<f64>| bound.value).collect();
    node.with(RawBuckets::Bounds(bounds))
}

fn group(node: &Node, problems: &mut Problems) -> Option<RawGroup> {
    let keys = ["name", "about", "enabled", "sinks", "series", "metrics"];
    let entries = problems.map(node, "group", &keys);
    let mut needed = |key| problems.needed(node, entries, "group", key);
    let [name, about, enabled, sinks, series, metrics] = [
        needed("name")?,
        needed("about")?,
        needed("enabled")?,
        needed("sinks")?,
        needed("series")?,
        needed("metrics")?,
    ];
    let metrics = problems.list(metrics, "metrics");
    Some(RawGroup {
        name: problems.text(name, "name")?,
        about: problems.text(about, "about")?.value,
        enabled: problems.parsed(enabled, "enabled", "true or false")?.value,
        sinks: problems.texts(sinks, "sinks"),
        series: problems.parsed(series, "series", "a number")?.value,
        metrics: metrics
            .iter()
            .filter_map(|metric| family(metric, problems))
            .collect(),
    })
}

fn family(node: &Node, problems: &mut Problems) -> Option<RawFamily> {
    let keys = [
        "pending",
        "name",
        "kind",
        "unit",
        "help",
        "labels",
        "values",
        "buckets",
        "series",
        "sinks",
        "bare_name",
    ];
    let entries = problems.map(node, "metric", &keys);
    let mut needed = |key| problems.needed(node, entries, "metric", key);
    let [name, kind, unit, help, labels] = [
        needed("name")?,
        needed("kind")?,
        needed("unit")?,
        needed("help")?,
        needed("labels")?,
    ];
    let mut values = BTreeMap::new();
    if let Some(Value::Map(entries)) = entries.get("values").map(|node| &node.value) {
        for (label, list) in entries {
            let texts = problems.texts(list, "values");
            let texts = texts.into_iter().map(|text| text.value).collect();
            values.insert(label.value.clone(), list.with(texts));
        }
    }
    let series = entries
        .get("series")
        .and_then(|node| problems.parsed(node, "series", "a number"));
    let bare = entries
        .get("bare_name")
        .and_then(|node| problems.parsed(node, "bare_name", "true or false"));
    Some(RawFamily {
        name: problems.text(name, "name")?,
        kind: problems.text(kind, "kind")?,
        unit: problems.text(unit, "unit")?,
        help: problems.text(help, "help")?,
        labels: problems.texts(labels, "labels"),
        values,
        buckets: entries
            .get("buckets")
            .and_then(|node| problems.text(node, "buckets")),
        series: series.map(|series: Located<usize>| series.value),
        sinks: entries.get("sinks").map(|node| problems.texts(node, "sinks")),
        pending: entries
            .get("pending")
            .and_then(|node| problems.text(node, "pending")),
        bare_name: bare.is_some_and(|bare: Located<bool>| bare.value),
    })
}

fn deprecated(node: &Node, problems: &mut Problems) -> Option<RawDeprecated> {
    let keys = ["name", "family", "since", "hidden"];
    let entries = problems.map(node, "deprecated", &keys);
    let [name, family, since, hidden] = keys.map(|key| {
        problems
            .needed(node, entries, "deprecated", key)
            .and_then(|node| problems.text(node, key))
    });
    Some(RawDeprecated {
        name: name?,
        family: family?,
        since: since?,
        hidden: hidden?,
    })
}

fn absent(node: &Node, problems: &mut Problems) -> Option<RawAbsent> {
    let entries = problems.map(node, "absent", &["reason", "names", "prefixes"]);
    let reason = problems.needed(node, entries, "absent", "reason")?;
    let mut texts = |key| {
        entries
            .get(key)
            .map(|node| problems.texts(node, key))
            .unwrap_or_default()
    };
    let names = texts("names");
    let prefixes = texts("prefixes");
    Some(RawAbsent {
        reason: problems.text(reason, "reason")?.value,
        names,
        prefixes,
    })
}
