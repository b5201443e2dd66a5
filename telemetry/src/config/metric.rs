//! The metrics of a file.

use std::collections::{BTreeMap, BTreeSet};

use crate::catalogue::{Catalogue, FamilyKind};
use crate::custom::{CustomKind, MetricSpec};
use crate::problems::{Located, Node, Problems, Value};

/// The group of TorchServe's own families.
const TORCHSERVE: &str = "torchserve";
/// Label that is appended to the dimensions of model metrics.
const HOSTNAME: &str = "Hostname";

/// Checks the list of dimensions, which is there for its anchors.
pub(super) fn dimensions(node: &Node, problems: &mut Problems) {
    let texts: Vec<Located<String>> = match &node.value {
        // The design text's form: names of aliases, each with the dimension.
        Value::Map(entries) => {
            let values = entries.iter().map(|(_, value)| value);
            values
                .filter_map(|value| problems.text(value, "dimension"))
                .collect()
        }
        _ => problems.texts(node, "dimensions"),
    };
    let mut seen = BTreeSet::new();
    for text in &texts {
        if text.value.trim().is_empty() {
            problems.at(text, "dimension: the name is empty");
        } else if !seen.insert(&text.value) {
            problems.at(text, format!("dimension {:?} is there twice", text.value));
        }
    }
}

/// The metrics of a section, by kind.
pub(super) fn section(
    node: &Node,
    name: &str,
    model: bool,
    problems: &mut Problems,
) -> Vec<Located<MetricSpec>> {
    let kinds = CustomKind::ALL.map(CustomKind::name);
    let entries = problems.map(node, name, &kinds);
    let mut metrics = Vec::new();
    for kind in CustomKind::ALL {
        let Some(list) = entries.get(kind.name()) else {
            continue;
        };
        for item in problems.list(list, kind.name()) {
            metrics.extend(metric(item, kind, model, problems));
        }
    }
    metrics
}

fn metric(
    node: &Node,
    kind: CustomKind,
    model: bool,
    problems: &mut Problems,
) -> Option<Located<MetricSpec>> {
    let what = kind.name();
    let keys = ["name", "unit", "dimensions", "help", "buckets"];
    let entries = problems.map(node, what, &keys);
    let name = problems.needed(node, entries, what, "name");
    let unit = problems.needed(node, entries, what, "unit");
    let name = name.and_then(|node| full(node, "name", problems));
    let unit = unit.and_then(|node| full(node, "unit", problems));
    let labels = entries
        .get("dimensions")
        .map(|node| problems.texts(node, "dimensions"));
    let labels = labels.unwrap_or_default();
    let mut seen = BTreeSet::new();
    for label in &labels {
        if !seen.insert(&label.value) {
            problems.at(label, format!("dimension {:?} is there twice", label.value));
        }
    }
    let bounds = entries.get("buckets").map(|node| bounds(node, problems));
    let help = entries.get("help").and_then(|node| problems.text(node, "help"));
    let name = name?;
    let unit = unit?;
    let mut labels: Vec<_> = labels.into_iter().map(|label| label.value).collect();
    if model && !labels.iter().any(|label| label == HOSTNAME) {
        labels.push(HOSTNAME.to_owned());
    }
    Some(name.with(MetricSpec {
        name: name.value.clone(),
        kind,
        unit: unit.value,
        help: help.map(|help| help.value).unwrap_or_default(),
        labels,
        bounds,
        sinks: None,
    }))
}

/// A text that is not empty.
fn full(node: &Node, what: &str, problems: &mut Problems) -> Option<Located<String>> {
    let text = problems.text(node, what)?;
    if text.value.trim().is_empty() {
        problems.at(&text, format!("{what} is empty"));
        return None;
    }
    Some(text)
}

fn bounds(node: &Node, problems: &mut Problems) -> Vec<f64> {
    let items = problems.list(node, "buckets");
    let bounds = items
        .iter()
        .filter_map(|item| problems.parsed::<f64>(item, "bucket", "a number"));
    bounds.map(|bound| bound.value).collect()
}

/// A name may be declared once, for any kind and section: Prometheus identifies metrics by name alone.
pub(super) fn unique(declared: &[Located<MetricSpec>], problems: &mut Problems) {
    let mut first: BTreeMap<&str, &Located<MetricSpec>> = BTreeMap::new();
    for metric in declared {
        let name = metric.value.name.as_str();
        if let Some(other) = first.get(name) {
            let line = other.place.line().unwrap_or_default();
            problems.at(
                metric,
                format!("metric {name:?} is declared already, in line {line}"),
            );
        } else {
            first.insert(name, metric);
        }
    }
}

/// The owner of a declared metric.
pub(super) enum Origin {
    TorchServe(String),
    Custom(MetricSpec),
    Neither,
}

/// Tells TorchServe's own metrics, which have to be declared as they are, from the file's.
pub(super) fn own_or_custom(
    metric: Located<MetricSpec>,
    catalogue: &Catalogue,
    problems: &mut Problems,
) -> Origin {
    let spec = &metric.value;
    let Some(family) = catalogue.find(&spec.name) else {
        return match spec.check() {
            Ok(()) => Origin::Custom(metric.value),
            Err(error) => {
                problems.at(&metric, error.to_string());
                Origin::Neither
            }
        };
    };
    if family.group.as_ref() != TORCHSERVE {
        problems.at(&metric, format!("metric {:?} is the server's own", spec.name));
        return Origin::Neither;
    }
    let kind = match family.kind {
        FamilyKind::Counter | FamilyKind::FloatCounter => CustomKind::Counter,
        FamilyKind::Gauge => CustomKind::Gauge,
        FamilyKind::Histogram | FamilyKind::Summary => CustomKind::Histogram,
    };
    let labels: BTreeSet<&str> = family.labels.iter().map(AsRef::as_ref).collect();
    let given: BTreeSet<&str> = spec.labels.iter().map(String::as_str).collect();
    let differs = [
        (kind != spec.kind, format!("it is a {}", kind.name())),
        (family.unit != spec.unit, format!("its unit is {}", family.unit)),
        (
            labels != given,
            format!("its dimensions are {}", family.labels.join(", ")),
        ),
    ];
    let differences: Vec<_> = differs
        .into_iter()
        .filter_map(|(differs, what)| differs.then_some(what))
        .collect();
    if differences.is_empty() {
        return Origin::TorchServe(metric.value.name);
    }
    let what = format!(
        "metric {:?} is TorchServe's own: {}",
        spec.name,
        differences.join(", ")
    );
    problems.at(&metric, what);
    Origin::Neither
}
