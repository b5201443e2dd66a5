//! `explain`: the input of the model for a text, as a table or as JSON.

use std::io::{self, IsTerminal as _};

use omni_client::{Client, Explained, ExplainedSegment};
use serde_json::{Value, json};

use super::args::Explain;
use super::catalog::table;
use super::deadline::Deadline;
use super::failure::Failure;
use super::print;
use super::ui::Ui;

pub(crate) async fn run(args: &Explain, ui: &Ui) -> Result<(), Failure> {
    let text = text(args)?;
    let ask = async {
        let client = Client::connect(&args.server.endpoint).await?;
        client.explain(&args.settings(), &text).await
    };
    let ask = Deadline::after(Some(args.timeout)).within(ask);
    let waiting = || format!("waiting for {}", args.server.endpoint);
    let explained = ui.patiently(waiting, ask).await?;
    if args.json {
        return print(format!("{:#}\n", json_of(&explained)).as_bytes());
    }
    print(table_of(&explained, &text).as_bytes())?;
    for warning in &explained.warnings {
        ui.warning(&format!("{} ({})", warning.message, warning.reason));
    }
    Ok(())
}

fn text(args: &Explain) -> Result<String, Failure> {
    let standard =
        || io::read_to_string(io::stdin()).map_err(|error| Failure::io("cannot read standard input", error));
    match (&args.file, args.text.as_slice()) {
        (Some(file), _) if file.as_os_str() == "-" => standard(),
        (Some(file), _) => std::fs::read_to_string(file)
            .map_err(|error| Failure::io(format!("cannot read {}", file.display()), error)),
        (None, [dash]) if dash == "-" => standard(),
        (None, []) if !io::stdin().is_terminal() => standard(),
        (None, []) => Err(Failure::Usage(
            "no text: write it behind `explain`, name a file with --file, or pipe it in".to_owned(),
        )),
        (None, words) => Ok(words.join(" ")),
    }
}

/// Input of the model, segment by segment, each with its words below it.
fn table_of(explained: &Explained, text: &str) -> String {
    let chars: Vec<char> = text.chars().collect();
    let written = |from: usize, to: usize| -> String {
        let part = chars.get(from.min(to)..to.min(chars.len())).unwrap_or_default();
        part.iter()
            .collect::<String>()
            .split_whitespace()
            .collect::<Vec<_>>()
            .join(" ")
    };
    let mut out = String::new();
    for (place, segment) in explained.segments.iter().enumerate() {
        let pause = segment
            .pause_before
            .map(|pause| format!(", {} ms of pause before it", pause.as_millis()));
        out.push_str(&format!(
            "{}. {:?} ({}{})\n",
            place + 1,
            segment.text,
            end(segment),
            pause.unwrap_or_default()
        ));
        let rows = segment
            .words
            .iter()
            .map(|word| vec![written(word.source.start, word.source.end), word.spoken.clone()]);
        for line in table(&["WRITTEN", "SPOKEN"], rows.collect()).lines() {
            out.push_str(&format!("   {line}\n"));
        }
    }
    out
}

fn end(segment: &ExplainedSegment) -> &str {
    if segment.continues { "goes on" } else { segment.end }
}

fn json_of(explained: &Explained) -> Value {
    let segments = explained.segments.iter().map(|segment| {
        let words = segment.words.iter().map(|word| {
            json!({ "spoken": word.spoken, "char_start": word.source.start, "char_end": word.source.end })
        });
        json!({
            "text": segment.text,
            "char_start": segment.source.start,
            "char_end": segment.source.end,
            "words": words.collect::<Vec<_>>(),
            "ends_at": segment.end,
            "continues": segment.continues,
            "pause_before_s": segment.pause_before.map(|pause| pause.as_secs_f64()),
        })
    });
    let warnings = explained
        .warnings
        .iter()
        .map(|warning| json!({ "reason": warning.reason, "message": warning.message }));
    json!({
        "model": explained.model,
        "segments": segments.collect::<Vec<_>>(),
        "warnings": warnings.collect::<Vec<_>>(),
    })
}

#[cfg(test)]
mod tests {
    use omni_client::ExplainedWord;

    use super::*;

    #[test]
    fn a_word_stands_beside_what_was_written() {
        let word = |spoken: &str, start, end| ExplainedWord {
            spoken: spoken.to_owned(),
            source: start..end,
        };
        let explained = Explained {
            model: "m".to_owned(),
            segments: vec![ExplainedSegment {
                text: "costs three dollars.".to_owned(),
                source: 0..9,
                words: vec![word("costs", 0, 5), word("three dollars", 6, 9)],
                end: "sentence",
                continues: false,
                pause_before: None,
            }],
            warnings: Vec::new(),
        };
        let shown = table_of(&explained, "Costs $3.");
        assert!(
            shown.starts_with("1. \"costs three dollars.\" (sentence)\n"),
            "{shown}"
        );
        assert!(
            shown
                .lines()
                .any(|line| line.split_whitespace().eq(["$3.", "three", "dollars"])),
            "{shown}"
        );
    }
}
