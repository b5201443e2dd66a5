//! `voices` and `models`: what a server offers, as a table or as JSON.

use omni_client::{Client, ClientError, Model, Voice};
use serde_json::{Value, json};

use super::args::List;
use super::deadline::Deadline;
use super::failure::Failure;
use super::print;
use super::ui::Ui;

pub(crate) async fn voices(list: &List, ui: &Ui) -> Result<(), Failure> {
    let ask = async { Client::connect(&list.server.endpoint).await?.voices("", "").await };
    let voices = patiently(list, ui, ask).await?;
    if list.json {
        return print_json(voices.iter().map(voice_json).collect());
    }
    if voices.is_empty() {
        ui.note(
            "there are no voices yet; `omni-client voices add --help` says how to make one of a recording",
        );
        return Ok(());
    }
    let rows = voices.iter().map(voice_row).collect();
    print(table(&["VOICE", "LANGUAGES", "MODELS", "DESCRIPTION", "ALIASES"], rows).as_bytes())
}

pub(crate) async fn models(list: &List, ui: &Ui) -> Result<(), Failure> {
    let ask = async { Client::connect(&list.server.endpoint).await?.models().await };
    let models = patiently(list, ui, ask).await?;
    if list.json {
        return print_json(models.iter().map(model_json).collect());
    }
    let rows = models.iter().map(model_row).collect();
    print(table(&["MODEL", "READY", "LANGUAGES", "CAN", "RATE", "NAME"], rows).as_bytes())
}

async fn patiently<T>(
    list: &List,
    ui: &Ui,
    ask: impl Future<Output = Result<T, ClientError>>,
) -> Result<T, Failure> {
    let ask = Deadline::after(Some(list.timeout)).within(ask);
    ui.patiently(|| format!("waiting for {}", list.server.endpoint), ask)
        .await
}

fn voice_row(voice: &Voice) -> Vec<String> {
    let id = if voice.is_default {
        format!("{} (default)", voice.id)
    } else {
        voice.id.clone()
    };
    let description = if voice.description.is_empty() {
        &voice.display_name
    } else {
        &voice.description
    };
    vec![
        id,
        voice.languages.join(", "),
        voice.models.join(", "),
        description.clone(),
        voice.aliases.join(", "),
    ]
}

fn voice_json(voice: &Voice) -> Value {
    json!({
        "id": voice.id,
        "display_name": voice.display_name,
        "description": voice.description,
        "languages": voice.languages,
        "models": voice.models,
        "aliases": voice.aliases,
        "default": voice.is_default,
    })
}

fn model_row(model: &Model) -> Vec<String> {
    vec![
        model.id.clone(),
        if model.ready { "yes" } else { "no" }.to_owned(),
        model.languages.join(", "),
        model.capabilities.join(", "),
        if model.sample_rate_hz == 0 {
            String::new()
        } else {
            format!("{} Hz", model.sample_rate_hz)
        },
        model.display_name.clone(),
    ]
}

fn model_json(model: &Model) -> Value {
    json!({
        "id": model.id,
        "display_name": model.display_name,
        "ready": model.ready,
        "languages": model.languages,
        "alignment_languages": model.alignment_languages,
        "capabilities": model.capabilities,
        "sample_rate_hz": model.sample_rate_hz,
    })
}

fn print_json(entries: Vec<Value>) -> Result<(), Failure> {
    print(format!("{:#}\n", Value::Array(entries)).as_bytes())
}

/// Columns as wide as their longest entry; empty columns are left out.
pub(crate) fn table(head: &[&str], rows: Vec<Vec<String>>) -> String {
    let used: Vec<usize> = (0..head.len())
        .filter(|&column| rows.iter().any(|row| !row[column].is_empty()))
        .collect();
    let mut lines = vec![
        used.iter()
            .map(|&column| head[column].to_owned())
            .collect::<Vec<_>>(),
    ];
    lines.extend(
        rows.into_iter()
            .map(|row| used.iter().map(|&column| row[column].clone()).collect()),
    );
    let width = |column: usize| {
        lines
            .iter()
            .map(|line| line[column].chars().count())
            .max()
            .unwrap_or(0)
    };
    let widths: Vec<usize> = (0..used.len()).map(width).collect();
    let line = |cells: &Vec<String>| {
        let padded: Vec<String> = cells
            .iter()
            .zip(&widths)
            .map(|(cell, width)| format!("{cell:width$}"))
            .collect();
        format!("{}\n", padded.join("  ").trim_end())
    };
    lines.iter().map(line).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tables_align_and_leave_empty_columns_out() {
        let row = |cells: [&str; 3]| cells.map(str::to_owned).to_vec();
        let text = table(&["A", "B", "C"], vec![row(["one", "", "x"]), row(["é", "", "y"])]);
        assert_eq!(text, "A    C\none  x\né    y\n");
    }
}
