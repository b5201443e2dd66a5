//! A resolved configuration as YAML that can be used as a deploy file, and the table as `docs/config.md`.

use std::fmt::Write as _;

use omni_engine::{Port, StageEdge};
use omni_models::GRAPHS;

use super::resolve::{Origin, Resolved, Row};
use super::settings::{Fallback, Of, SECTIONS, Section, Setting, scope};

/// Column of the comments.
const COMMENT: usize = 48;
/// Widest list on one line.
const WIDTH: usize = 100;

/// Every value with its origin behind it, or with `changed` every value that was written somewhere.
pub(super) fn yaml(resolved: &Resolved, changed: bool) -> String {
    let mut out = String::new();
    let mut open: Vec<&str> = Vec::new();
    let wanted = |row: &&Row| !changed || matches!(row.origin, Origin::Written(_));
    for Row { entry, value, origin } in resolved.rows.iter().filter(wanted) {
        let mut parts: Vec<&str> = entry.path.split('.').collect();
        let leaf = parts.pop().unwrap_or_default();
        let common = open.iter().zip(&parts).take_while(|(a, b)| a == b).count();
        for (depth, part) in parts.iter().enumerate().skip(common) {
            let _ = writeln!(out, "{:indent$}{part}:", "", indent = 2 * depth);
        }
        let value = folded(&value.to_string(), 2 * parts.len() + 2);
        let line = format!("{:indent$}{leaf}: {value}", "", indent = 2 * parts.len());
        // YAML wants a space before a comment, behind a long value too.
        let last = line.lines().last().unwrap_or_default().chars().count();
        let width = line.chars().count() - last + COMMENT.max(last + 1);
        let _ = writeln!(out, "{line:<width$}# {origin}");
        open = parts;
    }
    out
}

/// A list over several lines, `indent` columns from the left, if it is too long for one. One with quotes stays on one
/// line.
fn folded(value: &str, indent: usize) -> String {
    if value.chars().count() <= WIDTH || !value.starts_with(['[', '{']) || value.contains(['"', '\'']) {
        return value.to_owned();
    }
    let mut out = String::new();
    let mut column = 0;
    for item in value.split_inclusive(", ") {
        if column > 0 && column + item.chars().count() > WIDTH {
            out.truncate(out.trim_end().len());
            let _ = write!(out, "\n{:indent$}", "");
            column = 0;
        }
        out.push_str(item);
        column += item.chars().count();
    }
    out
}

/// The reference of all settings, in Markdown.
pub(super) fn reference() -> String {
    let mut out = String::from(
        "# The deploy file\n\n\
         Generated from the table in `server/config/src/deploy/settings.rs`; a test fails when it is out of step \
         (`OMNI_UPDATE_DOCS=1 cargo test -p omni-config docs` writes it anew).\n\n\
         `omni-server --deploy FILE` reads a YAML file; what it does not set keeps its default. `base: other.yaml` (relative to \
         the file that says it) builds on another file: maps are merged key by key, lists are replaced, `null` takes back what \
         the base says. `--set stages.talker.replicas=2` (repeatable) overrides both. Times are written like 500ms, 30s, 5m or \
         1h. `omni-server check-config` shows the outcome with the origin of every value, the flags included, or everything that is wrong \
         with it; with `--changed` only what is not as it is by default.\n\n",
    );
    for graph in GRAPHS {
        let stages: Vec<_> = graph.stages.iter().map(|stage| stage.name).collect();
        let edges: Vec<_> = graph.edges.iter().map(edge).collect();
        let _ = writeln!(
            out,
            "Family {}: the stages are {}. What passes between them and sessions: {}.\n",
            graph.family,
            stages.join(", "),
            edges.join(", ")
        );
    }
    for Section(title, of, settings) in SECTIONS {
        let _ = writeln!(out, "## {title}\n");
        if *of != Of::Pipeline {
            let paths = of.stages().into_iter();
            let paths: Vec<_> = paths.map(|stage| format!("`{}`", scope(stage.name))).collect();
            let _ = writeln!(out, "Below {}.\n", paths.join(", "));
        }
        out.push_str("| key | allowed | default | |\n|---|---|---|---|\n");
        for setting in *settings {
            let _ = writeln!(
                out,
                "| `{}` | {} | {} | {} |",
                setting.key,
                setting.kind,
                fallback(setting),
                setting.help.trim_start()
            );
        }
        out.push('\n');
    }
    out.pop();
    out
}

fn edge(edge: &StageEdge) -> String {
    let end = |port: Port| port.stage().unwrap_or("session");
    format!("{} from {} to {}", edge.payload, end(edge.from), end(edge.to))
}

fn fallback(setting: &Setting) -> String {
    match setting.fallback {
        Fallback::Is(text) => format!("`{text}`"),
        Fallback::Derived(rule) => rule.says(),
        Fallback::Checkpoint => "the checkpoint's own".to_owned(),
        Fallback::Absent => "`auto`".to_owned(),
    }
}
