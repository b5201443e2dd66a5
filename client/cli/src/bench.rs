//! `bench`: arguments become a plan, and measurements go to standard output and files.

use std::fs;
use std::io::{self, IsTerminal as _};

use omni_bench::{
    Asking, CancelMix, Failures, Load, Manner, MaxStreams, Measurement, Offered, Plan, Sides, Style, Work,
    corpus,
};
use omni_client::{ChatSettings, Client, Outputs, Sampling, SpeechSettings};

use super::args::{Bench, Readers};
use super::deadline::Deadline;
use super::failure::Failure;
use super::print;
use super::ui::Ui;

/// Default unmeasured arrivals at the head of an open loop.
const OPEN_WARMUP: u32 = 10;

pub(crate) async fn run(args: &Bench, ui: &Ui) -> Result<(), Failure> {
    let load = args.load(texts(args)?);
    // A server that is not there is one clear error, not a table of failures.
    let connect = Deadline::after(Some(args.timeout)).within(Client::connect(&load.endpoint));
    ui.patiently(|| format!("connecting to {}", load.endpoint), connect)
        .await?;
    if !args.versus.is_empty() {
        return versus(args, &load, ui).await;
    }
    let plan = args.plan(load);
    let measured = plan
        .measure(|progress| ui.progress(|| progress.to_string()))
        .await?;
    ui.clear();
    write(args, &measured)?;
    // A search for the limit expects requests to fail beyond it.
    match args.max_streams {
        Some(_) => Ok(()),
        None => verdict(measured.failures()),
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
    let pairs = omni_bench::pairs(&load.asking, &sides, load.warmup, args.requests, shown).await?;
    ui.clear();
    print(pairs.table(style(args.format)).as_bytes())?;
    verdict(pairs.failures())
}

impl Bench {
    /// Both sides of a comparison must have the same random choices.
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
            outputs: if self.text_only {
                Outputs::Text
            } else {
                Outputs::TextAndAudio
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

    fn plan(&self, load: Load) -> Plan {
        Plan {
            load,
            levels: self.offered(),
            requests: self.requests,
            search: self.max_streams.map(|most| MaxStreams {
                most,
                per_stream: self.per_stream,
                steady: self.steady,
            }),
            slo: self.slo.clone(),
            command: std::env::args().skip(1).collect(),
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

fn style(asked: Option<super::args::Style>) -> Style {
    match asked {
        Some(asked) => asked.into(),
        None if io::stdout().is_terminal() => Style::Text,
        None => Style::Markdown,
    }
}

/// Files before standard output, whose reader may have gone.
fn write(args: &Bench, measured: &Measurement) -> Result<(), Failure> {
    if let Some(path) = &args.json {
        measured.write_json(path)?;
    }
    if let Some(path) = &args.html {
        measured.write_html(path)?;
    }
    print(measured.tables(style(args.format)).as_bytes())
}

fn verdict(failures: Option<Failures>) -> Result<(), Failure> {
    match failures {
        None => Ok(()),
        Some(failures) => Err(Failure::SomeFailed(failures.to_string())),
    }
}
