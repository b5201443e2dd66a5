//! Every name, label, value and bound that is asked for is in the catalogue, and used as what it is.

use std::collections::{BTreeMap, BTreeSet};

use omni_telemetry::{Catalogue, CatalogueOptions, Family, FamilyKind, Prefix};

use crate::committed::{Rule, dashboards, list, queries, rules, string, text};
use crate::promql::{Expression, Selector, read};

/// Labels that Prometheus gives to whatever it reads.
const OF_TARGETS: [&str; 2] = ["job", "instance"];

/// Series that are not ours: Prometheus' own and the Pushgateway's.
const FOREIGN: [(&str, &[&str]); 3] = [
    ("up", &[]),
    ("ALERTS", &["alertname", "alertstate"]),
    ("push_time_seconds", &[]),
];

/// The names that can be asked for.
pub(crate) struct Known {
    catalogue: Catalogue,
    /// Recorded series and their labels.
    recorded: BTreeMap<String, BTreeSet<String>>,
}

/// The meaning of a name.
enum Found<'a> {
    Series(&'a Family, &'a str),
    Other,
}

impl Known {
    pub(crate) fn new(catalogue: Catalogue) -> Self {
        let recording = rules("prometheus/rules.yml").into_iter();
        let recorded = recording.map(|Rule { name, expression, .. }| {
            let labels = read(&expression).expect("an expression").labels;
            (name, labels)
        });
        Self {
            recorded: recorded.collect(),
            catalogue,
        }
    }

    fn find(&self, name: &str) -> Option<Found<'_>> {
        if self.recorded.contains_key(name) || FOREIGN.iter().any(|(known, _)| *known == name) {
            return Some(Found::Other);
        }
        if let Some(family) = self.catalogue.find(name) {
            return Some(Found::Series(family, ""));
        }
        ["_bucket", "_sum", "_count"].into_iter().find_map(|part| {
            let family = self.catalogue.find(name.strip_suffix(part)?)?;
            Some(Found::Series(family, part))
        })
    }

    /// Labels of a series, those of its target included.
    fn labels(&self, name: &str) -> BTreeSet<String> {
        let own: Vec<String> = match self.find(name) {
            Some(Found::Series(family, part)) => {
                let le = (part == "_bucket").then_some("le");
                family
                    .exposed_labels()
                    .into_iter()
                    .chain(le)
                    .map(str::to_owned)
                    .collect()
            }
            Some(Found::Other) => {
                let foreign = FOREIGN.iter().filter(|(known, _)| *known == name);
                let foreign = foreign.flat_map(|(_, labels)| labels.iter().map(|label| (*label).to_owned()));
                foreign
                    .chain(self.recorded.get(name).into_iter().flatten().cloned())
                    .collect()
            }
            None => Vec::new(),
        };
        own.into_iter().chain(OF_TARGETS.map(str::to_owned)).collect()
    }

    /// Everything that is wrong with an expression.
    pub(crate) fn problems(&self, expression: &Expression) -> Vec<String> {
        let mut problems: Vec<_> = expression
            .selectors
            .iter()
            .flat_map(|selector| self.problems_of(selector, expression))
            .collect();
        let labels: BTreeSet<_> = expression
            .selectors
            .iter()
            .flat_map(|selector| self.labels(&selector.name))
            .collect();
        problems.extend(
            expression
                .labels
                .difference(&labels)
                .map(|label| format!("groups by {label}, which none of its series has")),
        );
        problems
    }

    fn problems_of(&self, selector: &Selector, expression: &Expression) -> Vec<String> {
        let name = &selector.name;
        let labels = self.labels(name);
        let mut problems: Vec<_> = selector
            .matchers
            .iter()
            .filter(|(label, _)| !labels.contains(label))
            .map(|(label, _)| format!("{name} has no label {label}"))
            .collect();
        match self.find(name) {
            None => problems.push(format!("{name} is not in the catalogue")),
            Some(Found::Other) => {}
            Some(Found::Series(family, part)) => {
                problems.extend(misuse(selector, family, part));
                problems.extend(
                    selector
                        .matchers
                        .iter()
                        .filter_map(|matcher| wrong_value(matcher, family)),
                );
                let bounds = selector.matchers.iter().any(|(label, _)| label == "le")
                    || expression.labels.contains("le");
                if part == "_bucket" && !bounds {
                    problems.push(format!("{name} is summed up over its bounds"));
                }
                problems.extend(one_spelling(&selector.matchers));
            }
        }
        problems
    }
}

/// A series that is not used as what it is.
fn misuse(selector: &Selector, family: &Family, part: &str) -> Option<String> {
    let name = &selector.name;
    let function = selector.function.as_deref().unwrap_or("nothing");
    let over_time = ["rate", "increase", "present_over_time"].contains(&function) && selector.ranged;
    match (family.kind, part) {
        (FamilyKind::Histogram, "") => Some(format!(
            "{name} is a histogram: _bucket, _sum or _count is missing"
        )),
        (FamilyKind::Histogram, _) | (FamilyKind::Counter | FamilyKind::FloatCounter, "") => (!over_time)
            .then(|| format!("{name} only grows and is the argument of {function}, not of rate or increase")),
        (_, "") => over_time.then(|| format!("{name} goes up and down and is the argument of {function}")),
        (_, _) => Some(format!("{name}: {} is no histogram", family.name)),
    }
}

/// A bound as it is written in an expression, without the escapes of a regular expression.
fn bound_text(value: &str) -> String {
    value.replace("\\\\", "").replace('\\', "")
}

/// A whole bound that is matched in one spelling only: the server writes `1.0`, and a Pushgateway writes `1`.
fn one_spelling(matchers: &[(String, String)]) -> Option<String> {
    let bounds = matchers.iter().filter(|(label, _)| label == "le");
    let bounds: BTreeSet<_> = bounds.map(|(_, value)| bound_text(value)).collect();
    let other = |bound: &String| match bound.strip_suffix(".0") {
        Some(whole) => Some(whole.to_owned()),
        None => bound.parse::<u64>().ok().map(|whole| format!("{whole}.0")),
    };
    let missing = bounds
        .iter()
        .filter_map(other)
        .find(|other| !bounds.contains(other))?;
    Some(format!(
        "le is matched in one spelling, {missing} is the other one"
    ))
}

/// A value that a label never has: of a closed set, or a bound.
fn wrong_value((label, value): &(String, String), family: &Family) -> Option<String> {
    if value.contains(['$', '*', '.']) && label != "le" {
        return None;
    }
    let known: Vec<String> = if label == "le" {
        let bounds = family.buckets.iter().flat_map(|buckets| &buckets.bounds);
        bounds
            .flat_map(|bound| [format!("{bound:?}"), bound.to_string()])
            .chain(["+Inf".to_owned()])
            .collect()
    } else {
        let values = family.values.get(label.as_str())?;
        values.iter().map(ToString::to_string).collect()
    };
    let value = &if label == "le" {
        bound_text(value)
    } else {
        value.clone()
    };
    (!known.contains(value)).then(|| format!("{label} of {} is never {value:?}, only {known:?}", family.name))
}

fn check(place: &str, expression: &str, known: &Known) {
    let read = read(expression).unwrap_or_else(|problem| panic!("{place}: {problem}"));
    assert!(
        !read.selectors.is_empty(),
        "{place}: {expression} asks for nothing"
    );
    let problems = known.problems(&read);
    assert!(problems.is_empty(), "{place}: {problems:#?}\nin {expression}");
}

#[test]
fn panels_ask_for_what_there_is() {
    let known = Known::new(Catalogue::built_in());
    for query in queries() {
        check(&query.place, &query.expression, &known);
    }
}

#[test]
fn legends_name_labels_that_the_answer_has() {
    for query in queries() {
        let expression = read(&query.expression).expect("an expression");
        let known = Known::new(Catalogue::built_in());
        let own = expression
            .selectors
            .iter()
            .flat_map(|selector| known.labels(&selector.name));
        // What is summed up has the labels that it is summed up by.
        let labels: BTreeSet<String> = if query.expression.contains(" by (") {
            expression.labels.clone()
        } else {
            own.collect()
        };
        for label in query.legend.split("{{").skip(1) {
            let label = label.split("}}").next().unwrap_or_default();
            assert!(
                labels.contains(label),
                "{}: {label} in {}",
                query.place,
                query.legend
            );
        }
    }
}

#[test]
fn variables_and_annotations_ask_for_what_there_is() {
    let known = Known::new(Catalogue::built_in());
    for (name, dashboard) in dashboards() {
        for variable in &list(&dashboard, "/templating/list")[1..] {
            let query = string(variable, "/query/query");
            let (function, rest) = query.split_once('(').expect("a call");
            let inner = rest.strip_suffix(')').expect("a call");
            let (selector, label) = match function {
                "label_values" => inner.rsplit_once(", ").expect("a label"),
                _ => (inner, "stage"),
            };
            check(&name, selector, &known);
            let series = read(selector).expect("a selector").selectors.remove(0).name;
            assert!(
                known.labels(&series).contains(label),
                "{name}: {label} of {series}"
            );
        }
        for annotation in &list(&dashboard, "/annotations/list")[1..] {
            check(&name, string(annotation, "/expr"), &known);
        }
    }
}

#[test]
fn rules_ask_for_what_there_is_and_alerts_for_what_is_served() {
    let catalogue = Catalogue::built_in();
    let known = Known::new(catalogue.clone());
    for path in ["prometheus/rules.yml", "prometheus/alerts.yml"] {
        for rule in rules(path) {
            check(&rule.name, &rule.expression, &known);
            for selector in read(&rule.expression).expect("an expression").selectors {
                if let Some(Found::Series(family, _)) = known.find(&selector.name) {
                    assert!(
                        catalogue.serves(family),
                        "{} relies on {}, which has no source",
                        rule.name,
                        family.name
                    );
                }
            }
        }
    }
}

#[test]
fn what_is_recorded_is_used() {
    let alerts = rules("prometheus/alerts.yml");
    for recorded in rules("prometheus/rules.yml") {
        let mut selectors = alerts
            .iter()
            .flat_map(|alert| read(&alert.expression).expect("an expression").selectors);
        assert!(
            selectors.any(|selector| selector.name == recorded.name),
            "{}",
            recorded.name
        );
    }
}

#[test]
fn with_the_newer_prefix_one_replacement_makes_all_of_it_fit() {
    let options = CatalogueOptions {
        prefix: Prefix::VllmOmniNewer,
        ..CatalogueOptions::default()
    };
    let known = Known::new(Catalogue::built_in().with(&options).expect("good options"));
    let all = queries().into_iter().map(|query| (query.place, query.expression));
    let rules = ["prometheus/rules.yml", "prometheus/alerts.yml"]
        .into_iter()
        .flat_map(rules);
    for (place, expression) in all.chain(rules.map(|rule| (rule.name, rule.expression))) {
        check(&place, &expression.replace("vllm:omni_", "vllm_omni:"), &known);
    }
}

#[test]
fn a_query_that_does_not_fit_is_found_out() {
    let known = Known::new(Catalogue::built_in());
    let wrong = [
        ("vllm:num_requests_runing", "not in the catalogue"),
        ("sum(vllm:omni_requests_success_total)", "only grows"),
        ("rate(vllm:num_requests_running[5m])", "up and down"),
        ("rate(vllm:omni_audio_ttfp_s[5m])", "is a histogram"),
        ("rate(vllm:omni_audio_ttfp_s_bucket[5m])", "over its bounds"),
        (
            "rate(vllm:omni_audio_ttfp_s_bucket{le=\"1\"}[5m])",
            "one spelling",
        ),
        (
            "rate(vllm:omni_audio_ttfp_s_bucket{le=\"1.0\"}[5m])",
            "one spelling",
        ),
        (
            "rate(vllm:omni_audio_ttfp_s_bucket{le=\"0.3\"}[5m])",
            "never \"0.3\"",
        ),
        ("vllm:num_requests_running_sum", "is no histogram"),
        ("vllm:num_requests_running{engine=\"0\"}", "no label engine"),
        (
            "sum by (finished_reason) (vllm:num_requests_running)",
            "groups by finished_reason",
        ),
        (
            "rate(vllm:omni_requests_failed_total{reason=~\"unknown|oops\"}[5m])",
            "never \"oops\"",
        ),
    ];
    for (expression, complaint) in wrong {
        let problems = known.problems(&read(expression).expect("an expression"));
        assert!(
            problems.iter().any(|problem| problem.contains(complaint)),
            "{expression}: {problems:?}"
        );
    }
}

#[test]
fn every_alert_has_its_place_in_the_book() {
    let book = text("README.md");
    let alerts = text("prometheus/alerts.yml");
    for rule in rules("prometheus/alerts.yml") {
        assert!(rule.alerts, "{}", rule.name);
        assert!(
            book.contains(&format!("\n### {}\n", rule.name)),
            "{} is not in the README",
            rule.name
        );
        let link = format!("/grafana/README.md#{}\n", rule.name.to_lowercase());
        assert_eq!(alerts.matches(&link).count(), 1, "{link}");
    }
}
