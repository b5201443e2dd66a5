//! `bench`: how soon, how fast and how evenly a server speaks or answers to many callers at once.
//!
//! Requests become records (`record`), records of one load become points (`level`), and everything that is shown is a
//! function of those, so that a report that was written can be read and shown again.

mod caller;
mod capacity;
mod compare;
mod corpus;
mod figures;
mod grid;
mod heard;
mod html;
mod level;
mod load;
mod pairs;
mod random;
mod record;
mod report;
mod slo;
mod speaking;
mod stats;
mod table;
mod talking;

use std::fs;
use std::io::{self, IsTerminal as _};
use std::path::Path;
use std::time::Duration;

use omni_client::{ChatSettings, Client, Outputs, Sampling, SpeechSettings};

use super::args::{Bench, BenchCommand, Readers};
use super::deadline::Deadline;
use super::failure::Failure;
use super::print;
use super::ui::Ui;
use caller::{Asking, CancelMix, Work};
use capacity::{Search, complaints};
pub(crate) use grid::Style;
use level::{Offered, Point, points};
use load::{Extent, Load};
use pairs::Sides;
use record::Record;
use report::{Cancelling, Capacity, Machine, Report, Step, now};
pub(crate) use slo::Slo;
use speaking::Manner;
use table::Tables;

/// Unmeasured arrivals at the head of an open loop, unless something else is asked for.
const OPEN_WARMUP: u32 = 10;

pub(crate) async fn run(args: &Bench, ui: &Ui) -> Result<(), Failure> {
    if let Some(command) = &args.command {
        return offline(command, ui);
    }
    let load = args.load(texts(args)?);
    // A server that is not there at all is one clear error, not a table of failures.
    let connect = Deadline::after(Some(args.timeout)).within(Client::connect(&load.endpoint));
    ui.patiently(|| format!("connecting to {}", load.endpoint), connect)
        .await?;
    if !args.versus.is_empty() {
        return versus(args, &load, ui).await;
    }
    let mut report = args.report(&load);
    let slo = args.slo.clone().unwrap_or_default();
    match args.max_streams {
        Some(most) => search(args, &load, most, &slo, ui, &mut report).await?,
        None => sweep(args, &load, ui, &mut report).await?,
    }
    ui.clear();
    write(args, &report, &slo)?;
    // Whoever looks for the limit expects requests to fail beyond it.
    if args.max_streams.is_some() {
        Ok(())
    } else {
        verdict(report.levels.iter().flat_map(|level| &level.requests))
    }
}

/// The servers of one side and those of another, request by request.
async fn versus(args: &Bench, load: &Load, ui: &Ui) -> Result<(), Failure> {
    let these = std::iter::once(&args.server.endpoint).chain(&args.beside);
    let sides = Sides {
        these: these.cloned().collect(),
        those: args.versus.clone(),
    };
    let shown = |what: &str, done, all| ui.progress(|| format!("{done} of {all} {what}"));
    let pairs = pairs::run(&load.asking, &sides, load.warmup, args.requests, shown).await?;
    ui.clear();
    print(pairs::write(&pairs, style(args.format)).as_bytes())?;
    verdict(pairs.iter().flat_map(pairs::Pair::records))
}

fn offline(command: &BenchCommand, ui: &Ui) -> Result<(), Failure> {
    let BenchCommand::Compare {
        before,
        after,
        format,
        json,
    } = command;
    ui.progress(|| "comparing".to_owned());
    let text = match json {
        true => compare::json(before, after).map(|json| format!("{json:#}\n")),
        false => compare::run(before, after, style(*format)),
    };
    ui.clear();
    print(text?.as_bytes())
}

/// Every load that was asked for, trial after trial, so that whatever changes meanwhile meets all of them.
async fn sweep(args: &Bench, load: &Load, ui: &Ui, report: &mut Report) -> Result<(), Failure> {
    let extent = Extent {
        requests: args.requests,
        time: Duration::ZERO,
    };
    for trial in 1..=args.trials {
        for offered in args.offered() {
            let measured = load
                .run(offered, trial, extent, |done| {
                    ui.progress(|| args.progress(offered, trial, done, extent.requests));
                })
                .await?;
            report.served = report.served.take().or(measured.served);
            report.levels.push(measured.level);
        }
    }
    Ok(())
}

/// Tries numbers of streams until the most that are carried are known.
async fn search(
    args: &Bench,
    load: &Load,
    most: u32,
    slo: &Slo,
    ui: &Ui,
    report: &mut Report,
) -> Result<(), Failure> {
    let mut search = Search::new(most);
    let mut steps = Vec::new();
    while let Some(streams) = search.next() {
        let extent = Extent {
            requests: args.per_stream.saturating_mul(streams),
            time: args.steady,
        };
        let offered = Offered::Streams(streams);
        let measured = load
            .run(offered, 1, extent, |done| {
                ui.progress(|| args.progress(offered, 1, done, extent.requests));
            })
            .await?;
        let complaints = complaints(&Point::new(vec![&measured.level]), slo);
        search.tell(streams, complaints.is_empty());
        steps.push(Step { streams, complaints });
        report.served = report.served.take().or(measured.served);
        report.levels.push(measured.level);
    }
    report
        .levels
        .sort_by(|a, b| a.offered.value().total_cmp(&b.offered.value()));
    let (streams, at_least) = search.found();
    report.max_streams = Some(Capacity {
        streams,
        at_least,
        steps,
    });
    Ok(())
}

impl Bench {
    /// Both sides of a comparison have the same to do: what is drawn by chance must not differ.
    fn seed(&self) -> Option<u64> {
        self.voice.seed.or((!self.versus.is_empty()).then_some(0))
    }

    fn work(&self) -> Work {
        if !self.chat {
            return Work::Speak(SpeechSettings {
                seed: self.seed(),
                ..self.voice.settings()
            });
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
                seed: self.seed(),
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

    fn load(&self, texts: Vec<String>) -> Load {
        let asking = Asking {
            work: self.work(),
            texts,
            manner: Manner {
                tokens_per_second: self.text_rate,
                real_time: self.readers == Readers::Realtime,
            },
            cancel: self.cancel.map(|share| CancelMix {
                share,
                after: self.cancel_after,
                seed: self.load_seed,
            }),
            timeout: self.timeout,
        };
        Load {
            endpoint: self.server.endpoint.clone(),
            asking,
            warmup: self
                .warmup
                .unwrap_or(if self.rate.is_empty() { 1 } else { OPEN_WARMUP }),
            seed: self.load_seed,
        }
    }

    fn offered(&self) -> Vec<Offered> {
        match self.rate.as_slice() {
            [] => self
                .concurrency
                .iter()
                .map(|&streams| Offered::Streams(streams))
                .collect(),
            rates => rates
                .iter()
                .map(|&rate| Offered::RequestsPerSecond(rate))
                .collect(),
        }
    }

    fn progress(&self, offered: Offered, trial: u32, done: usize, requests: u32) -> String {
        let trial = match self.trials {
            1 => String::new(),
            trials => format!("trial {trial} of {trials} · "),
        };
        let load = offered.title();
        format!("{trial}{offered} {load} · {done} of {requests} requests")
    }

    /// How it is made; nothing is measured yet.
    fn report(&self, load: &Load) -> Report {
        let work = &load.asking.work;
        Report {
            client_version: env!("CARGO_PKG_VERSION").to_owned(),
            started_unix_seconds: now(),
            command: std::env::args().skip(1).collect(),
            endpoint: load.endpoint.to_string(),
            machine: Machine::this(),
            mode: if work.chat() { "chat" } else { "speak" }.to_owned(),
            turns: self.chat.then_some(self.turns),
            spoken: work.spoken(),
            voice: self.voice.voice.clone(),
            model: self.voice.model.clone(),
            seed: self.voice.seed,
            load_seed: self.load_seed,
            requests: self.requests,
            warmup: load.warmup,
            trials: self.trials,
            tokens_per_second: self.text_rate,
            real_time_readers: load.asking.manner.real_time,
            cancel: load.asking.cancel.map(|mix| Cancelling {
                share: mix.share,
                from_seconds: mix.after.0,
                to_seconds: mix.after.1,
            }),
            slo: self.slo.as_ref().map(ToString::to_string),
            texts: load.asking.texts.clone(),
            ..Report::default()
        }
    }
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

fn style(asked: Option<Style>) -> Style {
    asked.unwrap_or(if io::stdout().is_terminal() {
        Style::Text
    } else {
        Style::Markdown
    })
}

/// Files before standard output, whose reader may have gone.
fn write(args: &Bench, report: &Report, slo: &Slo) -> Result<(), Failure> {
    let points = points(&report.levels);
    let tables = Tables {
        report,
        points: &points,
        slo,
    };
    if let Some(path) = &args.json {
        report.write(path)?;
    }
    if let Some(path) = &args.html {
        write_file(path, &html::page(&tables))?;
    }
    print(tables.write(style(args.format)).as_bytes())
}

fn write_file(path: &Path, text: &str) -> Result<(), Failure> {
    fs::write(path, text).map_err(|error| Failure::write(&path.display().to_string(), error))
}

fn verdict<'r>(requests: impl Iterator<Item = &'r Record>) -> Result<(), Failure> {
    let requests: Vec<&Record> = requests.collect();
    let failed: Vec<_> = requests.iter().filter(|request| !request.good()).collect();
    let Some(first) = failed.first().and_then(|request| request.failure.as_ref()) else {
        return Ok(());
    };
    Err(Failure::SomeFailed(format!(
        "{} of {} requests failed, the first with: {first}",
        failed.len(),
        requests.len()
    )))
}
