//! Closed-loop load: a number of streams, each sending its next request when the last one is answered.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use omni_client::{Client, ClientError, Endpoint, Measured, Meter, Outcome, SpeechEvent, SpeechSettings};
use tokio::sync::{Barrier, mpsc};
use tokio::task::JoinSet;
use tokio::time::{Instant, timeout};

use super::record::{Level, Request, shortcoming};
use crate::cli::failure::Failure;

/// What every level has in common.
#[derive(Debug, Clone)]
pub(super) struct Load {
    pub(super) endpoint: Endpoint,
    pub(super) settings: SpeechSettings,
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
    for round in 0..shared.load.warmup {
        request(&shared.load, &client, stream.wrapping_add(round * 7)).await;
    }
    shared.ready.wait().await;
    loop {
        let number = shared.next.fetch_add(1, Ordering::Relaxed);
        if number >= shared.load.requests {
            return;
        }
        let sent = Instant::now();
        let request = request(&shared.load, &client, number).await;
        if results.send((sent, Instant::now(), request)).await.is_err() {
            return;
        }
    }
}

/// Speaks text `number` (round and round) and measures it.
async fn request(load: &Load, client: &Client, number: u32) -> Request {
    let text = number as usize % load.texts.len();
    let seed = load
        .settings
        .seed
        .map(|seed| seed.wrapping_add(u64::from(number)));
    let settings = SpeechSettings {
        seed,
        ..load.settings.clone()
    };
    let mut heard = Heard::default();
    let failure = match timeout(
        load.timeout,
        speak(client, &settings, &load.texts[text], &mut heard),
    )
    .await
    {
        Ok(Ok(())) => None,
        Ok(Err(error)) => Some(error.to_string()),
        Err(_) => Some(format!("not done within {} s", load.timeout.as_secs_f64())),
    };
    let measured: Option<Measured> = heard.meter.map(Meter::finish);
    let shortcoming = shortcoming(heard.done.as_ref(), measured.as_ref());
    Request {
        text,
        sent_at: Duration::ZERO,
        measured,
        done: heard.done,
        failure: failure.or(shortcoming),
    }
}

#[derive(Default)]
struct Heard {
    meter: Option<Meter>,
    done: Option<Outcome>,
}

async fn speak(
    client: &Client,
    settings: &SpeechSettings,
    text: &str,
    heard: &mut Heard,
) -> Result<(), ClientError> {
    let sent = Instant::now();
    let (say, mut events) = client.speech(settings);
    // A session that closes early says why in its events.
    let _ = say.text(text).await;
    let _ = say.finish().await;
    drop(say);
    while let Some(event) = events.next().await? {
        match event {
            SpeechEvent::Audio(_, audio) => {
                let at = sent.elapsed();
                heard
                    .meter
                    .get_or_insert_with(|| Meter::new(audio.rate))
                    .audio(at, &audio);
            }
            SpeechEvent::Done(_, done) => heard.done = Some(done.outcome),
            SpeechEvent::Ready(_) | SpeechEvent::Started(_) | SpeechEvent::Warning(_) => {}
        }
    }
    Ok(())
}
