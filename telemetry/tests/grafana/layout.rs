//! Dashboards as documents: readable, complete.

use std::collections::BTreeSet;

use serde_json::Value;

use crate::committed::{dashboards, list, panels, string, text};

#[test]
fn dashboards_and_panels_have_names_of_their_own() {
    let mut uids = BTreeSet::new();
    for (name, dashboard) in dashboards() {
        let uid = string(&dashboard, "/uid");
        assert_eq!(format!("{uid}.json"), name);
        assert!(uids.insert(uid.to_owned()), "{uid} is there twice");
        assert_eq!(dashboard["schemaVersion"], 41, "{name}");
        assert_eq!(
            dashboard["id"],
            Value::Null,
            "{name}: an id belongs to one Grafana"
        );
        let ids: BTreeSet<_> = list(&dashboard, "/panels")
            .iter()
            .map(|panel| panel["id"].as_u64().expect("an id"))
            .collect();
        assert_eq!(
            ids.len(),
            list(&dashboard, "/panels").len(),
            "{name}: an id is there twice"
        );
        for panel in panels(&dashboard) {
            let references: BTreeSet<_> = list(panel, "/targets")
                .iter()
                .map(|target| string(target, "/refId"))
                .collect();
            assert_eq!(
                references.len(),
                list(panel, "/targets").len(),
                "{name}: {}",
                panel["title"]
            );
        }
    }
}

/// Units that Grafana scales, and those that it writes behind a number as they are.
const UNITS: [&str; 11] = [
    "Bps",
    "bytes",
    "celsius",
    "cps",
    "none",
    "percentunit",
    "reqps",
    "s",
    "watt",
    "frames/s",
    "tokens/s",
];

#[test]
fn every_panel_says_what_it_shows_and_in_which_unit() {
    for (name, dashboard) in dashboards() {
        for panel in panels(&dashboard) {
            let title = string(panel, "/title");
            let about = string(panel, "/description");
            assert!(
                about.ends_with('.') && about.len() > 12,
                "{name}, {title}: {about:?}"
            );
            let unit = string(panel, "/fieldConfig/defaults/unit");
            assert!(UNITS.contains(&unit), "{name}, {title}: {unit}");
            let targets = list(panel, "/targets");
            assert!(!targets.is_empty(), "{name}, {title} asks for nothing");
            if targets.len() > 1 {
                let legends: BTreeSet<_> = targets
                    .iter()
                    .map(|target| string(target, "/legendFormat"))
                    .collect();
                assert_eq!(legends.len(), targets.len(), "{name}, {title}: lines of one name");
            }
        }
    }
}

#[test]
fn every_query_goes_to_the_data_source_that_was_chosen() {
    for (name, dashboard) in dashboards() {
        let variables = list(&dashboard, "/templating/list");
        let source = &variables[0];
        assert_eq!(
            (&source["name"], &source["type"]),
            (&"DS_PROMETHEUS".into(), &"datasource".into())
        );
        let panels = panels(&dashboard);
        let targets = panels.flat_map(|panel| list(panel, "/targets").iter().chain([panel]));
        for asking in targets.chain(&variables[1..]) {
            assert_eq!(string(asking, "/datasource/uid"), "${DS_PROMETHEUS}", "{name}");
        }
    }
}

#[test]
fn what_can_be_chosen_is_used_and_what_is_used_can_be_chosen() {
    for (name, dashboard) in dashboards() {
        let variables = list(&dashboard, "/templating/list");
        let queries: Vec<_> = panels(&dashboard)
            .flat_map(|panel| list(panel, "/targets"))
            .map(|target| string(target, "/expr"))
            .collect();
        let known: BTreeSet<_> = variables
            .iter()
            .map(|variable| string(variable, "/name"))
            .collect();
        for variable in known.iter().filter(|variable| **variable != "DS_PROMETHEUS") {
            let matcher = format!("=~\"${variable}\"");
            assert!(
                queries.iter().any(|query| query.contains(&matcher)),
                "{name}: {variable}"
            );
        }
        for query in queries {
            for word in query.split('$').skip(1) {
                let end = word.find(|letter: char| !letter.is_alphanumeric() && letter != '_');
                let word = &word[..end.unwrap_or(word.len())];
                assert!(
                    known.contains(word) || word == "__rate_interval",
                    "{name}: ${word} in {query}"
                );
            }
        }
    }
}

#[test]
fn the_service_levels_come_first() {
    let pipeline = &dashboards()
        .into_iter()
        .find(|(name, _)| name == "omni-pipeline.json")
        .expect("a dashboard")
        .1;
    let panels = list(pipeline, "/panels");
    assert_eq!(string(&panels[0], "/title"), "Service levels");
    let titles: Vec<_> = panels[1..6].iter().map(|panel| string(panel, "/title")).collect();
    assert_eq!(
        titles,
        [
            "Requests",
            "Errors",
            "First packet p95",
            "Without gaps",
            "Real-time factor p95"
        ]
    );
}

#[test]
fn panels_do_not_cover_each_other() {
    for (name, dashboard) in dashboards() {
        let mut taken = BTreeSet::new();
        for panel in list(&dashboard, "/panels") {
            let at = |key: &str| panel["gridPos"][key].as_u64().expect("a place");
            assert!(at("x") + at("w") <= 24, "{name}: {}", panel["title"]);
            for cell in
                (at("x")..at("x") + at("w")).flat_map(|x| (at("y")..at("y") + at("h")).map(move |y| (x, y)))
            {
                assert!(taken.insert(cell), "{name}: {} lies on another", panel["title"]);
            }
        }
    }
}

#[test]
fn what_grafana_is_started_with_can_be_read_and_fits_together() {
    let provider = text("provisioning/dashboards/omni.yml");
    for yaml in [&provider, &text("provisioning/datasources/prometheus.yml")] {
        let read = omni_yaml::parse("grafana", yaml, omni_yaml::Aliases::Refuse);
        assert!(
            read.as_ref().is_ok_and(|root| !root.is_null()),
            "{read:?} in {yaml}"
        );
    }
    let path = provider
        .lines()
        .find_map(|line| line.trim().strip_prefix("path: "));
    let mount = format!("$PWD/grafana/dashboards:{}:ro", path.expect("a path"));
    assert!(text("README.md").contains(&mount), "{mount}");
    let interval = |path: &str, key: &str| {
        let text = text(path);
        let line = text
            .lines()
            .find_map(|line| line.trim().strip_prefix(key).map(str::to_owned));
        line.unwrap_or_else(|| panic!("{path} has no {key}"))
    };
    assert_eq!(
        interval("provisioning/datasources/prometheus.yml", "timeInterval: "),
        interval("prometheus/prometheus.yml", "scrape_interval: ")
    );
}
