//! The load of one level, closed or open: when requests are sent, until how much is measured.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use omni_client::{Client, Endpoint};
use tokio::sync::{Barrier, mpsc};
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep_until};

use super::caller::{Answered, Asking, Caller, CancelMix};
use super::error::BenchError;
use super::level::{Level, Offered};
use super::random::{Random, arrivals};
use super::record::{Record, Served};

/// Connections of an open loop, which its requests take in turn.
const CONNECTIONS: u32 = 16;
/// Most concurrent requests of an open loop; arrivals beyond fail at once.
const MOST_UNDER_WAY: usize = 4_096;

/// Length of a measurement: it ends when both are reached.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Extent {
    pub(crate) requests: u32,
    pub(crate) time: Duration,
}

/// Properties that all levels share.
#[derive(Debug, Clone)]
pub struct Load {
    /// The server.
    pub endpoint: Endpoint,
    /// The requests.
    pub asking: Asking,
    /// Closed loop: unmeasured requests of every stream, before. Open loop: unmeasured arrivals at the head.
    pub warmup: u32,
    /// Seed of arrivals and cancels.
    pub seed: u64,
}

/// A measured level, and its server.
#[derive(Debug)]
pub(crate) struct Measured {
    pub(crate) level: Level,
    pub(crate) served: Option<Served>,
}

/// State that the streams of a closed loop share.
#[derive(Debug)]
struct Shared {
    asking: Asking,
    warmup: u32,
    extent: Extent,
    next: AtomicU32,
    ready: Barrier,
}

impl Load {
    /// Runs one level; `progress` hears how many requests are done.
    pub(crate) async fn run(
        &self,
        offered: Offered,
        extent: Extent,
        progress: impl Fn(usize),
    ) -> Result<Measured, BenchError> {
        progress(0);
        let answered = match offered {
            Offered::Streams(streams) => self.closed(streams, extent, progress).await?,
            Offered::RequestsPerSecond(rate) => self.open(rate, extent, progress).await?,
        };
        Ok(measured(offered, answered))
    }

    fn asking(&self) -> Asking {
        let cancel = self.asking.cancel.map(|mix| CancelMix {
            seed: Random::part(self.seed, 1).next(),
            ..mix
        });
        Asking {
            cancel,
            ..self.asking.clone()
        }
    }

    async fn connections(&self, count: u32) -> Result<Vec<Client>, BenchError> {
        let mut clients = Vec::new();
        for _ in 0..count {
            clients.push(Client::connect(&self.endpoint).await?);
        }
        Ok(clients)
    }

    /// A number of streams, each with its next request when the last one is answered. Every stream has its own
    /// connection, as independent callers do.
    async fn closed(
        &self,
        streams: u32,
        extent: Extent,
        progress: impl Fn(usize),
    ) -> Result<Vec<Answered>, BenchError> {
        let shared = Arc::new(Shared {
            asking: self.asking(),
            warmup: self.warmup,
            extent,
            next: AtomicU32::new(0),
            ready: Barrier::new(streams as usize),
        });
        let (results, incoming) = mpsc::channel(streams as usize);
        let mut tasks = JoinSet::new();
        for (stream, client) in (0u32..).zip(self.connections(streams).await?) {
            tasks.spawn(stream_of_requests(
                shared.clone(),
                client,
                stream,
                results.clone(),
            ));
        }
        drop(results);
        let answered = collect(incoming, progress).await;
        while let Some(joined) = tasks.join_next().await {
            joined?;
        }
        Ok(answered)
    }

    /// Requests at the times of a Poisson process, whether or not others are answered.
    async fn open(
        &self,
        rate: f64,
        extent: Extent,
        progress: impl Fn(usize),
    ) -> Result<Vec<Answered>, BenchError> {
        let mut random = Random::part(self.seed, 1);
        let count = extent
            .requests
            .max((extent.time.as_secs_f64() * rate).ceil() as u32);
        let schedule = arrivals(&mut random, rate, count.saturating_add(self.warmup));
        let asking = Arc::new(self.asking());
        let clients = self.connections(CONNECTIONS.min(count)).await?;
        let mut answered = Vec::new();
        let mut tasks: JoinSet<(u32, Answered)> = JoinSet::new();
        let mut take = |(number, one): (u32, Answered)| {
            if number >= self.warmup {
                answered.push(one);
                progress(answered.len());
            }
        };
        let start = Instant::now();
        for (number, at) in (0_u32..).zip(schedule) {
            let due = start + Duration::from_secs_f64(at);
            loop {
                tokio::select! {
                    biased;
                    () = sleep_until(due) => break,
                    Some(joined) = tasks.join_next() => take(joined?),
                }
            }
            while let Some(joined) = tasks.try_join_next() {
                take(joined?);
            }
            if tasks.len() >= MOST_UNDER_WAY {
                take((number, unsent(number, due, &asking)));
                continue;
            }
            let asking = asking.clone();
            let client = clients[number as usize % clients.len()].clone();
            tasks.spawn(async move {
                let mut caller = Caller::new(&asking, client);
                (number, caller.request(number, Some(due)).await)
            });
        }
        while let Some(joined) = tasks.join_next().await {
            take(joined?);
        }
        Ok(answered)
    }
}

/// The record of a request for which this program had no room.
fn unsent(number: u32, due: Instant, asking: &Asking) -> Answered {
    let now = Instant::now();
    let record = Record {
        text: number as usize % asking.texts.len(),
        send_lag_seconds: now.saturating_duration_since(due).as_secs_f64(),
        failure: Some(format!("not sent: {MOST_UNDER_WAY} requests were under way")),
        ..Record::default()
    };
    Answered {
        sent: now,
        end: now,
        record,
        served: None,
    }
}

async fn collect(mut incoming: mpsc::Receiver<Answered>, progress: impl Fn(usize)) -> Vec<Answered> {
    let mut all = Vec::new();
    while let Some(answered) = incoming.recv().await {
        all.push(answered);
        progress(all.len());
    }
    all
}

/// Records in sending order, with times from the first one.
fn measured(offered: Offered, mut answered: Vec<Answered>) -> Measured {
    answered.sort_by_key(|one| one.sent);
    let start = answered.first().map(|one| one.sent);
    let end = answered.iter().map(|one| one.end).max();
    let wall = start.zip(end).map_or(Duration::ZERO, |(start, end)| end - start);
    let served = answered.iter().find_map(|one| one.served.clone());
    let timed = |one: Answered| Record {
        sent_at_seconds: start.map_or(0.0, |start| (one.sent - start).as_secs_f64()),
        ..one.record
    };
    let level = Level {
        offered,
        wall_seconds: wall.as_secs_f64(),
        requests: answered.into_iter().map(timed).collect(),
    };
    Measured { level, served }
}

async fn stream_of_requests(
    shared: Arc<Shared>,
    client: Client,
    stream: u32,
    results: mpsc::Sender<Answered>,
) {
    let mut caller = Caller::new(&shared.asking, client);
    for round in 0..shared.warmup {
        caller.request(stream.wrapping_add(round * 7), None).await;
    }
    caller.hang_up().await;
    shared.ready.wait().await;
    let start = Instant::now();
    loop {
        let number = shared.next.fetch_add(1, Ordering::Relaxed);
        if number >= shared.extent.requests && start.elapsed() >= shared.extent.time {
            break;
        }
        let answered = caller.request(number, None).await;
        if results.send(answered).await.is_err() {
            break;
        }
    }
    caller.hang_up().await;
}
