//! The declarations as they are written in `catalogue.yaml`.
//!
//! The text is compiled in, so that this stops at the first problem of its form. A test checks what the declarations
//! say.

use std::collections::BTreeMap;
use std::sync::Arc;

use omni_yaml::{Aliases, Node, Value};
use serde::Deserialize;

use super::family::one_two_five;
use super::{Absent, Buckets, Catalogue, CatalogueError, Deprecated, Family, FamilyKind, Group, Sinks};

/// The longest sequence for which bounds are made by default.
const DEFAULT_MAX_MODEL_LEN: u32 = 32_768;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Declarations {
    supplied: Vec<Arc<str>>,
    bucket_sets: BTreeMap<Arc<str>, DeclaredBounds>,
    groups: Vec<DeclaredGroup>,
    #[serde(default)]
    deprecated: Vec<Deprecated>,
    absent: Vec<Absent>,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum DeclaredBounds {
    Bounds(Vec<f64>),
    Rule(BoundsRule),
}

#[derive(Deserialize)]
enum BoundsRule {
    #[serde(rename = "one_two_five_up_to_max_model_len")]
    ByLength,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct DeclaredGroup {
    name: Arc<str>,
    about: String,
    enabled: bool,
    sinks: Vec<Sink>,
    series: usize,
    metrics: Vec<DeclaredFamily>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct DeclaredFamily {
    name: Arc<str>,
    kind: FamilyKind,
    unit: String,
    help: String,
    labels: Vec<Arc<str>>,
    #[serde(default)]
    values: BTreeMap<Arc<str>, Vec<Arc<str>>>,
    buckets: Option<String>,
    series: Option<usize>,
    sinks: Option<Vec<Sink>>,
    pending: Option<String>,
}

#[derive(PartialEq, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Sink {
    Prometheus,
    Log,
}

pub(super) fn catalogue(text: &str) -> Result<Catalogue, CatalogueError> {
    let root = omni_yaml::parse("catalogue.yaml", text, Aliases::Follow)
        .map_err(|problem| CatalogueError(problem.to_string()))?;
    let declared: Declarations = serde_path_to_error::deserialize(json(&root))
        .map_err(|error| CatalogueError(format!("{}: {}", error.path(), error.inner())))?;
    let mut groups = Vec::new();
    let mut families = Vec::new();
    for DeclaredGroup {
        name,
        about,
        enabled,
        sinks,
        series,
        metrics,
    } in declared.groups
    {
        for metric in metrics {
            let set = metric.buckets.as_deref();
            families.push(Family {
                buckets: set.map(|set| buckets(set, &declared.bucket_sets)).transpose()?,
                name: metric.name,
                kind: metric.kind,
                unit: metric.unit,
                help: metric.help.trim().to_owned(),
                labels: metric.labels,
                values: metric.values,
                group: Arc::clone(&name),
                sinks: self::sinks(metric.sinks.as_ref().unwrap_or(&sinks)),
                pending: metric.pending,
                series: metric.series.unwrap_or(series),
            });
        }
        groups.push(Group { name, about, enabled });
    }
    let others = (declared.absent, declared.deprecated);
    Ok(Catalogue::new(declared.supplied, groups, families, others))
}

fn buckets(name: &str, sets: &BTreeMap<Arc<str>, DeclaredBounds>) -> Result<Buckets, CatalogueError> {
    let Some((set, declared)) = sets.get_key_value(name) else {
        return Err(CatalogueError(format!("bucket set {name:?} is not declared")));
    };
    let (bounds, by_length) = match declared {
        DeclaredBounds::Bounds(bounds) => (bounds.clone(), false),
        DeclaredBounds::Rule(BoundsRule::ByLength) => (one_two_five(DEFAULT_MAX_MODEL_LEN), true),
    };
    Ok(Buckets {
        set: Arc::clone(set),
        bounds,
        by_length,
    })
}

fn sinks(names: &[Sink]) -> Sinks {
    Sinks {
        prometheus: names.contains(&Sink::Prometheus),
        log: names.contains(&Sink::Log),
    }
}

/// The tree as serde reads it. A scalar without quotes is a number, `true` or `false` where it reads as one.
fn json(node: &Node) -> serde_json::Value {
    match &node.value {
        _ if node.is_null() => serde_json::Value::Null,
        Value::Scalar { text, quoted: false } => {
            serde_json::from_str(text).unwrap_or_else(|_| text.as_str().into())
        }
        Value::Scalar { text, .. } => text.as_str().into(),
        Value::List(items) => items.iter().map(json).collect(),
        Value::Map(entries) => {
            let entries = entries
                .iter()
                .map(|(key, value)| (key.value.clone(), json(value)));
            serde_json::Value::Object(entries.collect())
        }
    }
}
