//! `bench`: how soon, how fast and how evenly a server speaks or answers to many callers at once.

mod corpus;
mod load;
mod record;
mod speaking;
mod table;
mod talking;

use std::fs;

use omni_client::{ChatSettings, Client, Outputs, Sampling};
use serde_json::json;

use super::args::Bench;
use super::deadline::Deadline;
use super::failure::Failure;
use super::print;
use super::ui::Ui;
use load::{Load, Work};
use record::{Level, Request};

pub(crate) async fn run(args: &Bench, ui: &Ui) -> Result<(), Failure> {
    let load = Load {
        endpoint: args.server.endpoint.clone(),
        work: args.work(),
        texts: texts(args)?,
        requests: args.requests,
        warmup: args.warmup,
        timeout: args.timeout,
    };
    // A server that is not there at all is one clear error, not a table of failures.
    Deadline::after(Some(args.timeout))
        .within(Client::connect(&load.endpoint))
        .await?;
    let mut levels = Vec::new();
    for &streams in &args.concurrency {
        let level = load
            .run(streams, |done| {
                ui.progress(|| progress(streams, done, args.requests));
            })
            .await?;
        levels.push(level);
    }
    ui.clear();
    print(table::markdown(&levels, &load.work).as_bytes())?;
    write_json(args, &load, &levels)?;
    verdict(&levels)
}

impl Bench {
    fn work(&self) -> Work {
        if !self.chat {
            return Work::Speak(self.voice.settings());
        }
        let settings = ChatSettings {
            model: self.voice.model.clone(),
            voice: self.voice.voice.clone(),
            language: self.voice.language.clone(),
            outputs: match self.text_only {
                true => Outputs::Text,
                false => Outputs::TextAndAudio,
            },
            text_sampling: Sampling {
                seed: self.voice.seed,
                temperature: self.voice.temperature,
                max_tokens: self.max_tokens,
                ..Sampling::default()
            },
            speech_sampling: Sampling {
                temperature: self.voice.temperature.filter(|_| !self.text_only),
                ..Sampling::default()
            },
            ..ChatSettings::default()
        };
        Work::Chat {
            settings,
            turns: self.turns,
        }
    }
}

fn progress(streams: u32, done: u32, requests: u32) -> String {
    format!("{streams} streams · {done} of {requests} requests")
}

fn texts(args: &Bench) -> Result<Vec<String>, Failure> {
    let texts: Vec<String> = match &args.text_file {
        Some(path) => {
            let read = fs::read_to_string(path);
            let text = read.map_err(|error| Failure::io(format!("cannot read {}", path.display()), error))?;
            text.lines().map(str::to_owned).collect()
        }
        None if args.text.is_empty() => {
            let built_in = if args.chat {
                corpus::PROMPTS
            } else {
                corpus::SENTENCES
            };
            built_in.iter().map(|&text| text.to_owned()).collect()
        }
        None => args.text.clone(),
    };
    let texts: Vec<String> = texts.into_iter().filter(|text| !text.trim().is_empty()).collect();
    if texts.is_empty() {
        Err(Failure::Usage("there is no text to send".into()))
    } else {
        Ok(texts)
    }
}

fn write_json(args: &Bench, load: &Load, levels: &[Level]) -> Result<(), Failure> {
    let Some(path) = &args.json else { return Ok(()) };
    let report = json!({
        "client_version": env!("CARGO_PKG_VERSION"),
        "endpoint": load.endpoint.to_string(),
        "machine": {
            "os": std::env::consts::OS,
            "architecture": std::env::consts::ARCH,
            "cpus": std::thread::available_parallelism().map(usize::from).ok(),
        },
        "mode": if args.chat { "chat" } else { "speak" },
        "turns": args.chat.then_some(args.turns),
        "spoken": load.work.spoken(),
        "voice": args.voice.voice,
        "model": args.voice.model,
        "seed": args.voice.seed,
        "requests": load.requests,
        "warmup": load.warmup,
        "texts": load.texts,
        "levels": levels.iter().map(Level::json).collect::<Vec<_>>(),
    });
    fs::write(path, format!("{report:#}\n"))
        .map_err(|error| Failure::write(&path.display().to_string(), error))
}

fn verdict(levels: &[Level]) -> Result<(), Failure> {
    let requests = || levels.iter().flat_map(|level| &level.requests);
    let failed: Vec<&Request> = requests().filter(|request| request.failure.is_some()).collect();
    let Some(first) = failed.first().and_then(|request| request.failure.as_ref()) else {
        return Ok(());
    };
    Err(Failure::SomeFailed(format!(
        "{} of {} requests failed, the first with: {first}",
        failed.len(),
        requests().count()
    )))
}
