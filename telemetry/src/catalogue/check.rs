//! From the catalogue as written to one that can be trusted. Every problem is reported, not only the first.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::Arc;

use super::raw::{RawBuckets, RawCatalogue, RawFamily, RawGroup};
use super::{
    Absent, Buckets, Catalogue, Deprecated, Family, FamilyKind, Group, Release, Sinks, is_label_name,
    is_metric_name,
};
use crate::problems::{Located, Problem, Problems};

/// The one rule by which bounds follow from the model.
const BY_LENGTH: &str = "one_two_five_up_to_max_model_len";
/// The longest sequence for which bounds are made by default.
const DEFAULT_MAX_MODEL_LEN: u32 = 32_768;

/// A catalogue that cannot be used: every problem, as `line:column: what`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CatalogueError(pub(crate) Vec<Problem>);

impl fmt::Display for CatalogueError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, problem) in self.0.iter().enumerate() {
            let separator = if index == 0 { "" } else { "\n" };
            write!(f, "{separator}{problem}")?;
        }
        Ok(())
    }
}

impl std::error::Error for CatalogueError {}

pub(super) fn catalogue(raw: &RawCatalogue) -> Result<Catalogue, CatalogueError> {
    let mut problems = Problems::default();
    if raw.version.value != 1 {
        problems.at(
            &raw.version,
            format!("version {}, this reads 1", raw.version.value),
        );
    }
    let sets = bucket_sets(raw, &mut problems);
    let mut families = Vec::new();
    for group in &raw.groups {
        for metric in &group.metrics {
            families.extend(family(group, metric, &sets, &mut problems));
        }
    }
    unique_names(raw, &families, &mut problems);
    let groups = groups(raw, &mut problems);
    let absent = absent(raw, &families, &mut problems);
    let deprecated = deprecated(raw, &families, &mut problems);
    if !problems.0.is_empty() {
        return Err(CatalogueError(problems.0));
    }
    let supplied = raw.supplied.iter().map(|label| Arc::from(label.value.as_str()));
    Ok(Catalogue::new(
        supplied.collect(),
        groups,
        families,
        (absent, deprecated),
    ))
}

fn groups(raw: &RawCatalogue, problems: &mut Problems) -> Vec<Group> {
    let mut seen = BTreeSet::new();
    for group in &raw.groups {
        if !seen.insert(&group.name.value) {
            problems.at(
                &group.name,
                format!("group {:?} is declared twice", group.name.value),
            );
        }
    }
    let group = |raw: &RawGroup| Group {
        name: Arc::from(raw.name.value.as_str()),
        about: raw.about.clone(),
        enabled: raw.enabled,
    };
    raw.groups.iter().map(group).collect()
}

fn bucket_sets(raw: &RawCatalogue, problems: &mut Problems) -> BTreeMap<String, Buckets> {
    let mut sets = BTreeMap::new();
    for (name, set) in &raw.bucket_sets {
        let (bounds, by_length) = match &set.value {
            RawBuckets::Bounds(bounds) => (bounds.clone(), false),
            RawBuckets::Rule(rule) => {
                if rule != BY_LENGTH {
                    problems.at(
                        set,
                        format!("rule {rule:?} is unknown, expected {BY_LENGTH:?} or bounds"),
                    );
                }
                (one_two_five(DEFAULT_MAX_MODEL_LEN), true)
            }
        };
        if let Err(what) = check_bounds(&bounds) {
            problems.at(set, format!("buckets {name}: {what}"));
        }
        let set = Arc::from(name.as_str());
        sets.insert(
            name.clone(),
            Buckets {
                set,
                bounds,
                by_length,
            },
        );
    }
    sets
}

/// Bounds are finite, there is at least one, and they increase.
pub(crate) fn check_bounds(bounds: &[f64]) -> Result<(), String> {
    if bounds.is_empty() {
        return Err("no bounds, expected at least one".to_owned());
    }
    if let Some(bound) = bounds.iter().find(|bound| !bound.is_finite()) {
        return Err(format!(
            "bound {bound} is not finite; +Inf is added by the exporter"
        ));
    }
    match bounds.windows(2).find(|pair| pair[1] <= pair[0]) {
        Some(pair) => Err(format!(
            "bound {} follows {}, expected increasing bounds",
            pair[1], pair[0]
        )),
        None => Ok(()),
    }
}

/// 1, 2, 5, 10, 20, 50 ... up to `limit`.
pub(crate) fn one_two_five(limit: u32) -> Vec<f64> {
    let limit = u64::from(limit.max(1));
    let series = (0..).flat_map(|power: u32| [1, 2, 5].map(|digit| digit * 10_u64.pow(power)));
    series
        .take_while(|bound| *bound <= limit)
        .map(|bound| bound as f64)
        .collect()
}

fn family(
    group: &RawGroup,
    raw: &RawFamily,
    sets: &BTreeMap<String, Buckets>,
    problems: &mut Problems,
) -> Option<Family> {
    let name = &raw.name.value;
    if !is_metric_name(name) {
        problems.at(
            &raw.name,
            format!("{name:?} cannot be the name of a metric in Prometheus"),
        );
    }
    let kinds = [
        FamilyKind::Counter,
        FamilyKind::FloatCounter,
        FamilyKind::Gauge,
        FamilyKind::Histogram,
        FamilyKind::Summary,
    ];
    let Some(kind) = kinds.into_iter().find(|kind| kind.name() == raw.kind.value) else {
        let expected = kinds.map(FamilyKind::name).join(", ");
        problems.at(
            &raw.kind,
            format!("kind {:?}, expected one of {expected}", raw.kind.value),
        );
        return None;
    };
    name_fits_kind(raw, kind, problems);
    for (what, text) in [("unit", &raw.unit), ("help", &raw.help)] {
        if text.value.trim().is_empty() {
            problems.at(text, format!("{name} has an empty {what}"));
        }
    }
    labels(raw, problems);
    let buckets = buckets(raw, kind, sets, problems);
    let sinks = sinks(raw.sinks.as_ref().unwrap_or(&group.sinks), problems);
    let values = raw.values.iter().map(|(label, values)| {
        (
            Arc::from(label.as_str()),
            values
                .value
                .iter()
                .map(|value| Arc::from(value.as_str()))
                .collect(),
        )
    });
    Some(Family {
        name: Arc::from(name.as_str()),
        kind,
        unit: raw.unit.value.clone(),
        help: raw.help.value.trim().to_owned(),
        labels: raw
            .labels
            .iter()
            .map(|label| Arc::from(label.value.as_str()))
            .collect(),
        values: values.collect(),
        buckets,
        group: Arc::from(group.name.value.as_str()),
        sinks,
        pending: raw.pending.as_ref().map(|pending| pending.value.clone()),
        series: raw.series.unwrap_or(group.series),
    })
}

fn name_fits_kind(raw: &RawFamily, kind: FamilyKind, problems: &mut Problems) {
    let name = &raw.name.value;
    let counter = matches!(kind, FamilyKind::Counter | FamilyKind::FloatCounter);
    if counter && !raw.bare_name && !name.ends_with("_total") {
        problems.at(
            &raw.name,
            format!("counter {name} does not end in _total (bare_name allows it)"),
        );
    }
    let derived = ["_bucket", "_sum", "_count"];
    if let Some(suffix) = derived.iter().find(|suffix| name.ends_with(**suffix)) {
        problems.at(
            &raw.name,
            format!("{name} ends in {suffix}, which belongs to histograms' series"),
        );
    }
}

fn labels(raw: &RawFamily, problems: &mut Problems) {
    let mut seen = BTreeSet::new();
    for label in &raw.labels {
        let name = &label.value;
        if !is_label_name(name) {
            problems.at(label, format!("{name:?} cannot be the name of a label"));
        }
        if !seen.insert(name.as_str()) {
            problems.at(label, format!("label {name} is there twice"));
        }
    }
    for (label, values) in &raw.values {
        if !seen.contains(label.as_str()) {
            problems.at(values, format!("values for {label}, which is no label of it"));
        }
        let distinct: BTreeSet<_> = values.value.iter().collect();
        if distinct.len() != values.value.len() || distinct.is_empty() {
            problems.at(values, format!("values of {label}: expected some, each once"));
        }
    }
}

fn buckets(
    raw: &RawFamily,
    kind: FamilyKind,
    sets: &BTreeMap<String, Buckets>,
    problems: &mut Problems,
) -> Option<Buckets> {
    match (&raw.buckets, kind) {
        (Some(set), FamilyKind::Histogram) => {
            let found = sets.get(&set.value).cloned();
            if found.is_none() {
                problems.at(set, format!("bucket set {:?} is not declared", set.value));
            }
            found
        }
        (None, FamilyKind::Histogram) => {
            problems.at(&raw.name, format!("histogram {} has no buckets", raw.name.value));
            None
        }
        (Some(set), _) => {
            problems.at(
                set,
                format!("{} {} cannot have buckets", kind.name(), raw.name.value),
            );
            None
        }
        (None, _) => None,
    }
}

fn sinks(raw: &[Located<String>], problems: &mut Problems) -> Sinks {
    let mut sinks = Sinks::default();
    for sink in raw {
        match sink.value.as_str() {
            "prometheus" => sinks.prometheus = true,
            "log" => sinks.log = true,
            other => problems.at(sink, format!("sink {other:?}, expected prometheus or log")),
        }
    }
    sinks
}

/// No two families have a name in common, a histogram's `_bucket`, `_sum` and `_count` included.
fn unique_names(raw: &RawCatalogue, families: &[Family], problems: &mut Problems) {
    let mut taken = BTreeMap::new();
    let declared = raw.groups.iter().flat_map(|group| &group.metrics);
    for metric in declared {
        let name = &metric.name.value;
        let kind = families
            .iter()
            .find(|family| family.name.as_ref() == name)
            .map(|family| family.kind);
        let suffixes: &[&str] = match kind {
            Some(FamilyKind::Histogram) => &["", "_bucket", "_sum", "_count"],
            Some(FamilyKind::Summary) => &["", "_sum", "_count"],
            _ => &[""],
        };
        for suffix in suffixes {
            if let Some(other) = taken.insert(format!("{name}{suffix}"), name) {
                problems.at(
                    &metric.name,
                    format!("{name}{suffix} is taken by {other} already"),
                );
            }
        }
    }
}

fn deprecated(raw: &RawCatalogue, families: &[Family], problems: &mut Problems) -> Vec<Deprecated> {
    let mut all: Vec<Deprecated> = Vec::new();
    for entry in &raw.deprecated {
        let name = &entry.name;
        let family = &entry.family;
        if !families.iter().any(|known| *known.name == family.value) {
            problems.at(family, format!("{} is no family", family.value));
        }
        let taken = families.iter().any(|known| *known.name == name.value)
            || all.iter().any(|known| *known.name == name.value);
        if taken || !is_metric_name(&name.value) {
            problems.at(
                name,
                format!("{} cannot be the name of another family", name.value),
            );
        }
        let mut release = |text: &Located<String>| {
            let release = Release::parse(&text.value);
            if release.is_none() {
                problems.at(text, format!("release {:?}, expected one like 1.2.3", text.value));
            }
            release
        };
        if let (Some(since), Some(hidden)) = (release(&entry.since), release(&entry.hidden)) {
            all.push(Deprecated {
                name: Arc::from(name.value.as_str()),
                family: Arc::from(family.value.as_str()),
                since,
                hidden,
            });
        }
    }
    all
}

fn absent(raw: &RawCatalogue, families: &[Family], problems: &mut Problems) -> Vec<Absent> {
    let mut all = Vec::new();
    for entry in &raw.absent {
        let texts = |spanned: &[Located<String>]| spanned.iter().map(|text| text.value.clone()).collect();
        let absent = Absent {
            reason: entry.reason.clone(),
            names: texts(&entry.names),
            prefixes: texts(&entry.prefixes),
        };
        if let Some(served) = families.iter().find(|family| absent.covers(&family.name)) {
            let place = entry.names.iter().chain(&entry.prefixes).next();
            if let Some(place) = place {
                problems.at(
                    place,
                    format!("{} is declared absent and is a family", served.name),
                );
            }
        }
        all.push(absent);
    }
    all
}
