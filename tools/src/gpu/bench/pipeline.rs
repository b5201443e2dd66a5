//! The whole server under a closed loop of callers, measured by the listener.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;
use clap::Parser as _;
use omni_client::{Client, Endpoint, Finish, Measured, Meter, SpeechEvent, SpeechSettings};
use omni_server::app::{App, Sinks, load_model};
use omni_server::config::RawConfig;
use omni_tests::{Reading, Sample};
use tokio::sync::Barrier;
use tokio::task::JoinSet;
use tokio::time::Instant;

use crate::service::SENTENCES;

/// Buffered audio with which a player has no gap.
pub(super) const THRESHOLD: Duration = Duration::from_millis(100);
/// An utterance that takes longer has failed.
const PATIENCE: Duration = Duration::from_secs(120);

/// The metric that counts steps without their graph.
const FALLBACKS: &str = "vllm:omni_gpu_graph_fallbacks_total";

/// Load at one level.
#[derive(Debug, Clone, Copy)]
pub(super) struct Level {
    /// Callers, each with its next request when the last is answered.
    pub(super) streams: usize,
    /// Time for which requests are begun.
    pub(super) time: Duration,
}

/// Results of one level.
#[derive(Debug, Clone, Default)]
pub(super) struct Came {
    /// Those that were whole.
    pub(super) answers: Vec<Measured>,
    /// Errors of the other requests.
    pub(super) failures: Vec<String>,
    /// Seconds of audio that arrived while requests were begun, per second.
    pub(super) audio_rate: f64,
}

impl Came {
    /// Seconds until the first audio of every answer, in order.
    pub(super) fn first_audio(&self) -> Vec<f64> {
        let first = self.answers.iter().filter_map(|answer| answer.first_audio);
        sorted(first.map(|first| first.as_secs_f64()))
    }

    /// Real-time factors of the answers, in order.
    pub(super) fn real_time_factors(&self) -> Vec<f64> {
        sorted(self.answers.iter().filter_map(|answer| answer.real_time_factor))
    }

    /// Share of all requests that a player with [`THRESHOLD`] in hand hears without a gap.
    pub(super) fn continuous(&self) -> f64 {
        let kept = self
            .answers
            .iter()
            .filter(|answer| answer.continuity.ok(THRESHOLD))
            .count();
        kept as f64 / (self.answers.len() + self.failures.len()).max(1) as f64
    }
}

fn sorted(values: impl Iterator<Item = f64>) -> Vec<f64> {
    let mut values: Vec<f64> = values.collect();
    values.sort_by(f64::total_cmp);
    values
}

/// A server in this process.
#[derive(Debug)]
pub(super) struct Server(App);

impl Server {
    /// Starts a server with these arguments and waits until it is ready.
    pub(super) async fn start(args: &[String]) -> anyhow::Result<Self> {
        let own = [
            "omni-server",
            "--listen",
            "127.0.0.1:0",
            "--metrics-listen",
            "127.0.0.1:0",
        ];
        let args = own.iter().copied().chain(args.iter().map(String::as_str));
        let config = RawConfig::try_parse_from(args)?.validate()?;
        let source = config.model.clone();
        let deploy = config.deploy.clone();
        let load = move || load_model(&source, &deploy, true);
        let mut app = App::start(&config, Sinks::log(), load).await?;
        app.ready().await.context("the server does not come up")?;
        Ok(Self(app))
    }

    pub(super) fn address(&self) -> SocketAddr {
        self.0.address()
    }

    /// Steps that were launched without their graph; none if no GPU computes.
    pub(super) async fn fallbacks(&self) -> Option<f64> {
        let address = self.0.metrics_address()?;
        let reading = Reading::at(address).await;
        let ours = |sample: &&Sample| sample.name == FALLBACKS;
        let counted = reading.samples.iter().filter(ours).map(|sample| sample.value);
        counted.reduce(|sum, more| sum + more)
    }

    pub(super) async fn stop(self) {
        self.0.shut_down(std::future::ready(())).await;
    }
}

/// Puts a level of load on the server at `address`.
pub(super) async fn load(address: SocketAddr, level: Level) -> anyhow::Result<Came> {
    let endpoint = Endpoint::parse(&format!("http://{address}"))?;
    // Callers begin together when all have had an answer, which is not measured.
    let warm = Arc::new(Barrier::new(level.streams));
    let mut callers = JoinSet::new();
    for number in 0..level.streams {
        let client = Client::connect(&endpoint).await?;
        callers.spawn(caller(client, number, level, Arc::clone(&warm)));
    }
    let mut came = Came::default();
    let mut audio = 0.0;
    while let Some(one) = callers.join_next().await {
        let (one, within) = one.context("a caller died")?;
        came.answers.extend(one.answers);
        came.failures.extend(one.failures);
        audio += within;
    }
    came.audio_rate = audio / level.time.as_secs_f64();
    Ok(came)
}

/// Answers, and seconds of audio that came in time.
async fn caller(client: Client, number: usize, level: Level, warm: Arc<Barrier>) -> (Came, f64) {
    let mut came = Came::default();
    let settings = |turn: usize| SpeechSettings {
        seed: Some((1_000 * number + turn) as u64),
        ..SpeechSettings::default()
    };
    let text = |turn: usize| SENTENCES[(number + turn) % SENTENCES.len()];
    let far = Instant::now() + PATIENCE;
    let first = speak(&client, &settings(0), text(0), far).await;
    warm.wait().await;
    came.failures.extend(first.err());
    let end = Instant::now() + level.time;
    let mut audio = 0.0;
    for turn in 1.. {
        if Instant::now() >= end {
            break;
        }
        match speak(&client, &settings(turn), text(turn), end).await {
            Ok((answer, within)) => {
                came.answers.push(answer);
                audio += within;
            }
            Err(reason) => {
                came.failures.push(reason);
                // A caller pauses before it asks a server that is gone again.
                tokio::time::sleep(Duration::from_millis(100)).await;
            }
        }
    }
    (came, audio)
}

/// One utterance, and seconds of its audio that came before `end`.
async fn speak(
    client: &Client,
    settings: &SpeechSettings,
    text: &str,
    end: Instant,
) -> Result<(Measured, f64), String> {
    match tokio::time::timeout(PATIENCE, heard(client, settings, text, end)).await {
        Ok(heard) => heard,
        Err(_) => Err(format!("no answer within {PATIENCE:?}")),
    }
}

async fn heard(
    client: &Client,
    settings: &SpeechSettings,
    text: &str,
    end: Instant,
) -> Result<(Measured, f64), String> {
    let sent = Instant::now();
    let mut events = client.synthesize(settings, text);
    let mut meter = None;
    let mut within = 0.0;
    loop {
        match events.next().await.map_err(|error| error.to_string())? {
            Some(SpeechEvent::Audio(_, audio)) => {
                let meter = meter.get_or_insert_with(|| Meter::new(audio.rate));
                meter.audio(sent.elapsed(), &audio);
                if Instant::now() <= end {
                    within += audio.rate.duration(audio.samples()).as_secs_f64();
                }
            }
            Some(SpeechEvent::Done(_, done)) => {
                return match (done.outcome.finish, meter) {
                    (Finish::Stop | Finish::Length, Some(meter)) => Ok((meter.finish(), within)),
                    (finish, _) => Err(format!("it ended with {finish:?}")),
                };
            }
            Some(_) => {}
            None => return Err("the server ended the call without an answer".to_owned()),
        }
    }
}
