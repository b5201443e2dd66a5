//! Closed-loop load: a number of streams, each sending its next request when the last one is answered.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use omni_client::{ChatSettings, Client, Endpoint, Meter, SpeechSettings};
use tokio::sync::{Barrier, mpsc};
use tokio::task::JoinSet;
use tokio::time::{Instant, timeout};

use super::record::{Heard, Level, Request, shortcoming};
use super::speaking;
use super::talking::Talker;
use crate::cli::failure::Failure;

/// What is asked for.
#[derive(Debug, Clone)]
pub(super) enum Work {
    /// Every text is spoken.
    Speak(SpeechSettings),
    /// Every text is a turn of a conversation, which ends after so many.
    Chat { settings: ChatSettings, turns: u32 },
}

impl Work {
    /// Whether the answers have audio.
    pub(super) fn spoken(&self) -> bool {
        match self {
            Self::Speak(_) => true,
            Self::Chat { settings, .. } => settings.outputs.audio(),
        }
    }

    /// Whether answers are cut at a length that was asked for, so that one that is cut is all there was to be.
    fn limited(&self) -> bool {
        match self {
            Self::Speak(_) => false,
            Self::Chat { settings, .. } => settings.text_sampling.max_tokens.is_some(),
        }
    }
}

/// What every level has in common.
#[derive(Debug, Clone)]
pub(super) struct Load {
    pub(super) endpoint: Endpoint,
    pub(super) work: Work,
    pub(super) texts: Vec<String>,
    /// Measured requests per level.
    pub(super) requests: u32,
    /// Unmeasured requests per stream, before.
    pub(super) warmup: u32,
    pub(super) timeout: Duration,
}

/// What the streams of a level share.
#[derive(Debug)]
struct Shared {
    load: Load,
    next: AtomicU32,
    ready: Barrier,
}

impl Load {
    /// Runs one level; `progress` hears how many requests are done.
    pub(super) async fn run(&self, streams: u32, progress: impl Fn(u32)) -> Result<Level, Failure> {
        let shared = Arc::new(Shared {
            load: self.clone(),
            next: AtomicU32::new(0),
            ready: Barrier::new(streams as usize),
        });
        // Every stream has its own connection, as independent callers do.
        let mut clients = Vec::new();
        for _ in 0..streams {
            clients.push(Client::connect(&self.endpoint).await?);
        }
        let (results, mut incoming) = mpsc::channel(streams as usize);
        let mut tasks = JoinSet::new();
        for (stream, client) in (0u32..).zip(clients) {
            tasks.spawn(stream_of_requests(
                shared.clone(),
                client,
                stream,
                results.clone(),
            ));
        }
        drop(results);
        progress(0);
        let mut requests: Vec<(Instant, Instant, Request)> = Vec::new();
        while let Some(result) = incoming.recv().await {
            requests.push(result);
            progress(requests.len() as u32);
        }
        while let Some(joined) = tasks.join_next().await {
            joined.map_err(|error| Failure::io("a stream of the benchmark died", error.into()))?;
        }
        Ok(level(streams, requests))
    }
}

/// Counts times from the first request sent.
fn level(streams: u32, requests: Vec<(Instant, Instant, Request)>) -> Level {
    let start = requests.iter().map(|(sent, ..)| *sent).min();
    let end = requests.iter().map(|(_, answered, _)| *answered).max();
    let wall = start.zip(end).map_or(Duration::ZERO, |(start, end)| end - start);
    let timed = |(sent, _, request): (Instant, Instant, Request)| Request {
        sent_at: start.map_or(Duration::ZERO, |start| sent - start),
        ..request
    };
    Level {
        streams,
        wall,
        requests: requests.into_iter().map(timed).collect(),
    }
}

async fn stream_of_requests(
    shared: Arc<Shared>,
    client: Client,
    stream: u32,
    results: mpsc::Sender<(Instant, Instant, Request)>,
) {
    let mut caller = Caller {
        load: &shared.load,
        client,
        talker: Talker::default(),
    };
    for round in 0..shared.load.warmup {
        caller.request(stream.wrapping_add(round * 7)).await;
    }
    caller.talker.hang_up().await;
    shared.ready.wait().await;
    loop {
        let number = shared.next.fetch_add(1, Ordering::Relaxed);
        if number >= shared.load.requests {
            break;
        }
        let sent = Instant::now();
        let request = caller.request(number).await;
        if results.send((sent, Instant::now(), request)).await.is_err() {
            break;
        }
    }
    caller.talker.hang_up().await;
}

/// One stream of requests.
struct Caller<'l> {
    load: &'l Load,
    client: Client,
    /// Its conversation, if it has one.
    talker: Talker,
}

impl Caller<'_> {
    /// Sends text `number` (round and round) and measures the answer.
    async fn request(&mut self, number: u32) -> Request {
        let text = number as usize % self.load.texts.len();
        let mut heard = Heard::default();
        let answered = timeout(self.load.timeout, self.answer(number, text, &mut heard)).await;
        let failure = match answered {
            Ok(Ok(())) => None,
            Ok(Err(error)) => Some(error.to_string()),
            Err(_) => Some(format!("not done within {} s", self.load.timeout.as_secs_f64())),
        };
        if failure.is_some() {
            self.talker.give_up();
        }
        let measured = heard.meter.map(Meter::finish);
        let work = &self.load.work;
        let done = heard.done.as_ref();
        let shortcoming = shortcoming(done, measured.as_ref(), work.spoken(), work.limited());
        Request {
            text,
            sent_at: Duration::ZERO,
            first_text: heard.first_text,
            last_text: heard.last_text,
            measured,
            done: heard.done,
            failure: failure.or(shortcoming),
        }
    }

    async fn answer(
        &mut self,
        number: u32,
        text: usize,
        heard: &mut Heard,
    ) -> Result<(), omni_client::ClientError> {
        let text = &self.load.texts[text];
        let numbered = |seed: Option<u64>| seed.map(|seed| seed.wrapping_add(u64::from(number)));
        match &self.load.work {
            Work::Speak(settings) => {
                let settings = SpeechSettings {
                    seed: numbered(settings.seed),
                    ..settings.clone()
                };
                speaking::speak(&self.client, &settings, text, heard).await
            }
            Work::Chat { settings, turns } => {
                if self.talker.turns() >= *turns {
                    self.talker.hang_up().await;
                }
                let mut settings = settings.clone();
                settings.text_sampling.seed = numbered(settings.text_sampling.seed);
                self.talker.turn(&self.client, &settings, text, heard).await
            }
        }
    }
}
