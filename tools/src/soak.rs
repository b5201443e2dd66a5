//! Soak test: callers of every kind at once for a given time, well behaved and not, after which the server must hold
//! nothing of them.
//!
//! In: a server's addresses, and the load. Out: a [`Report`]: results per kind of caller, the rules found broken, and
//! the resources that the server holds before and after. Callers draw their actions from one seed; their interleaving
//! depends on the machine. Every stream of `Speak` and `Converse` is checked by [`check`](omni_tests::check) and
//! [`check_chat`](omni_tests::check_chat), as in the tests.

mod callers;
mod held;
mod https;
mod operators;
mod report;
mod rude;
mod sockets;
mod speakers;
mod talkers;

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use omni_tests::Dice;
use parking_lot::Mutex;

use crate::line::Line;
use callers::{KINDS, Kind, Visit};
pub use held::Held;
pub(crate) use held::resident;
pub use report::Report;
use report::{Fault, Tally};

/// Longer than any caller stays: one that does is stuck.
const PATIENCE: Duration = Duration::from_secs(180);
/// Longest time until a server is as it was before, after all have gone: threads for blocking work wait ten seconds
/// for more of it.
const SETTLING: Duration = Duration::from_secs(60);
/// Interval between memory samples under load.
const LOOK: Duration = Duration::from_secs(5);
/// Calls of one connection before it is closed and another opened.
const CALLS_PER_LINE: u64 = 16;

/// Arguments of a server for a soak: bounds low enough to be met, and few KV blocks, which are memory from the start
/// on.
pub const SERVER_ARGS: [&str; 20] = [
    "--wyoming",
    "127.0.0.1:0",
    "--admin-listen",
    "127.0.0.1:0",
    "--listen",
    "127.0.0.1:0",
    "--metrics-listen",
    "127.0.0.1:0",
    "--idle-timeout",
    "6s",
    "--stall-timeout",
    "10s",
    "--max-active",
    "32",
    "--max-waiting",
    "32",
    "--set",
    "stages.thinker.kv.blocks=512",
    "--set",
    "stages.talker.kv.blocks=512",
];

/// Addresses of the server.
#[derive(Debug, Clone, Copy)]
pub struct Target {
    /// Address of its services.
    pub address: SocketAddr,
    /// Address of the port for operators.
    pub admin: Option<SocketAddr>,
    /// Address of its Wyoming port.
    pub wyoming: Option<SocketAddr>,
    /// Address of its metrics.
    pub metrics: SocketAddr,
    /// Its process.
    pub process: u32,
}

/// Extent of a soak.
#[derive(Debug, Clone, Copy)]
pub struct Plan {
    /// Seed of all random draws.
    pub seed: u64,
    /// Callers busy at the same time. Half as many again are mostly idle.
    pub streams: u64,
    /// Load before the first sample, so that one-time allocations are done.
    pub warmup: Duration,
    /// Load between the two looks.
    pub time: Duration,
    /// Growth of memory between the two that is accepted, in bytes.
    pub allowance: u64,
}

/// State shared by all callers.
#[derive(Debug)]
struct Shared {
    target: Target,
    model: String,
    until: Instant,
    tally: Mutex<Tally>,
}

/// Soaks a server. `progress` is called with each step done.
///
/// # Errors
/// If the server cannot be reached or inspected; other problems are in the report.
pub async fn soak(target: Target, plan: Plan, progress: impl Fn(&str)) -> anyhow::Result<Report> {
    let model = https::model(target.address).await?;
    let dice = Dice::new(plan.seed);
    progress(&format!("warming up for {:?}", plan.warmup));
    let (mut tally, _) = load(target, &model, plan, plan.warmup, &dice.part(1)).await;
    let before = Held::settled(target, None, 0, SETTLING).await?;
    progress(&format!("under load for {:?}", plan.time));
    let (more, peak) = load(target, &model, plan, plan.time, &dice.part(2)).await;
    tally.join(more);
    progress("waiting until everything is as it was");
    let after = Held::settled(target, Some(&before), plan.allowance, SETTLING).await?;
    Ok(Report::new(plan, tally, before, after, peak))
}

/// Runs all callers for `time`. Returns their results, and the most memory seen meanwhile, in bytes.
async fn load(target: Target, model: &str, plan: Plan, time: Duration, dice: &Dice) -> (Tally, u64) {
    let shared = Arc::new(Shared {
        target,
        model: model.to_owned(),
        until: Instant::now() + time,
        tally: Mutex::default(),
    });
    let mut callers = tokio::task::JoinSet::new();
    for caller in 0..plan.streams {
        callers.spawn(busy(Arc::clone(&shared), dice.part(caller)));
    }
    for caller in plan.streams..plan.streams + plan.streams.div_ceil(2) {
        callers.spawn(silent(Arc::clone(&shared), dice.part(caller)));
    }
    let mut peak = 0;
    let mut look = tokio::time::interval(LOOK);
    loop {
        tokio::select! {
            ended = callers.join_next() => match ended {
                Some(ended) => ended.expect("callers catch what visits find"),
                None => break,
            },
            _ = look.tick() => peak = peak.max(held::resident(target.process).unwrap_or(0)),
        }
    }
    let tally = std::mem::take(&mut *shared.tally.lock());
    (tally, peak)
}

/// One visit after the other, by connections that are used several times.
async fn busy(shared: Arc<Shared>, mut dice: Dice) {
    let weights: u64 = KINDS.iter().map(|kind| kind.weight).sum();
    let mut line = None;
    while Instant::now() < shared.until {
        let mut at = dice.below(weights);
        let kind = KINDS.iter().find(|kind| {
            let here = at < kind.weight;
            at = at.saturating_sub(kind.weight);
            here
        });
        let kind = kind.expect("it is below the sum");
        if dice.one_in(CALLS_PER_LINE) {
            line = None;
        }
        line = visit(&shared, kind, line, &mut dice).await;
    }
}

/// Sessions in which mostly nothing happens.
async fn silent(shared: Arc<Shared>, mut dice: Dice) {
    while Instant::now() < shared.until {
        visit(&shared, &callers::IDLE, None, &mut dice).await;
    }
}

/// One visit; gives the connection back if it can be used again.
async fn visit(
    shared: &Arc<Shared>,
    kind: &'static Kind,
    line: Option<Line>,
    dice: &mut Dice,
) -> Option<Line> {
    // The caller's own, independent of the others: equal seeds give equal visits.
    let shared = Arc::clone(shared);
    let own = dice.part(0);
    let tally = Arc::clone(&shared);
    dice.roll();
    let work = tokio::spawn(async move {
        let line = match line {
            Some(line) => line,
            None => Line::open(shared.target.address)
                .await
                .expect("the server listens"),
        };
        let mut visit = Visit {
            target: shared.target,
            model: shared.model.clone(),
            line: Some(line),
            dice: own,
        };
        let came = (kind.call)(&mut visit).await;
        (came, visit.line)
    });
    let stop = work.abort_handle();
    let (came, line) = match tokio::time::timeout(PATIENCE, work).await {
        Ok(Ok((came, line))) => (Ok(came), line),
        Ok(Err(broken)) => (Err(message(broken)), None),
        Err(_) => {
            stop.abort();
            (Err(format!("is not over after {PATIENCE:?}")), None)
        }
    };
    let mut tally = tally.tally.lock();
    match came {
        Ok(came) => tally.came(kind.name, &came),
        Err(what) => tally.fault(Fault {
            kind: kind.name,
            what,
        }),
    }
    line
}

/// Message of an assertion.
fn message(broken: tokio::task::JoinError) -> String {
    match broken.try_into_panic() {
        Ok(panic) => match panic.downcast::<String>() {
            Ok(text) => *text,
            Err(panic) => panic
                .downcast_ref::<&str>()
                .copied()
                .unwrap_or("a panic without words")
                .to_owned(),
        },
        Err(error) => error.to_string(),
    }
}
