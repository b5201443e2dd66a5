//! Grafana's dashboards, from the definitions in this module's files.
//!
//! In: dashboards as rows of panels, each a title, what it tells, a unit and queries. Out: the JSON that Grafana reads. What a reader
//! of a panel has to know from the catalogue (that one of its families has no source yet) is added here, so that it stays true.
//!
//! Queries are PromQL with abbreviations, each beginning with `@`: see [`ABBREVIATIONS`].

use omni_telemetry::Catalogue;

mod audio;
mod engine;
mod host;
mod json;
mod model;
mod pipeline;
pub(crate) mod promql;
mod transfers;

use model::{Dashboard, Panel};

/// What stands for what in a query, first one first: later ones may occur in what earlier ones stand for.
///
/// `@named` and `@staged` add `stage_name` to what has `replica` and to what has only `stage`. Ids of stages are per server, so
/// the name is looked up before anything is summed up.
const ABBREVIATIONS: [(&str, &str); 8] = [
    (
        "@named",
        "* on (job, instance, stage, replica) group_left (stage_name) group by (job, instance, stage, replica, stage_name) \
         (vllm:omni_stage_info{@model})",
    ),
    (
        "@staged",
        "* on (job, instance, stage) group_left (stage_name) group by (job, instance, stage, stage_name) \
         (vllm:omni_stage_info{@model})",
    ),
    ("@replica", "@stage, replica=~\"$replica\""),
    ("@stage", "@model, stage=~\"$stage\""),
    (
        "@edge",
        "@model, from_stage=~\"$stage\", from_replica=~\"$replica\"",
    ),
    ("@model", "@host, model_name=~\"$model_name\""),
    ("@host", "job=~\"$job\", instance=~\"$instance\""),
    ("@rate", "$__rate_interval"),
];

/// A query written out.
fn expand(query: &str) -> String {
    ABBREVIATIONS
        .iter()
        .fold(query.to_owned(), |query, (short, long)| {
            query.replace(short, long)
        })
}

/// Name and text of every dashboard's file.
///
/// # Errors
///
/// A query that cannot be read, with its dashboard and panel.
pub(crate) fn files(catalogue: &Catalogue) -> Result<Vec<(String, String)>, String> {
    let dashboards = [
        pipeline::dashboard(),
        audio::dashboard(),
        engine::dashboard(),
        transfers::dashboard(),
        host::dashboard(),
    ];
    let file = |mut dashboard: Dashboard| {
        for panel in dashboard.rows.iter_mut().flat_map(|row| &mut row.panels) {
            say_what_is_pending(panel, catalogue)
                .map_err(|problem| format!("{}, panel {:?}: {problem}", dashboard.uid, panel.title))?;
        }
        Ok((format!("{}.json", dashboard.uid), json::text(&dashboard)))
    };
    dashboards.into_iter().map(file).collect()
}

/// Says in a panel's description what it waits for. The families of a query are found in the catalogue or are another exporter's.
fn say_what_is_pending(panel: &mut Panel, catalogue: &Catalogue) -> Result<(), String> {
    let mut pending = std::collections::BTreeMap::new();
    for query in &mut panel.queries {
        query.expression = expand(&query.expression);
        for selector in promql::read(&query.expression)?.selectors {
            let family = catalogue.families().iter().find(|family| {
                let rest = selector.name.strip_prefix(family.name.as_ref());
                rest.is_some_and(|rest| ["", "_bucket", "_sum", "_count"].contains(&rest))
            });
            if let Some((family, reason)) = family.and_then(|family| Some((family, family.pending.as_ref()?)))
            {
                pending.insert(family.name.to_string(), reason.clone());
            }
        }
    }
    for (family, reason) in pending {
        let more = format!(" Not served yet: `{family}` waits for {reason}.");
        panel.about.push_str(&more);
    }
    Ok(())
}
